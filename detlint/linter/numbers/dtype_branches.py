"""Tolerances that are set for one dtype: `if dtype == torch.bfloat16: rtol, atol = 1e-2, 5e-2`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from detlint.linter.analysis.context import Context
from detlint.linter.numbers.precision import EPSILON
from detlint.linter.numbers.tolerances import spelled_dtype
from detlint.linter.source.names import Binding, BindingKind, element_at

_SAME = (ast.Eq, ast.Is)
_OTHER = (ast.NotEq, ast.IsNot)


@dataclass(frozen=True, slots=True)
class DtypeBranch:
    """What names are set to where a dtype is this one."""

    dtype: str
    inside: Context
    values: dict[str, ast.expr] = field(default_factory=dict)

    def given(self, name: ast.expr) -> ast.expr | None:
        return self.values.get(name.id) if isinstance(name, ast.Name) else None


def dtype_branches(names: Iterable[ast.expr | None], ctx: Context) -> Iterable[DtypeBranch]:
    """Return what these names are set to for each dtype that is asked for where they are set."""
    found: dict[str, DtypeBranch] = {}
    for name in names:
        for binding in ctx.module.definitions(name) if isinstance(name, ast.Name) else ():
            for dtype, value in _set_by_dtype(binding, ctx):
                found.setdefault(dtype, DtypeBranch(dtype, ctx)).values[binding.name] = value
    return found.values()


def _set_by_dtype(binding: Binding, ctx: Context) -> Iterator[tuple[str, ast.expr]]:
    """Yield the dtypes that are asked for around a binding or in its value, and what it is there."""
    if binding.kind is not BindingKind.ASSIGN:
        return
    tests = list(ctx.module.index.branches_around(binding.node))
    value = binding.value
    while isinstance(value, ast.IfExp):
        yield from _for_dtypes([*tests, (value.test, True)], element_at(value.body, binding.index), ctx)
        tests.append((value.test, False))
        value = value.orelse
    yield from _for_dtypes(tests, element_at(value, binding.index), ctx)


def _for_dtypes(
    tests: list[tuple[ast.expr, bool]], value: ast.expr | None, ctx: Context
) -> Iterator[tuple[str, ast.expr]]:
    asked = (_asked_for(test, holds, ctx) for test, holds in tests)
    yield from ((dtype, value) for dtype in asked if dtype is not None and value is not None)


def _asked_for(test: ast.expr, holds: bool, ctx: Context) -> str | None:
    """`dtype == torch.half`, `not dtype != torch.half`; the coarsest of `dtype in (torch.half, torch.bfloat16)`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or isinstance(test.left, ast.Constant):
        return None
    other = test.comparators[0]
    if isinstance(test.ops[0], ast.In) and holds and isinstance(other, (ast.Tuple, ast.List, ast.Set)):
        dtypes = [spelled_dtype(each, ctx) for each in other.elts]
        known = [dtype for dtype in dtypes if dtype is not None]
        return max(known, key=EPSILON.__getitem__) if known and len(known) == len(dtypes) else None
    return spelled_dtype(other, ctx) if isinstance(test.ops[0], _SAME if holds else _OTHER) else None
