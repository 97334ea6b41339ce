"""Does the result depend on what lies in memory that nothing was written to?"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from detlint.runtime.comparison import Comparer
from detlint.runtime.flags import Flags, using
from detlint.runtime.poison import poisoned
from detlint.runtime.probes.registry import Change, probe
from detlint.runtime.report import Cause, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import OpEvent
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.report import ProbeResult

_FRESH: Final = 0x00
"""What new pages hold: the runs that others are compared with."""
_CONTENTS: Final = {
    "reused memory (small numbers)": 0x3C,
    "poisoned memory (huge numbers)": 0x7E,
    "poisoned memory (huge negative numbers)": 0xFE,
    "poisoned memory (NaN)": 0xFF,
}
"""What else unwritten memory may hold: as floats about 0.01, 8.5e37, -1.7e38, and NaN, which no weight takes away."""
_FILLS: Final = {
    "off": Flags(deterministic_mode=0),
    "on, without fill": Flags(deterministic_mode=1, fill_uninitialized_memory=False),
    "on, with fill": Flags(deterministic_mode=1, fill_uninitialized_memory=True),
}
"""Deterministic algorithms and what they do with fresh memory; without them torch fills nothing."""


@probe("allocator")
class Allocator:
    """Runs in memory of known content. A difference is a read of uninitialised memory, whatever hides it."""

    canonical = False
    same_program = False
    may_refuse = False
    kind = Cause.UNINITIALIZED

    def skip_reason(self, case: Case) -> str | None:
        """It always makes sense."""
        return None

    def conduct(self, lab: Lab) -> ProbeResult:
        """Compare, and where the bits differ ask whether deterministic algorithms cure that or only hide it."""
        with poisoned(_FRESH):
            result = Comparer(lab.afresh()).compare("allocator", self)
        if result.verdict is Verdict.BITWISE:
            return result
        differs = {name: _differs(lab, flags) for name, flags in _FILLS.items()}
        evidence = [
            f"deterministic algorithms {name}: {'other' if other else 'the same'} bits in memory of other content"
            for name, other in differs.items()
        ]
        cause = result.cause
        if differs["on, without fill"] and not differs["on, with fill"]:
            cause += "; deterministic algorithms hide that by filling fresh memory, and cure nothing"
        return replace(result, cause=cause, evidence=(*result.evidence, *evidence))

    def changes(self, case: Case, runs: int) -> Iterator[Change]:
        """Run in memory that holds something else than zeros."""
        for label, octet in _CONTENTS.items():
            yield Change(label, partial(_in_memory_of, octet))

    def explain(self, event: OpEvent, change: str) -> str:
        """Only what was never written differs between the runs."""
        return f"{event.op} reads memory that nothing was written to"


@contextmanager
def _in_memory_of(octet: int, case: Case) -> Iterator[Case]:
    with poisoned(octet):
        yield case


def _differs(lab: Lab, flags: Flags) -> bool:
    """Do outputs differ between memory of other contents under these settings?"""
    digests = []
    for octet in (_FRESH, *_CONTENTS.values()):
        with using(flags), poisoned(octet):
            digests.append(lab.runner.run(lab.case).digests)
    return any(other != digests[0] for other in digests)
