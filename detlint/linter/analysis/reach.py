"""Which definitions of the modules that a program imports does its own code lead to?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.may_use import may_use
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import Program, outermost_definition
from detlint.linter.source.names import FUNCTIONS, FunctionNode

Definition = FunctionNode | ast.ClassDef
# Words in the names of functions that seed.
SEEDS = re.compile(r"seed|random|determin|reproduc|setup|init|prepare|environment", re.IGNORECASE)
_STATIC = "staticmethod"


class Reach:
    """Answers for one program. `Program.runs` goes by names alone; here each use has to mean the definition.

    `net.train()` is no call of some `train(model, seed)` that is imported along, and `Trainer.show(x)`, a static
    method, makes no trainer.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[Module, Definition], tuple[Module, ast.AST] | None] = {}

    def leads_to(self, module: Module, node: ast.AST) -> bool:
        """Return whether code of the program leads to `node`, through definitions that mean each other."""
        return self.start(module, node) is not None

    def start(self, module: Module, node: ast.AST) -> tuple[Module, ast.AST] | None:
        """Return where the way to `node` begins: in the program's own file, or in code that importing it runs."""
        if not self._program.runs(module, node):
            return None
        definition = outermost_definition(module, node)
        if definition is None or module is self._program.module:
            return module, node
        if definition.decorator_list and not self._program.starts_another(module, definition):
            return module, node
        key = (module, definition)
        if key not in self._known:
            self._known[key] = None  # what only leads back to itself is reached by nobody
            starts = (self.start(user, use) for user, use in self._uses(module, definition))
            self._known[key] = next((start for start in starts if start is not None), None)
        return self._known[key]

    def _uses(self, module: Module, definition: Definition) -> Iterator[tuple[Module, ast.expr]]:
        """Yield what means a definition; a method of something unknown may, if the name speaks of seeding."""
        qualified = module.qualified(definition)
        speaking = SEEDS.search(definition.name) is not None
        for user in self._program.modules:
            if not (speaking or may_use(user, module, definition)):
                continue
            for use in uses_of(user, definition.name):
                names = user.inference.resolve(use)
                called = isinstance(use, ast.Attribute) and _is_called(user, use)
                if qualified in names or (not names and called and speaking):
                    inside = definition in user.index.ancestors(use)
                    if not inside and not _is_static(user, use, definition):
                        yield user, use


def uses_of(module: Module, name: str) -> Iterator[ast.expr]:
    """Yield where a module reads a name, as a variable or as an attribute."""
    if module.may_read(name):
        for use in module.index.names_used.get(name, ()):
            if isinstance(use, (ast.Name, ast.Attribute)) and isinstance(use.ctx, ast.Load):
                yield use


def _is_called(module: Module, use: ast.expr) -> bool:
    call = module.index.parents.get(use)
    return isinstance(call, ast.Call) and call.func is use


def _is_static(module: Module, use: ast.expr, definition: Definition) -> bool:
    """Is it `Trainer.show`, a static method, which needs no trainer?"""
    parent = module.index.parents.get(use)
    return isinstance(parent, ast.Attribute) and any(
        isinstance(method, FUNCTIONS)
        and method.name == parent.attr
        and any(getattr(decorator, "id", "") == _STATIC for decorator in method.decorator_list)
        for method in definition.body
    )
