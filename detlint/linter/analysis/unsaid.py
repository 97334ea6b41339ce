"""What stands in for something that a caller leaves out: `mode or "default"`, `field(default="x")`."""

from __future__ import annotations

import ast

from detlint.conditions import Truth
from detlint.linter.analysis.context import Context
from detlint.linter.source.names import Binding, BindingKind
from detlint.linter.source.nodes import identifier

# Methods of dictionaries that take what they give where a key is absent, and of settings that make one of their fields.
_LOOK_UPS = frozenset({"get", "pop", "getenv"})
_FIELDS = frozenset({"field", "Field"})

# An expression, and the file that it stands in.
Found = tuple[ast.expr, Context]


def stand_in(node: ast.expr) -> ast.expr | None:
    """Return `"x"` of `given or "x"` and of `options.get("mode", "x")`: what it is where nobody gave another."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return node.values[-1]
    if isinstance(node, ast.IfExp):
        for given, other, missing in ((node.orelse, node.body, True), (node.body, node.orelse, False)):
            if asks_whether(node.test, given, missing):
                return other
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if identifier(node.func) in _LOOK_UPS and len(node.args) == 2:
        return node.args[1]
    return node.args[2] if identifier(node.func) == "getattr" and len(node.args) == 3 else None


def asks_whether(test: ast.expr, given: ast.expr, missing: bool) -> bool:
    """`given is None` and `not given` say that something is missing; `given is not None` and `given` that it is not.

    So does `given in ("", None)`.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return asks_whether(test.operand, given, not missing)
    if isinstance(test, ast.Compare) and ast.dump(test.left) == ast.dump(given):
        asked, other = test.ops[0], test.comparators[0]
        if isinstance(other, (ast.Tuple, ast.List, ast.Set)):
            return isinstance(asked, ast.In if missing else ast.NotIn) and all(map(_is_nothing, other.elts))
        return isinstance(asked, ast.Is if missing else ast.IsNot) and _is_nothing(other)
    return not missing and ast.dump(test) == ast.dump(given)


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, "")


def only_definition(node: ast.Name, ctx: Context) -> Binding | None:
    """Return the one definition of a name, or the one that fills it in: `if mode is None: mode = "x"`.

    What is filled in under a condition of its own, `if fast: mode = "y"`, is for whoever asks for that.
    """
    bindings = ctx.module.definitions(node)
    if len(bindings) == 1:
        return bindings[0]
    fills = {binding: _fills_in(binding, ctx) for binding in bindings}
    by_default = [binding for binding, answer in fills.items() if answer is Truth.YES]
    left_open = all(_is_given(binding) for binding, answer in fills.items() if answer is Truth.NO)
    return by_default[0] if len(by_default) == 1 and left_open else None


def _fills_in(binding: Binding, ctx: Context) -> Truth:
    """Does a binding stand in for what is missing? Unknown where it asks for more than that."""
    if binding.kind is not BindingKind.ASSIGN or not isinstance(binding.node, ast.Name):
        return Truth.NO
    name, asks_more = ast.Name(binding.name, ast.Load()), False
    for test, holds in ctx.module.index.branches_around(binding.node):
        if asks_whether(test, name, missing=holds):
            return Truth.UNKNOWN if asks_more else Truth.YES
        asks_more |= holds
    return Truth.NO


def _is_given(binding: Binding) -> bool:
    """Is this what a caller or a setting says, or nothing yet: `mode = config.mode`, `mode = None`?"""
    value = binding.value
    said = isinstance(value, (ast.Attribute, ast.Subscript)) or (value is not None and _is_nothing(value))
    return binding.kind is BindingKind.PARAMETER or (binding.kind is BindingKind.ASSIGN and said)


def kept(node: ast.Attribute, ctx: Context) -> Found | None:
    """Return what an attribute of an object of the project is set to, or what the field of its class is by default."""
    for value in ctx.values(node.value):
        info = ctx.inference.class_named(value.type) if value.type else None
        writes = list(ctx.inference.attribute_writes(info, node.attr)) if info is not None else []
        if len(writes) == 1 and not writes[0][1].index:
            owner, write = writes[0]
            return default_of_field(write.value), ctx.elsewhere(owner.module)
    return None


def default_of_field(value: ast.expr) -> ast.expr:
    """`"x"` of `field(default="x")` and of `Field("x", description="…")`."""
    if not isinstance(value, ast.Call) or identifier(value.func) not in _FIELDS:
        return value
    given = [keyword.value for keyword in value.keywords if keyword.arg == "default"] or value.args[:1]
    return given[0] if given else value
