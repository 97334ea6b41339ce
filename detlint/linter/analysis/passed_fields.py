"""What does a project put into a field of a record: a dataclass or a named tuple, made wherever it is called?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of, is_set_from_outside
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.source.nodes import decorating, identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.callers import Given
    from detlint.linter.analysis.context import Context

_RECORDS = frozenset({"dataclasses.dataclass", "typing.NamedTuple"})


def passed_for_field(info: ClassInfo, name: str, ctx: Context) -> list[Given]:
    """Return all that calls pass for a field without a default; nothing where something else may set it too."""
    fields = fields_of(info)
    inside = ctx.elsewhere(info.module)
    if name not in fields or is_set_from_outside(name, inside) or _is_stored(name, inside) or _makes_itself(info):
        return []
    given: list[Given] = []
    for site in calls_of(info.node, inside):
        value = passed_as(fields.index(name), name, site[1]) if site is not None else None
        if site is None or value is None:
            return []
        given.append((value, site[0]))
    return given


def may_be_given(info: ClassInfo, name: str, ctx: Context) -> bool:
    """May a call outside tests give a field of a record a value? So where one is not seen, and where there is none."""
    fields = fields_of(info)
    if name not in fields:
        return False
    sites = list(calls_of(info.node, ctx.elsewhere(info.module)))
    known = [site[1] for site in sites if site is not None and not is_test_file(site[0].module)]
    hidden = any(isinstance(part, ast.Starred) for call in known for part in call.args)
    hidden |= any(keyword.arg is None for call in known for keyword in call.keywords)
    given = (passed_as(fields.index(name), name, call) for call in known)
    return not known or None in sites or hidden or any(value is not None for value in given)


def fields_of(info: ClassInfo) -> list[str]:
    """Return the fields of a record in the order of its constructor; none of another class, or of one that inherits."""
    inference, node = info.module.inference, info.node
    marks = [decorating(decorator) for decorator in node.decorator_list] or node.bases
    names = {name for mark in marks for name in inference.resolve(mark)}
    if _RECORDS.isdisjoint(names) or "__init__" in info.methods or (node.decorator_list and node.bases):
        return []
    return [
        part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    ]


def passed_as(place: int, name: str, call: ast.Call) -> ast.expr | None:
    """Return what a call passes by name or at its place; None where that is not written out."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if named is not None or place >= len(call.args):
        return named
    starred = any(isinstance(argument, ast.Starred) for argument in call.args[: place + 1])
    return None if starred else call.args[place]


def _is_stored(name: str, ctx: Context) -> bool:
    """Does the file of the class set an attribute of that name, of whatever object?"""
    uses = ctx.module.index.names_used.get(name, ())
    return any(isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Store) for use in uses)


def _makes_itself(info: ClassInfo) -> bool:
    """`return cls(x)`: calls in the body of a class are none of those that are looked at."""
    return any(
        isinstance(part, ast.Call) and identifier(part.func) in ("cls", "_replace", "replace", info.node.name)
        for part in walk(info.node)
    )
