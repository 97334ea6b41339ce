"""Which parts of a model come from whoever makes it?"""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.module import Module
from detlint.linter.source.names import BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own, walk

# Names of variables that hold parts of a model.
PART = re.compile(r"model|net|module|layer|block|norm|coder|backbone|head|trunk|stem|body|features|cell|cnn|vit", re.I)
# Types and names of parameters that hold no part, whatever they are called after.
_SETTINGS = frozenset({"int", "float", "bool", "str"})
_COUNT = re.compile(r"(num|n)_\w+s$")


def keeps_given(statement: ast.Assign, function: FunctionNode | ast.Lambda) -> bool:
    """Return whether whoever makes a model hands a part in: `self.net = net`, and no number like `num_layers: int`."""
    given = {argument.arg for argument, default in parameters(function.args) if not _is_setting(argument, default)}
    return identifier(statement.value) in given and any(
        is_own(target) and PART.search(identifier(target)) for target in statement.targets
    )


def _is_setting(argument: ast.arg, default: ast.expr | None) -> bool:
    """`model_dim: int`, `num_layers=4`, `n_blocks`."""
    plain = isinstance(default, ast.Constant) and default.value is not None
    return plain or identifier(argument.annotation) in _SETTINGS or _COUNT.match(argument.arg) is not None


def takes_parts(module: Module, call: ast.Call, made: tuple[Module, FunctionNode | ast.ClassDef]) -> bool:
    """Return whether a class is handed parts: `Fused(encoders, head)` in a function that is given both."""
    info = made[0].inference.class_info(made[1]) if isinstance(made[1], ast.ClassDef) else None
    built = info.methods.get("__init__") if info is not None else None
    if info is None or built is None:
        return False
    given = {part.arg: argument_of(built, part.arg, call, skip_self=True) for part, _ in parameters(built.args)}
    handed = {name for name, value in given.items() if isinstance(value, ast.Name) and _is_only_given(module, value)}
    run = {identifier(part.func) for part in walk(info.node) if isinstance(part, ast.Call) and is_own(part.func)}
    return any(
        identifier(target) in run and is_own(target) and identifier(write.value) in handed
        for write in walk(built)
        if isinstance(write, ast.Assign)
        for target in write.targets
    )


def _is_only_given(module: Module, name: ast.Name) -> bool:
    bindings = module.definitions(name)
    return bool(bindings) and all(binding.kind is BindingKind.PARAMETER for binding in bindings)
