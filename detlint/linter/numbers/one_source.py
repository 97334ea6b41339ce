"""Do two sides come of one computation: done twice, cut in rows, handed on, or written down on the way?"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.taken import elements_of, entries_at, taken
from detlint.linter.analysis.written_here import kept_in, made_here, whole_here, written_out
from detlint.linter.numbers.computed import is_computed
from detlint.linter.numbers.named_results import is_of_operation
from detlint.linter.numbers.settings_around import are_set_apart
from detlint.linter.programs.called_models import is_moving_layer
from detlint.linter.source.names import BindingKind, unpacked
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.linter.tables.rounding import rounding_table

# Views on the way from one side of a comparison to the other.
_MOST_VIEWS = 12
# `net.forward(x)` is what `net(x)` runs.
_FORWARD = ".forward"
# The fraction that powers of two have.
_HALF = 0.5
# How a mock is told what it gives.
_GIVEN_BY_MOCK = "return_value"
_OF_DATA = (BindingKind.ASSIGN, BindingKind.PARAMETER, BindingKind.ITERATION, BindingKind.AUGMENTED)
# Settings that pick the kernels.
_SWITCHES = "torch.backends."
_SETTING = ("setattr", "setenv")


def is_repeated(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Is one computation done twice, with nothing put into what it computes with in between?"""
    made = [(_made_at(left, ctx), _made_at(right, ctx))]
    alike = _are_given_alike(made_as(left, ctx) or left, made_as(right, ctx) or right)
    if not alike and _origin(left, ctx) != _origin(right, ctx):
        if _worked_out(left, ctx) != _worked_out(right, ctx):
            return False
        made = list(zip(_calls_behind(left, ctx), _calls_behind(right, ctx), strict=False))
    return not any(_is_changed_between(one, other, ctx) for one, other in made)


def _made_at(node: ast.expr, ctx: Context) -> ast.expr:
    """Return what a name stands for, alone or as one of several results, or any other expression as it is."""
    found = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    only = found[0] if len(found) == 1 and found[0].kind is BindingKind.ASSIGN else None
    whole = whole_here(ctx.module, only) if only is not None else None
    return whole if whole is not None else node


def _are_given_alike(one: ast.expr, other: ast.expr) -> bool:
    """`metric(pred, true)` and `metric(pred=pred, true=true)`: the same values in the same order, named or not."""
    if not isinstance(one, ast.Call) or not isinstance(other, ast.Call) or ast.dump(one.func) != ast.dump(other.func):
        return False
    ours, theirs = (
        [*((None, value) for value in call.args), *((named.arg, named.value) for named in call.keywords)]
        for call in (one, other)
    )
    return len(ours) == len(theirs) and all(
        ast.dump(value) == ast.dump(also) and (name == like or None in (name, like))
        for (name, value), (like, also) in zip(ours, theirs, strict=True)
    )


def _is_changed_between(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Is something put into what a computation is done with, or another kernel chosen, before it is done again?"""
    first, second = sorted((one, other), key=lambda made: made.lineno)
    if are_set_apart(first, second, ctx):
        return True
    with_names = {part.id for part in ast.walk(first) if isinstance(part, ast.Name)}
    function = ctx.function(first)
    if function is not None and any(_sets(part) for part in walk(function) if _is_between(part, first, second)):
        return True
    return function is not None and any(
        isinstance(part, (ast.Attribute, ast.Subscript))
        and isinstance(part.ctx, ast.Store)
        and _is_between(part, first, second)
        and (_root(part) in with_names or ast.unparse(part).startswith(_SWITCHES))
        for part in walk(function)
    )


def _is_between(part: ast.AST, first: ast.expr, second: ast.expr) -> bool:
    return first.lineno < getattr(part, "lineno", 0) < second.lineno


def _sets(part: ast.AST) -> bool:
    """`monkeypatch.setattr(settings, "chunk_size", 8)`."""
    return isinstance(part, ast.Call) and identifier(part.func) in _SETTING


def are_rows_of_one(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Return whether both sides were picked out of one tensor: equal rows of it are exact copies."""
    if isinstance(left, ast.Subscript) and isinstance(right, ast.Subscript) and _root(left) == _root(right) != "":
        return not _are_entries(left, right, ctx)
    return not {*_picked_from(left, ctx)}.isdisjoint(_picked_from(right, ctx))


def is_passed(given: ast.expr, computed: ast.expr, ctx: Context) -> bool:
    """`picked = Sampler(x)(y)`, compared with rows of `x` or `y`: an object that hands on what it is given."""
    return any(_is_passed_to(given, source_of(computed, ctx, helpers=helpers), ctx) for helpers in (True, False))


def _is_passed_to(given: ast.expr, call: ast.expr, ctx: Context) -> bool:
    if not isinstance(call, ast.Call) or any(name.startswith("torch.") for name in ctx.resolve(call.func)):
        return False
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    maker = source_of(receiver, ctx)
    calls = [call, *([maker] if isinstance(maker, ast.Call) else [])]
    passed = [value for one in calls for value in arguments_of(one)]
    source = source_of(given, ctx)
    return not isinstance(source, ast.Constant) and any(source_of(value, ctx) is source for value in passed)


def is_given_back(other: ast.expr, computed: ast.expr, ctx: Context) -> bool:
    """`padded = pad(out, 4)`, where `padded[:, :3]` is compared with `out`: what a call is given may come back."""
    source = source_of(computed, ctx)
    makers = [source_of(other, ctx, helpers=helpers) for helpers in (True, False)]
    calls = [made for made in makers if isinstance(made, ast.Call) and not _is_of_torch(made, ctx)]
    return any(source_of(value, ctx) is source for made in calls for value in arguments_of(made))


def _is_of_torch(call: ast.Call, ctx: Context) -> bool:
    return any(name.startswith("torch.") for name in ctx.callees(call))


def is_recorded(other: ast.expr, computed: ast.expr, ctx: Context) -> bool:
    """`cache = record(net)`, where `cache["layer"]` is compared with `net(x)`: it holds what `net` returned."""
    call, source = source_of(computed, ctx), other
    while isinstance(source, (ast.Subscript, ast.Attribute)) and kept_in(ctx.module, source) is None:
        source = source.value
    maker = made_as(source, ctx)
    if not isinstance(call, ast.Call) or not isinstance(maker, ast.Call) or source is other:
        return False
    return ast.unparse(call.func) in map(ast.unparse, arguments_of(maker))


def is_given_by_mock(other: ast.expr, computed: ast.expr, ctx: Context) -> bool:
    """`scores.mean()` of scores that a mock gives to what is tested: `patch(target, return_value=scores)`."""
    if isinstance(other, ast.Constant):
        return False
    names = [part for part in walk(made_as(computed, ctx) or computed) if isinstance(part, ast.Name)]
    bindings = {name: ctx.module.definitions(name) for name in names}
    made = {name: found for name, found in bindings.items() if any(each.kind in _OF_DATA for each in found)}
    return bool(made) and all(
        any(_is_mocked(use, ctx) for binding in found for use in ctx.flow(name).uses(binding))
        for name, found in made.items()
    )


def _is_mocked(use: ast.AST, ctx: Context) -> bool:
    """`patch(target, return_value=scores)`, `loader.return_value = scores`."""
    around = ctx.parent(use)
    if isinstance(around, ast.keyword):
        return around.arg == _GIVEN_BY_MOCK
    targets = around.targets if isinstance(around, ast.Assign) else []
    return any(isinstance(target, ast.Attribute) and target.attr == _GIVEN_BY_MOCK for target in targets)


def made_as(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the expression that a name stands for, or None where there are several or it is a parameter."""
    if (kept := kept_in(ctx.module, node)) is not None:
        return written_out(ctx.module, kept)
    found = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    return made_here(ctx.module, found[0]) if len(found) == 1 else None


def source_of(node: ast.expr, ctx: Context, depth: int = 6, *, helpers: bool = True) -> ast.expr:
    """Return what an expression is a view or another name of; `helpers` of the project are written out."""
    node = written_out(ctx.module, node) if helpers else node
    inner: ast.expr | None = None
    if isinstance(node, ast.Subscript):
        inner = node.value
    elif isinstance(node, ast.Call):
        inner = _viewed(node, ctx, rounding_table().keeping)
    elif isinstance(node, ast.Name):
        made = [unpacked(each) or each.value for each in ctx.module.definitions(node)]
        inner = made[0] if len(made) == 1 else None
    return node if inner is None or depth == 0 else source_of(inner, ctx, depth - 1, helpers=helpers)


def _viewed(call: ast.Call, ctx: Context, names: frozenset[str]) -> ast.expr | None:
    """Return `x` of `x.view(-1)` and of `torch.flip(x, [0])`."""
    function = call.func
    if identifier(function) not in names or not isinstance(function, ast.Attribute):
        return None
    if ctx.resolve(function.value):
        return call.args[0] if call.args else None
    return function.value


def _origin(node: ast.expr, ctx: Context, steps: int = _MOST_VIEWS) -> str:
    """The text of the computation behind a name: equal texts mean the same computation, done twice."""
    if steps and (kept := kept_in(ctx.module, node)) is not None:
        return _origin(written_out(ctx.module, kept), ctx, steps - 1)
    if isinstance(node, ast.Name) and steps:
        for binding in ctx.module.definitions(node):
            if binding.kind is BindingKind.ITERATION:
                elements = taken(ctx.module, binding)
                return " ".join(_origin_of_each(element, ctx, steps - 1) for element in elements) or node.id
            value = made_here(ctx.module, binding)
            if value is not None:
                return _origin(value, ctx, steps - 1)
            whole = whole_here(ctx.module, binding)
            if whole is not None:  # `first, second = f(x)` are two results
                return f"{_origin(whole, ctx, steps - 1)}{list(binding.index)}"
    if isinstance(node, ast.Subscript):
        return f"{_origin(node.value, ctx, steps)}[{ast.unparse(node.slice)}]"
    method = node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if method is not None and isinstance(method.value, ast.Name) and method.attr in rounding_table().keeping and steps:
        return ast.unparse(node).replace(method.value.id, _origin(method.value, ctx, steps - 1), 1)
    return ast.unparse(node)


def _origin_of_each(element: ast.expr, ctx: Context, steps: int) -> str:
    """`p.grad of net.parameters()`: what names in an element go through tells it from that of another list."""
    names = [part for part in walk(element) if isinstance(part, ast.Name)]
    bindings = [binding for name in names for binding in ctx.module.definitions(name)]
    gone_through = [each.value for each in bindings if each.kind is BindingKind.ITERATION and each.value is not None]
    return " of ".join([_origin(element, ctx, steps), *map(ast.unparse, gone_through)])


def _worked_out(node: ast.expr, ctx: Context, steps: int = _MOST_VIEWS) -> str:
    """The text of `grad(net(x), x)[0]`, of `dx` after `out = net(x)` and `dx, dw = grad(out, x)`."""
    if not steps:
        return ast.unparse(node)
    if isinstance(node, ast.Name):
        behind = _behind(node, ctx)
        return node.id if behind is None else f"{_worked_out(behind[0], ctx, steps - 1)}{list(behind[1]) or ''}"
    if isinstance(node, ast.Subscript):
        return f"{_worked_out(node.value, ctx, steps)}[{ast.unparse(node.slice)}]"
    if isinstance(node, ast.Call):
        given = [_worked_out(argument, ctx, steps - 1) for argument in node.args]
        given += [f"{named.arg}={_worked_out(named.value, ctx, steps - 1)}" for named in node.keywords]
        return f"{ast.unparse(node.func).removesuffix(_FORWARD)}({', '.join(given)})"
    return ast.unparse(node)


def _calls_behind(node: ast.expr, ctx: Context, steps: int = _MOST_VIEWS) -> Iterator[ast.expr]:
    """Yield the calls of such a text, the last one first."""
    behind = _behind(node, ctx) if isinstance(node, ast.Name) else None
    inner = [behind[0]] if behind is not None else []
    if isinstance(node, ast.Subscript):
        inner = [node.value]
    elif isinstance(node, ast.Call):
        yield node
        inner = arguments_of(node)
    for part in inner if steps else ():
        yield from _calls_behind(part, ctx, steps - 1)


def _behind(name: ast.Name, ctx: Context) -> tuple[ast.expr, tuple[int, ...]] | None:
    """Return the call that computed what a name is, or of several results one at a place; None for all other names.

    A model that a call gave may have been changed since.
    """
    if not is_computed(ctx.module, name) and not is_of_operation(ctx.module, name):
        return None
    found = ctx.module.definitions(name)
    made = whole_here(ctx.module, found[0]) if len(found) == 1 and found[0].kind is BindingKind.ASSIGN else None
    return (made, found[0].index) if isinstance(made, (ast.Call, ast.Subscript)) else None


def _root(node: ast.expr) -> str:
    """`net` of `net[0].weight`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _are_entries(left: ast.Subscript, right: ast.Subscript, ctx: Context) -> bool:
    """`outs["ours"]` and `outs["theirs"]` of `outs = {"ours": net(x), "theirs": other(x)}`."""
    found = [
        entries_at(ctx.module, side.value, side.slice.value) if isinstance(side.slice, ast.Constant) else []
        for side in (left, right)
    ]
    return bool(found[0] and found[1]) and found[0] != found[1]


def _picked_from(node: ast.expr, ctx: Context, steps: int = _MOST_VIEWS) -> Iterator[ast.AST]:
    """Yield what made the tensors that `node` is a view, a selection or put together of, the nearest first.

    Of several results of one call it is the name that each is given that tells them apart.
    """
    inner = _parts(node, ctx)
    if isinstance(node, ast.Name):
        yield from inner
        bindings = ctx.module.definitions(node)
        yield from (binding.node for binding in bindings if len(bindings) == 1)
    for part in inner if steps else ():
        yield from _picked_from(part, ctx, steps - 1)


def _parts(node: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return what an expression takes its numbers from as they are: `scores` of `scores.topk(3).values`, `-scores`."""
    table, node = rounding_table(), written_out(ctx.module, node)
    if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in table.keeping):
        return [node.value]
    if isinstance(node, ast.UnaryOp):
        return [node.operand] if isinstance(node.op, ast.USub) else []
    if isinstance(node, ast.BinOp):
        return _scaled(node, ctx)
    if isinstance(node, ast.Name):
        found = [part for binding in ctx.module.definitions(node) for part in taken(ctx.module, binding)]
        made = made_as(node, ctx) or _cut_up(node, ctx) if not found else None
        return [made] if made is not None else found
    if not isinstance(node, ast.Call) or identifier(node.func) in table.adding:
        return []
    if identifier(node.func) in table.joining and (joined := arguments_of(node)[:1]):
        return elements_of(ctx.module, joined[0])
    if is_moving_layer(ctx.module, node.func):
        return node.args[:1]
    viewed = _viewed(node, ctx, table.keeping | table.picking)
    return [viewed] if viewed is not None else []


def _scaled(node: ast.BinOp, ctx: Context) -> list[ast.expr]:
    """Return `x` of `x * 2`, `x / 4` and `x + 0`, which round nothing."""
    number, other = ctx.constant(node.right), node.left
    if isinstance(node.op, (ast.Mult, ast.Add)) and not isinstance(number, (int, float)):
        number, other = ctx.constant(node.left), node.right
    if not isinstance(number, (int, float)):
        return []
    if isinstance(node.op, (ast.Mult, ast.Div)):
        return [other] if abs(math.frexp(number)[0]) == _HALF else []
    return [other] if isinstance(node.op, (ast.Add, ast.Sub)) and number == 0 else []


def _cut_up(node: ast.Name, ctx: Context) -> ast.expr | None:
    """`first, second = outs.chunk(2)`, `top, places = scores.topk(3)`."""
    found = ctx.module.definitions(node)
    whole = whole_here(ctx.module, found[0]) if len(found) == 1 else None
    cut = isinstance(whole, ast.Call) and identifier(whole.func) in rounding_table().keeping | rounding_table().picking
    return whole if cut else None
