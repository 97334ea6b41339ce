"""Is what a function gives back one array, or one with nothing in it?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.only_values import only_value
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

FILLED = ("zeros", "empty", "ones", "new_zeros", "new_empty")


def is_array(module: Module, value: ast.expr | None) -> bool:
    """`np.concatenate(parts) if parts else np.zeros((0, 8))`, `net(x).cpu().numpy()`: rows of one array."""
    if isinstance(value, ast.IfExp):
        return all(is_array(module, branch) or is_empty(branch) for branch in (value.body, value.orelse))
    if isinstance(value, ast.Name):
        return is_array(module, only_value(module, value))
    name = identifier(value.func) if isinstance(value, ast.Call) else ""
    return name == "numpy" or name in rounding_table().joining


def is_empty(node: ast.expr | None) -> bool:
    """`np.zeros((0, 8))`, given back where there was nothing to compute."""
    shape = node.args if isinstance(node, ast.Call) and identifier(node.func) in FILLED else []
    sizes = [part for size in shape for part in (size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size])]
    return any(isinstance(size, ast.Constant) and size.value == 0 for size in sizes)
