"""Which forward call does a backward operator belong to?

Autograd numbers its nodes as the forward pass makes them. Each forward operator notes how far the numbering
had come; the node that runs in the backward pass then leads back to the operator that made it.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from detlint.runtime.events import SourceLine


@dataclass(frozen=True, slots=True)
class CallSite:
    """Module path, its class name, and the user's line."""

    module: str
    module_type: str
    source: SourceLine | None


class CallSites:
    """Remembers where forward operators were called."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._sites: list[CallSite] = []

    def note(self, site: CallSite) -> None:
        """An operator runs forward at `site`; nodes made since the last one are its own."""
        number = torch._C._autograd._get_sequence_nr()
        if not self._numbers or number > self._numbers[-1]:
            self._numbers.append(number)
            self._sites.append(site)

    def of_running_node(self) -> CallSite | None:
        """Return the forward call of the autograd node that runs now."""
        node = torch._C._current_autograd_node()
        if node is None:
            return None
        place = bisect.bisect_right(self._numbers, node._sequence_nr())
        return self._sites[place] if place < len(self._sites) else None
