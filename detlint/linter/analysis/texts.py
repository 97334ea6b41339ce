"""Is a value text? By where it comes from, or by what else is done with it."""

from __future__ import annotations

import ast

from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode
from detlint.linter.source.nodes import walk
from detlint.linter.tables.elements import element_table

_ON_OBJECTS = frozenset({"builtins.getattr", "builtins.setattr", "builtins.hasattr"})  # text comes second
_JOINING_PATHS = "os.path.join"  # text in each place
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
    return any(_is_used_as_text(module, use, steps) for use in uses)


def _is_used_as_text(module: Module, use: ast.Name, steps: int) -> bool:
    """`os.makedirs(folder)`, `f"{folder}/a"`, `line.split()`, `name + ".txt"`."""
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.Attribute):
        called = module.index.parents.get(parent)
        return (
            isinstance(called, ast.Call) and called.func is parent and parent.attr in element_table().methods["texts"]
        )
    if isinstance(parent, ast.Call):
        return _is_passed_as_text(module, use, parent, steps)
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Add) and any(map(_is_string, (parent.left, parent.right)))
    return isinstance(parent, ast.FormattedValue) and _stands_before_slash(module, parent)


def _is_passed_as_text(module: Module, use: ast.Name, call: ast.Call, steps: int) -> bool:
    """`open(name)`, `os.path.join(root, split)`, `path_of(split)` where a function of the file uses it so."""
    if use not in call.args:
        return False
    names = module.inference.callees(call)
    if _JOINING_PATHS in names:
        return True
    if call.args[0] is use and not (element_table().functions["reading"] - _ON_OBJECTS).isdisjoint(names):
        return True
    called = [*functions_called(module.inference, call), *_local_functions(module, call)] if steps else []
    for home, function in called:
        name = parameter_given(function, call, use, skip_self=isinstance(call.func, ast.Attribute))
        if name is not None and module.project.once(_takes_as_text, (home, function, name, steps - 1)):
            return True
    return False


def _takes_as_text(asked: tuple[Module, FunctionNode, str, int]) -> bool:
    """Does a function use its parameter of that name as text?"""
    home, function, name, steps = asked
    inside = (part for part in walk(function) if isinstance(part, ast.Name) and part.id == name)
    return any(_is_used_as_text(home, part, steps) for part in inside)


def _local_functions(module: Module, call: ast.Call) -> list[tuple[Module, FunctionNode]]:
    """Return the functions inside a function that a call may mean: `def path_of(split): …` in a method."""
    bindings = module.definitions(call.func) if isinstance(call.func, ast.Name) else ()
    return [(module, binding.node) for binding in bindings if isinstance(binding.node, FUNCTIONS)]


def _stands_before_slash(module: Module, part: ast.FormattedValue) -> bool:
    """`f"{folder}/a"`: a number might stand inside a path, but seldom at its beginning."""
    string = module.index.parents.get(part)
    parts = string.values if isinstance(string, ast.JoinedStr) else []
    after = parts[1] if parts[:1] == [part] and len(parts) > 1 else None
    return after is not None and _is_string(after) and str(getattr(after, "value", "")).startswith("/")


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
