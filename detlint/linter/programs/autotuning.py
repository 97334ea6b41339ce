"""What is a Triton kernel tried out with, and do its results depend on what comes out fastest?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.programs.compiled_branches import is_compiled_out
from detlint.linter.programs.configurations import definitions, tried
from detlint.linter.programs.kernels import computes_floats
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, walk

_REDUCTIONS = frozenset({"triton.language.sum", "triton.language.reduce"})
_ATOMIC = "triton.language.atomic_add"
# In so many parts a sum is computed that are then added up: each number of parts rounds differently.
_SPLITS = re.compile(r"split_?k|num_splits|k_splits?", re.IGNORECASE)
# Changes how loads overlap, and nothing that is computed.
_INERT = frozenset({"num_stages", "num_ctas", "maxnreg"})


def depends_on_choice(kernel: FunctionNode, tuner: ast.Call, ctx: Context) -> bool:
    """Return whether what is tried out splits a sum, or lays out the elements of one that the kernel reduces.

    A sum over the elements of a tile goes through lanes and warps: another tile or another number of warps adds them in
    another order. What is only computed element by element comes out the same.
    """
    varied = [name for name, values in _written(tuner, ctx).items() if _differ(values)]
    if any(_SPLITS.search(name) for name in varied):
        return True
    if _INERT.issuperset(varied):
        return False
    shaping = frozenset(varied) - _INERT
    return any(
        _sums_floats(part, inside) and not is_compiled_out(part, inside) and not _adds_by_tile(part, shaping, kernel)
        for code, inside in _run_by(kernel, ctx)
        for part in walk(code)
    )


def adds_two_parts(call: ast.Call, ctx: Context) -> bool:
    """Return whether a kernel adds no more than two parts of a sum to zeros: a sum of two is the same in either order.

    So where what is tried splits it once at most, and `if SPLIT_K == 1:` stores what is in one piece.
    """
    kernel = ctx.function(call)
    tuners = [each for each in kernel.decorator_list if isinstance(each, ast.Call)] if kernel is not None else []
    tests = [identifier(part) for test, _ in ctx.module.index.branches_around(call) for part in walk(test)]
    return any(
        _SPLITS.search(name) and name in tests and values <= {"1", "2"}
        for tuner in tuners
        if any(keyword.arg == "reset_to_zero" for keyword in tuner.keywords)
        for name, values in _written(tuner, ctx).items()
    )


def _run_by(kernel: FunctionNode, ctx: Context) -> Iterator[tuple[ast.AST, Context]]:
    """Yield a kernel and the functions of the project that it calls."""
    yield kernel, ctx
    for part in walk(kernel):
        if isinstance(part, ast.Call):
            yield from definitions(part, ctx)


def _sums_floats(node: ast.AST, ctx: Context) -> bool:
    """Does a call reduce floats, or add them to memory in parts?"""
    if not isinstance(node, ast.Call):
        return False
    names = ctx.callees(node)
    if _ATOMIC in names and len(node.args) > 1:
        return computes_floats(node.args[1], ctx)
    return bool(node.args) and not _REDUCTIONS.isdisjoint(names) and computes_floats(node.args[0], ctx)


def _adds_by_tile(node: ast.AST, varied: frozenset[str], kernel: FunctionNode) -> bool:
    """`atomic_add(out + rows, part)`, where all that is tried only says how many `rows` a tile has.

    Each of them still gets the same parts: what a tile adds up is in the dimensions that its places do not have.
    """
    if not isinstance(node, ast.Call) or identifier(node.func) != _ATOMIC.rpartition(".")[2] or not node.args:
        return False
    return varied <= _made_from(node.args[0], kernel)


def _made_from(place: ast.expr, kernel: FunctionNode) -> set[str]:
    """Return the names that an expression of a kernel is computed from, also through variables."""
    given: dict[str, set[str]] = {}
    for part in walk(kernel):
        if isinstance(part, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and part.value is not None:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            for name in (name for target in targets for name in _names_in(target)):
                given.setdefault(name, set()).update(_names_in(part.value))
    found = pending = set(_names_in(place))
    while pending:
        pending = set().union(*(given.get(name, set()) for name in pending)) - found
        found = found | pending
    return found


def _names_in(node: ast.expr) -> Iterator[str]:
    return (part.id for part in walk(node) if isinstance(part, ast.Name))


def _written(tuner: ast.Call, ctx: Context) -> dict[str, set[str]]:
    """Return the values that are tried, as they are written, by the name of what they are given to."""
    return {name: {ast.unparse(value) for value in values} for name, values in tried(tuner, ctx).items()}


def _differ(values: set[str]) -> bool:
    """Are there several, or one that is no number but the variable of a loop?"""
    return len(values) > 1 or not all(value.isdigit() for value in values)
