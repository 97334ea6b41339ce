"""Writes that leave places out: what masks or labels mark, one place of each row, pairs of coordinates."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import LOOPS, BindingKind
from detlint.linter.source.nodes import identifier, receiver_of, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# With one number, these write what stands out; the rest is meant to be something else.
_MARKING = frozenset({"scatter_", "masked_fill_", "fill_diagonal_"})
# These write what a mask marks, whatever they are given.
_MASKED = frozenset({"masked_fill_", "masked_scatter_"})
_REDUCING = frozenset({"scatter_reduce_", "index_reduce_"})
_BEFORE_REDUCE = 3
_COUNTING = frozenset({"range", "trange", "prange", "enumerate", "arange", "count", "product", "ndindex", "zip"})
_MAX_STEPS = 4


def marks(call: ast.Call, ctx: Context) -> bool:
    """Return whether a method writes some places of the tensor that it belongs to and leaves the others."""
    name = identifier(call.func)
    if name in _MASKED:
        return not _is_in_loop(call, ctx)
    return name in _MARKING and (_is_number(call, ctx) or _is_at_largest(call, ctx) or _is_one_a_row(call))


def marks_copy(call: ast.Call, ctx: Context) -> bool:
    """`out = out.masked_scatter(mask, x)`, and `out = out.masked_scatter(~mask, y)`: do masks fill it one by one?"""
    name, held = identifier(call.func), receiver_of(call)
    if f"{name}_" not in _MASKED or not isinstance(held, ast.Name):
        return False
    others = (receiver_of(other) for other in ctx.module.index.calls_by_name.get(name, ()))
    bindings = ctx.module.index.bindings_of(held)
    used = [other for other in others if isinstance(other, ast.Name) and other.id == held.id]
    return len([use for use in used if ctx.module.index.bindings_of(use) == bindings]) > 1


def _is_in_loop(node: ast.AST, ctx: Context) -> bool:
    """In a loop the masks of all rounds may be the whole."""
    return any(isinstance(parent, LOOPS) for parent in ctx.ancestors(node))


def _is_number(call: ast.Call, ctx: Context) -> bool:
    """`one_hot.scatter_(1, labels, 1.0)`, `scatter_(1, labels, value=1 - smoothing)`: what is written is one number."""
    if any(word.arg == "value" for word in call.keywords):
        return True
    written = call.args[-1] if call.args else None
    return written is not None and all(value.kind in (Kind.NUMBER, Kind.BOOL) for value in ctx.values(written))


def _is_at_largest(call: ast.Call, ctx: Context) -> bool:
    """`kept.scatter_(-1, places, values)` after `values, places = x.topk(k)`."""
    index = call.args[1] if len(call.args) > 1 else None
    made = [binding.value for binding in ctx.module.definitions(index)] if isinstance(index, ast.Name) else []
    return bool(made) and all(isinstance(value, ast.Call) and identifier(value.func) == "topk" for value in made)


def _is_one_a_row(call: ast.Call) -> bool:
    """`target.scatter_(1, labels.unsqueeze(1), values)`: the index has one entry along what it picks from."""
    along, index = call.args[:2] if len(call.args) > 2 else (None, None)
    if not isinstance(index, ast.Call) or identifier(index.func) != "unsqueeze" or len(index.args) != 1:
        return False
    # The last dimension goes by two names; the first one of several is never the last.
    added = ast.unparse(index.args[0])
    return along is not None and (added == ast.unparse(along) or (added == "-1" and ast.unparse(along) != "0"))


def is_mask(places: ast.expr, ctx: Context) -> bool:
    """`x > 0`, `~mask`, and a variable that holds such."""
    if _is_in_loop(places, ctx):
        return False
    if isinstance(places, ast.UnaryOp):
        return isinstance(places.op, ast.Invert)
    values = ctx.values(places)
    masks = bool(values) and all(value.kind is Kind.TENSOR and value.dtype == "bool" for value in values)
    return isinstance(places, ast.Compare) or masks


def sets_places(written: ast.Subscript, ctx: Context) -> bool:
    """`linked[rows, columns] = 1`, `padded[:, -n:] = x`: some places, and what the rounds of a loop write is marks too.

    Who writes the same number everywhere asks for `torch.full`. Where `n` is a size that the memory was made with, it
    may be all of it.
    """
    statement = ctx.parent(written)
    if not isinstance(statement, ast.Assign):
        return False
    places = written.slice.elts if isinstance(written.slice, ast.Tuple) else [written.slice]
    picked = any(not isinstance(place, (ast.Slice, ast.Constant, ast.UnaryOp)) for place in places)
    if _is_in_loop(written, ctx):
        marked = picked and puts_one_number(written, ctx) and not all(_is_counted(each, ctx) for each in places)
        return marked or leaves_same_end(written, ctx)
    if _is_number_given(statement.value, ctx):
        return picked
    return any(isinstance(place, ast.Slice) and _leaves_out(place, written, ctx) for place in places)


def leaves_same_end(written: ast.Subscript, ctx: Context) -> bool:
    """`table[1:, low:high] = x`, where all that is put in leaves out the first row: no round of a loop comes by it."""
    ends = [_ends_left(put) for put in _puts(written, ctx)]
    return bool(ends and set.intersection(*ends))


def _ends_left(put: ast.Subscript) -> set[tuple[int, str]]:
    """Return the dimensions of which a place leaves out the first or last few, with what it leaves."""
    places = put.slice.elts if isinstance(put.slice, ast.Tuple) else [put.slice]
    return {(along, ast.unparse(part)) for along, part in enumerate(places) if is_all_but_an_end(part)}


def _puts(written: ast.Subscript, ctx: Context) -> list[ast.Subscript]:
    """Return all places of what goes by the name in the function that something is put into."""
    function = ctx.function(written)
    uses = ctx.module.index.names_used.get(identifier(written.value), ())
    parts = (ctx.parent(use) for use in uses if ctx.function(use) is function)
    return [part for part in parts if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store)]


def puts_one_number(written: ast.Subscript, ctx: Context) -> bool:
    """`mask[mention.start] = 1`, where nothing but that number is put into what goes by the name in the function."""
    puts = _puts(written, ctx)
    stored = [statement.value for statement in map(ctx.parent, puts) if isinstance(statement, ast.Assign)]
    numbers = {each.value for each in stored if isinstance(each, ast.Constant) and isinstance(each.value, (int, float))}
    return len(numbers) == 1 and len(stored) == len(puts) and all(isinstance(each, ast.Constant) for each in stored)


def _is_counted(place: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """May the places be all of them: a slice, `i` of `range(n)`, what is counted, and what is made of such?"""
    if isinstance(place, ast.Slice) or not steps:
        return True
    for name in (part for part in ast.walk(place) if isinstance(part, ast.Name)):
        for binding in ctx.module.definitions(name):
            made, kind = binding.value, binding.kind
            counts = kind is BindingKind.ITERATION and _counts(made, binding.index)
            if kind is BindingKind.AUGMENTED or counts:
                return True
            if kind is BindingKind.ASSIGN and made is not None and _is_counted(made, ctx, steps - 1):
                return True
    return False


def _counts(gone_through: ast.expr | None, place: tuple[int, ...]) -> bool:
    """`range(n)`, the first of `enumerate(rows)`, and of `zip(range(n), rows)` what goes through the numbers."""
    if not isinstance(gone_through, ast.Call):
        return False
    name, given = identifier(gone_through.func), gone_through.args
    if name == "enumerate" and place and given:
        return place[0] == 0 or _counts(given[0], place[1:])
    if name == "zip" and place and -1 < place[0] < len(given):
        return _counts(given[place[0]], place[1:])
    return name in _COUNTING


def _is_number_given(value: ast.expr, ctx: Context) -> bool:
    values = ctx.values(value)
    return bool(values) and all(each.kind in (Kind.NUMBER, Kind.BOOL) for each in values)


def _leaves_out(part: ast.Slice, written: ast.Subscript, ctx: Context) -> bool:
    """Is it all but the first or last few, or one end of a dimension, of a length that the memory was not made with?"""
    if is_all_but_an_end(part):
        return True
    length, made = _length_of_end(part), only_value(ctx.module, written.value)
    if length is None or made is None:
        return False
    return ast.dump(length) not in map(ast.dump, walk(made))


def is_all_but_an_end(part: ast.expr) -> bool:
    """`1:` and `:-1`, with a number that is written out."""
    left_out = (_negated(part.upper) or part.lower) if isinstance(part, ast.Slice) and _has_one_end(part) else None
    return isinstance(left_out, ast.Constant) and isinstance(left_out.value, int) and left_out.value > 0


def is_pasted(written: ast.Subscript) -> bool:
    """`canvas[:height, :width] = image`: where it begins in two dimensions, nobody goes on to fill the rest."""
    places = written.slice.elts if isinstance(written.slice, ast.Tuple) else []
    return sum(isinstance(place, ast.Slice) and _length_of_end(place) is not None for place in places) > 1


def _length_of_end(part: ast.Slice) -> ast.expr | None:
    """Return the `n` of `:n` and of `-n:`, None of any other part."""
    if not _has_one_end(part) or _negated(part.upper) is not None:
        return None
    return part.upper or _negated(part.lower)


def _has_one_end(part: ast.Slice) -> bool:
    from_start = part.lower is None or getattr(part.lower, "value", None) == 0
    return part.step is None and from_start is not (part.upper is None)


def _negated(bound: ast.expr | None) -> ast.expr | None:
    """Return the `n` of `-n`."""
    return bound.operand if isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub) else None


def adds_up(call: ast.Call) -> bool:
    """`memory.scatter_(0, rows, 1, reduce="add")`, `memory.index_put_(…, accumulate=True)`: to what is there."""
    values = {keyword.arg: getattr(keyword.value, "value", None) for keyword in call.keywords}
    if identifier(call.func) in _REDUCING and len(call.args) > _BEFORE_REDUCE:
        values["reduce"] = "as said by place"
    return values.get("accumulate") is True or (
        values.get("reduce") is not None and values.get("include_self") is not False
    )
