"""What could explain that two records depart? Facts on the program first, then settings of the machines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from detlint.influences import Call, load_influences
from detlint.runtime.catalogue import Catalogue
from detlint.runtime.events import tensors_in
from detlint.runtime.flags import Flags
from detlint.runtime.records.alignment import is_another_from_outside
from detlint.runtime.records.gaps import precision
from detlint.tables import DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from detlint.runtime.events import OpEvent, Value
    from detlint.runtime.records.alignment import Departure
    from detlint.runtime.records.gaps import NamedGap
    from detlint.runtime.records.record import Record
    from detlint.runtime.records.summary import Summary

_HASH_SEED: Final = "PYTHONHASHSEED"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Something that differs and could explain the departure; nothing was tried.

    `subject` is what it is about: "inputs", "weights", "arguments", "mode", "operators", "seed", "generators",
    "optimizer", "device", "dtype", "operator" or the path of a setting, such as "flags.threads". `first` and `second`
    are what the records say, `says` is how it changes results.
    """

    subject: str
    first: str
    second: str
    says: str


def apart(subject: str, gaps: Sequence[NamedGap], when: str = "", how: str = "") -> Iterator[Explanation]:
    """Say that the inputs or the weights are not the same: nothing else needs explaining then."""
    if gaps:
        first = gaps[0]
        by = "in one record only" if first.gap is None else first.gap.note or f"by {first.gap.at_least:.3g} or more"
        more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        yield Explanation(subject, "", "", f"the {subject} differ{when}: {first.name} first ({by}){more}{how}")


def program_suspects(one: Record, two: Record, departure: Departure) -> Iterator[Explanation]:
    """Yield what differs in how the program ran where the first operators depart."""
    event, other = departure.event, departure.other
    forked = departure.stretch is not None
    events = _events(departure)
    if event is not None and other is not None and not forked:
        for name, (a, b) in _numbers(event, other).items():
            yield Explanation("arguments", f"{name}={a}", f"{name}={b}", f"{event.op} is called with other arguments")
    draws = any(item.rng is not None for item in events)
    modes = _modes(one, two)
    if modes and (draws or forked or _depends_on_mode(events)):
        there = {item.module for item in events}
        path, training = next(
            ((path, mode) for path, mode in modes.items() if path in there), next(iter(modes.items()))
        )
        words = ("train mode", "eval mode")
        first, second = words if training else reversed(words)
        more = f", as did {len(modes) - 1} more modules" if len(modes) > 1 else ""
        yield Explanation("mode", first, second, f"{path or 'the model'} ran in another mode{more}")
    elif departure.stretch is not None and one.environment.get("torch") == two.environment.get("torch"):
        sides = departure.stretch.first, departure.stretch.second
        first, second = (", ".join(item.op for item in side) or "nothing" for side in sides)
        yield Explanation("operators", first, second, "the program runs other operators here")
        yield from _hash_order(one, two)
    if draws and one.seed != two.seed:
        yield Explanation("seed", str(one.seed), str(two.seed), "random numbers are drawn, from other seeds")
    if event is not None and other is not None:
        yield from place_suspects(_call(event), _call(other))


def _hash_order(one: Record, two: Record) -> Iterator[Explanation]:
    """Sets of text have another order with another hash seed, and without one in each process.

    The same operators run then, in another order.
    """
    if Counter(map(_operator, one.trace.events)) != Counter(map(_operator, two.trace.events)):
        return
    first, second = (side.environment["variables"].get(_HASH_SEED) for side in (one, two))
    if first != second or first in (None, "", "random"):
        says = "sets of text may have another order here, which may decide what runs"
        yield Explanation(f"variables.{_HASH_SEED}", first or "not set", second or "not set", says)


def _operator(event: OpEvent) -> tuple[str, str]:
    return event.op, event.module


def outside_suspects(departure: Departure) -> Iterator[Explanation]:
    """Yield tensors that an operator reads, that no operator made, and that are others: neither weights nor inputs."""
    event, other = departure.event, departure.other
    if event is None or other is None:
        return
    for name, value in event.arguments.items():
        pairs = zip(tensors_in(value), tensors_in(other.arguments.get(name)), strict=False)
        if any(is_another_from_outside(*pair) for pair in pairs):
            says = f"{event.op} gets another tensor as {name}, which is neither a weight nor an input of the model"
            yield Explanation("inputs", "", "", says)


def place_suspects(one: Call, two: Call) -> Iterator[Explanation]:
    """Yield what differs in where and in which precision it was computed."""
    if one.devices != two.devices:
        first, second = _listed(one.devices), _listed(two.devices)
        yield Explanation("device", first, second, "each kind of device has kernels of its own")
    steps = [precision(*call.dtypes) for call in (one, two)]
    if steps[0] != steps[1]:
        says = f"one step is {steps[0]:.1e} of a value against {steps[1]:.1e}"
        yield Explanation("dtype", _listed(one.dtypes), _listed(two.dtypes), says)


def settings_suspects(
    one: Mapping[str, Any], two: Mapping[str, Any], calls: Sequence[Call], *, rounding: bool
) -> tuple[tuple[Explanation, ...], tuple[Explanation, ...]]:
    """Return the settings that differ: those that can reach one of the calls, the strongest first; the others.

    What changes the precision comes first, or last if the departure is mere `rounding`.
    """
    differing = differing_settings(one, two)
    found: dict[str, Explanation] = {}
    for influence in sorted(load_influences(), key=lambda item: item.precision is rounding):
        if any(map(influence.reaches, calls)):
            for setting, (first, second) in differing.items():
                if influence.covers(setting):
                    found.setdefault(setting, Explanation(setting, first, second, influence.says))
    others = (Explanation(name, *values, "") for name, values in differing.items() if name not in found)
    return tuple(found.values()), tuple(others)


def varies_by_itself(record: Record, departure: Departure) -> Iterator[Explanation]:
    """Yield what the table of operators knows of an operator that can differ from run to run on one machine."""
    event = departure.event
    if event is None:
        return
    environment = record.environment
    catalogue = Catalogue.load(
        [device for device in DEVICES if device in _call(event).devices],
        _flags(environment["flags"]),
        torch_version=str(environment["torch"]),
        workspace=str(environment["variables"].get("CUBLAS_WORKSPACE_CONFIG", "")),
    )
    for hazard in catalogue.hazards([event]):
        if not hazard.predicted and not hazard.derivative:
            says = f"{event.op} can differ from run to run on one machine ({hazard.operator.cause})"
            yield Explanation("operator", hazard.device, hazard.device, says)
            return


def differing_settings(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return what two environments differ in, by path; what only one release of torch knows is left out."""
    first, second = _flat(one), _flat(two)
    return {
        name: (_word(first.get(name)), _word(second.get(name)))
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
        and not (name.startswith("flags.") and None in (first.get(name), second.get(name)))
    }


def _flat(environment: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in environment.items():
        if isinstance(value, dict):
            flat.update({f"{name}.{key}": item for key, item in value.items()})
        else:
            flat[name] = value
    return flat


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):  # of GPUs
        return (
            ", ".join(str(item.get("name", item)) if isinstance(item, dict) else str(item) for item in value) or "none"
        )
    return "none" if value is None else str(value)


def _flags(values: Mapping[str, Any]) -> Flags:
    known: dict[str, Any] = {flag.name: values.get(flag.name) for flag in fields(Flags)}
    return Flags(**known)


def _events(departure: Departure) -> list[OpEvent]:
    stretch = departure.stretch
    if stretch is not None:
        return [*stretch.first, *stretch.second]
    return [event for event in (departure.event, departure.other) if event is not None]


def calls_of(departure: Departure) -> list[Call]:
    """What the table of influences asks about the operators that depart."""
    return [_call(event) for event in _events(departure)]


def call_of_tensors(tensors: Iterable[Summary]) -> Call:
    """The same of a step of training, of which only the tensors are known."""
    kept = list(tensors)
    return Call(
        operator=None,
        devices=frozenset(item.device.partition(":")[0] for item in kept),
        dtypes=frozenset(item.dtype for item in kept),
        elements=max((item.numel for item in kept), default=0),
    )


def _call(event: OpEvent) -> Call:
    tensors = (*event.inputs, *event.outputs)
    return Call(
        operator=event.name.replace(".", "::", 1),
        devices=frozenset(meta.device.partition(":")[0] for meta in tensors),
        dtypes=frozenset(meta.dtype for meta in tensors),
        elements=max((meta.numel for meta in tensors), default=0),
        draws=event.rng is not None,
    )


def _numbers(one: OpEvent, two: OpEvent) -> dict[str, tuple[Value, Value]]:
    """Arguments, other than tensors, in which two calls differ; those that only one release has are left out."""
    return {
        name: (value, two.arguments[name])
        for name, value in one.arguments.items()
        if name in two.arguments
        and _is_number(value)
        and _is_number(two.arguments[name])
        and value != two.arguments[name]
    }


def _is_number(value: Value) -> bool:
    return isinstance(value, (bool, int, float)) or (
        isinstance(value, tuple) and all(isinstance(item, (bool, int, float)) for item in value)
    )


def _modes(one: Record, two: Record) -> dict[str, bool]:
    """Modules that ran in one mode only and in the other one in the second record, with the mode in the first."""
    modes = [{call.path: call.training for call in side.trace.modules} for side in (one, two)]
    return {path: training for path, training in modes[0].items() if modes[1].get(path, training) != training}


def _depends_on_mode(events: Sequence[OpEvent]) -> bool:
    return any(name in event.arguments for event in events for name in ("training", "train", "use_input_stats"))


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
