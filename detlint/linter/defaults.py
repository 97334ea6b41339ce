"""What does a setting come to when the user chooses nothing? Defaults of parameters and command-line options."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from detlint.conditions import Truth
from detlint.linter.context import Context
from detlint.linter.names import FUNCTIONS, BindingKind
from detlint.linter.nodes import is_own
from detlint.linter.origins import passed
from detlint.linter.program import calls_named
from detlint.linter.project import Module
from detlint.linter.unsaid import kept, only_definition, stand_in
from detlint.linter.values import Kind

_DEPTH = 4


def may_be_none(node: ast.expr, ctx: Context) -> bool:
    """Is there a path on which the file itself makes this None? What a caller passes is the caller's business."""
    return any(
        value.kind is Kind.NONE and isinstance(value.node, ast.Constant) and value.module is ctx.module
        for value in ctx.values(node)
    )


def truth_by_default(node: ast.expr, ctx: Context, depth: int = 0) -> Truth:
    """Is a setting on (yes) or off (no) when nobody says anything, or can that not be told?

    A parameter is on where its default is, or where a call in the file turns it on; an attribute of parsed arguments
    is what its option's default is.
    """
    known = ctx.truth(node)
    if known is not Truth.UNKNOWN or depth > _DEPTH:
        return known
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~truth_by_default(node.operand, ctx, depth + 1)
    if isinstance(node, ast.BoolOp):
        return _all_or_any(node, ctx, depth)
    if isinstance(node, ast.Name):
        return _parameter(node, ctx, depth)
    if isinstance(node, ast.Attribute):
        return _option(node.attr, ctx.module)
    return Truth.UNKNOWN


def text_by_default(node: ast.expr, ctx: Context, depth: int = 0) -> str:
    """Return the string that a setting is when nobody says anything; nothing where that is no string or cannot be told.

    It may be one of several that an option takes: `backend, mode = args.compile_args`.
    """
    known = ctx.constant(node)
    if isinstance(known, str) or depth > _DEPTH:
        return known if isinstance(known, str) else ""
    other = stand_in(node)
    if other is not None:
        return text_by_default(other, ctx, depth + 1)
    if isinstance(node, ast.Attribute):
        held = kept(node, ctx)
        if held is not None:
            return text_by_default(*held, depth + 1)
        return "" if is_own(node) else _only_text(_option_defaults(node.attr, ctx.module))
    binding = only_definition(node, ctx) if isinstance(node, ast.Name) else None
    value = binding.value if binding is not None else None
    if binding is None or value is None or binding.kind not in (BindingKind.ASSIGN, BindingKind.PARAMETER):
        return ""
    if not binding.index:
        return text_by_default(value, ctx, depth + 1)
    if not isinstance(value, ast.Attribute) or is_own(value):
        return ""
    place = binding.index[-1]
    listed = [
        default for default in _option_defaults(value.attr, ctx.module) if isinstance(default, (ast.List, ast.Tuple))
    ]
    return _only_text([default.elts[place] for default in listed if place < len(default.elts)])


def _only_text(values: Sequence[ast.expr | None]) -> str:
    texts = {value.value if isinstance(value, ast.Constant) else None for value in values}
    only = texts.pop() if len(texts) == 1 else None
    return only if isinstance(only, str) else ""


def _all_or_any(node: ast.BoolOp, ctx: Context, depth: int) -> Truth:
    truths = [truth_by_default(value, ctx, depth + 1) for value in node.values]
    decisive = Truth.NO if isinstance(node.op, ast.And) else Truth.YES
    if decisive in truths:
        return decisive
    return Truth.UNKNOWN if Truth.UNKNOWN in truths else ~decisive


def _parameter(node: ast.Name, ctx: Context, depth: int) -> Truth:
    answers: list[Truth] = []
    for binding in ctx.module.definitions(node):
        if binding.kind is BindingKind.ASSIGN and binding.value is not None and not binding.index:
            answers.append(truth_by_default(binding.value, ctx, depth + 1))
        elif binding.kind is BindingKind.PARAMETER and isinstance(binding.scope.node, FUNCTIONS):
            calls = passed(ctx.module, binding.scope.node, binding.name, (ctx.module,))
            given = [ctx.truth(origin.node) for origin in calls]
            default = [ctx.truth(binding.value)] if binding.value is not None else []
            answers += [Truth.YES] if Truth.YES in given else default
        else:
            answers.append(Truth.UNKNOWN)
    return answers[0] if len(set(answers)) == 1 else Truth.UNKNOWN


def _option(name: str, module: Module) -> Truth:
    """Return what `args.name` is by default, from the options that the file itself declares."""
    truths = {_default_of(call) for call in _declarations(name, module)}
    return truths.pop() if len(truths) == 1 else Truth.UNKNOWN


def _option_defaults(name: str, module: Module) -> list[ast.expr | None]:
    """Return the defaults that the file itself declares for `args.name`."""
    return [_given(call).get("default") for call in _declarations(name, module)]


def _given(call: ast.Call) -> dict[str | None, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords}


def _declarations(name: str, module: Module) -> Iterator[ast.Call]:
    for call in calls_named(module, ("add_argument",)):
        destination = next((keyword.value for keyword in call.keywords if keyword.arg == "dest"), None)
        words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        long = [word.lstrip("-").replace("-", "_") for word in words if isinstance(word, str)]
        if isinstance(destination, ast.Constant):
            long = [str(destination.value)]
        if name in long:
            yield call


def _default_of(call: ast.Call) -> Truth:
    given = _given(call)
    default, action = given.get("default"), given.get("action")
    if isinstance(default, ast.Constant):
        return Truth.of(bool(default.value)) if isinstance(default.value, bool) else Truth.UNKNOWN
    if default is None and isinstance(action, ast.Constant):
        return {"store_true": Truth.NO, "store_false": Truth.YES}.get(str(action.value), Truth.UNKNOWN)
    return Truth.UNKNOWN
