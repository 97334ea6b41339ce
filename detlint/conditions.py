"""The `when` vocabulary of the tables: a condition holds, does not hold, or cannot be told."""

from __future__ import annotations

from enum import Enum


class Truth(Enum):
    """Answer of an analysis. A rule stays silent on UNKNOWN unless it says otherwise in writing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
