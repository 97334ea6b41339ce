"""The project around a file: which other files its imports mean, read for facts only and each parsed at most once."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from detlint.files import is_file
from detlint.linter.analysis.console_scripts import METADATA, script_modules
from detlint.linter.analysis.inference import Inference
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.outline import Outline, outline_of
from detlint.linter.analysis.outlines import Outlines
from detlint.linter.analysis.questions import Questions
from detlint.linter.source.layout import Layout, Presence
from detlint.linter.source.mentions import Fact, Mentions, Search
from detlint.linter.source.names import FUNCTIONS, FunctionNode, Scope, import_in_force
from detlint.linter.source.sources import SourceFile, SourceProblem

# Syntax tree and index of a file take some 35 bytes for each character of its source: 160 MB a process.
_KEPT_CHARACTERS = 4_500_000
AskedT = TypeVar("AskedT")
AnswerT = TypeVar("AnswerT")
_Question: TypeAlias = tuple[Callable[[Any], Any], object]


class _Asked:
    """What was met and worked out for the file being linted."""

    def __init__(self) -> None:
        self.consulted: dict[Fact, None] = {}
        self.folders: set[Path] = set()  # those whose place in a project matters
        self.found: dict[tuple[str, str, bool], Module | None] = {}  # by name, importing folder and its path
        self.by_name: dict[str, Module] = {}
        self.defined: dict[str, tuple[Module, FunctionNode | ast.ClassDef] | None] = {}  # in the modules by name
        self.inferences: dict[Module, Inference] = {}
        self.answers: dict[_Question, Any] = {}
        self.questions = Questions()
        self.grafted: list[Module] = []  # modules that hold expressions nobody wrote

    def forget(self) -> None:
        """Take out what was grafted, and free what refers back to itself."""
        for module in self.grafted:
            module.prune()
        self.questions.forget()


class Project:
    """Finds, parses and keeps the modules that imports lead to.

    Parsed files are kept while there is room. Names and inferred values are kept for one linted file only (`begin`), so
    that what is found in a file never depends on which files were linted before it.
    """

    def __init__(self) -> None:
        self._by_path: OrderedDict[Path, Module] = OrderedDict()  # the one longest unused first
        self._outlines = Outlines()
        self._imports: dict[Path, tuple[Sequence[Path], Sequence[Path]]] = {}  # of each file, and what was looked for
        self._scripts: dict[Path, frozenset[str]] = {}
        self._for_all: dict[_Question, tuple[Any, tuple[Fact, ...]]] = {}
        self._file = _Asked()
        self.layout = Layout()
        self.mentions = Mentions()
        self.kept = 0  # characters of source whose tree is in memory

    def begin(self, source: SourceFile) -> Module | SourceProblem:
        """Start on a file: forget the names and values of the one before, and return the module of this one."""
        self._forget(_KEPT_CHARACTERS)
        self._locate(source.path.parent)
        module = self._by_path.get(source.path)
        if module is None or (module.source.text, module.source.display) != (source.text, source.display):
            tree = source.tree()
            if isinstance(tree, SourceProblem):
                return tree
            if module is not None:
                module.forget()
                self._outlines.drop(source.path)
                self._imports.pop(source.path, None)
            module = self._by_path[source.path] = self._parsed(source, tree)
        elif not module.tree.body:  # as another file may have seen it already, which takes what is broken for empty
            tree = source.tree()
            if isinstance(tree, SourceProblem):
                return tree
        self._by_path.move_to_end(source.path, last=False)  # the first to be forgotten, unless others ask for it
        self._name(module)
        return module

    def end(self) -> None:
        """Free all memory, now that the last file is linted."""
        self._forget(0)

    def _forget(self, budget: int) -> None:
        """Forget what was worked out for one file, and parsed files until those kept fit the budget."""
        self._file.forget()
        self._file = _Asked()
        while self.kept > budget and self._by_path:
            self._by_path.popitem(last=False)[1].forget()

    @property
    def consulted(self) -> dict[Fact, None]:
        """What was read, looked for or searched for the file being linted."""
        return self._file.consulted

    @property
    def questions(self) -> Questions:
        """Those of the file being linted."""
        return self._file.questions

    def graft(self, module: Module) -> None:
        """Note that a module holds expressions that nobody wrote, until the file being linted is done."""
        self._file.grafted.append(module)

    def _locate(self, folder: Path) -> None:
        """Note what decides in which project and packages a folder stands."""
        if folder not in self._file.folders:
            self._file.folders.add(folder)
            self.consulted.update(dict.fromkeys(self.layout.looked_at(folder)))

    def inference(self, module: Module) -> Inference:
        """Return the inference of a module for the file being linted."""
        known = self._file.inferences.get(module)
        if known is None:
            known = self._file.inferences[module] = Inference(module)
        return known

    def once(self, answer: Callable[[AskedT], AnswerT], asked: AskedT) -> AnswerT:
        """Return `answer(asked)`, worked out once for the file being linted and forgotten after it."""
        key, answers = (answer, asked), self._file.answers
        if key not in answers:
            answers[key] = answer(asked)
        found: AnswerT = answers[key]
        return found

    def for_all(self, answer: Callable[[AskedT], AnswerT], asked: AskedT) -> AnswerT:
        """Return `answer(asked)`, worked out once for all files, as if it were asked for none of them.

        What is asked must be the same for files that may share the answer, and hold no syntax tree.
        """
        key = (answer, asked)
        if key not in self._for_all:
            around, self._file = self._file, _Asked()
            try:
                self._for_all[key] = answer(asked), tuple(self.consulted)
            finally:
                self._file.forget()
                self._file = around
        found, consulted = self._for_all[key]
        self.consulted.update(dict.fromkeys(consulted))
        answered: AnswerT = found
        return answered

    def named(self, name: str) -> Module | None:
        """Return a module already met from the file being linted, by its dotted name."""
        return self._file.by_name.get(name)

    def folder(self, module: Module) -> Path | None:
        """Return the folder that holds all files which may use a module: None for a lone file outside any project.

        That is the project's root, or a folder of scripts that nothing marks; a package that is not part of a project
        (one that was installed) stands for itself.
        """
        return self.once(self._folder_around, module.path)

    def _folder_around(self, path: Path) -> Path | None:
        here = path.parent
        root = self.layout.root(here)
        if self.layout.is_marked(root):
            return root
        part = root / here.relative_to(root).parts[0] if here != root else root
        if is_file(part / "__init__.py"):
            return part
        around = [place for place in (here, *here.parents) if place.is_relative_to(root)]
        scripts = next(filter(None, map(self.mentions.scripts, reversed(around))), None)
        if scripts is None or scripts.found is None:
            return None
        self.consulted[scripts] = None
        beside = any(other != path for other in scripts.found)  # a file that imports nothing is used too
        return scripts.folder if beside else None

    def scripts(self, root: Path) -> frozenset[str]:
        """Return the modules that the packaging metadata of a project names as console scripts."""
        self.consulted.update(dict.fromkeys(root / name for name in METADATA))
        if root not in self._scripts:
            self._scripts[root] = script_modules(root)
        return self._scripts[root]

    def search(self, name: str, module: Module, at_most: int) -> Search | None:
        """Search the files that may use a module for the word `name`: None for a lone file outside any project."""
        folder = self.folder(module)
        if folder is None:
            return None
        search = self.mentions.of(name, folder, at_most)
        self.consulted[search] = None
        return search

    def find(self, name: str, importer: Module) -> Module | None:
        """Return the project's module that `importer` means by the dotted `name`, or None for anything outside."""
        if name == importer.name:
            return importer
        key = (name, importer.folder, importer.adds_to_path)
        if key not in self._file.found:
            exists, places = self.layout.places(*key)
            self.consulted.update(dict.fromkeys(places))
            self._file.found[key] = self._module(places[-1]) if exists else None
        return self._file.found[key]

    def holds(self, name: str, importer: Module) -> bool:
        """Return whether a dotted name begins with a package or module of the project: no file is read for that."""
        exists, places = self.layout.places(name.partition(".")[0], importer.folder, importer.adds_to_path)
        self.consulted.update((Presence(str(place), exists and place == places[-1]), None) for place in places)
        return exists

    def at(self, path: Path) -> Module:
        """Return the project's module that stands in the file `path`."""
        self.consulted[path] = None
        return self._module(path)

    def _module(self, path: Path) -> Module:
        """Return the module of a file, which is read when the first question about it is asked."""
        self._locate(path.parent)
        if path in self._by_path:
            self._by_path.move_to_end(path)
        else:
            self._by_path[path] = Module(self, path, self.layout.name(path))
        module = self._by_path[path]
        return self._file.by_name.get(module.name) or self._name(module)

    def _name(self, module: Module) -> Module:
        self._file.by_name[module.name] = module
        self._file.defined.clear()
        return module

    def _parsed(self, source: SourceFile, tree: ast.Module) -> Module:
        module = Module(self, source.path, self.layout.name(source.path))
        module.source, module.tree = source, tree
        self.kept += len(source.text)
        return module

    def outline(self, module: Module) -> Outline:
        """Return the outline of a module."""
        return self.outlines_with(module)[module.path]

    def outlines_with(self, module: Module) -> Outlines:
        """Return the outlines, that of a module among them, which parses no file again and keeps no tree."""
        if module.path not in self._outlines:
            whole = module if "tree" in vars(module) else Module(self, module.path, module.name)
            try:
                self._outlines.add(module.path, outline_of(whole.index, whole.name, whole.is_package))
            finally:
                if whole is not module:
                    whole.forget()
        return self._outlines

    def imports(self, module: Module) -> tuple[Module, ...]:
        """Return the project's modules that a module imports, looked up once: most programs import the same ones."""
        if module.path not in self._imports:
            found: dict[Path, None] = {}
            tried: dict[Path, None] = {}
            for name in module.outline.imports:
                exists, places = self.layout.places(name, module.folder, module.adds_to_path)
                tried.update(dict.fromkeys(places))
                if exists and name != module.name and places[-1] != module.path:
                    found[places[-1]] = None
            self._imports[module.path] = tuple(found), tuple(tried)
        paths, looked_for = self._imports[module.path]
        self.consulted.update(dict.fromkeys(looked_for))
        return tuple({each.name: each for each in map(self._module, paths)}.values())

    # --- definitions by qualified name ----------------------------------------------------------------------------

    def canonical(self, name: str, importer: Module, depth: int = 0) -> str:
        """Follow a dotted name through the project's re-exports to where the thing is defined."""
        if depth > 8:
            return name
        parts = name.split(".")
        for length in range(len(parts) - 1, 0, -1):
            module = self.find(".".join(parts[:length]), importer)
            if module is None:
                continue
            rest = parts[length:]
            below = self.find(".".join(parts[: length + 1]), importer)
            if below is not None and (len(rest) > 1 or not _is_replaced(module, below)):
                return name
            bindings = module.index.root.bindings.get(rest[0], ())
            imported = import_in_force(bindings, module.index.parents)
            if imported is not None:
                return self.canonical(".".join([imported.target, *rest[1:]]), module, depth + 1)
            if not bindings:
                for star in module.stars:
                    starred = self.find(star, module)
                    if starred is not None and self.exports(starred, rest[0]):
                        return self.canonical(".".join([starred.name, *rest]), module, depth + 1)
                outside = [star for star in module.stars if self.find(star, module) is None]
                if len(outside) == 1:
                    return ".".join([*outside, *rest])
                if not module.stars and "__getattr__" not in module.index.root.bindings:
                    return name  # of a library that the project has a file of that name of: its own `lightning.py`
            return ".".join([module.name, *rest])
        return name

    def exports(self, module: Module, name: str) -> bool:
        """Return whether `from module import *` may bind `name`, star imports of its own included.

        Worked out once for all files: hundreds may ask for one name through a package that imports all its parts so.
        """
        return self.for_all(self._exports, (module.path, name))

    def _exports(self, asked: tuple[Path, str]) -> bool:
        path, name = asked
        seen = {path}
        pending = [self._module(path)]
        for starring in pending:  # grows on the way
            if not starring.may_export(name):
                continue
            if name in starring.binds:
                return True
            for star in starring.stars:
                exists, places = self.layout.places(star, starring.folder)
                self.consulted.update(dict.fromkeys(places))
                if exists and places[-1] not in seen:
                    seen.add(places[-1])
                    pending.append(self._module(places[-1]))
        return False

    def definition(self, name: str) -> tuple[Module, FunctionNode | ast.ClassDef] | None:
        """Return the function or class that a canonical qualified name means, with its module."""
        if name not in self._file.defined:
            self._file.defined[name] = self._definition(name)
        return self._file.defined[name]

    def _definition(self, name: str) -> tuple[Module, FunctionNode | ast.ClassDef] | None:
        parts = name.split(".")
        for length in range(len(parts) - 1, 0, -1):
            module = self._file.by_name.get(".".join(parts[:length]))
            if module is None:
                continue
            scope: Scope | None = module.index.root
            found: ast.AST | None = None
            for part in parts[length:]:
                bindings = scope.bindings.get(part, ()) if scope is not None else ()
                found = next(
                    (b.node for b in reversed(bindings) if isinstance(b.node, (*FUNCTIONS, ast.ClassDef))),
                    None,
                )
                if found is None:
                    break
                scope = module.index.scopes.get(found)
            if isinstance(found, (*FUNCTIONS, ast.ClassDef)):
                return module, found
            return None
        return None


def _is_replaced(package: Module, module: Module) -> bool:
    """Does a package say `from .train import train`, so that its `train` is the function and not the module?"""
    name = module.name.rpartition(".")[2]
    return any(binding.target.endswith(f"{name}.{name}") for binding in package.index.root.bindings.get(name, ()))
