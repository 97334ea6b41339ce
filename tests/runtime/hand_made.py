"""Events and traces written by hand."""

from __future__ import annotations

from detlint.runtime.events import OpEvent, Phase, RngUse, TensorMeta, Trace, Value


def tensor(
    digest: int | None,
    *shape: int,
    strides: tuple[int, ...] = (1,),
    origin: int | None = None,
    unfilled: int | None = None,
) -> TensorMeta:
    return TensorMeta(shape or (4,), "float32", "cpu", strides, digest=digest, origin=origin, unfilled=unfilled)


def event(
    op: str,
    inputs: tuple[TensorMeta, ...] = (),
    outputs: tuple[TensorMeta, ...] = (),
    *,
    module: str = "",
    phase: Phase = Phase.FORWARD,
    rng: RngUse | None = None,
    mutated: tuple[str, ...] = (),
    **values: Value,
) -> OpEvent:
    arguments: dict[str, Value] = {f"in{place}": meta for place, meta in enumerate(inputs)}
    return OpEvent(-1, op, module, "", None, phase, {**arguments, **values}, outputs, mutated, rng)


def trace(*events: OpEvent, canonical: bool = False) -> Trace:
    from dataclasses import replace

    return Trace(tuple(replace(item, index=place) for place, item in enumerate(events)), canonical=canonical)
