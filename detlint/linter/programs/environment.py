"""Where a file writes the environment of its process."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from detlint.linter.analysis.program import calls_named
from detlint.linter.analysis.project import Module

Constant = Callable[["ast.expr | None"], object]


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


def _assigned(module: Module, constant: Constant) -> Iterator[EnvironmentWrite]:
    for statement in module.index.of_type(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript) and "os.environ" in module.inference.resolve(target.value):
                yield from _named(statement, constant(target.slice), statement.value)


def _called(module: Module, constant: Constant) -> Iterator[EnvironmentWrite]:
    for call in calls_named(module, ("putenv", "setdefault", "update")):
        names = module.inference.callees(call)
        if "os.environ.update" in names:
            for keyword in call.keywords:
                yield from _named(call, keyword.arg, keyword.value)
            for display in call.args:
                if isinstance(display, ast.Dict):
                    for key, value in zip(display.keys, display.values, strict=True):
                        yield from _named(call, constant(key), value)
        elif {"os.putenv", "os.environ.setdefault"} & set(names) and len(call.args) == 2:
            yield from _named(call, constant(call.args[0]), call.args[1])


def _named(node: ast.stmt | ast.expr, name: object, value: ast.expr) -> Iterator[EnvironmentWrite]:
    if isinstance(name, str):
        yield EnvironmentWrite(node, name, value)
