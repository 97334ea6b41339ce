"""Parts of a model that are in eval mode from the start: `self.net = Net()`, and then `self.net.eval()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.source.nodes import identifier, is_own, walk

# Methods of a model in which a switch comes before anything is predicted.
_RUN_FIRST = ("__init__", "__post_init__", "forward", "__call__")


def settled_parts(module: Module, body: ast.AST, *, made: bool) -> frozenset[ast.AST]:
    """Return what makes the parts that a class or function of a module puts into eval mode.

    With `made` as long as nobody switches the whole; else only those of which `train` is overwritten as well.
    """
    if "eval" not in module.index.calls_by_name:
        return frozenset()
    return module.project.once(_settled, (module, body, made))


def stays_in_mode(module: Module, owner: ast.ClassDef, name: str) -> bool:
    """`self.net.train = disabled_train`: whoever switches the whole does not switch this part of it."""
    parts = (target.value for target in _overwritten(module, owner))
    return any(is_own(part) and identifier(part) == name for part in parts)


def _settled(asked: tuple[Module, ast.AST, bool]) -> frozenset[ast.AST]:
    module, body, made = asked
    kept = {ast.unparse(target.value) for target in _overwritten(module, body)}
    settled: set[ast.AST] = set()
    for call in walk(body):
        if not isinstance(call, ast.Call) or switched(call) is not Mode.EVAL or not _is_sure(module, call):
            continue
        part = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        if isinstance(part, (ast.Name, ast.Attribute)):
            if made or ast.unparse(part) in kept:
                settled.update(_values_of(module, part, body))
        elif made or any(ast.unparse(target) in kept for target in _targets(module, call)):
            settled.add(part)
    return frozenset(settled)


def _overwritten(module: Module, body: ast.AST) -> Iterator[ast.Attribute]:
    """`self.net.train = disabled_train`."""
    for part in module.index.names_used.get("train", ()):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and body in module.index.ancestors(part):
            yield part


def _is_sure(module: Module, call: ast.Call) -> bool:
    """Is a switch under no condition, and in a method that runs before the model predicts?

    `try:` is none: what is caught there comes of loading weights, and leaves no model to predict with.
    """
    function = module.index.function_at(call)
    around = module.index.parents.get(module.index.statement(call))
    while isinstance(around, (ast.With, ast.Try)):
        if isinstance(around, ast.Try) and call not in _parts(around.body):
            return False
        around = module.index.parents.get(around)
    if around is not (function or module.tree):
        return False
    return (
        function is None
        or function.name in _RUN_FIRST
        or not isinstance(module.index.parents.get(function), ast.ClassDef)
    )


def _parts(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    return (part for statement in statements for part in walk(statement))


def _targets(module: Module, value: ast.expr) -> list[ast.expr]:
    statement = module.index.parents.get(value)
    return statement.targets if isinstance(statement, ast.Assign) else []


def _values_of(module: Module, part: ast.Name | ast.Attribute, body: ast.AST) -> Iterator[ast.AST]:
    """Yield what is assigned to a variable that is switched: of the same function, or of the same object."""
    text = ast.unparse(part)
    around = module.index.function_at(part) or module.tree if isinstance(part, ast.Name) else body
    for statement in walk(around):
        if not isinstance(statement, ast.Assign):
            continue
        if any(ast.unparse(target) == text for target in statement.targets):
            yield statement.value
