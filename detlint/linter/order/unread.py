"""Does anybody read an attribute? Asked of the file that sets it, and of all of the project that mentions its name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import read_elsewhere
from detlint.linter.analysis.calls_elsewhere import constructions
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_MOST_FILES = 13
_BY_NAME = ("__dict__", "vars", "getattr", "asdict", "dataclass")  # read attributes without naming them


def is_read_nowhere(attribute: str, owner: ast.ClassDef, module: Module) -> bool:
    """Does no code of the project read it? A public one is there for whoever makes the object: that is its file alone.

    Of a private one this file is asked alone, and no other may mention it.
    """
    if attribute.startswith("__"):
        return True
    private = attribute.startswith("_")
    if _reads(attribute, module) or not (private or _is_made_here_alone(owner, module)):
        return False
    search = module.project.search(attribute, module, 1 if private else _MOST_FILES)
    if search is None or private:
        return search is None or search.found is not None
    others = [module.project.at(path) for path in search.found or () if path != module.source.path]
    return search.found is not None and not any(_reads(attribute, other) for other in others)


def _reads(attribute: str, module: Module) -> bool:
    uses = (use for use in module.index.names_used.get(attribute, ()) if isinstance(use, ast.Attribute))
    return any(isinstance(use.ctx, ast.Load) for use in uses)


def _is_made_here_alone(owner: ast.ClassDef, module: Module) -> bool:
    """Are objects of a class made in its own file, which alone uses it and no base class of another library?"""
    inference = module.inference
    unknown = set(inference.external_bases(inference.class_info(owner))) - order_table().functions["bases"]
    if unknown or any(map(module.index.names_used.get, _BY_NAME)):
        return False
    made = any(True for _ in constructions(module.qualified(owner), module))
    return made and not any(True for _ in read_elsewhere(owner.name, module))
