"""Does a loop stop where what it computes is exactly what it was in the round before?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.taken import elements_of
from detlint.linter.analysis.written_here import whole_here, written_out
from detlint.linter.numbers.computed import is_computed
from detlint.linter.numbers.differences import difference
from detlint.linter.numbers.insisting import is_over_elements, whole_test
from detlint.linter.numbers.named_results import ARITHMETIC
from detlint.linter.source.names import LOOPS
from detlint.linter.source.nodes import identifier, walk
from detlint.linter.tables.rounding import rounding_table

_COPIES = frozenset({"copy", "deepcopy", "clone", "float", "array", "detach", "cpu", "numpy", "item", "tolist", "list"})
_PRODUCTS = ("dot", "matmul", "mm", "mv")
_STEPS = 4


def stops_at_repetition(compare: ast.Compare, ctx: Context) -> bool:
    """`if loss == last_loss: break`, `while loss != last_loss`, `if (new == old).all(): break`.

    With `last_loss = loss` in the loop. So for `losses[-1] == losses[-2]`, and for a difference that is zero.
    """
    one, other, equal = compare.left, compare.comparators[0], isinstance(compare.ops[0], ast.Eq)
    test = whole_test(compare, ctx)
    if _are_last_rounds(one, other, ctx):
        return any(True for _ in _ended_by(test, equal, ctx))
    apart = difference(ctx.module, one) if ctx.constant(other) == 0 else None
    return _stops(test, equal, apart or (one, other), ctx, arrays=bool(apart) or is_over_elements(compare, ctx))


def stops_at_equality(call: ast.Call, one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """`if np.array_equal(new, old): break`, `while not torch.equal(new, old)`."""
    return _stops(call, True, (one, other), ctx, arrays=True)


def _stops(test: ast.expr, equal: bool, sides: tuple[ast.expr, ast.expr], ctx: Context, arrays: bool) -> bool:
    one, other = map(_copied, sides)
    if not all(isinstance(side, (ast.Name, ast.Attribute)) for side in (one, other)):
        return False
    loops = [loop for loop in _ended_by(test, equal, ctx) if not _starts_whole((one, other), loop, ctx)]
    return any(
        _is_kept(now, before, loop, ctx) and (_is_measure(now, loop, ctx) or _is_iterate(now, loop, ctx, arrays))
        for loop in loops
        for now, before in ((one, other), (other, one))
    )


def _are_last_rounds(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """`losses[-1]` and `losses[-2]`, of computed losses."""
    if not isinstance(one, ast.Subscript) or not isinstance(other, ast.Subscript):
        return False
    places = {ctx.constant(side.slice) for side in (one, other)}
    same = ast.unparse(one.value) == ast.unparse(other.value) and places == {-1, -2}
    elements = elements_of(ctx.module, one.value) if same else []
    return bool(elements) and all(is_computed(ctx.module, element) for element in elements)


def _copied(node: ast.expr) -> ast.expr:
    """Return `centres` of `centres.copy()`, `np.copy(centres)`, `loss` of `loss.item()`."""
    while isinstance(node, ast.Call) and identifier(node.func) in _COPIES:
        if node.args:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            break
    return node


def _ended_by(test: ast.expr, equal: bool, ctx: Context) -> Iterator[ast.AST]:
    """Yield the loops that a test ends, perhaps together with another condition or under a name.

    `equal`: it holds where two sides are equal.
    """
    binding = ctx.binding(test)
    uses = ctx.flow(test).uses(binding) if binding is not None else ()
    for use in uses:
        yield from _ended_by(use, equal, ctx)
    around = ctx.parent(test)
    while isinstance(around, (ast.BoolOp, ast.UnaryOp)):
        equal ^= isinstance(around, ast.UnaryOp) and isinstance(around.op, ast.Not)
        test, around = around, ctx.parent(around)
    if isinstance(around, ast.While) and around.test is test and not equal:
        yield around
    branch = (around.body if equal else around.orelse) if isinstance(around, ast.If) and around.test is test else []
    if branch and isinstance(branch[-1], (ast.Break, ast.Return)):
        yield from (loop for loop in ctx.ancestors(test) if isinstance(loop, LOOPS))


def _is_measure(now: ast.expr, loop: ast.AST, ctx: Context) -> bool:
    """Is a variable a float by its name, and taken off a tensor?"""
    if not isinstance(now, ast.Name) or rounding_table().measures.isdisjoint(now.id.split("_")):
        return False
    return any(_takes_off(value) for value in _given(now, loop, ctx))


def _takes_off(value: ast.expr) -> bool:
    """`out["loss"].item() / n`."""
    return any(isinstance(part, ast.Call) and identifier(part.func) == "item" for part in walk(value))


def _is_iterate(now: ast.expr, loop: ast.AST, ctx: Context, arrays: bool) -> bool:
    """Is what a loop gives a variable, or puts into an array, computed and not made whole?"""
    given = [*_given(now, loop, ctx), *_given(now, loop, ctx, inside=True)]
    given = [value for value in given if not _is_unpacked(value, ctx)]
    if any(value.is_integral for each in (now, *given) for value in ctx.values(each)):
        return False
    return any(is_computed(ctx.module, value) or (arrays and _rounds(value, ctx)) for value in given)


def _starts_whole(sides: tuple[ast.expr, ...], loop: ast.AST, ctx: Context) -> bool:
    """Do both go out from whole numbers or truth values, `seen = np.zeros(n, dtype=bool)`, and is nothing divided?

    `seen = edges.dot(seen)` keeps them whole then, as graphs are searched.
    """
    inside = set(walk(loop))
    bindings = [each for side in sides if isinstance(side, ast.Name) for each in ctx.module.index.bindings_of(side)]
    before = [each for each in bindings if each.node not in inside and not each.index]
    starts = [start for each in before if (start := whole_here(ctx.module, each)) is not None]
    whole = [start for start in starts if any(value.is_integral for value in ctx.values(start))]
    rest = [start for start in starts if start not in whole and not _is_name_of(start, sides)]
    given = (value for side in sides for value in _given(side, loop, ctx))
    return bool(whole) and not rest and not any(_is_divided(value) for value in given)


def _is_name_of(start: ast.expr, sides: tuple[ast.expr, ...]) -> bool:
    """`old = seen`, `old = seen.copy()`, `old = None` before the loop."""
    nothing = isinstance(start, ast.Constant) and start.value is None
    made_float = any(isinstance(part, ast.Attribute) and part.attr == "float" for part in walk(start))
    return nothing or (not made_float and ast.unparse(_copied(start)) in map(ast.unparse, sides))


def _is_divided(value: ast.expr) -> bool:
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div) for part in walk(value))


def _is_unpacked(value: ast.expr, ctx: Context) -> bool:
    """`labels, centres = step(centres)`: which of several results is computed is not told."""
    statement = ctx.statement(value)
    return isinstance(statement, ast.Assign) and any(isinstance(target, ast.Tuple) for target in statement.targets)


def _rounds(node: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """`rows / rows.sum()`, `w - step * (x @ w)`: quotients and products of whatever arrays."""
    if isinstance(node, ast.Name) and steps:
        made = [whole_here(ctx.module, each) for each in ctx.module.definitions(node) if not each.index]
        return bool(made) and all(value is not None and _rounds(value, ctx, steps - 1) for value in made)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        divides = isinstance(node.op, ast.Div) and not isinstance(node.right, ast.Constant)
        multiplies = isinstance(node.op, ast.MatMult)
        return divides or multiplies or any(_rounds(side, ctx, steps) for side in (node.left, node.right))
    if not isinstance(node, ast.Call):
        return False
    method = node.func if isinstance(node.func, ast.Attribute) else None
    of_array = method is not None and method.attr in rounding_table().keeping and _rounds(method.value, ctx, steps)
    return of_array or identifier(node.func) in _PRODUCTS


def _is_kept(now: ast.expr, before: ast.expr, loop: ast.AST, ctx: Context) -> bool:
    """Is `before` what `now` was in the last round, and nothing else, such as the least of all rounds?"""
    kept = list(_given(before, loop, ctx))
    return bool(kept) and all(ast.unparse(_copied(value)) == ast.unparse(now) for value in kept)


def _given(place: ast.expr, loop: ast.AST, ctx: Context, *, inside: bool = False) -> Iterator[ast.expr]:
    """Yield what a loop assigns to a variable or an attribute, or to the entries inside: `rows[i] = row`."""
    text = ast.unparse(place)
    for statement in walk(loop):
        if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or statement.value is None:
            continue
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            for part, given in _pairs(target, statement.value):
                filled = part.value if isinstance(part, ast.Subscript) else None
                if (filled is not None) is inside and ast.unparse(filled or part) == text:
                    yield written_out(ctx.module, given)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the parts of `a, b = x, y`, each with what it is given; with all of it where several are given at once."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    elif isinstance(target, ast.Tuple):
        yield from ((part, value) for part in target.elts)
    else:
        yield target, value
