"""What pytest gives a test that names a fixture of its file or of a `conftest.py`: `def test_shape(model)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.files import is_file
from detlint.linter.analysis.values import Value
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import decorating, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference
    from detlint.linter.analysis.module import Module

_FIXTURE = "pytest.fixture"
_SHARED = "conftest.py"


def fixture_values(inference: Inference, parameter: ast.arg, function: FunctionNode) -> tuple[Value, ...]:
    """Return what the fixture behind a parameter of a test, or of another fixture, returns or yields."""
    if not function.name.startswith("test") and not _is_fixture(inference, function):
        return ()
    for where in (inference, *(shared.inference for shared in conftests(inference.module))):
        around = inference.index.class_at(function) if where is inference else None
        found = [
            each
            for each in where.index.of_type(ast.FunctionDef)
            if each.name == parameter.arg
            and each is not function
            and where.index.class_at(each) in (None, around)
            and _is_fixture(where, each)
        ]
        if len(found) > 1:
            return ()
        if found:
            given = [part.value for part in walk(found[0]) if isinstance(part, (ast.Return, ast.Yield))]
            return tuple(value for node in given if node is not None for value in where.values(node))
    return ()


def conftests(module: Module) -> Iterator[Module]:
    """Yield the files `conftest.py` beside a test and in the folders around it, the nearest first."""
    project, path = module.project, module.source.path
    root = project.layout.root(path.parent)
    for shared in (folder / _SHARED for folder in path.parents if folder.is_relative_to(root)):
        project.consulted[shared] = None  # also where there is none yet
        if shared != path and is_file(shared):
            yield project.at(shared)


def takers_of(inference: Inference, fixture: FunctionNode) -> Iterator[tuple[FunctionNode, ast.arg]]:
    """Yield the tests and fixtures of the file that name a fixture, each with the parameter that gets it.

    Nothing of what is no fixture, or is one for other files too.
    """
    if not _is_fixture(inference, fixture) or inference.module.source.path.name == _SHARED:
        return
    for function in inference.index.of_type(ast.FunctionDef):
        if function is not fixture and (function.name.startswith("test") or _is_fixture(inference, function)):
            named = (parameter for parameter, _ in parameters(function.args) if parameter.arg == fixture.name)
            yield from ((function, parameter) for parameter in named)


def _is_fixture(inference: Inference, function: FunctionNode) -> bool:
    return any(_FIXTURE in inference.resolve(decorating(decorator)) for decorator in function.decorator_list)
