"""What was found on the way to an answer about the elements of a set."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from detlint.linter.analysis.element_sort import Sort, Steps


@dataclass(frozen=True)
class Asked:
    """What was asked on the way to an answer, in all files together: questions, and names that elements go by.

    `elements` are those of what is put in, `keys` those of records, as in `row["label"]`; `by_value` are classes whose
    objects are hashed by numbers that they hold.
    """

    sorts: dict[tuple[ast.AST, Steps], Sort] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    by_value: list[str] = field(default_factory=list)
