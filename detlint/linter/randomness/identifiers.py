"""Does a draw only make up what is to be like no other: an id, the name of a file? A seed would make them collide."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import given_on, is_used_elsewhere
from detlint.linter.source.names import COMPREHENSIONS, FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, names_in, walk
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Names of texts that only have to be another one each time.
_IDENTIFIES = re.compile(r"(^|_)(fingerprint|guid|id|nonce|slug|suffix)$")
_ADDRESSES = re.compile(r"(^|_)(addr|address|endpoint|host|hostname|port|url)s?$")
_HEXADECIMAL = re.compile(r"[xX]$")
_HEX_FIELD = re.compile(r"[^%]*%[0#]?\d*[xX][^%]*")
_LOOPS = (ast.For, ast.AsyncFor, ast.While, *COMPREHENSIONS)
_STEPS = 3  # functions that hand on what they make
# What asks which files there are.
_LOOK_UPS = frozenset({"exists", "isfile", "isdir", "is_file", "is_dir", "iterdir", "listdir", "glob", "rglob"})
_SENDS = ("requests.", "httpx.", "aiohttp.", "urllib3.")
_FRESH_LISTS = frozenset({"builtins.list", "builtins.range", "builtins.sorted"})


def identifies(draw: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """Return whether what is drawn is the number of an id in hexadecimal, or drawn anew until no such file exists."""
    function = ctx.function(draw)
    if function is not None and load_sources().indifferent.makes_up_name(function.name):
        return True
    if _is_written_in_hex(draw, ctx) or _is_new_on_disk(draw, ctx):
        return True
    results = given_on(draw, ctx) if steps else []
    return bool(results) and all(identifies(result, where, steps - 1) for where, result in results)


def joins(call: ast.Call) -> bool:
    """`"".join(letters)`."""
    function = call.func
    return isinstance(function, ast.Attribute) and function.attr == "join" and isinstance(function.value, ast.Constant)


def is_kept_as_id(text: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """`player_id = "player_" + "".join(letters)`, or what a function of such a name returns."""
    parent = ctx.parent(text)
    if _goes_on_in(parent):
        assert isinstance(parent, ast.expr)
        return is_kept_as_id(parent, ctx, steps)
    if isinstance(parent, ast.Return):
        function = ctx.function(parent)
        if function is not None and _IDENTIFIES.search(function.name):
            return True
        results = given_on(text, ctx) if steps else []
        return bool(results) and all(is_kept_as_id(result, where, steps - 1) for where, result in results)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    if targets and all(_IDENTIFIES.search(identifier(target)) for target in targets):
        return True
    binding = ctx.binding(text) if targets and steps else None
    if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
        return False
    uses = ctx.module.flow(binding.scope).uses(binding)
    return bool(uses) and all(is_kept_as_id(use, ctx, steps - 1) for use in uses)


def is_sent_as_id(key: ast.expr | None, record: ast.Dict, ctx: Context) -> bool:
    """`{"order_id": drawn}` of a record that is only posted to a service, which keeps it among others."""
    name = ctx.constant(key)
    return isinstance(name, str) and _IDENTIFIES.search(name) is not None and _is_sent(record, ctx)


def picks_address(draw: ast.Call, ctx: Context) -> bool:
    """Return whether a draw stands in a function that gives back nothing but addresses, and keeps nothing else.

    Which of several equal servers answers is left to chance to spread the load.
    """
    function = ctx.function(draw)
    if function is None or not _returns_addresses(function, ctx) or _keeps(function):
        return False
    drawn = draw.args[0] if draw.args and isinstance(ctx.parent(draw), ast.Expr) else None
    return drawn is None or _is_fresh_list(drawn, ctx)


def _returns_addresses(function: FunctionNode, ctx: Context) -> bool:
    given = [part.value for part in walk(function) if isinstance(part, ast.Return) and ctx.function(part) is function]
    named = [value for value in given if value is not None and not isinstance(value, ast.Constant)]
    plain = all(isinstance(value, (ast.Name, ast.Subscript)) for value in named)
    return plain and bool(named) and all(_ADDRESSES.search(_named(value)) for value in named)


def _named(value: ast.expr) -> str:
    return identifier(value.value if isinstance(value, ast.Subscript) else value)


def _keeps(function: FunctionNode) -> bool:
    writes = load_sources().smoke_test.writes
    return any(isinstance(part, ast.Call) and identifier(part.func) in writes for part in walk(function))


def _is_fresh_list(drawn: ast.expr, ctx: Context) -> bool:
    """Is a list that is shuffled made in the function, so that nobody else gets its new order?"""
    values = [binding.value for binding in ctx.module.definitions(drawn)] if isinstance(drawn, ast.Name) else []
    return bool(values) and all(
        isinstance(value, (ast.ListComp, ast.List))
        or (isinstance(value, ast.Call) and not _FRESH_LISTS.isdisjoint(ctx.callees(value)))
        for value in values
    )


def _is_sent(record: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(record)
    if isinstance(parent, ast.Dict):
        return _is_sent(parent, ctx)
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    if isinstance(call, ast.Call):
        return any(name.startswith(_SENDS) for name in ctx.callees(call))
    binding = ctx.binding(record) if isinstance(parent, ast.Assign) else None
    if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
        return False
    uses = ctx.flow(record).uses(binding)
    return bool(uses) and all(not isinstance(ctx.parent(use), ast.Assign) and _is_sent(use, ctx) for use in uses)


def _goes_on_in(parent: ast.AST | None) -> bool:
    """Is this a text that a part of it stands in?"""
    joined = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add)
    return joined or isinstance(parent, (ast.JoinedStr, ast.FormattedValue))


def _is_written_in_hex(number: ast.expr, ctx: Context) -> bool:
    """`"%x" % n`, `f"{n:08x}"`, `hex(n)` of one number, also through a variable, which nothing else uses.

    Many such texts, of a loop, may be data; one alone can only be told from others.
    """
    if any(isinstance(around, _LOOPS) for around in _within_function(number, ctx)):
        return False
    binding = ctx.binding(number) if isinstance(ctx.parent(number), ast.Assign) else None
    if binding is None:
        return _is_hex_of(number, ctx)
    scope = ctx.module.index.scope_at(binding.node).lookup(binding.name)
    if scope is None or scope.is_class:
        return False
    uses = ctx.module.flow(scope).uses(binding)
    shared = isinstance(scope.node, ast.Module) and is_used_elsewhere(binding.name, ctx)
    return bool(uses) and not shared and all(_is_hex_of(use, ctx) for use in uses)


def _within_function(node: ast.AST, ctx: Context) -> Iterator[ast.AST]:
    for parent in ctx.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return
        yield parent


def _is_hex_of(number: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(number)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod) and parent.right is number:
        text = ctx.constant(parent.left)
        return isinstance(text, str) and _HEX_FIELD.fullmatch(text) is not None
    if isinstance(parent, ast.FormattedValue) and parent.format_spec is not None:
        last = getattr(parent.format_spec, "values", [None])[-1]
        return isinstance(last, ast.Constant) and _HEXADECIMAL.search(str(last.value)) is not None
    return isinstance(parent, ast.Call) and "builtins.hex" in ctx.callees(parent)


def _is_new_on_disk(draw: ast.expr, ctx: Context) -> bool:
    """`while True: n = randint(0, 999); if not exists(f"node_{n}"): break`, or `while exists(path):` around it.

    So of letters that are joined, and where the names in a folder are gone through: `if text not in listdir(folder)`.
    """
    loop = next((around for around in _within_function(draw, ctx) if isinstance(around, ast.While)), None)
    parent = ctx.parent(draw)
    binding = ctx.binding(parent if isinstance(parent, ast.Call) and joins(parent) else draw)
    if loop is None or binding is None:
        return False
    names = _made_from(binding.name, loop)
    return any(_looks_on_disk(test) and not names.isdisjoint(names_in(test)) for test in _goes_on_while(loop))


def _looks_on_disk(test: ast.expr) -> bool:
    return any(isinstance(part, ast.Call) and identifier(part.func) in _LOOK_UPS for part in walk(test))


def _goes_on_while(loop: ast.While) -> Iterator[ast.expr]:
    """Yield what has to hold for another round of a loop, and `x not in y` where it must not."""
    yield loop.test
    for part in walk(loop):
        if isinstance(part, ast.If) and isinstance(part.body[-1], (ast.Break, ast.Return)):
            test = part.test
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                yield test.operand
            elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn):
                yield test


def _made_from(name: str, loop: ast.While) -> frozenset[str]:
    """Return `name` and the variables that a loop makes of it, in the order of its lines."""
    names = {name}
    for part in walk(loop):
        if isinstance(part, ast.Assign) and not names.isdisjoint(names_in(part.value)):
            names |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    return frozenset(names)
