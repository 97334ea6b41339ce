"""How far apart may two numbers be? What calls, and tables by dtype, say of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from detlint.linter.analysis.calls import dtype_named
from detlint.linter.analysis.context import MISSING, Call, Context
from detlint.linter.analysis.defaults import default_of, default_value
from detlint.linter.analysis.dicts import written_items
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.parametrized import runs_of
from detlint.linter.analysis.unsaid import stand_in
from detlint.linter.numbers.precision import EPSILON
from detlint.linter.source.nodes import identifier

# How the functions that compare name a relative and an absolute tolerance.
_PAIRS = (("rtol", "atol"), ("rel_tol", "abs_tol"), ("rel", "abs"))
_TOLERANCES = frozenset(name for pair in _PAIRS[:2] for name in pair)
# Decimals stand for an absolute tolerance of so many units of the last one.
_DECIMALS = {"decimal": 1.5, "places": 0.5}
_DTYPES = (*EPSILON, "half", "double", "float")
_NAMED = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32"}
_RELATIVE, _ABSOLUTE = ("rtol", "rel"), ("atol", "abs")


class Teller(Protocol):
    """Knows what some names are: parameters where a function is called, variables in a branch."""

    @property
    def inside(self) -> Context: ...

    def given(self, name: ast.expr, /) -> ast.expr | None: ...


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A tolerance as it is written, and how far apart numbers of size one may be by it, and what should be zero."""

    text: str
    bound: float
    is_relative: bool = False
    from_zero: float | None = None  # where that is written out

    def is_finer_than(self, dtype: str) -> bool:
        """Is it less than rounding once moves a number by, or relative and less than two neighbours are apart?"""
        return self.bound < EPSILON[dtype] * (1 if self.is_relative else 0.5)


def allowed(call: Call, ctx: Context, site: Teller | None = None) -> Tolerance | None:
    """Return what a call that compares allows, or None where it is not known, beyond all floats, or zero on purpose.

    `site`: as this caller of the helper around has it, or as it is in this branch.
    """
    try:
        return _allowed(call, ctx, site)
    except OverflowError:
        return None


def _allowed(call: Call, ctx: Context, site: Teller | None) -> Tolerance | None:
    names = {parameter.name for parameter in call.trigger.parameters}
    if "delta" in names and call.argument("delta").given:
        return _of_number("delta", 1.0, ctx.constant(call.argument("delta").value))
    for name, units in _DECIMALS.items():
        if name in names:
            decimals = ctx.constant(call.argument(name).value)
            return Tolerance(f"{name}={decimals}", units * 10.0**-decimals) if isinstance(decimals, int) else None
    relative_name, absolute_name = next(pair for pair in _PAIRS if names.issuperset(pair))
    relative, absolute = (said(call.argument(name).value, ctx, site) for name in (relative_name, absolute_name))
    if call.name == "pytest.approx" and call.argument("abs").given and not call.argument("rel").given:
        relative = 0  # it is not looked at then
    if not isinstance(relative, (int, float)) or not isinstance(absolute, (int, float)):
        return None
    if relative == 0 and absolute == 0:
        return None
    text = f"{relative_name}={relative:g}, {absolute_name}={absolute:g}"
    from_zero = absolute if absolute and call.argument(absolute_name).given else None
    return Tolerance(text, relative + absolute, is_relative=absolute == 0, from_zero=from_zero)


def said(node: ast.expr | None, ctx: Context, site: Teller | None = None) -> object:
    """Return the number that a tolerance always is, or is unless somebody says otherwise: `rtol=rtol`, `args.rtol`."""
    constant = ctx.constant(node)
    given = site.given(node) if site is not None and node is not None else None
    if site is not None and given is not None:
        return said(given, site.inside, None)
    if constant is not MISSING or node is None:
        return constant
    other = stand_in(node)
    made = only_value(ctx.module, node) if isinstance(node, ast.Name) else None
    if other is not None or made is not None:
        return said(other or made, ctx, site)
    defaults = {ctx.constant(default_of(value)) for value in ctx.values(node)}
    return defaults.pop() if len(defaults) == 1 and MISSING not in defaults else default_value(node, ctx)


def _of_number(name: str, units: float, number: object) -> Tolerance | None:
    known = isinstance(number, (int, float)) and number > 0
    return Tolerance(f"{name}={number:g}", units * number) if known and isinstance(number, (int, float)) else None


def registered(table: ast.Dict, ctx: Context) -> Iterator[tuple[ast.expr, str, Tolerance]]:
    """Yield the keys of a table by dtype, with the tolerance that stands there for relative and absolute errors."""
    of_tolerances: bool | None = None
    for key, value in zip(table.keys, table.values, strict=True):
        dtype = spelled_dtype(key, ctx) if key is not None else None
        if key is None or dtype is None:
            continue
        if of_tolerances is None:
            of_tolerances = _is_of_tolerances(table, ctx)
        numbers = _numbers(value, of_tolerances, ctx)
        if numbers and max(numbers) > 0:
            yield key, dtype, Tolerance(ast.unparse(value), max(numbers))


def registered_runs(decorator: ast.Call, ctx: Context) -> Iterator[tuple[ast.expr, str, Tolerance]]:
    """Yield the dtypes of `@parametrize("dtype, rtol, atol", [(torch.half, 1e-6, 1e-6)])`, with their tolerances."""
    names, runs = runs_of(decorator)
    places = [position for position, name in enumerate(names) if "tol" in name]
    both = all(any(word in names[place] for place in places for word in words) for words in (_RELATIVE, _ABSOLUTE))
    either = any(word in names[place] for place in places for word in (*_RELATIVE, *_ABSOLUTE))
    if not places or (either and not both):
        return
    for run in runs if len(names) > len(places) else ():
        given = [ctx.constant(run[place]) for place in places if place < len(run)]
        numbers = [number for number in given if isinstance(number, float)]
        dtypes = [(part, dtype) for part in run if (dtype := spelled_dtype(part, ctx)) is not None]
        if len(numbers) == len(places) and len(dtypes) == 1 and max(numbers) > 0:
            text = ", ".join(f"{names[place]}={number:g}" for place, number in zip(places, numbers, strict=True))
            yield *dtypes[0], Tolerance(text, max(numbers))


def spelled_dtype(key: ast.expr, ctx: Context) -> str | None:
    """Return the dtype of floats that `torch.half` or `"bf16"` stands for."""
    if isinstance(key, ast.Constant):
        word = key.value if isinstance(key.value, str) else ""
        word = _NAMED.get(word, word)
        return word if word in EPSILON else None
    named = dtype_named(ctx.inference, key) if identifier(key) in _DTYPES else None
    return named if named in EPSILON else None


def _is_of_tolerances(table: ast.Dict, ctx: Context) -> bool:
    """Return whether a table goes by a name like `TOLERANCES`, and holds neither the relative nor the absolute ones."""
    parent = ctx.parent(table)
    names = [parent.arg or ""] if isinstance(parent, ast.keyword) else []
    if isinstance(parent, ast.Assign):
        names = [identifier(target) for target in parent.targets]
    elif isinstance(parent, ast.AnnAssign):
        names = [identifier(parent.target)]
    lower = [name.lower() for name in names]
    kinds = [any(word in name for word in words for name in lower) for words in (_RELATIVE, _ABSOLUTE)]
    return kinds[0] == kinds[1] and any("tol" in name for name in lower)


def _numbers(value: ast.expr, of_tolerances: bool, ctx: Context) -> list[float]:
    """Return the tolerances under one dtype, both relative and absolute ones; none where one may be missing."""
    items = written_items(ctx.module, value)
    if items is not None:
        found = {name.lower(): ctx.constant(item) for name, item in items.items()}
        both = all(any(word in name for name in found for word in words) for words in (_RELATIVE, _ABSOLUTE))
        parts = list(found.values()) if both else []
    elif of_tolerances:
        parts = [ctx.constant(part) for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
    else:
        return []
    numbers = [float(part) for part in parts if isinstance(part, (int, float)) and not isinstance(part, bool)]
    return numbers if len(numbers) == len(parts) else []
