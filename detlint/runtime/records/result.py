"""What comparing two records found: plain values, rendered by `detlint.reports`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from detlint.runtime.report import Verdict, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detlint.runtime.records.alignment import Departure, Stretch
    from detlint.runtime.records.gaps import NamedGap
    from detlint.runtime.records.suspects import Explanation


@dataclass(frozen=True, repr=False)
class RecordComparison:
    """What two records say of each other.

    `verdict` is that of the results: outputs and gradients of a pass, every tensor of a training. `results` are those
    that differ, in the order of their computation. Of a pass, `departures` are the operators that gave different
    results, `operators` counts those of each record, `pairs` those that belong together, and `stretches` are those
    that do not; of a training, `steps` counts those of each record. `explanations` stand in the order in which they
    are suspected; `other_settings` differ too, but are not known to reach what departs. `missing` says what only one
    record holds, so that it could not be compared: steps, or a backward pass.
    """

    names: tuple[str, str]
    models: tuple[str, str]
    allow: str
    verdict: Verdict
    results: tuple[NamedGap, ...]
    explanations: tuple[Explanation, ...]
    other_settings: tuple[Explanation, ...]
    missing: tuple[str, ...]
    blind_spots: tuple[str, ...]
    departures: tuple[Departure, ...] = ()
    operators: tuple[int, int] = (0, 0)
    pairs: int = 0
    stretches: tuple[Stretch, ...] = ()
    steps: tuple[int, int] = (0, 0)

    def __repr__(self) -> str:
        """Keep to a line in tests that fail and in consoles."""
        return f"<{type(self).__name__}: {' against '.join(self.names)}: {self.verdict.value}>"

    @property
    def ok(self) -> bool:
        """Do the results agree as far as `allow` asks, and is nothing missing?"""
        allowed = Verdict.BITWISE if self.allow == "bitwise" else Verdict.ROUNDING
        return self.verdict.rank <= allowed.rank and not self.missing

    @property
    def first(self) -> Departure | NamedGap | None:
        """What departs first: an operator, or a tensor of a step of training."""
        return next(iter(self._departing), None)

    @property
    def first_beyond(self) -> Departure | NamedGap | None:
        """What departs first by more than rounding."""
        return next((item for item in self._departing if item.verdict is Verdict.BEYOND_ROUNDING), None)

    @property
    def _departing(self) -> Sequence[Departure | NamedGap]:
        return self.results if any(self.steps) else self.departures

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready values, digests in hexadecimal; of later departures only what tells them apart."""
        record = {item.name: plain(getattr(self, item.name)) for item in fields(self)}
        record["departures"] = [item.row() for item in self.departures]
        return {"ok": self.ok, "first": plain(self.first), "first_beyond": plain(self.first_beyond), **record}
