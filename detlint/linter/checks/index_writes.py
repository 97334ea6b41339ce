"""DET305: subscript assignments by an index that may name a place twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.values import Kind
from detlint.linter.indices.distinct_indices import is_inverse
from detlint.linter.source.nodes import identifier
from detlint.operators import CAUSES

# Indices made by these name every place once.
_DISTINCT = frozenset({"arange", "randperm", "nonzero", "where", "argsort", "sort", "topk", "unique", "argwhere"})


@check("DET305", nodes=(ast.Assign,))
def duplicate_index_assignment(statement: ast.Assign, ctx: Context) -> Iterator[Finding]:
    """Silent for masks, slices, numbers and for one number written everywhere."""
    for target in statement.targets:
        if isinstance(target, ast.Subscript) and _may_repeat(target, ctx) and ctx.is_tensor(statement.value):
            yield _finding(target, ctx)


@check("DET305", nodes=(ast.AugAssign,))
def duplicate_index_update(statement: ast.AugAssign, ctx: Context) -> Iterator[Finding]:
    """`x[index] += v` keeps one of the sums where an index stands twice."""
    if isinstance(statement.target, ast.Subscript) and _may_repeat(statement.target, ctx):
        yield _finding(statement.target, ctx)


def _finding(target: ast.Subscript, ctx: Context) -> Finding:
    return ctx.finding(target, call=ast.unparse(target)[:60], reason=CAUSES["duplicate-index-race"])


def _may_repeat(target: ast.Subscript, ctx: Context) -> bool:
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return ctx.is_tensor(target.value) and any(_is_index(part, ctx) for part in parts)


def _is_index(node: ast.expr, ctx: Context) -> bool:
    """Return whether an expression is a tensor of integers that nothing shows to be distinct."""
    if is_inverse(node, ctx):
        return True
    if not ctx.is_tensor(node):
        return False
    values = [value for value in ctx.values(node) if value.kind is Kind.TENSOR]
    return all(value.is_integral and value.dtype != "bool" and not _is_distinct(value.node) for value in values)


def _is_distinct(node: ast.AST | None) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    name = identifier(function)
    chosen = name == "where" and isinstance(node, ast.Call) and len(node.args) > 1  # torch.where(mask, a, b)
    return name in _DISTINCT and not chosen
