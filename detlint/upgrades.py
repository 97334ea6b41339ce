"""What does an upgrade of torch change in the table of operators?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from detlint.operators import in_force

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from detlint.operators import Operator


@dataclass(frozen=True, slots=True)
class Change:
    """A hazard that differs between two releases: new (`before` is None), gone (`after` is None) or changed."""

    name: str
    before: Operator | None
    after: Operator | None

    @property
    def kind(self) -> str:
        """ "new", "gone" or "changed"."""
        if self.before is None:
            return "new"
        return "gone" if self.after is None else "changed"


def changes(
    operators: Iterable[Operator],
    old: str,
    new: str,
    *,
    devices: Collection[str],
    passes: Collection[str],
) -> tuple[Change, ...]:
    """Return what differs between two releases, in the order of the table."""
    operators = tuple(operators)
    before, after = (
        {
            operator.name: operator
            for operator in in_force(operators, torch_version=release, devices=devices, passes=passes)
        }
        for release in (old, new)
    )
    names = dict.fromkeys(operator.name for operator in operators)
    return tuple(
        Change(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    )
