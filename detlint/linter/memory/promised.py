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
# Functions of such names, or so decorated, hand out memory that their callers fill, or that stands for a shape only.
_ALLOCATORS = re.compile(
    r"empty|alloc|buffer|placeholder|storage|workspace|scratch|cache|uninit|new_|fake|meta|abstract|dummy|launch",
    re.IGNORECASE,
)
# Where such a thing is so, only the shape of what is returned counts.
_SHAPES_ONLY = re.compile(
    r"meta|fake|compil|trac|export|script|warm|dummy|(shapes?|sizes?|dimensions?|dims?)_only", re.IGNORECASE
)


def is_promised(returned: ast.expr, ctx: Context) -> bool:
    """Does the function's name, or what it returns otherwise, say that what it returns here has values?"""
    function = ctx.function(returned)
    if function is None or _allocates(function) or _is_shape_only(returned, ctx):
        return False
    return _PROMISES.search(function.name) is not None or _stands_in(returned, function, ctx)


def _is_shape_only(returned: ast.expr, ctx: Context) -> bool:
    """`if dimensions_only: return image`: does a condition say that nobody looks at what it holds?"""
    tests = (ast.unparse(test) for test, _ in ctx.module.index.branches_around(returned))
    return any(map(_SHAPES_ONLY.search, tests))


def _allocates(function: FunctionNode) -> bool:
    names = [function.name, *(ast.unparse(decorator) for decorator in function.decorator_list)]
    return any(_ALLOCATORS.search(name) for name in names)


def _stands_in(returned: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """`x = np.ndarray(x)` and `return x`; `if state is None: return torch.empty(n)` before `return state.to(device)`.

    What is returned in place of an argument has values as that has; so in one line, or with `else`.
    """
    names = [argument.arg for argument, _ in parameters(function.args) if not _OUTPUTS.search(argument.arg)]
    if isinstance(returned, ast.Name) and returned.id in names:
        return True
    others = [value for value in _returned(function, ctx) if value is not returned]
    return any(
        _is_left_out(returned, ast.Name(name, ast.Load()), ctx) and any(_hands_back(value, name) for value in others)
        for name in names
    )


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
