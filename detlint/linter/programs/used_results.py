"""Which of the results of an operator are used: values, indices, or both?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.context import Context

_VALUES = "values"


def gives_values_alone(call: ast.Call, ctx: Context) -> bool:
    """`torch.topk(x, 3).values`, `torch.sort(x)[0]`, `values, _ = x.sort()`: are the indices left alone?

    So after `found = x.topk(3)`, of which only `found.values` is read.
    """
    parent = ctx.parent(call)
    if _takes_values(parent):
        return True
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    if len(targets) != 1:
        return False
    if isinstance(targets[0], ast.Tuple) and len(targets[0].elts) == 2:
        indices = targets[0].elts[1]
        return isinstance(indices, ast.Name) and not any(ctx.module.index.uses_of(indices))
    reads = list(ctx.module.index.uses_of(targets[0])) if isinstance(targets[0], ast.Name) else []
    return bool(reads) and all(_takes_values(ctx.parent(use)) for use in reads)


def _takes_values(around: ast.AST | None) -> bool:
    if isinstance(around, ast.Attribute):
        return around.attr == _VALUES
    return isinstance(around, ast.Subscript) and isinstance(around.slice, ast.Constant) and around.slice.value == 0
