"""Does a layer multiply by the sparse matrix of a graph, where each row is summed by itself, and never scatter?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.nodes import arguments_of, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context

# The method of PyTorch Geometric's layers that takes the place of messages where the graph is a sparse matrix.
_FUSED = "message_and_aggregate"
_SPARSE = "SparseTensor"


def multiplies_sparse(propagate: ast.Call, ctx: Context) -> bool:
    """Has a class `message_and_aggregate`, and is what it propagates along never an index of edges?

    That is so where it is annotated as a SparseTensor, and where the class refuses tensors.
    """
    owner = ctx.module.index.class_at(propagate)
    classes = ctx.inference.mro(ctx.inference.class_info(owner)) if owner is not None else ()
    if not any(_FUSED in info.methods for info in classes):
        return False
    graph = next(iter(arguments_of(propagate)), None)
    bindings = ctx.module.definitions(graph) if isinstance(graph, ast.Name) else ()
    annotations = [binding.node.annotation for binding in bindings if isinstance(binding.node, ast.arg)]
    if len(annotations) == len(bindings) == 1 and annotations[0] is not None and _names_sparse(annotations[0], ctx):
        return True
    return any(_refuses_tensors(info, ctx.elsewhere(info.module)) for info in classes)


def _refuses_tensors(info: ClassInfo, ctx: Context) -> bool:
    """`if isinstance(edge_index, Tensor): raise …`, `assert isinstance(adj_t, SparseTensor)`."""
    for part in walk(info.node):
        if isinstance(part, ast.If) and isinstance(part.body[-1], ast.Raise):
            negated = isinstance(part.test, ast.UnaryOp) and isinstance(part.test.op, ast.Not)
            kind = _asked(part.test.operand if isinstance(part.test, ast.UnaryOp) else part.test)
        elif isinstance(part, ast.Assert):
            negated, kind = True, _asked(part.test)
        else:
            continue
        if kind is not None and (_names_sparse(kind, ctx) if negated else "torch.Tensor" in ctx.resolve(kind)):
            return True
    return False


def _asked(test: ast.expr) -> ast.expr | None:
    """Return `Tensor` of `isinstance(edge_index, Tensor)`."""
    asks = isinstance(test, ast.Call) and getattr(test.func, "id", "") == "isinstance" and len(test.args) == 2
    return test.args[1] if asks and isinstance(test, ast.Call) else None


def _names_sparse(kind: ast.expr, ctx: Context) -> bool:
    return any(name.rpartition(".")[2] == _SPARSE for name in ctx.resolve(kind))
