"""What `**options` passes to a call by a name: what dictionaries are written with, what is put into them later."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.defaults import declarations
from detlint.linter.analysis.dicts import entries_of, entries_updated, looped_over
from detlint.linter.analysis.lookups import looked_up
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.returned import made_results
from detlint.linter.analysis.unsaid import Found, kept, only_definition, stand_in
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier, receiver_of, walk

_STEPS = 5
_TO_DICT = frozenset({"asdict", "vars", "dict", "model_dump", "to_dict", "_asdict", "to_container"})


def spread(name: str, call: ast.Call, ctx: Context) -> Found | None:
    """Return what `**options` passes to a call by a name unless a caller of the function says otherwise."""
    for keyword in reversed(call.keywords):
        found = _under(name, keyword.value, ctx, call, _STEPS) if keyword.arg is None else None
        if found is not None:
            return found
    return None


def all_spread(name: str, call: ast.Call, ctx: Context) -> Iterator[ast.expr]:
    """Yield all that `**options` may pass to a call by a name, on whatever condition."""
    for keyword in call.keywords:
        if keyword.arg is None:
            yield from _each_under(name, keyword.value, ctx, _STEPS)


def _each_under(name: str, options: ast.expr, ctx: Context, steps: int) -> Iterator[ast.expr]:
    """Yield what may stand under a name in a dictionary: put in later, of either branch, of each in a loop."""
    if not steps:
        return
    if isinstance(options, ast.Name):
        function = ctx.function(options)
        for node in walk(function) if function is not None else ():
            put = _put(name, node, options.id)
            if put is not None:
                yield put
    for part in [options.body, options.orelse] if isinstance(options, ast.IfExp) else _parts(name, options):
        if isinstance(part, ast.keyword):
            yield part.value
        else:
            yield from _each_under(name, part, ctx, steps - 1)
    for made in _made(options, ctx):
        yield from _each_under(name, made, ctx, steps - 1)


def _made(options: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """Yield the dictionaries that a name or an attribute may be."""
    kept = only_value(ctx.module, options) if isinstance(options, ast.Attribute) else None
    if kept is not None:
        yield kept
    if isinstance(options, ast.Name):
        yield from looped_over(ctx.module, options)
        bindings = (each for each in ctx.module.definitions(options) if each.kind is BindingKind.ASSIGN)
        yield from (each.value for each in bindings if each.value is not None and not each.index)


def _under(name: str, options: ast.expr, ctx: Context, call: ast.expr, steps: int) -> Found | None:
    """Return what stands under a name in a dictionary, where no caller puts something else there."""
    if steps == 0:
        return None
    for part in _parts(name, options):
        if isinstance(part, ast.keyword):
            return part.value, ctx
        found = _under(name, part, ctx, call, steps - 1)
        if found is not None:
            return found
    if isinstance(options, ast.Name):
        return _under_name(name, options, ctx, call, steps)
    if isinstance(options, ast.Attribute):
        held = kept(options, ctx)
        return _under(name, *held, call, steps - 1) if held is not None else None
    if isinstance(options, ast.Subscript):  # `PROFILES[profile]`, of a parameter that says one by default
        entries = list(looked_up(ctx.inference, options.value, options.slice))
        where = ctx.elsewhere(entries[0][0].module) if len(entries) == 1 else None
        return _under(name, entries[0][1], where, call, steps - 1) if where is not None else None
    if isinstance(options, ast.Call) and identifier(options.func) in _TO_DICT:
        of = options.args[0] if options.args else receiver_of(options)
        return (kept(ast.Attribute(of, name, ast.Load()), ctx) if of is not None else None) or _declared(name, ctx)
    return _given(name, options, ctx, steps) if isinstance(options, ast.Call) else None


def _declared(name: str, ctx: Context) -> Found | None:
    """Return what the only class of the project that has a field of this name says, or the only options that do."""
    found = declarations(name, ctx)
    return found[0] if len(found) == 1 else None


def _given(name: str, made: ast.Call, ctx: Context, steps: int) -> Found | None:
    """Return what stands under a name in the dictionary that a function of the project gives: `config.options()`."""
    found = list(functions_called(ctx.inference, made))
    results = made_results(*found[0]) if len(found) == 1 else []
    given, receiver = results[0] if len(results) == 1 else None, receiver_of(made)
    if given is None:
        return None
    own = isinstance(given, ast.Call) and identifier(given.func) in _TO_DICT and list(map(identifier, given.args))
    if own == ["self"] and receiver is not None:  # `return asdict(self)`
        return kept(ast.Attribute(receiver, name, ast.Load()), ctx)
    return _under(name, given, ctx.elsewhere(found[0][0]), given, steps - 1)


def _parts(name: str, options: ast.expr) -> Iterator[ast.expr | ast.keyword]:
    """Yield what a dictionary is put together of, the last part first; a keyword is what stands under the name."""
    other = stand_in(options)
    if other is not None:
        yield other
        return
    for key, value in reversed(entries_of(options) or ()):
        if key is None:
            yield value
        elif isinstance(key, ast.Constant) and key.value == name:
            yield ast.keyword(name, value)


def _under_name(name: str, options: ast.Name, ctx: Context, call: ast.expr, steps: int) -> Found | None:
    function = ctx.function(call)
    for node in walk(function) if function is not None else ():
        put = _put(name, node, options.id)
        if put is not None and not _is_chosen(node, call, ctx):
            return put, ctx
    found = only_definition(options, ctx)
    if found is None or found.value is None or found.index:
        return None
    if found.kind not in (BindingKind.ASSIGN, BindingKind.PARAMETER):
        return None
    return _under(name, found.value, ctx, call, steps - 1)


def _put(name: str, node: ast.AST, options: str) -> ast.expr | None:
    """Return what `options["mode"] = value`, `options.setdefault("mode", value)` or `options.update(mode=value)` puts.

    That is under a name, here `mode`.
    """
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
        owner: ast.expr | None = node.targets[0].value
        put: list[tuple[ast.expr | None, ast.expr]] = [(node.targets[0].slice, node.value)]
    elif isinstance(node, ast.Call) and identifier(node.func) == "setdefault" and len(node.args) == 2:
        owner, put = receiver_of(node), [(node.args[0], node.args[1])]
    elif isinstance(node, ast.Call):
        owner, put = receiver_of(node), entries_updated(node) or []
    else:
        return None
    if getattr(owner, "id", "") != options:
        return None
    return next((value for key, value in reversed(put) if isinstance(key, ast.Constant) and key.value == name), None)


def _is_chosen(node: ast.AST, call: ast.expr, ctx: Context) -> bool:
    """Does a condition decide that is not about what is missing: `if fast:`, not `if "mode" not in options:`?"""
    around = set(ctx.ancestors(call))
    for parent in ctx.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return False
        asked = isinstance(parent, ast.If) and isinstance(parent.test, ast.Compare) and parent.test.ops[0]
        if isinstance(parent, ast.If) and parent not in around and not isinstance(asked, ast.NotIn):
            return True
    return False
