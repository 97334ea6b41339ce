"""Does compiled code compute each element by itself, so that no choice of kernels changes a bit of it?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters
from detlint.linter.source.nodes import is_own, walk
from detlint.linter.tables.rounding import rounding_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_WEIGHTS = re.compile(r"(^|_)(weight|bias|gamma|beta)s?(_|$)")
# Functions within functions that are looked into.
_MAX_CALLS = 3
# What the compiler leaves to others: plain numbers, and what ranks send each other.
_OUTSIDE = ("builtins.", "math.", "numpy.", "torch.distributed.")
# Methods of lists, and of what ranks wait for.
_ASIDE = frozenset({"append", "extend", "wait"})
_TORCH = ("torch", "torch.Tensor", "torch.nn.functional")


def compiles_no_sums(call: ast.Call, ctx: Context) -> bool:
    """Is what `torch.compile` is put above, or given, a function of the project that sums nothing?

    Not one of weights: what is added to each row has a gradient that is summed over all of them.
    """
    above = ctx.parent(call)
    if isinstance(above, FUNCTIONS) and call in above.decorator_list:
        return not _has_weights(above) and _sums_nothing(above, ctx)
    found = [ctx.module.project.definition(name) for name in ctx.resolve(call.args[0])] if call.args else []
    return bool(found) and all(
        made is not None
        and isinstance(made[1], FUNCTIONS)
        and not _has_weights(made[1])
        and _sums_nothing(made[1], ctx.elsewhere(made[0]))
        for made in found
    )


def _has_weights(function: FunctionNode) -> bool:
    """`def scale(x, weight)`, `self.bias`."""
    named = [argument.arg for argument, _ in parameters(function.args)]
    named += [part.attr for part in walk(function) if isinstance(part, ast.Attribute) and is_own(part)]
    return any(map(_WEIGHTS.search, named))


def _sums_nothing(function: FunctionNode, ctx: Context, calls: int = _MAX_CALLS) -> bool:
    """Is all that a function calls known to sum nothing? Something that nobody knows may."""
    return all(_is_elementwise(part, function, ctx, calls) for step in function.body for part in walk(step))


def _is_elementwise(part: ast.AST, function: FunctionNode, ctx: Context, calls: int) -> bool:
    if isinstance(part, (ast.BinOp, ast.AugAssign)):
        return not isinstance(part.op, ast.MatMult)
    if not isinstance(part, ast.Call):
        return True
    names = ctx.callees(part)
    if names:
        return all(_is_known(name, ctx, calls) for name in names)
    if isinstance(part.func, ast.Attribute):
        return part.func.attr in _ASIDE or _keeps_apart(part.func.attr)
    found = ctx.module.definitions(part.func) if isinstance(part.func, ast.Name) else ()
    return bool(found) and all(
        isinstance(binding.node, FUNCTIONS) and function in ctx.ancestors(binding.node) for binding in found
    )


def _is_known(name: str, ctx: Context, calls: int) -> bool:
    owner, _, last = name.rpartition(".")
    if owner in _TORCH:
        return _keeps_apart(last)
    if name.startswith(_OUTSIDE):
        return True
    made = ctx.module.project.definition(name)
    if made is None or calls == 0:
        return False
    inside = ctx.elsewhere(made[0])
    if isinstance(made[1], FUNCTIONS):
        return _sums_nothing(made[1], inside, calls - 1)
    return isinstance(made[1], ast.ClassDef) and not inside.inference.is_module_class(made[0].qualified(made[1]))


def _keeps_apart(name: str) -> bool:
    table = rounding_table()
    return name.rstrip("_") in table.elementwise or (name in table.keeping and name not in table.adding)
