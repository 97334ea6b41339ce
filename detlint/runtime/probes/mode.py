"""Is anything of training left on: train-mode layers, random draws, batch statistics?"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.dropout import _DropoutNd

from detlint.errors import first_few
from detlint.findings import Finding, Severity
from detlint.rulebook import load_rules
from detlint.runtime.divergence import aligned
from detlint.runtime.events import Phase
from detlint.runtime.locations import location_of
from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause
from detlint.runtime.targets import named_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from detlint.runtime.events import OpEvent, Trace
    from detlint.runtime.passes import Case

_UNREACHED: Final = "model.eval() does not reach it: register it as an attribute of the model or in an nn.ModuleList"


@probe("mode")
class Mode:
    """Names what draws random numbers or depends on the batch at inference, and runs with another seed."""

    canonical = False
    same_program = False
    may_refuse = False
    kind = Cause.RANDOMNESS

    def skip_reason(self, case: Case) -> str | None:
        """With a backward pass, train mode is meant; in eval mode the seed reaches no gradient either."""
        meant = case.backward and (case.in_train_mode() or not case.modules)
        return "with a backward pass, train mode is taken as meant" if meant else None

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Seed all generators differently."""
        yield Change("another seed", lambda case: nullcontext(_with_another_seed(case)))

    def explain(self, event: OpEvent, change: str) -> str:
        """The seed reaches the output."""
        return f"{event.op} draws random numbers: the output depends on the seed"

    def inspect(self, case: Case, trace: Trace, again: Callable[[Case], Trace] | None = None) -> tuple[Finding, ...]:
        """Name layers left in train mode, and draws and batch statistics of others."""
        layers = dict(_left_on(case.modules))
        ran = {call.path for call in trace.modules if call.training}
        left_on = {path: layers[path] for path in layers if path in ran}
        seeded = set() if again is None else _seeded_by_the_program(case, trace, again)
        return (*_train_mode(left_on, trace, seeded), *_others(left_on, ran, trace, seeded))


def _with_another_seed(case: Case) -> Case:
    return replace(case, seed=case.seed ^ 1)  # within 64 bits, whatever the seed


def _left_on(roots: Sequence[nn.Module]) -> Iterator[tuple[str, str]]:
    """Yield the layers in train mode that act differently there, with what they do."""
    for path, module in named_modules(roots):
        if not module.training:
            continue
        if (rate := _drop_rate(module)) > 0:
            yield path, f"drops with p={rate:g}"
        elif isinstance(module, _BatchNorm) or (isinstance(module, _NormBase) and module.track_running_stats):
            yield path, "normalises by the batch and updates its running statistics"
        elif isinstance(module, nn.RReLU):
            yield path, "draws random slopes"


def _drop_rate(module: nn.Module) -> float:
    """What a layer drops in train mode; of stacked recurrent layers the last never does."""
    if isinstance(module, _DropoutNd):
        return module.p
    if isinstance(module, nn.MultiheadAttention) or (isinstance(module, nn.RNNBase) and module.num_layers > 1):
        return module.dropout
    return 0.0


def _seeded_by_the_program(case: Case, trace: Trace, again: Callable[[Case], Trace]) -> set[int]:
    """Return the indices of draws from generators that stand at the same seed when all are seeded differently."""
    if all(event.rng is None for event in trace.events):
        return set()
    other = again(_with_another_seed(case))
    pairs = ((trace.events[left], other.events[right]) for left, right in aligned(trace.events, other.events))
    return {one.index for one, two in pairs if one.rng is not None and one.rng == two.rng}


def _train_mode(left_on: dict[str, str], trace: Trace, seeded: set[int]) -> Iterator[Finding]:
    """One finding for each line that calls such layers, and what they do."""
    groups: dict[tuple[str, str], list[OpEvent]] = {}
    for event in trace.events:
        if event.module in left_on:
            groups.setdefault((str(event.source), left_on[event.module]), []).append(event)
    for (_, what), events in groups.items():
        paths = tuple(dict.fromkeys(event.module or "the model" for event in events))
        are = "is" if len(paths) == 1 else "are"
        yield _told(
            _finding(
                "DET201",
                events[0],
                f"{first_few(paths, 3)} ({events[0].module_type}) {are} in train mode: {what}",
                "call model.eval() before inference",
            ),
            events,
            seeded,
        )


def _told(finding: Finding, events: Sequence[OpEvent], seeded: set[int]) -> Finding:
    """Say so where all that is drawn begins from a seed of the program's own: it is the same each time."""
    draws = [event.index for event in events if event.rng is not None]
    if not draws or not seeded.issuperset(draws):
        return finding
    message = f"{finding.message}, from a seed that the program sets itself"
    return replace(finding, message=message, severity=Severity.INFO)


def _others(left_on: dict[str, str], training: set[str], trace: Trace, seeded: set[int]) -> Iterator[Finding]:
    """One finding for each line that draws or takes batch statistics outside of those layers."""
    groups: dict[tuple[str, str, str], list[OpEvent]] = {}
    for event, following in zip_longest(trace.events, trace.events[1:]):
        code = _code(event, following, training)
        if code is not None and event.module not in left_on:
            groups.setdefault((code, str(event.source), event.op), []).append(event)
    read = {meta.origin for event in trace.events for meta in event.inputs}
    for (code, _, op), events in groups.items():
        first, count = events[0], sum(event.rng.elements for event in events if event.rng)
        numbers = "a random number" if count == 1 else f"{count} random numbers"
        where = f" in {first_few(tuple(dict.fromkeys(event.module or 'the model' for event in events)))}"
        if code == "DET205":
            remedy = _UNREACHED if _is_unregistered(first) else "use running statistics"
            yield _finding(code, first, f"{op}{where} normalises by the batch at inference", remedy)
            continue
        if code == "DET201":
            message = f"{op}{where} draws {numbers}, and the module is in train mode"
            remedy = _UNREACHED if _is_unregistered(first) else "call model.eval() before inference"
            found = _finding(code, first, message, remedy)
        elif code == "DET202":
            message = f"{op}{where} draws {numbers} as in training, but no module there is in train mode"
            found = _finding(code, first, message, "pass training=self.training; to attention, dropout_p=0.0 then")
        elif any(event.index in read for event in events):
            message = f"{op}{where} draws {numbers} {_when(first)}"
            found = _finding(code, first, message, "draw from a torch.Generator with a fixed seed, or do not sample")
        else:
            message = f"{op}{where} draws {numbers} {_when(first)}, which no operator reads"
            remedy = "draw in training only: this moves the generator on for whoever draws next"
            found = replace(_finding(code, first, message, remedy), severity=Severity.INFO)
        yield _told(found, events, seeded)


def _is_unregistered(event: OpEvent) -> bool:
    """Does it run in a module that the model is not known to consist of, and that goes by the name of its class?"""
    return event.module.rpartition(".")[2].startswith("<")


def _when(event: OpEvent) -> str:
    return "in the backward pass of a model in eval mode" if event.phase is Phase.BACKWARD else "at inference"


def _code(event: OpEvent, following: OpEvent | None, training: set[str]) -> str | None:
    """Which rule does an event fall under?"""
    if event.rng is not None and event.rng.generator != "given":
        if event.module in training:
            return "DET201"
        return "DET202" if _drops(event, following) else "DET206"
    statistics = "batch_norm" in event.op and "backward" not in event.op and "instance" not in event.op
    return "DET205" if statistics and event.arguments.get("training") is True else None


def _drops(event: OpEvent, following: OpEvent | None) -> bool:
    """Is a draw one of dropout, stochastic depth or another layer that draws in training only?

    Kernels that draw say so by their arguments. Where torch takes dropout apart, a mask is drawn in place and
    divided by the probability it was drawn with (of alpha dropout: moved down by one) before anything else runs.
    """
    arguments = event.arguments
    if arguments.get("train") is True or arguments.get("training") is True or arguments.get("dropout_p"):
        return True
    if event.name != "aten.bernoulli_" or following is None:
        return False
    other = following.arguments.get("other")
    return (following.name == "aten.div_" and other == arguments.get("p")) or (
        following.name == "aten.add" and other == -1
    )


def _finding(code: str, event: OpEvent, message: str, remedy: str) -> Finding:
    rule = load_rules()[code]
    return Finding(
        code=code,
        name=rule.name,
        severity=Severity.WARNING,
        message=message,
        location=location_of(event),
        remedy=remedy,
        passes=("backward" if event.phase is Phase.BACKWARD else "forward",),
        url=rule.url,
        op=event.op,
        module=event.module,
    )
