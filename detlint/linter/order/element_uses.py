"""What the code does with the elements of a set: it counts with numbers, and takes text apart."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.element_sort import Move, Sort, together
from detlint.linter.analysis.values import Kind
from detlint.linter.order.declared import declared
from detlint.linter.order.takers import taken_as
from detlint.linter.tables.elements import element_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# With a number on the other side these work on numbers alone; `*` and `%` also work on text.
_ARITHMETIC = (ast.Add, ast.Sub, ast.Div, ast.FloorDiv, ast.Pow, ast.LShift, ast.RShift)
_NUMBERED_PLACES = {Kind.TENSOR, Kind.LIST, Kind.TUPLE}  # what only a number can be an index of
_NUMBER_TYPES = frozenset({"builtins.int", "builtins.float", "numbers.Integral", "numbers.Number", "numpy.integer"})
_LISTING = frozenset({"builtins.list", "builtins.tuple", "builtins.iter", "builtins.next"})


def used_as(iterated: ast.expr, ctx: Context) -> Sort:
    """Return what the elements of a set must be: `x - 1`, `x -= 1`, `x < 3`, `tensor[x]`, `x.strip()`, `x == "a"`."""
    if _is_counted_on(iterated, ctx) or _is_given_as_numbers(iterated, ctx):
        return Sort.NUMBERS
    if _is_joined(iterated, ctx):
        return Sort.HASHED
    uses = [sort_of_use(element, ctx) for element in elements_of(iterated, ctx)]
    if Sort.NUMBERS in uses or _counts_listed(iterated, ctx):
        return Sort.NUMBERS
    return together([*uses, _listed_as(iterated, ctx)])


def _counts_listed(iterated: ast.expr, ctx: Context) -> bool:
    """`ranks = list(set(ranks))`, of which each is counted with further down: `rank < 0 for rank in ranks`."""
    listed = ctx.parent(iterated)
    if not isinstance(listed, ast.Call) or not _LISTING.intersection(ctx.callees(listed)):
        return False
    binding = ctx.binding(listed)
    uses = ctx.flow(listed).uses(binding) if binding is not None and not binding.index else ()
    elements = (element for use in uses for element in elements_of(use, ctx))
    return any(sort_of_use(element, ctx) is Sort.NUMBERS for element in elements)


def _is_counted_on(iterated: ast.expr, ctx: Context) -> bool:
    """`for row in rows: row -= 1`."""
    loop = ctx.parent(iterated)
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return False
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == loop.target.id
        and isinstance(node.op, _ARITHMETIC)
        and _is_literal_number(node.value)
        for node in ast.walk(loop)
    )


def _is_given_as_numbers(iterated: ast.expr, ctx: Context) -> bool:
    """`torch.tensor(list(ids))`, `Subset(data, list(ids))`."""
    for parent in ctx.ancestors(iterated):
        if not isinstance(parent, ast.Call) or iterated is parent.func:
            return False
        names = ctx.callees(parent)
        if not _LISTING.intersection(names):
            return bool(element_table().functions["of_numbers"].intersection(names))
    return False


def _listed_as(iterated: ast.expr, ctx: Context) -> Sort:
    """`return list(ids)` of a function that declares to return `list[int]`, `ids: list[int] = list(found)`."""
    listed: ast.AST = iterated
    parent = ctx.parent(iterated)
    while isinstance(parent, ast.Call) and listed in parent.args and _LISTING.intersection(ctx.callees(parent)):
        listed, parent = parent, ctx.parent(parent)
    if isinstance(parent, ast.AnnAssign):
        return declared(parent.annotation, (Move.ITERATED,), ctx.module)
    named = parent.targets[0] if isinstance(parent, ast.Assign) else None
    given = isinstance(parent, ast.Return) or _is_returned(named, ctx)
    function = ctx.function(iterated) if given else None
    annotation = function.returns if function is not None else None
    return Sort.UNKNOWN if annotation is None else declared(annotation, (Move.ITERATED,), ctx.module)


def _is_returned(target: ast.expr | None, ctx: Context) -> bool:
    """`links = list(set(links))`, and `return links` further down."""
    if not isinstance(target, ast.Name):
        return False
    reads = (use for use in ctx.module.index.uses_of(target) if isinstance(ctx.parent(use), ast.Return))
    return any(True for _ in reads)


def _is_joined(iterated: ast.expr, ctx: Context) -> bool:
    """`", ".join(words)`."""
    call = ctx.parent(iterated)
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "join"


def elements_of(iterated: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """Yield the places where an element is read: the variable of a loop, or one that is picked."""
    parent = ctx.parent(iterated)
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is iterated:
        inside = ctx.parent(parent) if isinstance(parent, ast.comprehension) else parent
        if isinstance(parent.target, ast.Name) and inside is not None:
            yield from loads(parent.target.id, inside)
        return
    picked = _picked(iterated, ctx)
    if picked is not None:
        yield picked
        binding = ctx.binding(picked)
        if binding is not None:
            yield from ctx.flow(picked).uses(binding)


def _picked(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the expression that picks one: `list(ids)[0]`, `next(iter(ids))`, `ids.pop()`."""
    for parent in ctx.ancestors(node):
        if isinstance(parent, ast.Subscript):
            return parent if isinstance(parent.slice, ast.Constant) else None
        if isinstance(parent, ast.Attribute) and parent.attr == "pop":
            call = ctx.parent(parent)
            return call if isinstance(call, ast.Call) else None
        if not isinstance(parent, ast.Call) or not _LISTING.intersection(ctx.callees(parent)):
            return None
        if "builtins.next" in ctx.callees(parent):
            return parent
    return None


def loads(name: str, inside: ast.AST) -> Iterator[ast.Name]:
    """Yield the places inside a node that read a name."""
    for node in ast.walk(inside):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield node


def sort_of_use(element: ast.expr, ctx: Context) -> Sort:
    """Return what an expression must be for what is done with it where it stands."""
    if (_counts_with(element, ctx) and not ctx.is_tensor(element)) or _must_be_number(element, ctx):
        return Sort.NUMBERS
    if _has_parts(element, ctx) or _reads_as_text(element, ctx):
        return Sort.HASHED
    return taken_as(element, (), ctx)


def _counts_with(element: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(element)
    if isinstance(parent, ast.BinOp):
        other = parent.right if parent.left is element else parent.left
        return isinstance(parent.op, _ARITHMETIC) and _is_literal_number(other)
    if isinstance(parent, ast.Compare):
        sides = [side for side in (parent.left, *parent.comparators) if side is not element]
        return any(_is_literal_number(side) or ctx.is_tensor(side) for side in sides)
    if isinstance(parent, ast.Subscript):
        kinds = {value.kind for value in ctx.values(parent.value)}
        return parent.slice is element and bool(kinds) and kinds <= _NUMBERED_PLACES
    if isinstance(parent, ast.Call):
        takes_numbers = element_table().functions["counting"]
        return parent.func is not element and bool(takes_numbers.intersection(ctx.callees(parent)))
    return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub)


def _must_be_number(element: ast.expr, ctx: Context) -> bool:
    """`assert isinstance(rank, int)`, `if not all(isinstance(rank, int) for rank in ranks): raise …`."""
    test: ast.AST | None = ctx.parent(element)
    if not isinstance(test, ast.Call) or "builtins.isinstance" not in ctx.callees(test) or test.args[0] is not element:
        return False
    kinds = test.args[-1].elts if isinstance(test.args[-1], ast.Tuple) else test.args[-1:]
    if not all(not _NUMBER_TYPES.isdisjoint(ctx.resolve(kind)) for kind in kinds):
        return False
    around = ctx.parent(test)
    if isinstance(around, ast.GeneratorExp) and around.elt is test and not around.generators[0].ifs:
        test = ctx.parent(around)
        if not isinstance(test, ast.Call) or "builtins.all" not in ctx.callees(test):
            return False
        around = ctx.parent(test)
    if isinstance(around, ast.Assert):
        return around.test is test
    branch = ctx.parent(around) if isinstance(around, ast.UnaryOp) and isinstance(around.op, ast.Not) else None
    return isinstance(branch, ast.If) and branch.test is around and isinstance(branch.body[-1], ast.Raise)


def _has_parts(element: ast.expr, ctx: Context) -> bool:
    """`node.inputs`, `loss.backward()`: an object, which is hashed by its address as a rule."""
    parent = ctx.parent(element)
    return isinstance(parent, ast.Attribute) and parent.attr not in element_table().attributes["numbers"]


def _reads_as_text(element: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(element)
    if isinstance(parent, ast.FormattedValue):
        return _is_compared_as_text(parent, ctx)
    if isinstance(parent, ast.BinOp):
        other = parent.right if parent.left is element else parent.left
        return isinstance(parent.op, ast.Add) and _is_text(other)
    if isinstance(parent, ast.Compare):
        return any(_is_text(side) for side in (parent.left, *parent.comparators) if side is not element)
    if isinstance(parent, ast.Call):
        takes_text, names = element_table().functions["reading"], ctx.callees(parent)
        if "builtins.isinstance" in names:
            return "builtins.str" in ctx.resolve(parent.args[-1])
        return parent.func is not element and bool(takes_text.intersection(names))
    return False


def _is_compared_as_text(part: ast.FormattedValue, ctx: Context) -> bool:
    """`table.query(f"name == '{name}'")`."""
    query = ctx.parent(part)
    parts = query.values if isinstance(query, ast.JoinedStr) else []
    before = parts[parts.index(part) - 1] if part in parts[1:] else None
    text = before.value if isinstance(before, ast.Constant) else ""
    return isinstance(text, str) and text[-1:] in ("'", '"') and text[:-1].rstrip().endswith("==")


def _is_literal_number(node: ast.expr) -> bool:
    """Is a number written out: `1`, `-0.5`?"""
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def is_part_of_array(node: ast.expr) -> bool:
    """Return whether an array is taken apart: `batch[0].tolist()`, `edges[:, 1].tolist()`; tables are not."""
    if not isinstance(node, ast.Subscript):
        return False
    index = node.slice
    return isinstance(index, ast.Tuple) or (isinstance(index, ast.Constant) and isinstance(index.value, int))
