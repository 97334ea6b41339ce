"""Is a tensor known to come out of layers or weights? Then a gradient is asked for wherever the model trains."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import arguments_of, identifier, is_own, receiver_of
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MOST_STEPS = 8
# What layers inside a model are given goes by these names; data by others: `pos`, `locs`, `codes`.
_FEATURES = re.compile(r"(^|_)(x|h|z|feats?|features?|hidden(_states?)?|emb|embed(ding)?s?|logits|query|key|values?)$")


def is_learned(node: ast.expr | None, ctx: Context, steps: int = _MOST_STEPS) -> bool:
    """Return whether a layer is called, or a parameter read, on the way to a tensor, as far as the file shows."""
    if node is None or steps == 0:
        return False
    if isinstance(node, ast.Name):
        return any(_is_bound_to_learned(binding, ctx, steps - 1) for binding in ctx.module.definitions(node))
    if isinstance(node, ast.BinOp):
        return is_learned(node.left, ctx, steps - 1) or is_learned(node.right, ctx, steps - 1)
    if isinstance(node, ast.Subscript):
        return is_learned(node.value, ctx, steps - 1)
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(is_learned(part, ctx, steps - 1) for part in node.elts)
    if isinstance(node, ast.Attribute):
        return is_parameter(node, ctx) or is_learned(node.value, ctx, steps - 1)
    return isinstance(node, ast.Call) and _gives_learned(node, ctx, steps - 1)


def _is_bound_to_learned(binding: Binding, ctx: Context, steps: int) -> bool:
    """What a function is given is learned if a call in the project passes such a thing."""
    function = binding.scope.node
    if binding.kind is not BindingKind.PARAMETER or not isinstance(function, FUNCTIONS):
        return is_learned(binding.value, ctx, steps)
    if function.name == "forward" and _FEATURES.search(binding.name):
        return True
    for site in calls_of(function, ctx) if steps else ():
        if site is not None:
            inside, call = site
            given = argument_of(function, binding.name, call, skip_self=isinstance(call.func, ast.Attribute))
            if is_learned(given, inside, steps // 2):
                return True
    return False


def is_parameter(node: ast.Attribute, ctx: Context) -> bool:
    """Return whether an attribute is set to an `nn.Parameter`, or is the table of an `nn.Embedding`."""
    if node.attr == "weight" and any(value.type == "torch.nn.Embedding" for value in ctx.values(node.value)):
        return True
    made = (value.node for value in ctx.values(node))
    return any(isinstance(call, ast.Call) and "torch.nn.Parameter" in ctx.callees(call) for call in made)


def _returns_learned(name: str, ctx: Context, steps: int) -> bool:
    """Does a method of the project give what its layers make of something, as `forward` does?"""
    owner, _, last = name.rpartition(".")
    if last == "forward" and ctx.inference.is_module_class(owner):
        return True
    definition = ctx.module.project.definition(name)
    if definition is None or not isinstance(definition[1], FUNCTIONS):
        return False
    module, function = definition
    given = module.flow(module.index.scopes[function]).returns()
    return any(is_learned(statement.value, ctx.elsewhere(module), steps) for statement in given)


def _gives_learned(call: ast.Call, ctx: Context, steps: int) -> bool:
    """A layer that is called, or what a function makes of something learned: `self.encode(x)` of its layers."""
    if any(value.kind is Kind.MODULE for value in ctx.values(call.func)):
        return True
    if steps and is_own(call.func) and any(_returns_learned(name, ctx, steps - 1) for name in ctx.callees(call)):
        return True
    receiver = receiver_of(call)
    given = arguments_of(call)
    return any(is_learned(part, ctx, steps) for part in (receiver, *given) if part is not None)


def is_read_by_many(table: ast.expr | None, ctx: Context) -> bool:
    """Return whether a tensor is a table by its name or a parameter: rows of an embedding, a bias of each distance.

    Or a row of one: `self.scales[0]`.
    """
    while isinstance(table, ast.Subscript):
        table = table.value
    if table is None:
        return False
    named = gradient_table().tables.search(identifier(table)) is not None
    return named or (isinstance(table, ast.Attribute) and is_parameter(table, ctx))
