"""The model as ONNX Runtime runs it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from detlint.errors import one_line
from detlint.runtime.capture import quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import fx

    from detlint.runtime.sample import Sample


class NotExported(Exception):
    """The model cannot be had as ONNX; the message says why in one line."""


@dataclass(frozen=True, slots=True, eq=False)
class OnnxModel:
    """An exported model. `nodes` are those of the graph it was made of whose values have the same name in ONNX."""

    proto: Any
    program: Any
    nodes: Mapping[str, fx.Node]

    def run(
        self, sample: Sample, *, optimize: bool = True, threads: int = 0, named: bool = False
    ) -> dict[str, torch.Tensor]:
        """Run it; the outputs in order, by place, or with `named` the values of all `nodes` by name.

        Args:
            optimize: fuse and fold as ONNX Runtime does unless told otherwise.
            threads: how many share an operator; 0 leaves it to ONNX Runtime.
        """
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        proto = _with_outputs(self.proto, self.nodes) if named else self.proto
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        leaves = [leaf for leaf in tree_leaves((sample.args, dict(sample.kwargs))) if isinstance(leaf, torch.Tensor)]
        feeds = {item.name: leaf.detach().numpy() for item, leaf in zip(session.get_inputs(), leaves, strict=True)}
        names = list(self.nodes) if named else [item.name for item in session.get_outputs()]
        values = session.run(names, feeds)
        keys = names if named else map(str, range(len(names)))
        return {key: torch.from_numpy(value.copy()) for key, value in zip(keys, values, strict=True)}


def export(model: Callable[..., object], sample: Sample) -> OnnxModel:
    """Export with torch.onnx, without optimisations, so that every operator of the graph keeps its name.

    Raises:
        NotExported: torch.onnx cannot, or a package is missing.
    """
    if not isinstance(model, torch.nn.Module):
        raise NotExported("only modules can be exported to ONNX")
    try:
        import onnx
        import onnxruntime
        import onnxscript
    except ImportError as error:
        raise NotExported(f'{error.name} is missing: pip install "detlint[onnx]"') from None
    del onnx, onnxruntime, onnxscript
    if "optimize" not in inspect.signature(torch.onnx.export).parameters:
        raise NotExported(f"torch {torch.__version__} has no exporter that keeps every operator: torch 2.6 brought it")
    try:
        with quiet():
            made: Any = torch.onnx.export(
                model, sample.args, kwargs=dict(sample.kwargs), dynamo=True, optimize=False, verbose=False
            )
        proto, program = made.model_proto, made.exported_program
    except Exception as error:  # the exporter gives up with exceptions of its own
        raise NotExported(f"torch.onnx cannot export the model: {one_line(error.__cause__ or error)}") from None
    made_there = {name for node in proto.graph.node for name in node.output}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "call_function" and node.name in made_there}
    return OnnxModel(proto, program, nodes)


def _with_outputs(proto: Any, names: Mapping[str, object]) -> Any:
    """Return a copy that gives out inner values too."""
    import onnx

    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    del wide.graph.output[:]
    wide.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return wide
