"""Is fresh memory returned as something that has values: an initial state, zeros, what a caller left out?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.unsaid import asks_whether, stand_in
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import identifier, walk

# What functions of such names return has values from the start.
_PROMISES = re.compile(
    r"(zero|init|initial|initiali[sz]e|begin|start)_?(\w+_)?_?(state|hidden|carry|recurrent)s?$"
    r"|(^|_)(hidden|state)s?_(init|zeros?)$|^_?(zeros|ones|one_hot|identity)$|_zeros$|^_?reset$",
    re.IGNORECASE,
)
# What is left out of these is made to be filled.
_OUTPUTS = re.compile(
    r"(^|_)(out|outs|outputs?|buf|buffers?|dst|dest|results?|res|workspace|grad|tmp|cache|memory)(_|$)"
)
# Where such a thing is so, only the shape of what is returned counts.
_SHAPES_ONLY = re.compile(
    r"meta|fake|compil|trac|export|script|warm|dummy|(shapes?|sizes?|dimensions?|dims?)_only", re.IGNORECASE
)
# `weight.grad_added_to_main_grad = True`.
_SAYS_IN_PLACE = re.compile(
    r"grad\w*_(added|accumulated|fused|written|handled|done|reduced)|(accumulated|fused|added)_\w*grad"
)


def is_promised(returned: ast.expr, ctx: Context) -> bool:
    """Does the function's name, or what it returns otherwise, say that what it returns here has values?"""
    function = ctx.function(returned)
    if function is None or is_shape_only(returned, ctx):
        return False
    return _PROMISES.search(function.name) is not None or _stands_in(returned, function, ctx)


def is_shape_only(returned: ast.expr, ctx: Context) -> bool:
    """`if dimensions_only: return image`: does a condition say that nobody looks at what it holds?"""
    tests = (ast.unparse(test) for test, _ in ctx.module.index.branches_around(returned))
    return any(map(_SHAPES_ONLY.search, tests))


def is_gradient_given_elsewhere(made: ast.expr, ctx: Context) -> bool:
    """`grad = torch.empty(n)` of a `backward` beside `weight.grad_added_to_main_grad = True`: only hooks wait for it.

    So where the other branch calls it what it is: `grad = get_dummy_grad(n)`.
    """
    function, statement = ctx.function(made), ctx.statement(made)
    if function is None or function.name != "backward":
        return False
    around = [statement, *(parent for parent in ctx.ancestors(statement) if isinstance(parent, ast.If))]
    beside = {step for each in around for step in _block_of(each, ctx)}
    names = {ast.unparse(target) for target in getattr(statement, "targets", [])}
    others = (step for parent in around if isinstance(parent, ast.If) for step in walk(parent))
    return any(map(_marks_as_given, beside)) or any(
        isinstance(other, ast.Assign)
        and isinstance(other.value, ast.Call)
        and _SHAPES_ONLY.search(identifier(other.value.func)) is not None
        and not names.isdisjoint(map(ast.unparse, other.targets))
        for other in others
    )


def _block_of(statement: ast.AST, ctx: Context) -> list[ast.stmt]:
    """Return the statements of the branch that a statement stands in; a function's own say nothing about a branch."""
    around = ctx.parent(statement)
    branches = (around.body, around.orelse) if isinstance(around, ast.If) else ()
    return next((branch for branch in branches if statement in branch), [])


def _marks_as_given(step: ast.stmt) -> bool:
    targets = step.targets if isinstance(step, ast.Assign) else []
    is_true = isinstance(step, ast.Assign) and isinstance(step.value, ast.Constant) and step.value.value is True
    return is_true and any(isinstance(each, ast.Attribute) and _SAYS_IN_PLACE.search(each.attr) for each in targets)


def _stands_in(returned: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """`if state is None: return torch.empty(n)` before `return state.to(device)`, also with `else` or in one line."""
    names = [argument.arg for argument, _ in parameters(function.args) if not _OUTPUTS.search(argument.arg)]
    for name in names:
        given = ast.Name(name, ast.Load())
        if _is_left_out(returned, given, ctx) and any(
            _hands_back(value, name) for value in _returned(function, ctx) if value is not returned
        ):
            return True
    return False


def _is_left_out(returned: ast.expr, given: ast.Name, ctx: Context) -> bool:
    """Is a parameter None where this is returned?"""
    tests = ctx.module.index.branches_around(returned)
    return any(isinstance(test, ast.Compare) and asks_whether(test, given, missing=holds) for test, holds in tests)


def _returned(function: FunctionNode, ctx: Context) -> Iterator[ast.expr]:
    """Yield what a function returns, the two values of `a if test else b` singly."""
    for part in ctx.flow(function.body[0]).returns():
        value = part.value
        if isinstance(value, ast.IfExp) and stand_in(value) is not None:
            yield from (value.body, value.orelse)
        elif value is not None:
            yield value


def _hands_back(value: ast.expr, name: str) -> bool:
    """`state`, `state.to(device)`."""
    while isinstance(value, (ast.Call, ast.Attribute, ast.Subscript)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return identifier(value) == name and any(isinstance(part, ast.Name) for part in walk(value))
