"""A record of one pass or of the steps of a training run, and its form as JSON values and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from detlint.runtime.events import ModuleCall, OpEvent, Phase, RngUse, SourceLine, TensorMeta, Trace, Value
from detlint.runtime.records.summary import Statistics, Summary
from detlint.runtime.report import plain

if TYPE_CHECKING:
    import torch

_Item = TypeVar("_Item")

VALUE_BYTES: Final = 16 << 20
"""Values of operators and of steps are kept, in order, until they take up so much."""

_NAMED: Final = ("weights", "inputs", "outputs", "gradients")
STEP_GROUPS: Final = ("inputs", "computed", "gradients", "parameters")


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of training: its tensors by name, and digests of where each random generator stands.

    `computed` holds the loss. Gradients are in the order in which they are computed: the last layer's come first.
    """

    number: int
    inputs: Mapping[str, Summary]
    computed: Mapping[str, Summary]
    gradients: Mapping[str, Summary]
    parameters: Mapping[str, Summary]
    generators: Mapping[str, str]

    def tensors(self) -> dict[str, Summary]:
        """All of them, in the order of their computation."""
        return {name: item for group in STEP_GROUPS for name, item in getattr(self, group).items()}


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What a run left. A recorded pass has a trace, a recorded training has steps.

    `environment` is the JSON form of `Environment`; `weights` are parameters and buffers before the pass.
    `results` holds for each event of the trace the summaries of its outputs, None for views and for memory that was
    left unfilled.
    """

    model: str
    environment: Mapping[str, Any]
    seed: int | None = None
    backward: bool = False
    weights: Mapping[str, Summary] = field(default_factory=dict)
    inputs: Mapping[str, Summary] = field(default_factory=dict)
    outputs: Mapping[str, Summary] = field(default_factory=dict)
    gradients: Mapping[str, Summary] = field(default_factory=dict)
    trace: Trace = field(default_factory=partial(Trace, ()))
    results: tuple[tuple[Summary | None, ...], ...] = ()
    steps: tuple[Step, ...] = ()

    def encode(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Return JSON values, and the values of tensors by the name of their place."""
        document = {
            "model": self.model,
            "seed": self.seed,
            "backward": self.backward,
            "environment": self.environment,
            **{group: _encoded(getattr(self, group)) for group in _NAMED},
            "threads": self.trace.threads,
            "generators": list(self.trace.generators),
            "modules": plain(self.trace.modules),
            "events": [
                {"event": plain(event), "results": [None if item is None else _summary(item) for item in results]}
                for event, results in zip(self.trace.events, self.results, strict=True)
            ],
            "steps": [
                {
                    **{group: _encoded(getattr(step, group)) for group in STEP_GROUPS},
                    "generators": dict(step.generators),
                }
                for step in self.steps
            ],
        }
        return document, self._values()

    def _values(self) -> dict[str, torch.Tensor]:
        kept: dict[str, torch.Tensor] = {}
        for group in _NAMED:
            for name, summary in getattr(self, group).items():
                if summary.values is not None:
                    kept[f"{group}/{name}"] = summary.values
        room = VALUE_BYTES
        for name, values in self._bounded():
            room -= values.nbytes
            if room < 0:
                break
            kept[name] = values
        return kept

    def _bounded(self) -> Iterator[tuple[str, torch.Tensor]]:
        for index, results in enumerate(self.results):
            for place, summary in enumerate(results):
                if summary is not None and summary.values is not None:
                    yield f"events/{index}/{place}", summary.values
        for step in self.steps:
            for group in STEP_GROUPS:
                for name, summary in getattr(step, group).items():
                    if summary.values is not None:
                        yield f"steps/{step.number}/{group}/{name}", summary.values

    @classmethod
    def decode(cls, document: Mapping[str, Any], values: Mapping[str, torch.Tensor]) -> Record:
        """Return the record that `encode` took apart; keys that it does not know are left out.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is not such a document.
        """

        def group(path: str, table: Mapping[str, Any]) -> dict[str, Summary]:
            return {name: _summary_of(item, values.get(f"{path}/{name}")) for name, item in table.items()}

        return cls(
            model=str(document["model"]),
            environment=_environment(document["environment"]),
            seed=document["seed"],
            backward=bool(document["backward"]),
            **{name: group(name, document[name]) for name in _NAMED},
            trace=Trace(
                tuple(_event_of(index, item["event"]) for index, item in enumerate(document["events"])),
                tuple(_built(ModuleCall, item) for item in document["modules"]),
                int(document["threads"]),
                tuple(document["generators"]),
            ),
            results=tuple(
                tuple(
                    None if item is None else _summary_of(item, values.get(f"events/{index}/{place}"))
                    for place, item in enumerate(entry["results"])
                )
                for index, entry in enumerate(document["events"])
            ),
            steps=tuple(
                Step(
                    number=number,
                    **{part: group(f"steps/{number}/{part}", step[part]) for part in STEP_GROUPS},
                    generators=dict(step["generators"]),
                )
                for number, step in enumerate(document["steps"])
            ),
        )


def _environment(item: Mapping[str, Any]) -> dict[str, Any]:
    """Check what comparing relies upon."""
    int(item["flags"]["deterministic_mode"])
    return {**item, "torch": str(item["torch"]), "flags": dict(item["flags"]), "variables": dict(item["variables"])}


def _encoded(tensors: Mapping[str, Summary]) -> dict[str, Any]:
    return {name: _summary(item) for name, item in tensors.items()}


def _summary(summary: Summary) -> dict[str, object]:
    return {
        "shape": list(summary.shape),
        "dtype": summary.dtype,
        "device": summary.device,
        "digest": None if summary.digest is None else f"{summary.digest:032x}",
        "device_digest": summary.device_digest,
        "statistics": plain(summary.statistics),
    }


def _summary_of(item: Mapping[str, Any], values: torch.Tensor | None) -> Summary:
    statistics = item["statistics"]
    return Summary(
        shape=tuple(map(int, item["shape"])),
        dtype=str(item["dtype"]),
        device=str(item["device"]),
        digest=_digest(item["digest"]),
        statistics=None if statistics is None else _statistics_of(statistics),
        values=values,
        device_digest=bool(item["device_digest"]),
    )


def _statistics_of(item: Mapping[str, Any]) -> Statistics:
    figures = {name: float(item[name]) for name in ("minimum", "maximum", "mean", "norm")}
    return Statistics(**figures, nan=int(item["nan"]), infinite=int(item["infinite"]))


def _event_of(index: int, item: Mapping[str, Any]) -> OpEvent:
    source, rng = item["source"], item["rng"]
    return _built(
        OpEvent,
        {
            **item,
            "index": index,
            "op": str(item["op"]),
            "phase": Phase(item["phase"]),
            "source": None if source is None else _built(SourceLine, source),
            "arguments": {name: _value(value) for name, value in item["arguments"].items()},
            "outputs": tuple(_meta(meta) for meta in item["outputs"]),
            "mutated": tuple(item["mutated"]),
            "rng": None if rng is None else _built(RngUse, rng),
        },
    )


def _value(value: Any) -> Value:
    if isinstance(value, Mapping):
        return _meta(value)
    if isinstance(value, list):
        return tuple(_value(item) for item in value)
    return value  # type: ignore[no-any-return]


def _meta(item: Mapping[str, Any]) -> TensorMeta:
    strides = item["strides"]
    return _built(
        TensorMeta,
        {
            **item,
            "shape": tuple(map(int, item["shape"])),
            "strides": None if strides is None else tuple(map(int, strides)),
            "digest": _digest(item["digest"]),
        },
    )


def _digest(text: str | None) -> int | None:
    return None if text is None else int(text, 16)


def _built(kind: Callable[..., _Item], item: Mapping[str, Any]) -> _Item:
    """Build a dataclass of the keys that it knows."""
    return kind(**{each.name: item[each.name] for each in fields(kind) if each.name in item})  # type: ignore[arg-type]
