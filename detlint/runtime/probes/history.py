"""Does the result depend on the calls before it?"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from detlint.errors import first_few
from detlint.runtime.comparison import Comparer
from detlint.runtime.events import Phase
from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause, ProbeResult, Verdict
from detlint.runtime.targets import named_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.runtime.events import OpEvent
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.sample import Sample


@probe("history")
class History:
    """A second call on what the first one left: caches that hold on to old values, counters, buffers, inputs.

    Every other probe puts the model back before each run, so that only this one sees what stays.
    """

    def skip_reason(self, case: Case) -> str | None:
        """A call tells whether it changes anything."""
        return None

    def conduct(self, lab: Lab) -> ProbeResult:
        """Compare with calls after another one, where a call changes the model or its inputs at all."""
        base = lab.base()
        held, written = base.changed, [f"the input {name}".rstrip() for name in base.written]
        if not held and not written:
            return ProbeResult("history", Verdict.BITWISE, runs=1, evidence=("a call changes nothing in the model",))
        training = tuple(dict.fromkeys(_in_train_mode(lab.case.modules, held)))
        trains = any(event.phase is not Phase.FORWARD for event in base.trace.events)
        if training and (trains or lab.case.backward):
            reason = f"a call changes {first_few(training)} in train mode, which is taken as meant"
            return ProbeResult("history", Verdict.SKIPPED, reason=reason)
        result = Comparer(lab).compare("history", _AfterCalls((*held, *written), tuple(_earlier(lab))))
        if training and not _changes_in_eval_mode(lab, held):
            return replace(result, remedy=f"call model.eval(): then a call leaves {first_few(training)} as it is")
        remedies = [f"reset {first_few(held)} before each call, or pass it as an argument"] if held else []
        remedies += [f"do not write to {first_few(written)} in place"] if written else []
        return replace(result, remedy="; ".join(remedies))


def _changes_in_eval_mode(lab: Lab, held: Sequence[str]) -> bool:
    """Does a call change some of these after `model.eval()` too?"""
    lab.case.evaluate()
    return not set(held).isdisjoint(lab.runner.run(lab.case).changed)


def _in_train_mode(roots: Sequence[torch.nn.Module], held: Sequence[str]) -> Iterator[str]:
    """Yield the modules in train mode that hold some of these attributes, by path."""
    modules = dict(named_modules(roots))
    for name in held:
        owner = max((path for path in modules if f"{name}.".startswith(f"{path}." if path else "")), key=len)
        if modules[owner].training:
            yield owner or "the model"


@dataclass(frozen=True, slots=True)
class _AfterCalls:
    """The model as calls left it that changed `left`."""

    left: Sequence[str]
    earlier: Sequence[tuple[str, Sample]]

    canonical = False
    same_program = False
    may_refuse = False
    kind = Cause.STATE

    def skip_reason(self, case: Case) -> str | None:
        return None

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        for label, sample in self.earlier:
            yield Change(label, partial(_after, sample))

    def explain(self, event: OpEvent, change: str) -> str:
        return f"{event.op} goes by what an earlier call left in {first_few(self.left)}"


def _after(sample: Sample, case: Case) -> AbstractContextManager[Case]:
    return nullcontext(replace(case, earlier=sample))


def _earlier(lab: Lab) -> Iterator[tuple[str, Sample]]:
    """Yield samples for the call before: the same, and the same reversed, where the model takes that.

    A cache that keeps its first values for good shows nothing if these are the same.
    """
    sample = lab.case.sample
    yield "after the same call", sample
    other = sample.mapped(_reversed)
    try:
        lab.runner.run(replace(lab.case, sample=other))
    except Exception:
        return
    yield "after a call on other values", other


def _reversed(leaf: object) -> object:
    if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided or leaf.dim() == 0:
        return leaf
    return leaf.detach().flip(-1).requires_grad_(leaf.requires_grad)
