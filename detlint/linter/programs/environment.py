"""Where a file writes the environment of its process."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from detlint.linter.analysis.dicts import looped_items, written_items
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import calls_named

Constant = Callable[["ast.expr | None"], object]


_READERS = frozenset({"os.getenv", "os.environ.get", "os.environ.pop"})


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentWrite:
    """`os.environ["NAME"] = value` in one of its spellings; `value` is None where it is not written out."""

    node: ast.stmt | ast.expr
    variable: str
    value: ast.expr | None


def environment_writes(module: Module, constant: Constant) -> Iterator[EnvironmentWrite]:
    """Yield the writes of a file to `os.environ`, in source order; `constant` gives the value of a name."""
    found = [*_assigned(module, constant), *_called(module, constant)]
    yield from sorted(found, key=lambda write: (write.node.lineno, write.node.col_offset))


def is_put_back(write: EnvironmentWrite, module: Module, constant: Constant) -> bool:
    """`os.environ["NAME"] = before`, after `before = os.environ.get("NAME")`: as it was when somebody looked."""
    read = write.value
    if isinstance(read, ast.Name):
        read = next((binding.value for binding in module.definitions(read) if not binding.index), None)
    if isinstance(read, ast.Subscript):
        return _is_environment(module, read.value) and constant(read.slice) == write.variable
    if not isinstance(read, ast.Call) or not read.args or _READERS.isdisjoint(module.inference.callees(read)):
        return False
    stand_ins = [*read.args[1:], *(keyword.value for keyword in read.keywords)]
    return constant(read.args[0]) == write.variable and all(constant(other) is None for other in stand_ins)


def _assigned(module: Module, constant: Constant) -> Iterator[EnvironmentWrite]:
    for statement in module.index.of_type(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript) and _is_environment(module, target.value):
                yield from _named(statement, constant(target.slice), statement.value)
                for name, value in looped_items(module, target.slice).items():
                    yield EnvironmentWrite(statement, name, value)
    for added in module.index.of_type(ast.AugAssign):
        if isinstance(added.op, ast.BitOr) and _is_environment(module, added.target):
            yield from _updated(module, added, added.value, constant)


def _is_environment(module: Module, node: ast.expr) -> bool:
    return "os.environ" in module.inference.resolve(node)


def _called(module: Module, constant: Constant) -> Iterator[EnvironmentWrite]:
    for call in calls_named(module, ("putenv", "setdefault", "update")):
        names = module.inference.callees(call)
        if "os.environ.update" in names:
            for keyword in call.keywords:
                yield from _named(call, keyword.arg, keyword.value)
            for given in call.args:
                yield from _updated(module, call, given, constant)
        elif {"os.putenv", "os.environ.setdefault"} & set(names) and len(call.args) == 2:
            yield from _named(call, constant(call.args[0]), call.args[1])


def _updated(
    module: Module, node: ast.stmt | ast.expr, given: ast.expr, constant: Constant
) -> Iterator[EnvironmentWrite]:
    if isinstance(given, ast.Dict):
        for key, value in zip(given.keys, given.values, strict=True):
            yield from _named(node, constant(key), value)
    else:
        for name, value in (written_items(module, given) or {}).items():
            yield EnvironmentWrite(node, name, value)


def _named(node: ast.stmt | ast.expr, name: object, value: ast.expr) -> Iterator[EnvironmentWrite]:
    if isinstance(name, str):
        yield EnvironmentWrite(node, name, value)
