"""Is a part of a network run, by the name of what is called and by the floats that go in or come out?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.programs.called_models import is_untold
from detlint.linter.source.names import unpacked
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table


def is_run_of_part(module: Module, call: ast.Call) -> bool:
    """`encoder(torch.randn(2, 8))`; `y = head(x)` before `y.mean()`. A name alone may be of what encodes text."""
    named = not rounding_table().parts.isdisjoint(_words(call.func))
    if not named or not is_untold(module, call):
        return False
    return _is_given_floats(module, call) or _is_used_as_float(module, call)


def _words(node: ast.AST) -> list[str]:
    return identifier(node).lower().split("_")


def _is_given_floats(module: Module, call: ast.Call) -> bool:
    return any(
        value.kind is Kind.TENSOR and value.is_floating
        for given in call.args
        for value in module.inference.values(given)
    )


def _is_used_as_float(module: Module, call: ast.Call) -> bool:
    """Is something asked of a result that only floats can answer: `y.requires_grad`, `torch.isnan(y)`, `y.mean()`?"""
    statement = module.index.statement(call)
    targets = (part for target in getattr(statement, "targets", ()) for part in ast.walk(target))
    return any(
        _asks_for_float(module, use)
        for target in targets
        if isinstance(target, ast.Name)
        for binding in module.index.bindings_of(target)
        if unpacked(binding) is call
        for use in module.flow_at(target).uses(binding)
    )


def _asks_for_float(module: Module, use: ast.expr) -> bool:
    table, parent = rounding_table(), module.index.parents.get(use)
    if isinstance(parent, ast.Attribute):
        if parent.attr == "dtype":
            return "float" in ast.unparse(module.index.parents[parent])
        return parent.attr in table.floats | table.floating
    if not isinstance(parent, ast.Call) or use not in parent.args:
        return False
    return any(
        name.startswith("torch.") and name.rpartition(".")[2] in table.floats | table.rounding
        for name in module.inference.callees(parent)
    )
