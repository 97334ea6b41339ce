"""Does a layer of the project start with weights drawn at random, which nothing replaces?"""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.built import given_anew
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.returned import returned_by
from detlint.linter.memory.made import takes_sizes
from detlint.linter.programs.evaluation import identifiers
from detlint.linter.source.names import FunctionNode, unpacked
from detlint.linter.source.nodes import identifier, is_own, receiver_of, walk

_RANDOM = frozenset(f"torch.{name}" for name in ("rand", "randn", "rand_like", "randn_like", "normal", "empty"))
_CONSTRUCTORS = frozenset({"torch.Tensor", "torch.FloatTensor"})
# Words of a class that writes over its weights, loads them, or draws them from a seed of its own.
_REPLACES = frozenset(
    {"data", "copy_", "fill_", "zero_", "constant_", "zeros_", "ones_", "eye_", "dirac_", "no_grad"}
    | {"load", "load_state_dict", "from_pretrained", "manual_seed", "Generator"}
)
# What makes memory to be filled.
_FRESH = re.compile(r"(new_)?(empty|zeros)(_like)?$")
_DEPTH = 3


def is_random(data: ast.expr | None, ctx: Context, depth: int = _DEPTH) -> bool:
    """Return whether numbers are drawn, or memory is left as it was, for the data of a parameter."""
    if data is None:
        return False
    if isinstance(data, ast.Name):
        bindings = ctx.module.definitions(data) if depth else ()
        return any(is_random(unpacked(binding), ctx, depth - 1) for binding in bindings)
    calls = (part for part in walk(data) if isinstance(part, ast.Call))
    return any(_is_random_call(call, ctx) or (depth and _returns_random(call, ctx, depth - 1)) for call in calls)


def fills_at_random(call: ast.Call, ctx: Context) -> bool:
    """`x.new_empty(n).normal_()`, `nn.init.trunc_normal_(state)` after `state = torch.empty(n)`: memory made for it."""
    if any(keyword.arg == "generator" for keyword in call.keywords):
        return False
    drawn = receiver_of(call)
    if any(name.startswith("torch.nn.init.") for name in ctx.callees(call)):
        drawn = next(iter(call.args), None)
    made = only_value(ctx.module, drawn) if isinstance(drawn, ast.Name) else drawn
    return isinstance(made, ast.Call) and _FRESH.match(identifier(made.func)) is not None


def _returns_random(call: ast.Call, ctx: Context, depth: int) -> bool:
    """`def start(x): return torch.randn(x.shape)`, a function of the project."""
    returned = returned_by(ctx.callees(call), ctx)
    return bool(returned) and all(is_random(value, where, depth) for value, where in returned or ())


def _is_random_call(call: ast.Call, ctx: Context) -> bool:
    """`torch.randn(3)`, `torch.Tensor(3, 4)`; not `torch.Tensor([[0, 1], [1, 0]])`, which holds what it is given."""
    names = ctx.resolve(call.func)
    return not _RANDOM.isdisjoint(names) or (not _CONSTRUCTORS.isdisjoint(names) and takes_sizes(call, ctx))


def starts_random(info: ClassInfo, ctx: Context, depth: int = _DEPTH) -> bool:
    """Return whether every instance of a class gets weights of the rule's layers, no condition around them."""
    ancestors = ctx.inference.mro(info)
    if any(not _REPLACES.isdisjoint(identifiers(ancestor.node)) for ancestor in ancestors):
        return False
    return any(_builds_weights(ancestor, ctx.elsewhere(ancestor.module), depth) for ancestor in ancestors)


def gives_random(function: FunctionNode, ctx: Context, depth: int = _DEPTH) -> bool:
    """Return whether each return of a function gives a new layer with such weights: `return nn.Linear(n, 8)`."""
    if not _REPLACES.isdisjoint(identifiers(function)):
        return False
    return all(
        any(_has_weights(part, ctx, depth) for part in walk(value) if isinstance(part, ast.Call))
        for value in given_anew(function, ctx)
    )


def _builds_weights(info: ClassInfo, ctx: Context, depth: int) -> bool:
    built = info.methods.get("__init__")
    kept = (
        statement.value
        for statement in (built.body if built is not None else ())
        if isinstance(statement, ast.Assign) and any(map(is_own, statement.targets))
    )
    calls = (part for value in kept for part in walk(value) if isinstance(part, ast.Call))
    return any(_has_weights(call, ctx, depth) for call in calls)


def _has_weights(call: ast.Call, ctx: Context, depth: int) -> bool:
    for name in ctx.callees(call):
        if name == "torch.nn.Parameter":
            return is_random(call.args[0] if call.args else None, ctx)
        if name in ctx.rule.triggers_by_name:
            return True
        info = ctx.inference.class_named(name)
        if depth and info is not None and ctx.inference.is_module_class(name):
            return starts_random(info, ctx, depth - 1)
    makers = functions_called(ctx.inference, call) if depth else ()
    given = ((maker, ctx.elsewhere(module)) for module, maker in makers)
    return any(given_anew(*each) and gives_random(*each, depth - 1) for each in given)
