"""Is a model entered only where nothing is recorded: it cannot be called, and its methods run under inference_mode?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import decorating, identifier, is_own, walk

# Methods that are called on a class, or that look like attributes.
_NO_ENTRIES = frozenset({"classmethod", "staticmethod", "property", "cached_property"})
_FORWARD = "forward"


def is_entered_unrecorded(info: ClassInfo) -> bool:
    """Return whether all public methods that a class adds to a model without a `forward` drop gradients, and some do.

    A `forward` that only raises is none. The class that raises is a base for others, of which some may train: it says
    nothing about itself, nor do the methods of it that are set anew.
    """
    classes = info.module.inference.mro(info)
    raising = next((at for at, cls in enumerate(classes) if _FORWARD in cls.methods), len(classes))
    if raising < len(classes) and not _only_raises(classes[raising].methods[_FORWARD]):
        return False
    if raising == len(classes) and not _is_plain_module(info):
        return False
    inherited = {name for cls in classes[raising:] for name in cls.methods}
    entries = [entry for cls in classes[:raising] for entry in _entries(cls) if entry[1].name not in inherited]
    dropping = {method.name for cls, method in entries if _drops_gradients(method, cls)}
    return bool(dropping) and all(method.name in dropping or _runs_only(method, dropping) for _, method in entries)


def _is_plain_module(info: ClassInfo) -> bool:
    """Does nothing out of sight bring a `forward`?"""
    inference = info.module.inference
    bases = inference.external_bases(info)
    return bool(bases) and all(base in ("torch.nn.Module", "torch.nn.modules.module.Module") for base in bases)


def _entries(cls: ClassInfo) -> Iterator[tuple[ClassInfo, FunctionNode]]:
    for name, method in cls.methods.items():
        kinds = {identifier(decorating(decorator)) for decorator in method.decorator_list}
        if (not name.startswith("_") or name == "__call__") and _NO_ENTRIES.isdisjoint(kinds):
            yield cls, method


def _only_raises(method: FunctionNode) -> bool:
    return [type(step) for step in _steps(method)] == [ast.Raise]


def _steps(method: FunctionNode) -> list[ast.stmt]:
    """Return the statements of a method behind its docstring."""
    return method.body[ast.get_docstring(method, clean=False) is not None :]


def _drops_gradients(method: FunctionNode, cls: ClassInfo) -> bool:
    """Is it decorated so, or does all that it reads of the model stand under `with torch.no_grad():`?"""
    places: list[ast.AST] = [*_own_read(method)] or [*_steps(method)]
    return bool(places) and all(without_gradients(cls.module, place) for place in places)


def _runs_only(method: FunctionNode, dropping: set[str]) -> bool:
    """`def add_points(self, *points): return self.add_points_or_box(*points)`, and what reads nothing of the model."""
    return all(part.attr in dropping for part in _own_read(method))


def _own_read(method: FunctionNode) -> Iterator[ast.Attribute]:
    """Yield where a method reads what the object holds: `self.encoder`."""
    for part in walk(method):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load) and is_own(part):
            yield part
