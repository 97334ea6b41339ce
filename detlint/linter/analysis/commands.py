"""Commands of a program of several, each in a file of its own: `CLI({"train": train})` in a package's `__main__`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.project import Module
from detlint.linter.source.names import BindingKind
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
    """Is a function of `module` named in `start`, where a command line is read, without being called there?"""
    if not any(name.rpartition(".")[0] == module.name for name in start.outline.imports):
        return False
    taken = {
        name
        for name, bindings in start.index.root.bindings.items()
        if any(one.kind is BindingKind.IMPORT and one.target.rpartition(".")[0] == module.name for one in bindings)
    }
    handed = any(
        node.id in taken and not _is_called(node, start) and isinstance(node.ctx, ast.Load)
        for node in start.index.of_type(ast.Name)
    )
    readers = tuple(load_sources().smoke_test.starts)
    return handed and any(
        name.startswith(readers)
        for call in start.index.of_type(ast.Call)
        for name in start.inference.resolve(call.func)
    )


def _is_called(node: ast.Name, start: Module) -> bool:
    parent = start.index.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node
