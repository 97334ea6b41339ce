"""Do two models with the same weights compute alike? They do if they were made alike, and not with other kernels."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.taken import made_by
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.linter.tables.rounding import rounding_table

_COPY = "copy_"


def are_of_twins(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """`net(x)` and `twin(x)`, where `net` and `twin` are `Net(8)` each and `twin.weight.copy_(net.weight)`."""
    ours, theirs = (next(iter(made_by(ctx.module, side)), None) for side in (left, right))
    if ours is None or theirs is None or _given(ours) != _given(theirs):
        return False
    makers = [only_value(ctx.module, call.func) for call in (ours, theirs)]
    if not all(isinstance(maker, ast.Call) for maker in makers) or len({_text(maker) for maker in makers}) > 1:
        return False
    names, function = {identifier(ours.func), identifier(theirs.func)}, ctx.function(left)
    return len(names) == 2 and function is not None and any(_copies(part, names) for part in walk(function))


def are_built_apart(left: ast.expr, right: ast.expr, ctx: Context) -> bool:
    """`net(x)` and `other(x)` of `net = Net(8)` and `other = Net(8, fused=True)`: one class, and other kernels.

    Or one function that is told so, `step(net, x)` and `step(net, x, fused=True)`.
    """
    calls = [next(iter(made_by(ctx.module, side)), None) for side in (left, right)]
    makers = [only_value(ctx.module, call.func) if call is not None else None for call in calls]
    return _are_told_apart(*calls) or _are_told_apart(*makers)


def _are_told_apart(ours: ast.expr | None, theirs: ast.expr | None) -> bool:
    """Are these two calls of one thing, of which an option picks other kernels?"""
    if not isinstance(ours, ast.Call) or not isinstance(theirs, ast.Call):
        return False
    if ast.unparse(ours.func) != ast.unparse(theirs.func):
        return False
    options = [{keyword.arg: ast.unparse(keyword.value) for keyword in maker.keywords} for maker in (ours, theirs)]
    names = {name for name in {*options[0], *options[1]} if options[0].get(name) != options[1].get(name)}
    return any(name is not None and not rounding_table().kernels.isdisjoint(name.split("_")) for name in names)


def _text(node: ast.expr | None) -> str:
    return ast.unparse(node) if node is not None else ""


def _given(call: ast.Call) -> list[str]:
    return [ast.unparse(argument) for argument in arguments_of(call)]


def _copies(part: ast.AST, names: set[str]) -> bool:
    """`twin.weight.copy_(net.weight)`, `twin.weight.data = net.weight.data`."""
    if isinstance(part, ast.Assign):
        targets: list[ast.expr] = [target for target in part.targets if isinstance(target, ast.Attribute)]
        value: list[ast.expr] = [part.value]
    elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == _COPY:
        targets, value = [part.func.value], part.args
    else:
        return False
    written, read = _roots(targets), _roots(value)
    return bool(written) and bool(read) and written | read == names


def _roots(nodes: list[ast.expr]) -> set[str]:
    return {part.id for node in nodes for part in walk(node) if isinstance(part, ast.Name)}
