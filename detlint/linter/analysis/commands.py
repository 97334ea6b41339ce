"""Commands of a program of several, each in a file of its own: `CLI({"train": train})` in a package's `__main__`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.source.names import FUNCTIONS
from detlint.randomness import load_sources


def is_handed_to_reader(module: Module) -> bool:
    """Does a program of the project import a function of the file and hand it to what reads the command line?

    The program is the `__main__` of a package around the file, or a console script of the project.
    """
    return any(_hands_over(start, module) for start in _programs(module))


def _programs(module: Module) -> Iterator[Module]:
    packages = [module.name[:place] for place, letter in enumerate(module.name) if letter == "."]
    scripts = module.project.scripts(module.project.layout.root(module.source.path.parent))
    for name in sorted({*(f"{package}.__main__" for package in packages), *scripts}):
        start = module.project.find(name, module)
        if start is not None and start is not module:
            yield start


def _hands_over(start: Module, module: Module) -> bool:
    """Is a function of `module` handed on in `start`, where a command line is read?"""
    imported = {name.rpartition(".")[2] for name in start.outline.imports if name.rpartition(".")[0] == module.name}
    functions = imported.intersection(one.name for one in module.tree.body if isinstance(one, FUNCTIONS))
    if not functions:
        return False
    wanted = {f"{module.name}.{name}" for name in functions}
    bindings = start.index.root.bindings.items()
    taken = {name for name, made in bindings if any(one.target in wanted for one in made)}
    if not any(node.id in taken and _is_handed_on(node, start) for node in start.index.of_type(ast.Name)):
        return False
    readers = tuple(load_sources().smoke_test.starts)
    called = (name for call in start.index.of_type(ast.Call) for name in start.inference.resolve(call.func))
    return any(name.startswith(readers) for name in called)


def _is_handed_on(node: ast.Name, start: Module) -> bool:
    """`CLI({"train": train})`, `Fire(train)`, `set_defaults(func=train)`, `COMMANDS = [train, test]`."""
    parent = start.index.parents.get(node)
    if isinstance(parent, ast.Call):
        return parent.func is not node
    return isinstance(parent, (ast.Dict, ast.List, ast.Tuple, ast.keyword))
