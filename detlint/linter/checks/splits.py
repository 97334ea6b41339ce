"""Random splits of data that no seed fixes (DET105)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.callers import users_of
from detlint.linter.context import Call, Context
from detlint.linter.defaults import may_be_none
from detlint.linter.nodes import identifier
from detlint.linter.origins import made_by
from detlint.linter.program import Program, calls_named
from detlint.linter.registry import check, check_file
from detlint.linter.seeding import depends_on_rank, seeding_of
from detlint.linter.testcode import is_unit_test

_BY_RANK = "with a seed that depends on the process rank"
_RANDOM_STATES = ("generator", "random_state", "seed")


@check("DET105")
def unseeded_split(call: Call, ctx: Context) -> Iterator[Finding]:
    """Silent where it takes a generator, does not shuffle, is thrown away, or where the program seeds its library."""
    if is_unit_test(ctx.module) or not _shuffles(call, ctx) or isinstance(ctx.parent(call.node), ast.Expr):
        return
    program = ctx.program or Program(ctx.module, is_library=True)
    for parameter in _RANDOM_STATES:
        argument = call.argument(parameter)
        if argument.hidden:
            return
        if argument.given and argument.value is not None and not may_be_none(argument.value, ctx):
            if depends_on_rank(ctx.module, argument.value, program):
                yield ctx.finding(call.node, call=call.name, reason=_BY_RANK)
            return
    library = "numpy" if call.name.startswith("sk") else "torch"
    yield from _unless_seeded(call.node, call.name, library, program, ctx)


@check_file("DET105")
def unseeded_split_of_datasets(ctx: Context) -> Iterator[Finding]:
    """`train_test_split` as a method of what the datasets library loaded, or may have: nothing else splits itself."""
    if is_unit_test(ctx.module):
        return
    for call in calls_named(ctx.module, ("train_test_split",)):
        if not isinstance(call.func, ast.Attribute) or ctx.callees(call):
            continue
        if not made_by(ctx.module, call.func.value, "datasets") and not _splits_itself(call, ctx):
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        seeded = any(not may_be_none(given[name], ctx) for name in ("seed", "generator") if name in given)
        if not seeded and None not in given and ctx.truth(given.get("shuffle")) is not Truth.NO:
            program = ctx.program or Program(ctx.module, is_library=True)
            yield from _unless_seeded(call, "datasets.Dataset.train_test_split", "numpy", program, ctx)


def _splits_itself(call: ast.Call, ctx: Context) -> bool:
    """`rows.train_test_split(test_size=0.2)`: given sizes and nothing to split."""
    if identifier(call.func) != "train_test_split":
        return False
    sizes = {"test_size", "train_size"}.intersection(keyword.arg or "" for keyword in call.keywords)
    numbers = all(isinstance(ctx.constant(given), (int, float)) for given in call.args)
    defined = any(function.name == "train_test_split" for function in ctx.module.index.of_type(ast.FunctionDef))
    return numbers and (bool(sizes) or bool(call.args)) and not defined


def _unless_seeded(node: ast.Call, name: str, library: str, program: Program, ctx: Context) -> Iterator[Finding]:
    seeding = seeding_of(program)
    if seeding.shared(library) or (program.is_library and _seeded_by_users(node, library, ctx)):
        return
    title = "NumPy" if library == "numpy" else library
    reason = _BY_RANK if seeding.of(library) else f"from {title}'s global generator, and nothing here seeds it"
    yield ctx.finding(node, call=name, reason=reason)


def _seeded_by_users(node: ast.AST, library: str, ctx: Context) -> bool:
    """Does a program of the project that leads to the split, or code on the way, seed the library?"""
    users = {user.module: user.program or Program(user.module, is_library=True) for user in users_of(node, ctx)}
    return any(seeding_of(program).shared(library) for program in users.values())


def _shuffles(call: Call, ctx: Context) -> bool:
    """Splitters shuffle always, unless `shuffle` says no (train_test_split), or only when it says yes (KFold)."""
    shuffle = call.argument("shuffle")
    if shuffle.value is None:
        return not shuffle.hidden
    return ctx.truth(shuffle.value) is Truth.YES
