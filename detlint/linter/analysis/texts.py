"""Is a value text? By where it comes from, or by what else is done with it."""

from __future__ import annotations

import ast

from detlint.linter.analysis.project import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import BindingKind
from detlint.linter.tables.elements import element_table

_ON_OBJECTS = frozenset({"builtins.getattr", "builtins.setattr", "builtins.hasattr"})  # text comes second
_MAX_STEPS = 3


def is_text(module: Module, value: ast.expr, steps: int = _MAX_STEPS) -> bool:
    """`sys.argv[1]`, `os.environ.get("SPLIT", "a")`, also under a name, or what is used as a path or as text."""
    if isinstance(value, ast.Subscript):
        return not element_table().functions["holding"].isdisjoint(module.inference.resolve(value.value))
    if isinstance(value, ast.Call):
        return not element_table().functions["texts"].isdisjoint(module.inference.callees(value))
    if not isinstance(value, ast.Name) or not steps:
        return False
    bindings = module.definitions(value)
    made = [binding.value for binding in bindings if binding.kind is BindingKind.ASSIGN and not binding.index]
    if made and len(made) == len(bindings):
        kinds = {each.kind for each in module.inference.values(value)}
        if kinds == {Kind.STRING} or any(each is not None and is_text(module, each, steps - 1) for each in made):
            return True
    uses = (use for binding in bindings for use in module.flow(binding.scope).uses(binding))
    return any(_is_used_as_text(module, use) for use in uses)


def _is_used_as_text(module: Module, use: ast.Name) -> bool:
    """`os.makedirs(folder)`, `f"{folder}/a"`, `line.split()`, `name + ".txt"`."""
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.Attribute):
        called = module.index.parents.get(parent)
        return (
            isinstance(called, ast.Call) and called.func is parent and parent.attr in element_table().methods["texts"]
        )
    if isinstance(parent, ast.Call):
        reading = element_table().functions["reading"] - _ON_OBJECTS
        return parent.args[:1] == [use] and not reading.isdisjoint(module.inference.callees(parent))
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Add) and any(map(_is_string, (parent.left, parent.right)))
    return isinstance(parent, ast.FormattedValue) and _stands_before_slash(module, parent)


def _stands_before_slash(module: Module, part: ast.FormattedValue) -> bool:
    """`f"{folder}/a"`: a number might stand inside a path, but seldom at its beginning."""
    string = module.index.parents.get(part)
    parts = string.values if isinstance(string, ast.JoinedStr) else []
    after = parts[1] if parts[:1] == [part] and len(parts) > 1 else None
    return after is not None and _is_string(after) and str(getattr(after, "value", "")).startswith("/")


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
