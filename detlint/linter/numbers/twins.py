"""Do two models compute alike? They were made alike, and one was given the weights of the other."""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.taken import made_by
from detlint.linter.source.nodes import arguments_of, identifier, walk

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
