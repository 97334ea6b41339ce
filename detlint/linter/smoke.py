"""Is a program only a quick look at the model that its file defines?

Many files of models end in a main guard that builds the model, calls it on random numbers and prints shapes. They are
libraries: no result of theirs is kept.
"""

from __future__ import annotations

import ast

from detlint.linter.calls import returned
from detlint.linter.names import FUNCTIONS
from detlint.linter.program import is_main_guard
from detlint.linter.project import Module
from detlint.linter.values import Kind
from detlint.randomness import load_sources


def is_smoke_test(module: Module) -> bool:
    """Return whether all that a file of models executes is a main guard that tries one of them out."""
    guards = [node for node in module.tree.body if isinstance(node, ast.If) and is_main_guard(node)]
    if not guards or not _defines_model(module):
        return False
    if any(isinstance(node, (ast.For, ast.While, ast.With)) for node in module.tree.body):
        return False
    if any(isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) for node in module.tree.body):
        return False
    return all(_is_harmless(module, call) for guard in guards for call in _calls(guard))


def _calls(node: ast.AST) -> list[ast.Call]:
    return [child for child in ast.walk(node) if isinstance(child, ast.Call)]


def _defines_model(module: Module) -> bool:
    classes = module.index.of_type(ast.ClassDef)
    return any(module.inference.is_module_class(module.qualified(node)) for node in classes)


def _is_harmless(module: Module, call: ast.Call, *, nested: bool = False) -> bool:
    """Does a call only build a model, run it, or look at it? `nested`: it stands in a function that the guard calls."""
    table = load_sources().smoke_test
    names = module.inference.callees(call)
    if isinstance(call.func, ast.Attribute) and call.func.attr in table.methods:
        return False
    return all(
        not name.startswith(table.works)
        and (name.startswith(table.packages) or _is_model(module, name) or _tries(module, name, nested))
        for name in names
    )


def _is_model(module: Module, name: str) -> bool:
    """A module's class, or a method of one."""
    inference = module.inference
    return inference.is_module_class(name) or inference.is_module_class(name.rpartition(".")[0])


def _tries(module: Module, name: str, nested: bool) -> bool:
    """Is this a function that makes a model (`resnet50()`), or one of the file that tries a model out itself?"""
    definition = module.project.definition(name)
    if definition is None or not isinstance(definition[1], FUNCTIONS):
        return False
    owner, function = definition
    results = returned(owner.inference, function)
    if results and all(value.kind is Kind.MODULE for value in results):
        return True
    harmless = owner is module and not nested and not any(isinstance(node, ast.Return) for node in ast.walk(function))
    return harmless and all(_is_harmless(module, call, nested=True) for call in _calls(function))
