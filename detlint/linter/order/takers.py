"""What do functions of the project declare of a set, or of an element of one, that they are given?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import parameter_given
from detlint.linter.analysis.element_sort import Move, Sort, Steps, together
from detlint.linter.analysis.parameters import annotation_values
from detlint.linter.analysis.values import Kind
from detlint.linter.order.declared import declared
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module


def taken_as(given: ast.expr, steps: Steps, ctx: Context) -> Sort:
    """Return what the annotation of a parameter says of an argument: `word_ids(names)` of `names: set[str]`."""
    return together(declared(annotation, steps, module) for annotation, module in _annotations(given, ctx))


def is_taken_as_set(given: ast.expr, ctx: Context) -> bool:
    """Does a function of the project declare that it gets a set, so that what it does with one is told there?"""
    return any(
        {value.kind for value in annotation_values(module.inference, annotation, annotation)} == {Kind.SET}
        for annotation, module in _annotations(given, ctx)
    )


def holder_taken_as(holder: ast.expr, ctx: Context) -> Sort:
    """Return what is declared of the elements of a variable wherever it is given to a function."""
    return together(taken_as(use, (Move.ITERATED,), ctx) for use in uses_of(holder, ctx))


def uses_of(holder: ast.expr, ctx: Context) -> Iterator[ast.Name]:
    """Yield the uses of what holds a set, if that is a variable of the file."""
    index = ctx.module.index
    if isinstance(holder, ast.Name) and index.bindings_of(holder):
        yield from index.uses_of(holder)


def _annotations(given: ast.expr, ctx: Context) -> Iterator[tuple[ast.expr, Module]]:
    """Yield the annotations of the parameter, or of the field of a record, that gets an argument."""
    parent = ctx.parent(given)
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or given is call.func:
        return
    for name in ctx.callees(call):
        module, node = ctx.module.project.definition(name) or (None, None)
        if module is None:
            continue
        if isinstance(node, ast.ClassDef):
            mro = module.inference.mro(module.inference.class_info(node))
            maker = next((info for info in mro if "__init__" in info.methods), None)
            if maker is None:
                fields = [part for info in mro for part in info.node.body if isinstance(part, ast.AnnAssign)]
                yield from ((part.annotation, module) for part in fields if _is_field(part, given, call))
                continue
            module, node = maker.module, maker.methods["__init__"]
        if isinstance(node, FUNCTIONS):
            annotation = _of_parameter(node, call, given, skip_self=module.index.class_at(node) is not None)
            if annotation is not None:
                yield annotation, module


def _is_field(part: ast.AnnAssign, given: ast.expr, call: ast.Call) -> bool:
    """`Corpus(words=names)` of a class that declares `words: set[str]`."""
    return any(
        keyword.value is given and isinstance(part.target, ast.Name) and keyword.arg == part.target.id
        for keyword in call.keywords
    )


def _of_parameter(function: FunctionNode, call: ast.Call, given: ast.expr, *, skip_self: bool) -> ast.expr | None:
    name = parameter_given(function, call, given, skip_self=skip_self)
    return next((argument.annotation for argument, _ in parameters(function.args) if argument.arg == name), None)
