"""Which of the operators that ran can differ? Events matched with the tables under the settings in force.

Answers from records alone, so a trace of one machine can be judged for another: operators of a device that
did not run are predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from detlint.conditions import Truth
from detlint.dispatch import load_dispatch
from detlint.findings import Finding, Severity
from detlint.operators import CAUSES, WITH_FLAG, Operator, in_force, load_operators
from detlint.rulebook import load_rules
from detlint.runtime.arguments import EventArguments
from detlint.runtime.events import OpEvent, Phase
from detlint.runtime.locations import location_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from detlint.dispatch import Dispatch
    from detlint.runtime.flags import Flags

_WARN_ONLY: Final = "differs under torch.use_deterministic_algorithms(True, warn_only=True)"
_WORKSPACES: Final = (":4096:8", ":16:8", ":4096:2")
"""With one of these in CUBLAS_WORKSPACE_CONFIG, cuBLAS and cuDNN split no sum over streams."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """An operator that ran and can differ on `device`, where its name is `runs`.

    `recorded` is what stands for it in the trace, an operator or a module. `predicted`: it ran on another
    device. `derivative`: not itself but its derivative can differ.
    """

    event: OpEvent
    operator: Operator
    device: str
    runs: str
    recorded: str
    predicted: bool
    derivative: bool

    @property
    def phase(self) -> str:
        """The pass in which results can differ: "forward" or "backward"."""
        return "backward" if self.derivative or self.event.phase is Phase.BACKWARD else "forward"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The entries of the tables that hold for a release of torch, devices and settings.

    `by_name` holds operators under every aten name that they list.
    """

    by_name: Mapping[str, Sequence[Operator]]
    dispatch: tuple[Dispatch, ...]
    targets: tuple[str, ...]
    flags: Flags

    @classmethod
    def load(cls, targets: Sequence[str], flags: Flags, *, torch_version: str, workspace: str = "") -> Catalogue:
        """Choose the entries; `workspace` is the value of `CUBLAS_WORKSPACE_CONFIG`."""
        by_name: dict[str, list[Operator]] = {}
        for operator in in_force(load_operators(), torch_version=torch_version, devices=targets):
            if _can_differ(operator, flags, workspace):
                for name in (*operator.aten, *operator.forward):
                    by_name.setdefault(name, []).append(operator)
        return cls(
            by_name=by_name,
            dispatch=tuple(entry for entry in load_dispatch() if all(getattr(flags, name) for name in entry.settings)),
            targets=tuple(targets),
            flags=flags,
        )

    def hazards(self, events: Iterable[OpEvent]) -> Iterator[Hazard]:
        """Yield every event with every entry that holds for it, in the order of events, targets and table."""
        events = tuple(events)
        backward = any(event.phase is Phase.BACKWARD for event in events)
        for event in events:
            for device in self.targets:
                yield from self._hazards(event, device, backward=backward)

    def findings(self, events: Iterable[OpEvent]) -> tuple[Finding, ...]:
        """Return one finding for each entry, module and line, in the order of their first event."""
        groups: dict[tuple[str, str, str], list[Hazard]] = {}
        for hazard in self.hazards(events):
            key = (hazard.operator.name, hazard.event.module, str(hazard.event.source))
            groups.setdefault(key, []).append(hazard)
        return tuple(self._finding(group) for group in groups.values())

    def _hazards(self, event: OpEvent, device: str, *, backward: bool) -> Iterator[Hazard]:
        arguments = EventArguments(event)
        predicted = _device(event) != device
        name = _aten(event.op)
        recorded = {name: name, **dict(self._runs(event, arguments, device))}
        # On the device that ran, the derivative is in the trace itself.
        forward = event.phase is not Phase.BACKWARD  # a derivative has none of its own in one backward pass
        differentiated = backward and predicted and forward and any(meta.requires_grad for meta in event.inputs)
        listed = (self.by_name.get(spelled, ()) for name in recorded for spelled in _spellings(name))
        for operator in {operator.name: operator for found in listed for operator in found}.values():
            if device not in operator.devices:
                continue
            derivative = False
            runs = next((name for name in recorded if _listed(name, operator.aten)), None)
            if runs is None and differentiated and "backward" in operator.passes:
                derivative = True
                runs = next((name for name in recorded if _listed(name, operator.forward)), None)
            if runs is not None and operator.applies(arguments) is Truth.YES:
                yield Hazard(event, operator, device, runs, recorded[runs], predicted, derivative)

    def _runs(self, event: OpEvent, arguments: EventArguments, device: str) -> Iterator[tuple[str, str]]:
        """Yield what the device executes instead, each with what stands for it in the trace."""
        name = _aten(event.op)
        for entry in self.dispatch:
            if _listed(name, entry.traced):
                recorded = name
            elif event.module_type in entry.modules:
                recorded = event.module_type
            else:
                continue
            if device in entry.devices and entry.applies(arguments) is Truth.YES:
                yield from ((runs, recorded) for runs in entry.runs)

    def _finding(self, group: Sequence[Hazard]) -> Finding:
        # What ran says more than what a derivative would run.
        first = next((hazard for hazard in group if not hazard.derivative), group[0])
        event, operator = first.event, first.operator
        # What the flag would cure still differs under warn_only, so "on request" is the wrong rule for it.
        code = "DET301" if self.flags.warn_only and operator.rule == "DET302" else operator.rule
        rule = load_rules()[code]
        return Finding(
            code=code,
            name=rule.name,
            severity=rule.severity if rule.default else Severity.INFO,
            message=rule.message.format(
                call=_call(first, group),
                reason=CAUSES[operator.cause],
                outcome=_WARN_ONLY if self.flags.warn_only else WITH_FLAG[operator.with_flag],
            ),
            location=location_of(event),
            remedy=operator.instead,
            passes=tuple(sorted({hazard.phase for hazard in group}, reverse=True)),
            devices=tuple(sorted({hazard.device for hazard in group})),
            url=rule.url,
            op=event.op,
            module=event.module,
        )


def _can_differ(operator: Operator, flags: Flags, workspace: str) -> bool:
    if operator.cause == "uninitialized":
        return False  # an executed `empty` is a hazard only if it is read unwritten, which a table cannot tell
    if operator.cause == "split-k" and workspace in _WORKSPACES:
        return False
    if operator.cause == "split-k" and operator.with_flag == "error" and not flags.deterministic:
        return False  # cuBLAS differs only where several streams share a handle; what is sure is that the flag raises
    if operator.cause == "algorithm-choice" and "convolution" in "".join(operator.aten):
        return not (flags.deterministic or flags.cudnn_deterministic) and bool(flags.cudnn_enabled)
    if not flags.deterministic:
        return True
    return (operator.with_warn_only if flags.warn_only else operator.with_flag) != "deterministic"


def _aten(op: str) -> str:
    """ "aten.index_put_.default" in the tables' spelling: "aten::index_put_", other overloads with their name."""
    namespace, _, rest = op.partition(".")
    name, _, overload = rest.partition(".")
    return f"{namespace}::{name}" + (f".{overload}" if overload not in ("", "default") else "")


def _spellings(name: str) -> tuple[str, str]:
    """Tables name one overload, or all overloads of an operator."""
    return name, name.partition(".")[0]


def _listed(name: str, names: Iterable[str]) -> bool:
    return any(spelled in names for spelled in _spellings(name))


def _device(event: OpEvent) -> str:
    tensors = (*event.outputs, *event.inputs)
    return tensors[0].device.partition(":")[0] if tensors else "cpu"


def _call(first: Hazard, group: Sequence[Hazard]) -> str:
    text = _short(first.runs)
    if first.recorded != first.runs:
        text = f"{text} for {_short(first.recorded)}"
    if first.derivative:
        text = f"the backward of {text}"
    predicted = tuple(dict.fromkeys(hazard.device for hazard in group if hazard.predicted))
    return f"{text} (predicted for {' and '.join(predicted)})" if predicted else text


def _short(name: str) -> str:
    return name.rpartition("::")[2].partition(".")[0]
