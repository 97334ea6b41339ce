"""Checks by rule code. A check is a generator of findings; it registers itself by a decorator."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from detlint.findings import Finding
    from detlint.linter.analysis.context import Call, Context

    CallCheck = Callable[[Call, Context], Iterator[Finding]]
    NodeCheck = Callable[[Any, Context], Iterator[Finding]]
    FileCheck = Callable[[Context], Iterator[Finding]]

CheckT = TypeVar("CheckT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Check:
    """A registered check: on calls of the rule's triggers or of some names, on nodes of some types, or once a file."""

    code: str
    function: Callable[..., Iterator[Finding]]
    nodes: tuple[type[ast.AST], ...] = ()
    calls: frozenset[str] = frozenset()
    whole_file: bool = False


_CHECKS: list[Check] = []


def check(
    code: str, *, nodes: tuple[type[ast.AST], ...] = (), calls: Collection[str] = ()
) -> Callable[[CheckT], CheckT]:
    """Register a check of rule `code`.

    Alone it is `check(call: Call, ctx)` and wakes on each call of one of the rule's triggers. With `nodes` it is
    `check(node, ctx)` and wakes on every syntax node of these exact types, with `calls` on every call whose function
    goes by one of these names, whatever it belongs to.
    """

    def register(function: CheckT) -> CheckT:
        _CHECKS.append(Check(code, function, nodes, frozenset(calls)))
        return function

    return register


def check_file(code: str) -> Callable[[CheckT], CheckT]:
    """Register `check(ctx)`, run once for every file."""

    def register(function: CheckT) -> CheckT:
        _CHECKS.append(Check(code, function, whole_file=True))
        return function

    return register


@lru_cache(maxsize=1)
def checks() -> dict[str, tuple[Check, ...]]:
    """Import every module under `checks/` and return the checks by code, in sorted order."""
    from detlint.linter import checks as package

    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    found: dict[str, tuple[Check, ...]] = {}
    for entry in sorted(_CHECKS, key=lambda entry: entry.code):
        found[entry.code] = (*found.get(entry.code, ()), entry)
    return found
