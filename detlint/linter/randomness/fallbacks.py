"""Does a generator that is made on the spot only stand in for one that a caller may bring?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import is_set_from_outside
from detlint.linter.analysis.passed_fields import may_be_given
from detlint.linter.analysis.returned import made_at_last
from detlint.linter.analysis.unpassed import is_never_passed
from detlint.linter.randomness.seeded_generators import GENERATOR_WORDS
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier, is_none
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def is_fallback(node: ast.expr, ctx: Context, *, torch: bool) -> bool:
    """Does it only stand in for a generator or a seed that the caller may pass?

    One that no caller in the project passes is no choice; but torch's own start, the same in every run, is a default.
    """
    child: ast.AST = node
    for parent in ctx.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return False
        tests: list[ast.expr] = []
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            holds = child is parent.body if isinstance(parent, ast.IfExp) else child in parent.body
            tests = list(_unmet(parent.test, holds))
        elif isinstance(parent, ast.BoolOp):
            tests = [value for value in parent.values if value is not child]
        if isinstance(parent, ast.IfExp) and any(_is_given_part(each, ctx) for each in (parent.body, parent.orelse)):
            return True
        if any(_comes_from_caller(test, ctx, torch=torch) for test in tests):
            return True
        child = parent
    return False


def _unmet(test: ast.expr, holds: bool) -> Iterator[ast.expr]:
    """Yield the parts of a condition that may ask whether something is missing; `if self.random:` asks for draws."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _unmet(test.operand, not holds)
    elif isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _unmet(value, holds)
    elif not _is_there(test, holds):
        yield test


def _is_there(test: ast.expr, holds: bool) -> bool:
    """Does a condition say that what it asks about is given? `seed`, `seed is not None`, `isinstance(seed, int)`."""
    nothing = isinstance(test, ast.Compare) and getattr(test.comparators[0], "value", ...) is None
    if isinstance(test, ast.Compare) and nothing:
        return isinstance(test.ops[0], ast.IsNot if holds else ast.Is)
    asks = isinstance(test, ast.Call) and identifier(test.func) in ("isinstance", "exists")
    return holds and (asks or isinstance(test, (ast.Name, ast.Attribute)))


def _comes_from_caller(test: ast.expr, ctx: Context, *, torch: bool) -> bool:
    """Does a condition ask for a generator or seed that is a parameter, or an attribute set from something else?"""
    for part in ast.walk(test):
        if isinstance(part, (ast.Name, ast.Attribute)) and ctx.resolve(part):
            continue  # `if random.random() < p:`, of a module
        if isinstance(part, ast.Name) and GENERATOR_WORDS.search(part.id):
            if not _is_made_here(part, ctx) and (torch or not is_never_passed(part, ctx)):
                return True
            continue
        if isinstance(part, ast.Attribute) and GENERATOR_WORDS.search(part.attr) and _is_set(part, ctx, torch=torch):
            return True
    return False


def _is_given_part(choice: ast.expr, ctx: Context) -> bool:
    """`rngs["numpy"] if "numpy" in rngs else default_rng()`: is one of two choices a part of what a caller passes?"""
    holder = choice.value if isinstance(choice, ast.Subscript) else None
    bindings = ctx.module.definitions(holder) if isinstance(holder, ast.Name) else ()
    return any(binding.kind is BindingKind.PARAMETER for binding in bindings)


def _is_made_here(name: ast.Name, ctx: Context) -> bool:
    """Is a variable never anything but None and a generator made on the spot? `global _rng`, made at its first use."""
    bindings = ctx.module.index.bindings_of(name)
    values = [binding.value if binding.kind is BindingKind.ASSIGN else None for binding in bindings]
    return bool(values) and all(value is not None and not _brought(value, ctx) for value in values)


def _is_set(attribute: ast.Attribute, ctx: Context, *, torch: bool) -> bool:
    """Is an attribute set to anything but None and a generator made on the spot, here or in files not looked at?

    Not by a parameter of a constructor that nobody passes, nor as a field of a record that nobody gives.
    """
    name, owner = attribute.attr, ctx.module.index.class_at(attribute)
    if owner is not None and may_be_given(ctx.inference.class_info(owner), name, ctx):
        return True
    writes = [
        assignment.value
        for assignment in ctx.module.index.of_type(ast.Assign)
        for target in assignment.targets
        if isinstance(target, ast.Attribute) and target.attr == name
    ]
    brought = [part for value in writes for part in _brought(value, ctx) if getattr(part, "attr", "") != name]
    if torch or not all(isinstance(part, ast.Name) and is_never_passed(part, ctx) for part in brought):
        return bool(brought) or not writes
    return not writes or (bool(brought) and is_set_from_outside(name, ctx))


def _brought(value: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return what an expression may be besides None and a generator made on the spot."""
    table = load_sources().generators
    return [
        made
        for made, where in made_at_last(value, ctx)
        if not is_none(made)
        if not (isinstance(made, ast.Call) and any(table.get(name) for name in where.callees(made)))
    ]
