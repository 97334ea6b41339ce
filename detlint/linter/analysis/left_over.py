"""Private definitions that nobody in the project names: what was left over when its last caller went."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.classes import QUIET_BASES
from detlint.linter.source.names import FunctionNode

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# What finds a definition without its name in the code.
_BY_TEXT = ("getattr", "globals", "locals", "vars", "__dict__", "__getattr__")
# More files than these are not looked at for an import of everything.
_MOST_FILES = 64


def is_left_over(definition: FunctionNode | ast.ClassDef, ctx: Context) -> bool:
    """Return whether a definition is private, by its name or that of its file, and named nowhere outside itself."""
    module, name = ctx.module, definition.name
    in_private_file = ctx.parent(definition) is module.tree and _is_private(module.path.stem)
    if not (_is_private(name) or in_private_file) or definition.decorator_list or name.startswith("__"):
        return False
    search = module.project.search(name, module, 1)
    if search is None or search.found is None or set(search.found) - {module.path}:
        return False
    index = module.index
    if any(definition not in index.ancestors(use) for use in index.names_used.get(name, ())):
        return False
    if not _is_found_by_name_alone(definition, ctx):
        return False
    return _is_private(name) or not _is_imported_whole(module)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_found_by_name_alone(definition: FunctionNode | ast.ClassDef, ctx: Context) -> bool:
    """Does no text name it, nothing look definitions up by text, and no base out of sight call it?"""
    index = ctx.module.index
    if any(word in index.names_used for word in _BY_TEXT):
        return False
    if any(constant.value == definition.name for constant in index.of_type(ast.Constant)):
        return False
    if isinstance(definition, ast.ClassDef):
        info = ctx.inference.class_info(definition)
        return not any("__init_subclass__" in base.methods for base in ctx.inference.mro(info))
    owner = ctx.parent(definition)
    if not isinstance(owner, ast.ClassDef):
        return True
    return QUIET_BASES.issuperset(ctx.inference.external_bases(ctx.inference.class_info(owner)))


def _is_imported_whole(module: Module) -> bool:
    """Does a file import everything from this one, under names that anybody may use then?"""
    search = module.project.search(module.path.stem, module, _MOST_FILES)
    if search is None or search.found is None:
        return True
    return any(module.name in module.project.at(path).stars for path in search.found)
