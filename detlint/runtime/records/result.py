"""What comparing two records found: plain values, rendered by `detlint.reports`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from detlint.runtime.report import Verdict, plain

if TYPE_CHECKING:
    from detlint.runtime.records.alignment import Departure, Stretch
    from detlint.runtime.records.gaps import NamedGap
    from detlint.runtime.records.suspects import Explanation


@dataclass(frozen=True)
class RecordComparison:
    """What two records say of each other.

    `verdict` is that of the results: outputs and gradients of a pass, every tensor of a training. `results` are those
    that differ. Of a pass, `first` is the first operator that departs at all and `first_beyond` the first by more than
    rounding; of the `departing` operators, `by_themselves` got the same inputs. `operators` counts those of each
    record, `pairs` those that belong together. Of a training, `first_tensor` and `first_tensor_beyond` say the same
    of steps. `explanations` stand in the order in which they are suspected; `other_settings` differ too, but are not
    known to reach what departs.
    """

    names: tuple[str, str]
    models: tuple[str, str]
    allow: str
    verdict: Verdict
    results: tuple[NamedGap, ...]
    explanations: tuple[Explanation, ...]
    other_settings: tuple[Explanation, ...]
    blind_spots: tuple[str, ...]
    first: Departure | None = None
    first_beyond: Departure | None = None
    departing: int = 0
    by_themselves: int = 0
    operators: tuple[int, int] = (0, 0)
    pairs: int = 0
    stretches: tuple[Stretch, ...] = ()
    steps: tuple[int, int] = (0, 0)
    first_tensor: NamedGap | None = None
    first_tensor_beyond: NamedGap | None = None

    @property
    def ok(self) -> bool:
        """Do the results agree as far as `allow` asks?"""
        allowed = Verdict.BITWISE if self.allow == "bitwise" else Verdict.ROUNDING
        return self.verdict.rank <= allowed.rank

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready values, digests in hexadecimal."""
        return {"ok": self.ok, **{item.name: plain(getattr(self, item.name)) for item in fields(self)}}
