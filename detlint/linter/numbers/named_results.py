"""Is a float, by the name under which an object keeps it or of the function that gives it, a result of computing?"""

from __future__ import annotations

import ast
from string import digits

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.written_here import made_here, whole_here, written_out
from detlint.linter.source.names import Binding, BindingKind, unpacked
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.gradients import gradient_table
from detlint.linter.tables.rounding import rounding_table

# Operators whose results are rounded.
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult)
_DEPTH = 8


def is_result(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Return whether an expression is `outcome.mean` or the like, of an outcome that some call gave, or its name."""
    if isinstance(node, ast.Subscript):
        return is_result(module, node.value, depth)
    if isinstance(node, ast.Name) and depth:
        named = [made_here(module, binding) for binding in module.definitions(node)]
        return len(named) == 1 and named[0] is not None and is_result(module, named[0], depth - 1)
    if not isinstance(node, ast.Attribute) or node.attr not in rounding_table().results:
        return False
    made: list[ast.expr | None] = [node.value]
    if isinstance(node.value, ast.Name):
        bindings = module.definitions(node.value)
        if any(binding.kind is BindingKind.ITERATION for binding in bindings):
            return False  # one row of data after another
        made = [whole_here(module, binding) for binding in bindings]
    return bool(made) and all(isinstance(value, ast.Call) and not _constructs(module, value) for value in made)


def is_result_by_name(key: str) -> bool:
    """`logits`, `atomic_virials`: a key or attribute under which a model gives floats."""
    table, words = rounding_table(), set(_words(key))
    known = key in table.results or not words.isdisjoint(table.measures | table.entries)
    return known and words.isdisjoint(table.preparing | table.whole)


def is_called_result(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """`cmc_score(x, y)`, `2 * model.get_loss(x) / n`: a float going by the name of the function that computes it.

    Or by its own, as `loss` after `loss = step(model)`.
    """
    if isinstance(node, ast.Name) and depth:
        bindings = module.definitions(node)
        if len(bindings) != 1:
            return False
        made, call = unpacked(bindings[0]), whole_here(module, bindings[0])
        if made is None:  # `loss, grid = step(model)`
            return isinstance(call, ast.Call) and _is_measured(module, node.id, call)
        return _is_measured(module, node.id, made) or is_called_result(module, made, depth - 1)
    if (written := written_out(module, node)) is not node and depth and is_called_result(module, written, depth - 1):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        return any(is_called_result(module, side, depth) for side in (node.left, node.right))
    if not isinstance(node, ast.Call):
        return False
    name = identifier(node.func)
    if isinstance(node.func, ast.Attribute) and name in rounding_table().keeping:
        return is_called_result(module, node.func.value, depth)
    words, table = name.split("_"), rounding_table()
    return name == name.lower() and not table.measures.isdisjoint(words) and table.counted.isdisjoint(words)


def _words(name: str) -> list[str]:
    """`loss` and `fused` of `loss1` and `fused_loss_2`."""
    return [word.rstrip(digits) for word in name.lower().split("_")]


def _is_measured(module: Module, name: str, made: ast.expr) -> bool:
    """Is a measure by the name of its variable what some call worked out, and neither looked up, chosen nor made?"""
    table, written = rounding_table(), written_out(module, made)
    made = written if isinstance(written, ast.Call) else made
    if not isinstance(made, ast.Call) or table.measures.isdisjoint(_words(name)):
        return False
    if any(each.startswith(("builtins.", "torch.", "numpy.")) for each in module.inference.callees(made)):
        return False
    called = identifier(made.func)
    if called in table.keeping | gradient_table().cutting_methods:  # `loss_ids.argmax(-1)` is a whole number
        return False
    return called == called.lower() and table.reading.isdisjoint(called.split("_"))


def is_of_operation(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """`causal_conv1d(x, w)`, `out` of `out, weights = self.attention(q, k, v)`: tensors of what rounds by its name."""
    table = rounding_table()
    if isinstance(node, ast.Name) and depth:
        bindings = module.definitions(node)
        made = _first_result(module, bindings[0]) if len(bindings) == 1 else None
        return made is not None and is_of_operation(module, made, depth - 1)
    if (written := written_out(module, node)) is not node and depth and is_of_operation(module, written, depth - 1):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = identifier(node.func)
    if isinstance(node.func, ast.Attribute) and name in table.keeping:
        return is_of_operation(module, node.func.value, depth)
    if any(module.project.definition(each) is not None for each in module.inference.callees(node)):
        return False  # what is in sight need not be guessed
    words = set(name.split("_"))
    return name == name.lower() and not words.isdisjoint(table.operations) and words.isdisjoint(table.preparing)


def _first_result(module: Module, binding: Binding) -> ast.expr | None:
    """Return what a name is bound to, alone or as the first of several results of a call."""
    whole = whole_here(module, binding) if binding.index == (0,) else None
    return unpacked(binding) or (whole if isinstance(whole, ast.Call) else None)


def _constructs(module: Module, call: ast.Call) -> bool:
    """An object that is made of values, or of another one, holds those values and has computed nothing yet."""
    lasts = [name.rpartition(".")[2] for name in module.inference.callees(call) or (ast.unparse(call.func),)]
    copying = rounding_table().keeping
    return any(last[:1].isupper() or last.startswith("from_") or last in copying for last in lasts)
