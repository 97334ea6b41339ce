"""Layers that a constructor keeps and nobody applies: `self.maxpool = nn.AdaptiveMaxPool1d(4)`, never read again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.classes import QUIET_BASES, ClassInfo
from detlint.linter.analysis.given_back import given_back
from detlint.linter.source.names import set_to
from detlint.linter.source.nodes import identifier, is_own, names_in, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# What an attribute is found by without its name.
_ALL_PARTS = frozenset(
    {
        "children",
        "modules",
        "named_children",
        "named_modules",
        "_modules",
        "__dict__",
        "vars",
        "getattr",
        "get_submodule",
    }
)
_HOLDING = (ast.Call, ast.Tuple, ast.List, ast.keyword, ast.Starred, ast.IfExp)
# A name that more files hold is taken to be read somewhere.
_MOST_FILES = 64


def is_never_applied(layer: ast.Call, ctx: Context) -> bool:
    """Return whether a layer is only kept as an attribute of its model, alone or in a sequence, that nobody reads.

    A function may make it for that, which each of its callers only keeps.
    """
    places = given_back(_held_in(layer, ctx), ctx)
    return bool(places) and all(_is_only_kept(place, inside) for place, inside in places)


def _is_only_kept(made: ast.expr, ctx: Context) -> bool:
    name = _kept_as(made, ctx)
    owner = ctx.module.index.class_at(made)
    if not name or owner is None:
        return False
    info = ctx.inference.class_info(owner)
    if not _applies_by_name_alone(info, ctx):
        return False
    search = ctx.module.project.search(name, ctx.module, _MOST_FILES)
    if search is not None and search.found is None:
        return False
    others = [ctx.module.project.at(path) for path in search.found or ()] if search is not None else []
    return not any(_reads(module, name, info) for module in dict.fromkeys((ctx.module, *others)))


def _kept_as(made: ast.expr, ctx: Context) -> str:
    """Return `pool` for what stands in `self.pool = nn.Sequential(nn.AdaptiveMaxPool1d(4), nn.Flatten())`."""
    whole = _held_in(made, ctx)
    targets = set_to(whole, ctx.module.index.parents)
    return identifier(targets[0]) if len(targets) == 1 and is_own(targets[0]) else ""


def _held_in(made: ast.expr, ctx: Context) -> ast.expr:
    """Return the outermost of the containers that something stands in, or the call that it is given to instead."""
    child = made
    for parent in ctx.ancestors(made):
        if not isinstance(parent, _HOLDING) or (isinstance(parent, ast.Call) and not _keeps(parent, child)):
            break
        if isinstance(parent, ast.Tuple) and set_to(child, ctx.module.index.parents):
            break  # self.pool, self.head = nn.MaxPool2d(2), nn.Linear(8, 8)
        child = parent  # type: ignore[assignment]
    return child


def _keeps(call: ast.Call, part: ast.AST) -> bool:
    """Does a call keep what it is given, as containers do: `nn.Sequential(pool)`? Any other may apply it at once."""
    return part is not call.func and identifier(call.func) in ("Sequential", "ModuleList")


def _applies_by_name_alone(info: ClassInfo, ctx: Context) -> bool:
    """Is a class a plain module, with no base out of sight and no loop over all that it holds?"""
    classes = ctx.inference.mro(info)
    bases = [(cls, base) for cls in classes for base in cls.node.bases]
    if not QUIET_BASES.issuperset(ctx.inference.external_bases(info)):
        return False
    return all(cls.module.inference.resolve(base) for cls, base in bases) and not any(
        cls.node in cls.module.index.ancestors(use)
        for cls in classes
        for word in _ALL_PARTS
        for use in cls.module.index.names_used.get(word, ())
        if not _only_initialises(use, cls.module)
    )


def _only_initialises(use: ast.AST, module: Module) -> bool:
    """`for m in self.modules(): if isinstance(m, nn.Conv2d): init(m.weight)`: looks at all parts, and applies none."""
    loop = next((parent for parent in module.index.ancestors(use) if isinstance(parent, ast.stmt)), None)
    if not isinstance(loop, ast.For) or use not in walk(loop.iter):
        return False
    names = names_in(loop.target)
    inside = (part for statement in loop.body for part in walk(statement))
    return all(_looks_at(part, module) for part in inside if isinstance(part, ast.Name) and part.id in names)


def _looks_at(part: ast.Name, module: Module) -> bool:
    """`m.weight`, `isinstance(m, nn.Linear)`."""
    parent = module.index.parents.get(part)
    if isinstance(parent, ast.Attribute):
        return parent.attr != "forward"
    return isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in ("isinstance", "hasattr")


def _reads(module: Module, name: str, info: ClassInfo) -> bool:
    """Does a file read an attribute of that name: of the class, of one related to it, or of something unknown?"""
    if any(_names(constant, name) for constant in module.index.of_type(ast.Constant)):
        return True
    uses = (use for use in _attributes(module, name) if not _is_asked_about(use, module))
    uses = (use for use in uses if not _is_of_library(use, module))
    return any(not is_of_another(use, module, info) for use in uses)


def _is_asked_about(use: ast.Attribute, module: Module) -> bool:
    """`if not self.pool:`, `if self.pool is not None:`."""
    child: ast.AST = use
    for parent in module.index.ancestors(use):
        if isinstance(parent, (ast.If, ast.IfExp)):
            return child is parent.test
        if not isinstance(parent, (ast.UnaryOp, ast.BoolOp, ast.Compare)):
            return False
        child = parent
    return False


def _is_of_library(use: ast.Attribute, module: Module) -> bool:
    """`F.ctc_loss`, `torch.nn.functional.ctc_loss`: a function, by way of what is imported, outside the project."""
    names = module.inference.resolve(use)
    return bool(names) and all(name.startswith("torch.") and module.project.definition(name) is None for name in names)


def _attributes(module: Module, name: str) -> Iterator[ast.Attribute]:
    uses = module.index.names_used.get(name, ())
    return (use for use in uses if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Load))


def _names(constant: ast.Constant, name: str) -> bool:
    """`getattr(model, "pool")`, `hooks = {"encoder.pool": …}`."""
    return isinstance(constant.value, str) and name in constant.value.split(".")


def is_of_another(use: ast.Attribute, module: Module, info: ClassInfo) -> bool:
    """Return whether it is `self.pool` of a class that is neither a parent nor a child of the one asked about."""
    owner = module.index.class_at(use)
    if owner is None or not is_own(use):
        return False
    other = module.inference.class_info(owner)
    family = {cls.name for cls in info.module.inference.mro(info)}
    return other.name not in family and info.name not in {cls.name for cls in module.inference.mro(other)}
