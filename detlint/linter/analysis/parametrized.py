"""What the runs of one test, or of one loop, give a name in turn: `@pytest.mark.parametrize("dtype", [torch.half])`."""

from __future__ import annotations

import ast

from detlint.linter.analysis.module import Module
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import identifier


def given_in_turn(module: Module, name: ast.Name) -> list[ast.expr]:
    """Return what a name is in one run after the other, as far as that is written out; empty for all other names."""
    bindings = module.definitions(name)
    if len(bindings) != 1:
        return []
    binding = bindings[0]
    if binding.kind is BindingKind.ITERATION and not binding.index:
        return _elements(binding.value)
    return _parameters(binding) if binding.kind is BindingKind.PARAMETER else []


def _parameters(binding: Binding) -> list[ast.expr]:
    function = binding.scope.node
    for decorator in function.decorator_list if isinstance(function, FUNCTIONS) else ():
        names, runs = runs_of(decorator)
        if binding.name in names:
            position = names.index(binding.name)
            return [run[position] for run in runs if position < len(run)]
    return []


def runs_of(decorator: ast.expr) -> tuple[list[str], list[list[ast.expr]]]:
    """Return the names that `@pytest.mark.parametrize` gives values to, and the values of each run."""
    if not isinstance(decorator, ast.Call) or len(decorator.args) < 2:
        return [], []
    if not isinstance(decorator.func, ast.Attribute) or decorator.func.attr != "parametrize":
        return [], []
    names, runs = _names(decorator.args[0]), _elements(decorator.args[1])
    return names, [_elements(run) for run in runs] if len(names) > 1 else [[run] for run in runs]


def _names(node: ast.expr) -> list[str]:
    """`"dtype, size"`, `("dtype", "size")`."""
    texts = _elements(node) or [node]
    words = [text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]
    return [word.strip() for text in words for word in text.split(",") if word.strip()]


def _elements(node: ast.expr | None) -> list[ast.expr]:
    """Return the elements of a list or tuple, and the values of `pytest.param(…)`."""
    if isinstance(node, ast.Call):
        return node.args if identifier(node.func) == "param" else []
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else []
