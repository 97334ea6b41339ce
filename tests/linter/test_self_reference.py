"""Code whose names, results and parameters lead back to themselves ends in findings or none, never in a crash.

Every example of every rule is changed so: questions that follow values from place to place have to come to an end.
"""

from __future__ import annotations

import ast
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths
from detlint.rulebook import load_rules

_AGAIN = ('{0} = {0}["next"]', "{0} = {0}.next", "{0} = {0}()", "{0} = {0}[0] if {0} else {0}", "{0} = dict({0})")


class _Names(ast.NodeTransformer):
    """`x = f()` becomes `x = x["next"]`, in its place or behind it."""

    def __init__(self, seed: int) -> None:
        self._draws = random.Random(seed)
        self._again = _AGAIN[seed % len(_AGAIN)]

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        target = node.targets[0]
        if not isinstance(target, (ast.Name, ast.Attribute)):
            return node
        again = ast.parse(self._again.format(ast.unparse(target))).body
        return [node, *again] if self._draws.random() < 0.5 else again


class _Functions(ast.NodeTransformer):
    """A function returns what it gives itself, or reads its parameters out of themselves."""

    def __init__(self, seed: int) -> None:
        self._form = seed % 3

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        parameters = [argument.arg for argument in node.args.args]
        name = f"self.{node.name}" if parameters[:1] == ["self"] else node.name
        given = [parameter for parameter in parameters if parameter != "self"]
        call = ast.parse(f"{name}({', '.join(given)})", mode="eval").body
        if self._form == 0:
            node.body.append(ast.Return(call))
        elif self._form == 1:
            for part in ast.walk(node):
                if isinstance(part, ast.Return):
                    part.value = call
        else:
            loops = (f'while {each}:\n    {each} = {each}["k"] if {each} else {ast.unparse(call)}' for each in given)
            node.body[:0] = [statement for loop in loops for statement in ast.parse(loop).body]
        return node


@pytest.mark.parametrize("change", [_Names, _Functions])
def test_every_question_ends(change: Callable[[int], ast.NodeTransformer], tmp_path: Path) -> None:
    examples = [each for rule in load_rules().values() for each in (*rule.bad, *rule.good)]
    for number, example in enumerate(examples):
        seed = zlib.crc32(example.code.encode())  # a new example changes none of the others
        for name, code in {**(example.files or {}), example.filename: example.code}.items():
            try:
                tree = ast.parse(code)
            except (SyntaxError, ValueError):
                continue  # a notebook, or an example of what cannot be parsed
            place = tmp_path / str(number) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(ast.unparse(ast.fix_missing_locations(change(seed).visit(tree))), "utf-8")
    result = lint_paths([str(tmp_path)], resolver=ConfigResolver(isolated=True))
    assert result.files > len(examples) / 2
    assert not result.problems
