"""Which operator of the model does a node of a captured graph stand for?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._ops import OpOverload

from detlint.runtime.events import OpEvent, Phase, SourceLine, TensorMeta
from detlint.runtime.frames import is_library_file
from detlint.runtime.targets import named_modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import fx

_FRAME: Final = re.compile(r'File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')

_NAME: Final = re.compile(r"[^][().,'\" ]+")


def origin(node: fx.Node, events: Iterable[OpEvent], modules: Sequence[torch.nn.Module], phase: Phase) -> OpEvent:
    """Return the traced event of a node: the same operator of the same module and line, in its turn.

    Where the graph holds an operator that the trace does not, an event made of what the node knows (index -1).
    """
    alike = [other for other in node.graph.nodes if _op(other) == _op(node) and _stack(other) == _stack(node)]
    path, kind = _module(node, modules)
    source = _source(node)
    ran = [
        event
        for event in events
        if _stands_for(node, event)
        and event.module == path
        and (event.phase is Phase.BACKWARD) == (phase is Phase.BACKWARD)
        and (source is None or event.source is None or str(event.source) == str(source))
    ]
    turn = alike.index(node)
    if turn < len(ran):
        return ran[turn]
    outputs = tuple(_meta(value) for value in _values(node) if isinstance(value, torch.Tensor))
    return OpEvent(-1, _op(node), path, kind, source, phase, {}, outputs)


def _stands_for(node: fx.Node, event: OpEvent) -> bool:
    """Is it the same operator? Graphs of Dynamo hold functions: `layer_norm` runs `aten.native_layer_norm`."""
    if isinstance(node.target, OpOverload):
        return event.op == _op(node)
    return event.name.endswith(_op(node).rpartition(".")[2])


def _op(node: fx.Node) -> str:
    """Name operators as torch does, and functions by module and name."""
    target: Any = node.target
    if isinstance(target, (str, OpOverload)):
        return str(target)
    owner = getattr(target, "__module__", None) or "torch"
    return f"{owner.strip('_')}.{getattr(target, '__name__', target)}"


def _stack(node: fx.Node) -> object:
    return node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack"), node.stack_trace


def _module(node: fx.Node, modules: Sequence[torch.nn.Module]) -> tuple[str, str]:
    """Find the module's path, and the name of its class, in what Dynamo calls it.

    "L['self'].layers.0", or before torch 2.5 "L['self'].layers[0]" and "getattr(L['self'].layers, '0')".
    """
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return "", ""
    text, kind = list(stack.values())[-1]
    known = {path for path, _ in named_modules(modules)}
    parts = _NAME.findall(str(text))
    paths = (".".join(parts[start:]) for start in range(len(parts)))
    name = getattr(kind, "__name__", str(kind).rpartition(".")[2])
    return next((path for path in paths if path in known), ""), name


def _source(node: fx.Node) -> SourceLine | None:
    frames = [frame for frame in _FRAME.finditer(node.stack_trace or "") if not is_library_file(frame["path"])]
    return SourceLine(frames[-1]["path"], int(frames[-1]["line"]), frames[-1]["function"]) if frames else None


def _values(node: fx.Node) -> Sequence[object]:
    value = node.meta.get("val", node.meta.get("example_value"))
    return value if isinstance(value, (tuple, list)) else (value,)


def _meta(tensor: torch.Tensor) -> TensorMeta:
    return TensorMeta(
        tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch."), str(tensor.device), tensor.stride()
    )
