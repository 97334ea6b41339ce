"""What a probe is, and the list of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from detlint.runtime.flags import Flags, using

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from detlint.findings import Finding
    from detlint.runtime.events import OpEvent, Trace
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.report import Cause, ProbeResult


@dataclass(frozen=True, slots=True)
class Change:
    """One change that must not matter: settings, and what `apply` does for the time of a run; it yields the case.

    `step` is the relative precision of the arithmetic it brings in, where that is coarser than the outputs'.
    """

    label: str
    apply: Callable[[Case], AbstractContextManager[Case]] = nullcontext
    flags: Flags = field(default_factory=Flags)
    step: float = 0.0

    @contextmanager
    def made(self, case: Case) -> Iterator[Case]:
        """Make the change for the time of a block, and yield the case to run."""
        with using(self.flags), self.apply(case) as changed:
            yield changed


class Probe(Protocol):
    """A question about the model."""

    def skip_reason(self, case: Case) -> str | None:
        """Say why the question makes no sense here; None where it does."""


@runtime_checkable
class Comparison(Probe, Protocol):
    """A probe that runs the model with and without changes. The engine copies, restores, compares and measures.

    `canonical`: the sides lie in different strides, so digests must not depend on them. `same_program`: both
    sides run the very same thing, so any difference is the model's own. `may_refuse`: a model that raises under a
    change only refuses it, and other changes are made all the same. `kind` is the cause that a difference comes
    under otherwise.
    """

    canonical: bool
    same_program: bool
    may_refuse: bool
    kind: Cause

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Yield the changes to make, one after the other."""

    def explain(self, event: OpEvent, change: str) -> str:
        """Say in one sentence what it means that this operator is the first to give other bits."""


@runtime_checkable
class Inspection(Probe, Protocol):
    """A probe that judges the run that was made anyway, or a trace of which nothing was executed."""

    def inspect(self, case: Case, trace: Trace, again: Callable[[Case], Trace] | None = None) -> tuple[Finding, ...]:
        """Return what there is to say about it; `again` runs another case, where something can be executed."""


@runtime_checkable
class Experiment(Probe, Protocol):
    """A probe that makes its own runs, as its sides differ in shape, in program or in device."""

    def conduct(self, lab: Lab) -> ProbeResult:
        """Answer the question. The engine fills in name, seconds and findings; exceptions become verdict "error"."""


_Class = TypeVar("_Class", bound=type[Probe])

PROBES: dict[str, Probe] = {}
"""Every probe by name, in the order in which they run."""


def probe(name: str) -> Callable[[_Class], _Class]:
    """Register a class of probe under a name."""

    def register(kind: _Class) -> _Class:
        if name in PROBES:
            raise ValueError(f"two probes are named {name!r}")
        PROBES[name] = kind()
        return kind

    return register
