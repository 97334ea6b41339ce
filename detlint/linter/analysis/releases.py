"""Branches for other releases: `if version.parse(torch.__version__) < version.parse("1.8"):`.

So those for when an operator of the table lacked a parameter: `if "aligned" in signature(roi_align).parameters:`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from detlint.conditions import Truth
from detlint.errors import UsageError
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.nodes import identifier
from detlint.operators import CONFIRMED, Version, load_operators, parse_version

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# What holds the installed release under a name of its own.
_NAMED = re.compile(r"_?(py)?torch_(version|release)", re.IGNORECASE)
_PARTS = frozenset({"base_version", "public", "release"})
COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def holds_for_release(test: ast.expr, ctx: Context) -> Truth:
    """Does a condition ask what release is installed, and hold for the one in force?

    Patches do not count: of `torch.__version__ == "2.13.1"` nothing is known where 2.13 is in force.
    """
    if isinstance(test, ast.Name):
        named = only_value(ctx.module, test)
        return holds_for_release(named, ctx) if isinstance(named, ast.Compare) else Truth.UNKNOWN
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return Truth.UNKNOWN
    if isinstance(test.ops[0], (ast.In, ast.NotIn)) and _asks_for_known_parameter(test, ctx):
        return Truth.of(isinstance(test.ops[0], ast.In))
    if not _is_installed(test.left, ctx):
        return Truth.UNKNOWN
    compare, release = COMPARED.get(type(test.ops[0])), _release(test.comparators[0])
    here = parse_version(ctx.config.torch_version or CONFIRMED)
    if compare is None or release is None or release == here:
        return Truth.UNKNOWN
    return Truth.of(compare(here, release))


def _asks_for_known_parameter(test: ast.Compare, ctx: Context) -> bool:
    """Is it a parameter that the table lists: `"aligned" in roi_align.__code__.co_varnames`?"""
    listed = test.comparators[0]
    if not isinstance(listed, ast.Attribute) or listed.attr not in ("co_varnames", "parameters"):
        return False
    of = listed.value
    function = of.args[0] if isinstance(of, ast.Call) and identifier(of.func) == "signature" and of.args else None
    if isinstance(of, ast.Attribute) and of.attr == "__code__":
        function = of.value
    names = ctx.resolve(function) if function is not None else ()
    return any(ctx.constant(test.left) in _parameters().get(name, ()) for name in names)


@cache
def _parameters() -> Mapping[str, frozenset[str]]:
    """Return the parameters of the table's functions by name."""
    triggers = (trigger for operator in load_operators() for trigger in operator.python)
    return {trigger.name: frozenset(parameter.name for parameter in trigger.parameters) for trigger in triggers}


def _is_installed(node: ast.expr, ctx: Context) -> bool:
    """`torch.__version__`, `Version(torch.__version__)`, `version.parse(_torch_version).base_version`."""
    if isinstance(node, ast.Call):
        return len(node.args) == 1 and not node.keywords and _is_installed(node.args[0], ctx)
    if isinstance(node, ast.Attribute) and node.attr in _PARTS:
        return _is_installed(node.value, ctx)
    if _NAMED.fullmatch(identifier(node)):
        return True
    return isinstance(node, ast.Attribute) and "torch.__version__" in ctx.resolve(node)


def _release(node: ast.expr) -> Version | None:
    """`"1.8"`, `Version("1.8.0")`, `(1, 8)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, (ast.Tuple, ast.List)):
        written = ".".join(str(part.value) for part in node.elts if isinstance(part, ast.Constant))
    else:
        written = str(node.value) if isinstance(node, ast.Constant) else ""
    try:
        return parse_version(written)
    except UsageError:
        return None
