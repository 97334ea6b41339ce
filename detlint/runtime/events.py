"""What the tracer saw: plain, frozen records without tensors, so that what follows works without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Digest: TypeAlias = int
"""128 bits that change with any bit, order, sign or NaN payload of a tensor."""

Value: TypeAlias = Union["TensorMeta", "int", "float", "bool", "str", "None", "tuple[Value, ...]"]
"""An argument of an operator: tensors as metadata, dtypes, devices, layouts and generators as text."""


class Phase(str, Enum):
    """When an operator ran. RECOMPUTE is a forward that checkpointing runs again inside backward."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's program: the innermost frame that belongs to neither torch nor detlint."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """A tensor as an operator saw it.

    `origin` is the index of the event that last wrote to the tensor's memory, None where that was before the
    pass. `unfilled` is the index of the event that allocated the memory without filling it, as long as it was
    not written as a whole. `digest` is None where there is nothing to digest: fake and meta tensors, and memory
    that nothing was written to.
    """

    shape: tuple[int, ...]
    dtype: str
    device: str
    strides: tuple[int, ...] | None
    layout: str = "strided"
    requires_grad: bool = False
    digest: Digest | None = None
    origin: int | None = None
    unfilled: int | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def is_floating(self) -> bool:
        """Is it a real or complex floating type?"""
        return self.dtype.startswith(("float", "bfloat", "complex"))


@dataclass(frozen=True, slots=True)
class RngUse:
    """Random numbers that an operator drew.

    `generator` is "cpu", "cuda:0", … for the default generator of a device and "given" for one passed by the
    caller; `elements` is the size of the operator's result, `seed` what the generator was seeded with last.
    """

    generator: str
    elements: int
    seed: int | None = field(default=None, metadata={"rendered": False})


@dataclass(frozen=True, slots=True)
class OpEvent:
    """One executed aten (or custom) operator.

    `op` is the overload as torch names it ("aten.index_put_.default"); `module` the path of the innermost
    module running ("encoder.layer.3.attention", "" for the model itself), for backward operators that of the
    forward call they belong to, as is `source`. `outputs` are the tensors it returned, then those it wrote
    to. `mutated` names the arguments it wrote to; `uninitialized`: it returned memory that it did not fill.
    """

    index: int
    op: str
    module: str
    module_type: str
    source: SourceLine | None
    phase: Phase
    arguments: Mapping[str, Value]
    outputs: tuple[TensorMeta, ...]
    mutated: tuple[str, ...] = ()
    rng: RngUse | None = None
    uninitialized: bool = False

    @property
    def name(self) -> str:
        """The operator without its overload: "aten.index_put_"."""
        return self.op.rpartition(".")[0]

    @property
    def inputs(self) -> tuple[TensorMeta, ...]:
        """The tensors among the arguments, those in lists too, in order."""
        return tuple(tensors_in(tuple(self.arguments.values())))

    @property
    def device(self) -> str:
        """Where it ran: the device of its results, or else of its arguments; "cpu" without any tensor."""
        return next((meta.device for meta in (*self.outputs, *self.inputs)), "cpu")

    @property
    def called(self) -> str:
        """The operator and the module that called it."""
        return f"{self.op} in {self.module}" if self.module else self.op

    def __str__(self) -> str:
        line = f" at {self.source}" if self.source else ""
        return f"{self.called} ({self.phase.value}){line}"


def tensors_in(value: Value) -> Iterator[TensorMeta]:
    """Yield the tensors of an argument, those in lists too."""
    if isinstance(value, TensorMeta):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from tensors_in(item)


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """A module that ran at least once: path in the model, class name, and whether it was in train mode."""

    path: str
    type: str
    training: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """All operators of one pass, in order.

    `modules` are the modules that ran, `strangers` those among them that hold tensors and that the model was not
    known to consist of; `threads` counts threads that were started during the pass, whose
    operators a dispatch mode cannot see; `generators` names the random generators whose state changed ("cpu",
    "cuda:0", "numpy", "random"). Digests are `canonical` if they were taken in logical order: then they compare
    where shape and dtype agree, else only where strides agree too. `supposed` names the lines of a pass without
    values that went on by what is expected of values which only a real run has.
    """

    events: tuple[OpEvent, ...]
    modules: tuple[ModuleCall, ...] = ()
    threads: int = 0
    generators: tuple[str, ...] = ()
    canonical: bool = False
    supposed: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()

    @property
    def unseen_draws(self) -> tuple[str, ...]:
        """Generators that moved although no operator in the trace drew from them."""
        drawn = {event.rng.generator for event in self.events if event.rng is not None}
        return tuple(generator for generator in self.generators if generator not in drawn)

    def __len__(self) -> int:
        return len(self.events)
