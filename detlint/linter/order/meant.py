"""Which functions may run where one is called, who may call them, and whose attribute is read?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls_elsewhere import heirs_with
from detlint.linter.analysis.values import Kind
from detlint.linter.modes.runs import is_left_open
from detlint.linter.order.form import GivenBack
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import is_own
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# A data set of PyG asks whether the files of these lists are there, and reads them under the names of what follows.
_EXPECTED = {"raw_file_names": "raw_paths", "processed_file_names": "processed_paths"}
# Of sequences and data sets; the other is PyG's.
_ENTRIES = ("__getitem__", "get")
_EXPECTING = "torch_geometric.data."


def is_only_expected(given: GivenBack) -> bool:
    """`raw_file_names` of a data set that names its files itself where it reads them."""
    name, index, owner = given.function.name, given.module.index, given.module.index.class_at(given.function)
    if owner is None or name not in _EXPECTED or not {name, _EXPECTED[name]}.isdisjoint(index.names_used):
        return False
    inference = given.module.inference
    info = inference.class_info(owner)
    bases = (*(each.name for each in inference.mro(info)[1:]), *inference.external_bases(info))
    return any(base.startswith(_EXPECTING) for base in bases)


def versions(given: GivenBack) -> list[tuple[Module, FunctionNode]]:
    """Return what has to be asked for callers: the function, and the methods of base classes that it stands in for.

    Nothing where a base class outside the project may call it.
    """
    owner = given.module.index.class_at(given.function)
    if owner is None:
        return [(given.module, given.function)]
    inference, table, name = given.module.inference, order_table(), given.function.name
    info = inference.class_info(owner)
    unknown = set(inference.external_bases(info)) - table.functions["bases"]
    if unknown or name in table.methods["walking"] or name.startswith("__"):
        return []
    return [(each.module, each.methods[name]) for each in inference.mro(info) if name in each.methods]


def filled_in(module: Module, function: FunctionNode) -> Iterator[tuple[Module, FunctionNode]]:
    """Yield what may run where a function is called: itself, unless it is left open, and what heirs have instead."""
    if not is_left_open(function):
        yield module, function
    owner = module.index.class_at(function)
    if owner is not None and not function.name.startswith("__"):
        for place, heir in heirs_with(module, owner, function.name):
            yield place, place.inference.class_info(heir).methods[function.name]


def gives_entries(owner: ast.ClassDef, attribute: str, module: Module) -> bool:
    """Does a class say what stands at a place, or one that it derives from? In other files none of them reads that."""
    infos = module.inference.mro(module.inference.class_info(owner))
    methods = (info.methods.get(name) for info in infos for name in _ENTRIES)
    says = any(method is not None and not is_left_open(method) for method in methods)
    return says and not any(_reads(info, attribute) for info in infos if info.module is not module)


def _reads(info: ClassInfo, attribute: str) -> bool:
    index = info.module.index
    uses = (use for use in index.names_used.get(attribute, ()) if isinstance(use, ast.Attribute))
    return any(isinstance(use.ctx, ast.Load) and index.class_at(use) is info.node for use in uses)


def is_of_another_class(use: ast.Attribute, where: Context, owner: ast.ClassDef, ctx: Context) -> bool:
    """Is it `names` of an object whose class neither inherits from `owner` nor is one that `owner` inherits from?

    So for `self`, and for a variable of which it is known what it holds.
    """
    around = where.module.index.class_at(use) if is_own(use) else None
    found = [where.inference.class_info(around)] if around is not None else _classes_of(use.value, where)
    asked = ctx.module.qualified(owner)
    above = {each.name for each in ctx.inference.mro(ctx.inference.class_info(owner))}
    below = ({each.name for each in where.inference.mro(info)} for info in found)
    return bool(found) and all(
        asked not in names and info.name not in above for info, names in zip(found, below, strict=True)
    )


def _classes_of(node: ast.expr, where: Context) -> list[ClassInfo]:
    """Return the classes of the project that an object may be of; none where it may be something else."""
    held = [value for value in where.values(node) if value.kind is not Kind.NONE]
    found = [where.inference.class_named(value.type) for value in held if value.kind in (Kind.INSTANCE, Kind.MODULE)]
    known = [info for info in found if info is not None]
    return known if len(known) == len(held) else []
