"""Do two sides of a comparison come of different code, which rounds differently on its way to one value?

Shown is a formula beside a call, calls of different functions, methods of objects that different calls made, one call
whose arguments are those of the other one transformed (`net(x)[:2]` and `net(x[:2])`), and one that is made again after
something it computes with was replaced. Two names alone show nothing: what was loaded, copied or built alike computes
alike.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.taken import elements_of, entries_at, taken
from detlint.linter.analysis.values import Kind
from detlint.linter.analysis.written_here import kept_in, made_here, whole_here, written_out
from detlint.linter.numbers.computed import is_computed
from detlint.linter.numbers.named_results import is_of_operation
from detlint.linter.numbers.sources import viewed
from detlint.linter.source.names import BindingKind, unpacked
from detlint.linter.source.nodes import arguments_of, identifier, is_own, names_in, walk
from detlint.linter.tables.rounding import rounding_table

_STEPS = 12
# `net.forward(x)` is what `net(x)` runs.
_FORWARD = "forward"
# What hands on an array as it is.
_WRAPPING = ("float", "asarray", "array", "as_tensor", "tensor", "from_numpy", "bool")
# Copies of models and tensors, which compute alike.
_COPYING = ("clone", "detach", "contiguous", "deepcopy", "copy", "eval", "train", "cpu", "requires_grad_")
# What is set around a computation and leaves its results as they are.
_LEAVING = frozenset({"set_grad_enabled", "inference_mode", "no_grad", "stream", "subTest", "record_function"})
# Settings that pick the kernels.
_SWITCHES = "torch.backends."
_SETTING = ("setattr", "setenv")


def are_apart(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Is it shown that different code gave the two sides?"""
    one, other = maker_of(left, ctx), maker_of(right, ctx)
    ours, theirs = _text(one, ctx), _text(other, ctx)
    if ours == theirs:
        return _is_changed_between(one, other, ctx) or _are_variants(one, other, ctx)
    if _holds(ours, theirs) or _holds(theirs, ours):
        return False
    if isinstance(one, ast.BinOp) or isinstance(other, ast.BinOp):
        return all(isinstance(side, (ast.BinOp, ast.Call)) or _is_gradient(side) for side in (one, other))
    if isinstance(one, ast.Call) and isinstance(other, ast.Call):
        return _are_calls_apart(one, other, ctx)
    return any(isinstance(side, ast.Call) for side in (one, other)) and any(map(_is_gradient, (one, other)))


def is_one_computation(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Is one computation done twice, or cut in rows, with nothing put into what it computes with in between?"""
    one, other = maker_of(left, ctx), maker_of(right, ctx)
    if _text(one, ctx) != _text(other, ctx) or _is_changed_between(one, other, ctx):
        return False
    return _objects_called(one, ctx) == _objects_called(other, ctx)


def _objects_called(node: ast.expr, ctx: Context) -> set[str]:
    """Return the models and other objects that are called in an expression, by the names that they have there."""
    called = [_called(part) for part in walk(node) if isinstance(part, ast.Call)]
    return {ast.unparse(each) for each in called if isinstance(each, ast.Name) and _is_object(each, ctx)}


def is_handed_on(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Is one side made of the other one, which may come back as it was: `pad(out, 4)[:, :3]` and `out`?"""
    ours, theirs = (_text(maker_of(side, ctx), ctx) for side in (left, right))
    if ours == theirs or not (_holds(ours, theirs) or _holds(theirs, ours)):
        return False
    whole = maker_of(left if _holds(ours, theirs) else right, ctx)
    called = identifier(whole.func) if isinstance(whole, ast.Call) else ""
    return not isinstance(whole, ast.BinOp) and called not in rounding_table().rounding


def _holds(whole: str, part: str) -> bool:
    """Is a text part of another one, and no end of a longer name?"""
    return re.search(rf"(?<![\w.]){re.escape(part)}(?!\w)", whole) is not None


def share_inputs(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """Do both come of one tensor or object: `objective(x)` and `x * scale + shift`?"""
    return not _inputs(left, ctx).isdisjoint(_inputs(right, ctx))


def maker_of(node: ast.expr, ctx: Context, steps: int = _STEPS) -> ast.expr:
    """Return the call or the formula that a side is a view, an entry or another name of."""
    inner: ast.expr | None = None
    if (kept := kept_in(ctx.module, node)) is not None:
        inner = kept
    elif isinstance(node, ast.Name):
        inner = _made(node, ctx)
    elif isinstance(node, (ast.Subscript, ast.Attribute)) and not _is_gradient(node):
        entries = entries_at(ctx.module, node.value, _key(node))
        inner = entries[0] if entries else node.value
    elif isinstance(node, ast.Call):
        written = written_out(ctx.module, node)
        adds = identifier(node.func) in rounding_table().adding
        inner = written if written is not node else None if adds else viewed(node, ctx)
        if inner is None and node.args and identifier(node.func) in _WRAPPING:
            inner = node.args[0]
        elif inner is None and node.args and identifier(node.func) in rounding_table().joining:
            inner = next(iter(elements_of(ctx.module, node.args[0])), None)
    elif isinstance(node, ast.UnaryOp):
        inner = node.operand
    return node if inner is None or not steps else maker_of(inner, ctx, steps - 1)


def _made(name: ast.Name, ctx: Context) -> ast.expr | None:
    """Return what a name is first set to: `net(x)` of `y = net(x)` and `y = y[picked]`; in a loop, one element."""
    made = []
    for binding in ctx.module.definitions(name):
        found = [made_here(ctx.module, binding) or whole_here(ctx.module, binding)]
        if binding.kind is BindingKind.ITERATION:
            found = list(taken(ctx.module, binding)[:1])
        made += [each for each in found if each is not None and not any(_is_name(part, name.id) for part in walk(each))]
    return made[0] if len(made) == 1 else None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _key(node: ast.expr) -> object:
    return node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else None


def _is_gradient(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _are_calls_apart(one: ast.Call, other: ast.Call, ctx: Context) -> bool:
    called, also = (_called(call) for call in (one, other))
    if reads(called) or reads(also):
        return False
    if ast.unparse(called) == ast.unparse(also) and _are_told_apart(one, other):
        return True
    if isinstance(called, ast.Attribute) and isinstance(also, ast.Attribute) and called.attr == also.attr:
        return _are_made_apart(called.value, also.value, ctx) or _are_transformed(one, other, ctx)
    if _is_object(called, ctx) and _is_object(also, ctx):
        return _are_made_apart(called, also, ctx) or _are_transformed(one, other, ctx)
    if _is_method_of(called, also) or _is_method_of(also, called):
        return False  # calling an object may be another name of calling its method
    return identifier(called) != identifier(also) or _are_transformed(one, other, ctx)


def _is_method_of(method: ast.expr, called: ast.expr) -> bool:
    return isinstance(method, ast.Attribute) and ast.unparse(method.value) == ast.unparse(called)


def _called(call: ast.Call) -> ast.expr:
    """Return `net` of `net(x)` and of `net.forward(x)`."""
    function = call.func
    return function.value if isinstance(function, ast.Attribute) and function.attr == _FORWARD else function


def _is_object(called: ast.expr, ctx: Context) -> bool:
    """Is it a variable that is called, and no function, class or method?"""
    if isinstance(called, (ast.Call, ast.Subscript)):
        return True
    if isinstance(called, ast.Attribute):
        kinds = {value.kind for value in ctx.values(called)}
        return Kind.MODULE in kinds or kept_in(ctx.module, called) is not None
    bindings = ctx.module.definitions(called) if isinstance(called, ast.Name) else ()
    of_data = (BindingKind.ASSIGN, BindingKind.PARAMETER, BindingKind.ITERATION)
    return any(binding.kind in of_data for binding in bindings)


def _are_made_apart(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Were two objects made by different calls, or is one made to compute in another way?"""
    made = [_unconverted(only_value(ctx.module, each) or each) for each in (one, other)]
    if any(isinstance(maker, ast.Call) and reads(maker.func) for maker in made):
        return False
    if _variant(one, ctx) != _variant(other, ctx):
        return True
    if not isinstance(made[0], ast.Call) or not isinstance(made[1], ast.Call):
        return False
    return identifier(made[0].func) != identifier(made[1].func) or _are_told_apart(made[0], made[1])


def _are_variants(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """`model(x)` and `coarse(x)`, after `coarse = deepcopy(model)` and `quantize_(coarse)`."""
    if not isinstance(one, ast.Call) or not isinstance(other, ast.Call):
        return False
    return _variant(_called(one), ctx) != _variant(_called(other), ctx)


def _unconverted(maker: ast.expr) -> ast.expr:
    """Return `Net(8)` of `Net(8).to(device).eval()`."""
    copying = (*_COPYING, "to")
    while isinstance(maker, ast.Call) and isinstance(maker.func, ast.Attribute) and maker.func.attr in copying:
        maker = maker.args[0] if maker.func.attr in ("deepcopy", "copy") and maker.args else maker.func.value
    return maker


def _are_told_apart(one: ast.Call, other: ast.Call) -> bool:
    """`Net(8)` and `Net(8, fused=True)`: does an option pick other kernels?"""
    options = [{keyword.arg: ast.unparse(keyword.value) for keyword in maker.keywords} for maker in (one, other)]
    names = {name for name in {*options[0], *options[1]} if options[0].get(name) != options[1].get(name)}
    return any(name is not None and not rounding_table().kernels.isdisjoint(name.split("_")) for name in names)


def _variant(called: ast.expr, ctx: Context) -> frozenset[str]:
    """Return how a model is said to compute: `compiled_model`, `quantize_(net)`, `torch.compile(net)`."""
    words, text = rounding_table().variants, ast.unparse(called)
    made, function = only_value(ctx.module, called), ctx.function(called)
    said = [called, *([made.func] if isinstance(made, ast.Call) else [])]
    said += (
        part.value.func
        for part in (walk(function) if function is not None else ())
        if isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Call)
        and part.lineno < called.lineno
        and text in map(ast.unparse, part.value.args[:1])
    )
    return next(filter(None, (words.intersection(_words(each)) for each in said)), frozenset())


def _words(node: ast.expr) -> list[str]:
    return identifier(node).lower().split("_")


def reads(called: ast.expr) -> bool:
    """`torch.load`, `Net.from_pretrained`, `restore`: what was written elsewhere, or is built as another one is."""
    return not rounding_table().reading.isdisjoint(_words(called))


def _are_transformed(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Is something that the one is given what the other one is given, cut or computed with: `net(x)`, `net(x[:2])`?"""
    for first, second in zip(operands(one), operands(other), strict=False):
        ours, theirs = _text(first, ctx), _text(second, ctx)
        if ours != theirs and (_holds(ours, theirs) or _holds(theirs, ours) or _are_operands_apart(first, second, ctx)):
            return True
    return False


def _are_operands_apart(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """`conv(x, w)` and `slow_conv(x, w)`, of which gradients are taken."""
    made = [maker_of(side, ctx) for side in (one, other)]
    if _are_transformed(made[0], made[1], ctx):
        return True
    rounded = all(isinstance(each, ast.Call) and _rounds(each, ctx) for each in made)
    return rounded and are_apart(one, other, ctx)


def _rounds(call: ast.Call, ctx: Context) -> bool:
    return is_computed(ctx.module, call) or is_of_operation(ctx.module, call)


def operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*receiver, *arguments_of(node)]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return [node.value] if isinstance(node, (ast.Attribute, ast.Subscript)) else []


def _text(node: ast.expr, ctx: Context, under: frozenset[str] = frozenset()) -> str:
    """The text of an expression with what its names stand for, and without copies: equal texts compute alike.

    `under`: the names that are written out around it.
    """
    if isinstance(node, ast.Name):
        return _text_of_name(node, ctx, under)
    if isinstance(node, ast.Call):
        function = node.func
        moved = identifier(function) == "to" and any(identifier(given) == "device" for given in node.args)
        if isinstance(function, ast.Attribute) and (moved or function.attr in _COPYING):
            copied = node.args[0] if ctx.resolve(function.value) and node.args else function.value
            return _text(copied, ctx, under)
        options = [
            f"{named.arg}={named.value.value!r}" for named in node.keywords if isinstance(named.value, ast.Constant)
        ]
        values = [each for each in arguments_of(node) if each in node.args or not isinstance(each, ast.Constant)]
        given = ", ".join([*(_text(value, ctx, under) for value in values), *options])
        return f"{_text(_called(node), ctx, under)}({given})"
    if isinstance(node, ast.Attribute) and not (_is_gradient(node) and only_value(ctx.module, node.value)):
        return f"{_text(node.value, ctx, under)}.{node.attr}"
    if isinstance(node, ast.IfExp):
        return f"({_text(node.body, ctx, under)} or {_text(node.orelse, ctx, under)})"
    if isinstance(node, ast.Subscript):
        return f"{_text(node.value, ctx, under)}[{ast.unparse(node.slice)}]"
    if isinstance(node, ast.BinOp):
        return f"({_text(node.left, ctx, under)} {type(node.op).__name__} {_text(node.right, ctx, under)})"
    return ast.unparse(node)


def _text_of_name(name: ast.Name, ctx: Context, under: frozenset[str]) -> str:
    if name.id in under or len(under) == _STEPS // 2:
        return name.id
    made, inside = only_value(ctx.module, name), under | {name.id}
    if made is not None:
        return name.id if isinstance(made, ast.Constant) else _text(made, ctx, inside)
    elements = [each for binding in ctx.module.definitions(name) for each in taken(ctx.module, binding)]
    return f"{_text(elements[0], ctx, inside)}[each]" if len(elements) == 1 else name.id


def _inputs(node: ast.expr, ctx: Context, steps: int = _STEPS) -> set[ast.AST]:
    """Return the places where the variables are made that go into an expression, the first ones too; no models."""
    found: set[ast.AST] = set()
    called = {part.func for part in walk(node) if isinstance(part, ast.Call)}
    for name in (part for part in walk(node) if isinstance(part, ast.Name)):
        model = name in called or any(value.kind is Kind.MODULE for value in ctx.values(name))
        for binding in ctx.module.definitions(name) if not is_own(name) else ():
            assigned = binding.kind in (BindingKind.ASSIGN, BindingKind.ITERATION)
            made = (unpacked(binding) or binding.value) if assigned else None
            worked_out = binding.kind is BindingKind.PARAMETER or isinstance(made, (ast.Call, ast.BinOp))
            if worked_out and not model:
                found.add(binding.node)
            if made is not None and steps > 0:
                found |= _inputs(made, ctx, steps - 4)
    return found


def _is_changed_between(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Is something put into what a computation is done with, or another kernel chosen, before it is done again?"""
    first, second = sorted((one, other), key=lambda made: made.lineno)
    if _are_set_apart(first, second, ctx):
        return True
    function = ctx.function(first)
    names = names_in(first)
    between = [part for part in _parts(function) if first.lineno < getattr(part, "lineno", 0) < second.lineno]
    return any(_changes(part, names) for part in between)


def _parts(function: ast.AST | None) -> Iterator[ast.AST]:
    return walk(function) if function is not None else iter(())


def _changes(part: ast.AST, names: frozenset[str]) -> bool:
    """`net[0].weight = pack(weight)`, `torch.backends.cudnn.enabled = False`, `monkeypatch.setattr(…)`."""
    if isinstance(part, ast.Call):
        return identifier(part.func) in _SETTING
    if not isinstance(part, (ast.Attribute, ast.Subscript)) or not isinstance(part.ctx, ast.Store):
        return False
    return _root(part) in names or ast.unparse(part).startswith(_SWITCHES)


def _root(node: ast.expr) -> str:
    """`net` of `net[0].weight`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _are_set_apart(one: ast.expr, other: ast.expr, ctx: Context) -> bool:
    """Does one switch stand around both, with other arguments? Around one of them, one that picks kernels does."""
    ours, theirs = _switches(one, ctx), _switches(other, ctx)
    picking = [{text for text, (call, _) in found.items() if _picks(call, ctx)} for found in (ours, theirs)]
    return picking[0] != picking[1] or any(theirs.get(text, said)[1] != said[1] for text, said in ours.items())


def _picks(call: ast.Call, ctx: Context) -> bool:
    """`torch.backends.cudnn.flags(enabled=False)`."""
    return not rounding_table().switches.isdisjoint(ctx.callees(call))


def _switches(node: ast.expr, ctx: Context) -> dict[str, tuple[ast.Call, list[str]]]:
    """Return what the `with` statements around a node call, and what they tell it, the innermost of each name."""
    found: dict[str, tuple[ast.Call, list[str]]] = {}
    for around in ctx.ancestors(node):
        for item in reversed(around.items) if isinstance(around, (ast.With, ast.AsyncWith)) else ():
            call = item.context_expr
            if isinstance(call, ast.Call) and item.optional_vars is None and identifier(call.func) not in _LEAVING:
                found.setdefault(ast.unparse(call.func), (call, [ast.unparse(part) for part in arguments_of(call)]))
    return found
