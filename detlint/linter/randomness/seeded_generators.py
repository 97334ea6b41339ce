"""Is a generator of one's own seeded after it was made, or handed to code that may seed it?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import is_set_from_outside
from detlint.linter.analysis.returned import made_at_last
from detlint.linter.source.nodes import is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.randomness import OwnGenerator

_DEPTH = 4
_ONLY_DRAW = ("torch.", "numpy.", "random.", "torchvision.", "torch_geometric.", "sklearn.", "diffusers.", "optuna.")
GENERATOR_WORDS = re.compile(r"seed|generator|(^|_)(rng|prng|rs|random|random_state|r_state)$", re.IGNORECASE)


def gets_a_seed(node: ast.expr, generator: OwnGenerator, ctx: Context, depth: int = 0) -> bool:
    """Does the generator reach a method that seeds it, or code that might?"""
    parent = ctx.parent(node)
    if depth > _DEPTH:
        return True
    if isinstance(parent, ast.keyword):
        if parent.arg is not None and GENERATOR_WORDS.search(parent.arg):
            return False  # whoever has a parameter for a generator draws from it
        parent = ctx.parent(parent)
    if isinstance(parent, (ast.IfExp, ast.BoolOp)):
        return gets_a_seed(parent, generator, ctx, depth + 1)
    if isinstance(parent, ast.Attribute):
        return parent.attr in generator.methods
    if isinstance(parent, ast.Call) and parent.func is not node:
        return _may_seed(parent, generator, ctx)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return any(_target_seeded(target, generator, ctx, depth) for target in targets)
    if isinstance(parent, ast.Dict) and _is_kept_for_draws(node, parent, ctx):
        return False
    if isinstance(parent, (ast.Return, ast.Yield, ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp)):
        return is_torch(generator)  # whoever gets it may seed it; NumPy's and Python's are seeded when they are made
    return False


def _is_kept_for_draws(node: ast.expr, options: ast.Dict, ctx: Context) -> bool:
    """`{"generator": g}`: options for what draws from it."""
    names = [
        ctx.constant(key) for key, value in zip(options.keys, options.values, strict=True) if value is node and key
    ]
    return any(isinstance(name, str) and GENERATOR_WORDS.search(name) for name in names)


def is_torch(generator: OwnGenerator) -> bool:
    return generator.call.name.startswith("torch.")


def _may_seed(call: ast.Call, generator: OwnGenerator, ctx: Context) -> bool:
    """Calls of torch, NumPy and their like only draw from a generator; code unread may seed a torch generator."""
    names = ctx.callees(call)
    if not names:
        return is_torch(generator)
    return any(not name.startswith(_ONLY_DRAW) and _body_may_seed(name, generator, ctx) for name in names)


def _body_may_seed(name: str, generator: OwnGenerator, ctx: Context) -> bool:
    definition = ctx.module.project.definition(name)
    if definition is None:
        return is_torch(generator)
    parts = (part.attr for part in ast.walk(definition[1]) if isinstance(part, ast.Attribute))
    return any(part in generator.methods for part in parts)


def _target_seeded(target: ast.expr, generator: OwnGenerator, ctx: Context, depth: int) -> bool:
    index = ctx.module.index
    scope = index.scope_at(target).lookup(target.id) if isinstance(target, ast.Name) else None
    if isinstance(target, ast.Subscript):  # self.rngs[name]: one of them is seeded where any is
        return is_torch(generator) or any(index.calls_by_name.get(method) for method in generator.methods)
    if isinstance(target, ast.Attribute):
        attribute = target.attr
    else:
        attribute = target.id if isinstance(target, ast.Name) and scope is not None and scope.is_class else ""
    if attribute and _replaced(attribute, target, generator, ctx):
        return True
    made = index.statement(target)  # `rng = rng or default_rng()` asks for what was there before
    uses: list[ast.AST]
    if attribute:
        uses = [
            node
            for node in index.names_used.get(attribute, ())
            if isinstance(node, ast.Attribute)
            and not _of_other_class(node, target, ctx)
            and not ctx.resolve(node)  # `np.random.seed(0)` where the generator is `self.random`
            and index.statement(node) is not made
        ]
    elif isinstance(target, ast.Name) and scope is not None:
        uses = [
            node
            for node in index.names_used.get(target.id, ())
            if isinstance(node, ast.Name)
            and index.scope_at(node).lookup(node.id) is scope
            and index.statement(node) is not made
        ]
    else:
        return True
    return any(
        gets_a_seed(use, generator, ctx, depth + 1)
        for use in uses
        if isinstance(use, (ast.Name, ast.Attribute)) and isinstance(use.ctx, ast.Load)
    )


def _replaced(attribute: str, target: ast.expr, generator: OwnGenerator, ctx: Context) -> bool:
    """Is the same attribute set to a seeded generator elsewhere in the file?"""
    for assignment in ctx.module.index.of_type(ast.Assign):
        value = assignment.value
        same = any(
            isinstance(other, ast.Attribute) and other.attr == attribute and not _of_other_class(other, target, ctx)
            for other in assignment.targets
        )
        for made, where in made_at_last(value, ctx) if same and target not in assignment.targets else ():
            seeded = isinstance(made, ast.Call) and (made.args or made.keywords) and not is_torch(generator)
            if isinstance(made, ast.Call) and seeded and generator.call.name in where.callees(made):
                return True
    return not is_torch(generator) and is_set_from_outside(attribute, ctx)


def _of_other_class(use: ast.Attribute, target: ast.expr, ctx: Context) -> bool:
    """Is this `self.rng` of another class than the one that makes the generator?"""
    return is_own(use) and ctx.module.index.class_at(use) is not ctx.module.index.class_at(target)
