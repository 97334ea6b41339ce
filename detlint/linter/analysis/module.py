"""One file of the project: its text, tree, names and control flow, each worked out when it is first asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from detlint.linter.analysis.classes import ClassInfo, read_classes
from detlint.linter.analysis.flow import Flow
from detlint.linter.analysis.inference import Inference
from detlint.linter.analysis.outline import Outline
from detlint.linter.source.discovery import display_path
from detlint.linter.source.index import Index
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, Scope
from detlint.linter.source.sources import SourceFile, read_source
from detlint.linter.source.words import holds

if TYPE_CHECKING:
    from detlint.linter.analysis.project import Project


class Module:
    """One file of the project. `name` is its dotted name, by which its definitions are qualified.

    Of a file that only belongs to some program an outline is kept; text and tree are read again where they matter.
    """

    def __init__(self, project: Project, path: Path, name: str) -> None:
        self.project = project
        self.path = path
        self.name = name
        self.folder = str(path.parent)
        self.is_package = path.name == "__init__.py"
        self._flows: dict[Scope, Flow] = {}
        self._definitions: dict[ast.Name, tuple[Binding, ...]] = {}
        self._grafted: list[ast.AST] = []

    @cached_property
    def source(self) -> SourceFile:
        source = read_source(self.path, display_path(self.path, Path.cwd()))
        # One that vanished or broke meanwhile says nothing more.
        return source if isinstance(source, SourceFile) else SourceFile(self.path, str(self.path), "", "utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        tree = self.source.tree()
        self.project.kept += len(self.source.text)
        return tree if isinstance(tree, ast.Module) else ast.Module(body=[], type_ignores=[])

    @cached_property
    def outline(self) -> Outline:
        return self.project.outline(self)

    @cached_property
    def adds_to_path(self) -> bool:
        """Whether the file may call `sys.path.append("..")` or the like."""
        if "tree" in vars(self):
            imports = {alias.name for statement in self.index.of_type(ast.Import) for alias in statement.names}
        else:
            imports = set(self.outline.imports)
        return "sys" in imports and not self.calls.isdisjoint(("append", "insert", "extend"))

    @property
    def calls(self) -> Set[str]:
        """The identifiers that calls of this file may mean."""
        return self.index.calls_meaning.keys() if "tree" in vars(self) else self.outline.calls

    @property
    def writes(self) -> Set[str]:
        """The attributes that this file sets."""
        return self.index.attributes_written if "tree" in vars(self) else self.outline.writes

    @property
    def binds(self) -> Set[str]:
        """The names that this file binds at the top."""
        return self.index.root.bindings.keys() if "tree" in vars(self) else self.outline.binds

    @property
    def stars(self) -> Sequence[str]:
        """The modules that this file imports everything from."""
        return self.index.root.stars if "tree" in vars(self) else self.outline.stars

    def may_export(self, name: str) -> bool:
        """Whether its text leaves it open that `from … import *` gets `name` from this file."""
        return not {"tree", "outline"}.isdisjoint(vars(self)) or self.project.mentions.may_export(self.path, name)

    def may_read(self, name: str) -> bool:
        """Return whether anything in the file reads a name, as a variable or as an attribute."""
        return self.project.outlines_with(self).may_read(self.path, name)

    def imports_name(self, name: str) -> bool:
        """Return whether the file imports something of this name, whatever it calls it."""
        return self.project.outlines_with(self).imports(self.path, name)

    def holds_any(self, words: Iterable[str]) -> bool:
        """Whether its text holds one of `words`."""
        text = self._bytes()
        return any(holds(text, word) for word in words)

    def holds_text(self, part: str) -> bool:
        """Whether its text holds a part, of words or not."""
        return part.encode() in self._bytes()

    def _bytes(self) -> bytes:
        return self.source.text.encode() if "source" in vars(self) else self.project.mentions.text(self.path)

    @cached_property
    def index(self) -> Index:
        return Index(self.tree, self.name, self.is_package)

    @property
    def inference(self) -> Inference:
        return self.project.inference(self)

    @cached_property
    def classes(self) -> dict[ast.ClassDef, ClassInfo]:
        """What each class of this file holds."""
        return read_classes(self)

    def forget(self) -> None:
        """Free the memory of a file that nobody needs any more, at once: all that refers back to itself is cut."""
        if "tree" in vars(self):
            self.project.kept -= len(self.source.text)
        if "index" in vars(self):
            self.index.forget()
        for flow in self._flows.values():
            flow.forget()
        vars(self).clear()

    def graft(self, node: ast.AST, around: ast.AST) -> None:
        """Put an expression that nobody wrote in a place of the file, until the file being linted is done."""
        if not self._grafted:
            self.project.graft(self)
        self._grafted.append(node)
        self.index.parents[node] = around

    def prune(self) -> None:
        """Forget all that was grafted."""
        for node in self._grafted:
            del self.index.parents[node]
            if isinstance(node, ast.Name):
                self._definitions.pop(node, None)
        self._grafted.clear()

    def flow(self, scope: Scope) -> Flow:
        """Return the control flow of a function's or the module's scope."""
        flow = self._flows.get(scope)
        if flow is None:
            flow = self._flows[scope] = Flow(self.index, scope)
        return flow

    def flow_at(self, node: ast.AST) -> Flow:
        """Return the control flow of the body that `node` is evaluated in; a class body counts to what is around it."""
        scope = self.index.scope_at(node)
        while not isinstance(scope.node, (*FUNCTIONS, ast.Module)) and scope.parent is not None:
            scope = scope.parent
        return self.flow(scope)

    def definitions(self, name: ast.Name) -> tuple[Binding, ...]:
        """Return the bindings that the load `name` may read, in source order; empty for builtins and star imports."""
        known = self._definitions.get(name)
        if known is None:
            known = self._definitions[name] = self._defined(name)
        return known

    def _defined(self, name: ast.Name) -> tuple[Binding, ...]:
        scope = self.index.scope_at(name)
        owner = scope.lookup(name.id)
        if owner is None:
            return ()
        bindings = owner.bindings[name.id]
        flows = owner in (scope, scope.function()) and isinstance(owner.node, (*FUNCTIONS, ast.Module))
        if flows and len(bindings) > 1:
            return self.flow(owner).definitions(name)
        if bindings[0].kind is BindingKind.IMPORT and any(_starts_from(each.value, name.id) for each in bindings):
            bindings = [each for each in bindings if each.kind is not BindingKind.IMPORT]
        return tuple(bindings) if len(bindings) < 2 or owner is not self.index.root else self._at_end(bindings)

    def _at_end(self, bindings: Sequence[Binding]) -> tuple[Binding, ...]:
        """Return what a name of the file can be once all of it ran: no import before a class of that name."""
        defined = [i for i, each in enumerate(bindings) if self.index.parents.get(each.node) is self.tree]
        last = max((i for i in defined if isinstance(bindings[i].node, (*FUNCTIONS, ast.ClassDef))), default=0)
        return tuple(each for i, each in enumerate(bindings) if i >= last or each.kind is not BindingKind.IMPORT)

    def qualified(self, node: FunctionNode | ast.ClassDef) -> str:
        """Return the dotted name of a definition of this file."""
        return f"{self.name}.{self.index.scopes[node].qualname}"

    @property
    def imports(self) -> tuple[Module, ...]:
        """The project's modules that this one imports anywhere in its text, in source order."""
        return self.project.imports(self)


def _starts_from(value: ast.expr | None, name: str) -> bool:
    """`model.Net().to(device)` starts from `model`: a module of that name that was imported has had its day then."""
    while isinstance(value, (ast.Attribute, ast.Call)):
        value = value.func if isinstance(value, ast.Call) else value.value
        if isinstance(value, ast.Name):
            return value.id == name
    return False
