"""Which functions of a file run first in the workers of a DataLoader?"""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.module import Module
from detlint.linter.source.names import FUNCTIONS, FunctionNode

_NAMED = re.compile(r"(^|_)(worker_init|seed_worker|worker_seed|init_fn)(_|$)")


def worker_initialisers(module: Module) -> frozenset[FunctionNode | ast.Lambda]:
    """Return the functions and lambdas of this file that it passes as `worker_init_fn`."""
    return module.project.once(_find, module)


def in_loader_worker(module: Module, node: ast.AST) -> bool:
    """Return whether `node` stands in such a function, or in one whose name says so: others may pass it."""
    workers = worker_initialisers(module)
    return any(
        parent in workers or (isinstance(parent, FUNCTIONS) and _NAMED.search(parent.name) is not None)
        for parent in module.index.ancestors(node)
    )


def _find(module: Module) -> frozenset[FunctionNode | ast.Lambda]:
    found: set[FunctionNode | ast.Lambda] = set()
    for keyword in module.index.of_type(ast.keyword):
        if keyword.arg != "worker_init_fn":
            continue
        if isinstance(keyword.value, ast.Lambda):
            found.add(keyword.value)
        for name in module.inference.resolve(keyword.value):
            definition = module.project.definition(name)
            if definition is not None and definition[0] is module and isinstance(definition[1], FUNCTIONS):
                found.add(definition[1])
    return frozenset(found)
