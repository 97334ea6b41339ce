"""Does ONNX Runtime compute the same as torch?"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import fx

from detlint.errors import one_line
from detlint.runtime.events import Phase
from detlint.runtime.flags import Flags, using
from detlint.runtime.measure import differences
from detlint.runtime.onnx_model import NotExported, OnnxModel, export
from detlint.runtime.origins import origin
from detlint.runtime.probes.registry import probe
from detlint.runtime.report import Cause, Divergence, ProbeResult, Verdict
from detlint.runtime.switches import Blame, Switch, in_force

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.report import Difference

    Outputs = Mapping[str, torch.Tensor]

_OPTIONS: Final[tuple[tuple[Switch, dict[str, Any]], ...]] = (
    (
        Switch(
            "ONNX Runtime's graph optimisations",
            ("cpu",),
            Flags(),
            "SessionOptions.graph_optimization_level = ORT_DISABLE_ALL",
        ),
        {"optimize": False},
    ),
    (
        Switch("ONNX Runtime's several threads", ("cpu",), Flags(), "SessionOptions.intra_op_num_threads = 1"),
        {"threads": 1},
    ),
)
"""What ONNX Runtime can be told to do without, and how to run the model so."""


@probe("onnx")
class Onnx:
    """Exports the model with torch.onnx, runs it on ONNX Runtime's CPU, and looks for the operator that departs."""

    def skip_reason(self, case: Case) -> str | None:
        """ONNX Runtime infers; it gets its inputs through NumPy."""
        if case.backward:
            return "ONNX Runtime has no backward pass"
        if case.devices() != ("cpu",):
            return "the comparison is made on the CPU, and the model is not there"
        return None

    def conduct(self, lab: Lab) -> ProbeResult:
        """Compare the outputs, then without optimisations the value of each operator of the exported graph."""
        try:
            model, theirs = _exported(lab)
        except NotExported as obstacle:
            return ProbeResult("", Verdict.SKIPPED, reason=str(obstacle))
        ours = lab.base().output.tensors
        if len(ours) != len(theirs):
            reason = f"the model gives {len(ours)} tensors, its export {len(theirs)}"
            return ProbeResult("", Verdict.SKIPPED, reason=reason)
        theirs = dict(zip(ours, theirs.values(), strict=True))
        measured, verdict = lab.compare(ours, theirs)
        result = ProbeResult("", verdict, runs=2, change="ONNX Runtime", outputs=measured, kind=Cause.PERTURBATION)
        if verdict is Verdict.BITWISE:
            return replace(result, kind=Cause.UNKNOWN)
        return self._explained(lab, model, result, theirs)

    def _explained(self, lab: Lab, model: OnnxModel, result: ProbeResult, theirs: Outputs) -> ProbeResult:
        tested = _tested(lab, model, theirs)
        result = replace(result, remedy=tested.remedy, evidence=tested.evidence)
        found, exported = _first_apart(lab, model, result.verdict)
        if found is None:
            return replace(result, cause=tested.after(_cause_in_whole(lab, result, exported)))
        node, there = found
        event = origin(node, lab.base().trace.events, lab.case.modules, Phase.FORWARD)
        what = "values" if result.verdict is Verdict.BEYOND_ROUNDING else "bits"
        cause = tested.after(f"{event.op} gives other {what} in ONNX Runtime")
        divergence = Divergence(event, None, at_operator=there, note="compared without graph optimisations")
        result = replace(result, cause=cause, divergence=divergence)
        if result.verdict is not Verdict.BEYOND_ROUNDING or not lab.case.in_train_mode():
            return result
        after = _after_eval(lab)
        result = replace(result, evidence=(*result.evidence, f"after model.eval(): {after.value}"))
        if after is Verdict.BEYOND_ROUNDING:
            return result
        return replace(result, cause=f"{cause}; not so after model.eval()", remedy="call model.eval()")


def _exported(lab: Lab) -> tuple[OnnxModel, Outputs]:
    """Export the model as it is and run it; return it and its outputs, by place.

    Raises:
        NotExported: it cannot be exported or run.
    """
    made: list[OnnxModel] = []

    def on_onnx_runtime(*args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        sample = replace(lab.case.sample, args=args, kwargs=kwargs)
        made.append(export(lab.case.model, sample))
        try:
            return made[0].run(sample)
        except Exception as error:  # it has no kernels for some dtypes and operators
            raise NotExported(f"ONNX Runtime cannot run the model: {one_line(error)}") from None

    theirs = lab.runner.run_untraced(replace(lab.case, model=on_onnx_runtime))
    return made[0], theirs


def _after_eval(lab: Lab) -> Verdict:
    """How far does the export depart in eval mode?"""
    lab.case.evaluate()
    ours = lab.runner.run_untraced(lab.case)
    lab.case.evaluate()
    _, theirs = _exported(lab)
    return lab.compare(ours, dict(zip(ours, theirs.values(), strict=True)), exact={})[1]


def _tested(lab: Lab, model: OnnxModel, theirs: Mapping[str, torch.Tensor]) -> Blame:
    """Do without one thing after the other, on either side, and compare the outputs."""
    base = lab.base()

    def trials() -> Iterator[tuple[Switch, bool]]:
        ours = base.output.tensors
        for option, settings in _OPTIONS:
            values = model.run(lab.case.sample.copied(), **settings).values()
            yield option, bool(differences(ours, dict(zip(ours, values, strict=True))))
        for switch in in_force(["cpu"]):
            if any(switch.operators in event.op for event in base.trace.events):
                with using(switch.off):
                    again = lab.runner.run_untraced(lab.case)
                yield replace(switch, name=f"torch's {switch.name}"), bool(differences(again, theirs))

    return Blame.of(trials())


def _cause_in_whole(lab: Lab, result: ProbeResult, exported: Outputs) -> str:
    """Say what departs where no operator does alone; `exported` is what the exported program gives in torch."""
    ours = lab.base().output.tensors
    _, verdict = lab.compare(ours, dict(zip(ours, exported.values(), strict=True)))
    if verdict.rank >= result.verdict.rank:
        return "the exported program computes something else than the model: it gives other values in torch too"
    return "every operator gives the same bits alone, but not together: ONNX Runtime changes the graph"


def _first_apart(lab: Lab, model: OnnxModel, verdict: Verdict) -> tuple[tuple[fx.Node, Difference] | None, Outputs]:
    """Find the first operator of the exported graph that departs: beyond rounding if the outputs do.

    Return what the graph gives in torch too.
    """
    theirs = model.run(lab.case.sample.copied(), optimize=False, named=True)
    watch = _Watch(lab, model, theirs, verdict)

    def walked(*args: Any, **kwargs: Any) -> object:
        return watch.run_program(args, kwargs)

    outputs = lab.runner.run_untraced(replace(lab.case, model=walked))
    return watch.found, outputs


class _Watch(fx.Interpreter):
    """Runs the exported graph in torch, and compares each value with ONNX Runtime's."""

    def __init__(self, lab: Lab, model: OnnxModel, theirs: Mapping[str, torch.Tensor], verdict: Verdict) -> None:
        super().__init__(model.program.graph_module)
        self._lab = lab
        self._program = model.program
        self._theirs = theirs
        self._verdict = verdict
        self.found: tuple[fx.Node, Difference] | None = None

    def run_program(self, args: Any, kwargs: Any) -> object:
        """Run with the parameters that the program holds."""
        return self.run(*self._program._graph_module_flat_inputs(args, kwargs))

    def run_node(self, n: fx.Node) -> Any:
        """Compare until the first value departs."""
        value = super().run_node(n)
        if self.found is None and n.name in self._theirs and isinstance(value, torch.Tensor):
            differences, verdict = self._lab.compare({n.name: value}, {n.name: self._theirs[n.name]}, exact={})
            if verdict.rank >= self._verdict.rank:
                made_by = n.args[0] if n.target is operator.getitem else n
                self.found = cast("fx.Node", made_by), differences[0]
        return value
