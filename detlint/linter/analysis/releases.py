"""Branches for other releases of torch: `if version.parse(torch.__version__) < version.parse("1.8"):`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from detlint.conditions import Truth
from detlint.errors import UsageError
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.nodes import identifier
from detlint.operators import CONFIRMED, Version, parse_version

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
    """Does a condition compare the installed torch with a release, and hold for the one in force?

    Patches do not count: of `torch.__version__ == "2.13.1"` nothing is known where 2.13 is in force.
    """
    if isinstance(test, ast.Name):
        named = only_value(ctx.module, test)
        return holds_for_release(named, ctx) if isinstance(named, ast.Compare) else Truth.UNKNOWN
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not _is_installed(test.left, ctx):
        return Truth.UNKNOWN
    compare, release = COMPARED.get(type(test.ops[0])), _release(test.comparators[0])
    here = parse_version(ctx.config.torch_version or CONFIRMED)
    if compare is None or release is None or release == here:
        return Truth.UNKNOWN
    return Truth.of(compare(here, release))


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
