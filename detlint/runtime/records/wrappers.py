"""Records of a model in a wrapper (`torch.compile`, `DistributedDataParallel`), told as if it had none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from detlint.runtime.records.record import Record, Step

_Value = TypeVar("_Value")

_PREFIXES: Final = ("_orig_mod.", "module.")
_GRADIENT: Final = "gradient of "


def without_wrappers(record: Record) -> Record:
    """Return the record with names that do not begin with those under which wrappers keep a model."""
    names = [*record.weights, *(name for step in record.steps[:1] for name in step.parameters)]
    prefix = next((each for each in _PREFIXES if names and all(name.startswith(each) for name in names)), "")
    if not prefix:
        return record
    events = tuple(replace(event, module=_bare(event.module, prefix)) for event in record.trace.events)
    calls = tuple(replace(call, path=_bare(call.path, prefix)) for call in record.trace.modules)
    bare = replace(
        record,
        weights=_renamed(record.weights, prefix),
        gradients=_renamed(record.gradients, prefix),
        trace=replace(record.trace, events=events, modules=calls),
        steps=tuple(_step(step, prefix) for step in record.steps),
    )
    return without_wrappers(bare)  # of a compiled model in DistributedDataParallel


def _step(step: Step, prefix: str) -> Step:
    return replace(
        step,
        computed=_renamed(step.computed, prefix),
        gradients=_renamed(step.gradients, prefix),
        parameters=_renamed(step.parameters, prefix),
    )


def _renamed(values: Mapping[str, _Value], prefix: str) -> dict[str, _Value]:
    return {_bare_name(name, prefix): value for name, value in values.items()}


def _bare_name(name: str, prefix: str) -> str:
    if name.startswith(_GRADIENT):
        return _GRADIENT + name.removeprefix(_GRADIENT).removeprefix(prefix)
    return name.removeprefix(prefix)


def _bare(path: str, prefix: str) -> str:
    """The wrapper's own path is that of the model; what it keeps lies below."""
    return "" if f"{path}." == prefix else path.removeprefix(prefix)
