"""Programs: which files execute something, what they import, and what of it can run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from detlint.config import Config, covers
from detlint.files import is_file
from detlint.linter.analysis.attribute_writes import Write, attribute_writes
from detlint.linter.analysis.commands import is_handed_to_reader
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.outline import as_attribute, is_main_guard
from detlint.linter.analysis.used_names import names_led_to
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import decorating, identifier, receiver_of, walk
from detlint.randomness import load_sources

_ENTRY_DECORATORS = (
    "click.command",
    "click.group",
    "hydra.main",
    "typer.Typer.command",
    "typer.Typer.callback",
    "fire.Fire",
    "rich_click.command",
    "absl.app.run",
    "argh.arg",
    "sacred.Experiment.automain",
    "sacred.Experiment.command",
    "sacred.Experiment.main",
    "pyrallis.wrap",
    "draccus.wrap",
    "nemo.core.config.hydra_runner",
)
# Those that start the file which they stand in, and register nothing with one that imports it.
_STARTING = frozenset(
    {"hydra.main", "sacred.Experiment.automain", "pyrallis.wrap", "draccus.wrap", "nemo.core.config.hydra_runner"}
)
_SUBCOMMAND = (".cli.command", ".app.command")  # of a group of commands that another file makes
_ENTRY_LASTS = frozenset(name.rpartition(".")[2] for name in (*_ENTRY_DECORATORS, *_SUBCOMMAND))
# Functions of a command that declare its options.
_COMMAND_OPTIONS = ("add_args", "add_arguments", "add_parser")
# Top-level calls that set something up; a module full of them is still a library.
_SETUP_CALLS = (
    "warnings.",
    "logging.",
    "logger.",
    "sys.path.",
    "os.environ.",
    "matplotlib.use",
    "torch.set_num_threads",
    "torch.multiprocessing.set_",
    "torch.library.",
    "torch.ops.load_library",
    "torch.jit.",
    "torch.serialization.",
    "torch._dynamo.",
    "torch.fx.wrap",
    "torch.utils._pytree.",
    "multiprocessing.set_start_method",
    "atexit.",
    "signal.",
    "typing.",
    "builtins.setattr",
    "builtins.super",
)

# Top-level calls by which a module of a package is a script all the same.
_WORK = frozenset({"fit", "load_state_dict", "savefig", "show"})

# What makes commands of the methods of a class.
_READERS_OF_CLASSES = frozenset({"Fire", "CLI", "LightningCLI", "auto_cli"})


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """A call found in a program: where it stands and the qualified name it calls."""

    module: Module
    node: ast.Call
    name: str


class Program:
    """A file that executes something, with every project module it imports (`modules`, itself first).

    `is_library` is a file that executes nothing itself: what it imports does not say what its callers do, and only what
    it names itself is looked at, since that may lead to all of the library.
    """

    def __init__(self, module: Module, *, is_library: bool = False) -> None:
        self.module = module
        self.is_library = is_library

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        if self.is_library:
            return (self.module, *self.module.imports)
        found = {self.module.name: self.module}
        pending = [self.module]
        while pending:
            for imported in pending.pop(0).imports:
                if imported.name not in found:
                    found[imported.name] = imported
                    pending.append(imported)
        return tuple(found.values())

    def calls(self, names: Collection[str]) -> Iterator[CallSite]:
        """Yield every call of one of `names` in the import closure that can run, the program's own first."""
        lasts = frozenset(name.rpartition(".")[2] for name in names)
        for module in self.modules:
            for call in calls_named(module, lasts):
                for name in module.inference.callees(call):
                    if name in names and self.runs(module, call):
                        yield CallSite(module, call, name)
                        break

    def writes(self, names: Collection[str]) -> Iterator[Write]:
        """Yield every assignment to one of `names` in the import closure that can run."""
        lasts = frozenset(name.rpartition(".")[2] for name in names)
        for module in self.modules:
            for write in attribute_writes(module, lasts):
                if write.name in names and self.runs(module, write.node):
                    yield write

    def runs(self, module: Module, node: ast.AST) -> bool:
        """Return whether `node` can be executed by this program.

        Top-level code runs, except under the `__main__` guard of an imported module; a function or class runs where
        code that runs uses its name, and where a decorator may have registered it.
        """
        definition = outermost_definition(module, node)
        if definition is None:
            return module is self.module or not is_guarded(module, node)
        if definition.decorator_list and not self.starts_another(module, definition):
            return True
        if definition.name not in self._used:
            return False
        around = {
            getattr(part, "name", "") for part in (node, *module.index.ancestors(node)) if part in definition.body
        }
        return not any(
            method.name in around and as_attribute(method.name) not in self._used
            for each in module.outline.definitions
            if each.name == definition.name
            for method in each.methods
        )

    def starts_another(self, module: Module, definition: ast.AST | None) -> bool:
        """Is this the main function of a program of its own, which this one only imports: `@hydra.main` above it?"""
        marks = getattr(definition, "decorator_list", [])
        return module is not self.module and any(
            not _STARTING.isdisjoint(_decorator_names(module, mark)) for mark in marks
        )

    @cached_property
    def _used(self) -> frozenset[str]:
        """Every name that code of this program uses which can run itself, by name alone: `seed` uses any `seed`.

        A method runs where its class does and its name is used; one of a class that code out of sight may call, always.
        """
        own = self.module.outline
        used = {name for module in self.modules[1:] for name in module.outline.reads - module.outline.guarded}
        used |= own.reads
        works = any(executes(self.module, statement) for statement in self.module.tree.body)
        if not works:  # packaging metadata or a setting names the entry point
            used.update(definition.name for definition in own.definitions)
        if not works or not own.calls.isdisjoint(_READERS_OF_CLASSES):
            used.update(as_attribute(method.name) for definition in own.definitions for method in definition.methods)
        used.update(_named_in_texts(self.module))
        return names_led_to(used, [definition for module in self.modules for definition in module.outline.definitions])


def _named_in_texts(module: Module) -> Iterator[str]:
    """`{"_target_": "package.module.Worker"}`: what a configuration in the file names of the file itself."""
    for text in module.index.of_type(ast.Constant):
        if isinstance(text.value, str) and text.value.startswith(f"{module.name}."):
            yield text.value.removeprefix(f"{module.name}.")


def calls_named(module: Module, lasts: Collection[str]) -> Iterator[ast.Call]:
    """Yield the calls of a module that can mean one of the identifiers `lasts`, aliases included, in source order."""
    wanted = module.calls & set(lasts)
    found = {call for last in wanted for call in module.index.calls_meaning[last]}
    yield from sorted(
        found, key=lambda call: (call.lineno, call.col_offset, call.end_lineno or 0, call.end_col_offset or 0)
    )


def program_of(module: Module, config: Config | None = None) -> Program | None:
    """Return the program that a file is, by what it looks like or by its configuration; None for library code."""
    named = config is not None and covers(config, config.entry_points, module.source.path)
    return Program(module) if named or _is_program(module) else None


def library_of(module: Module) -> Program:
    """Return library code as a program that executes nothing itself."""
    return Program(module, is_library=True)


def is_guarded(module: Module, node: ast.AST) -> bool:
    """Return whether a node stands under a `__main__` guard, which whoever imports the file does not run."""
    return any(isinstance(parent, ast.If) and is_main_guard(parent) for parent in module.index.ancestors(node))


def in_package(module: Module) -> bool:
    """Return whether the file stands in a package."""
    return is_file(module.source.path.parent / "__init__.py")


def among_scripts(module: Module) -> bool:
    """Return whether no folder between the file and the root of its project is a package."""
    path = module.source.path
    root = module.project.layout.root(path.parent)
    folders = [folder for folder in path.parents if folder.is_relative_to(root)]
    return not any(is_file(folder / "__init__.py") for folder in folders)


def _is_program(module: Module) -> bool:
    root = module.project.layout.root(module.source.path.parent)
    if module.source.is_notebook or module.name in module.project.scripts(root) or _is_command(module):
        return True
    if _reads_command_line(module):
        return True
    if any(executes(module, statement) for statement in module.tree.body) or _is_run_by_package(module):
        return True
    if is_handed_to_reader(module):
        return True
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*module.index.of_type(ast.FunctionDef)]
    functions += module.index.of_type(ast.AsyncFunctionDef)
    return any(
        name in _ENTRY_DECORATORS or name.endswith(_SUBCOMMAND)
        for function in functions
        for decorator in function.decorator_list
        for name in _decorator_names(module, decorator)
    )


def _is_command(module: Module) -> bool:
    """Is the file a command of a program of several, by what such programs call in it: `add_args` and then `main`?"""
    names = {statement.name for statement in module.tree.body if isinstance(statement, ast.FunctionDef)}
    return "main" in names and not names.isdisjoint(_COMMAND_OPTIONS)


def _reads_command_line(module: Module) -> bool:
    """Is there a function of no arguments that reads the command line and does what it asks for: `def separate():`?

    One that gives back what it read is a helper of such a function.
    """
    index = module.index
    if "ArgumentParser" not in index.names_used:
        return False
    called = index.calls_by_name
    for parse in (*called.get("parse_args", ()), *called.get("parse_known_args", ())):
        function, statement = index.function_at(parse), index.parents.get(parse)
        if function not in module.tree.body or function is None or not isinstance(statement, ast.Assign):
            continue
        target = statement.targets[0]
        read = identifier(target.elts[0] if isinstance(target, ast.Tuple) else target)
        needed = len(function.args.posonlyargs) + len(function.args.args) - len(function.args.defaults)
        uses = [use for use in walk(function) if isinstance(use, ast.Name) and use.id == read]
        statements = [index.statement(use) for use in uses]
        handed_back = any(isinstance(each, (ast.Return, ast.Yield)) for each in statements)
        if not needed and not handed_back and any(isinstance(index.parents.get(use), ast.Attribute) for use in uses):
            return True
    return False


def _is_run_by_package(module: Module) -> bool:
    """Does the `__main__.py` beside the file import its `main`, or what else begins a program by its name?"""
    package = module.name.rpartition(".")[0]
    if not package or module.is_package:
        return False
    start = module.project.find(f"{package}.__main__", module)
    if start is None or start is module:
        return False
    taken = {name.rpartition(".")[2] for name in start.outline.imports if name.rpartition(".")[0] == module.name}
    return any(load_sources().smoke_test.entries.search(name) for name in taken & start.outline.reads)


def _decorator_names(module: Module, decorator: ast.expr) -> tuple[str, ...]:
    called = decorating(decorator)
    last = identifier(called)
    possible = {last, *module.index.aliases.get(last, ())}
    if _ENTRY_LASTS.isdisjoint(possible):
        return ()
    held = module.inference.values(called.value) if isinstance(called, ast.Attribute) else ()  # made in another file
    return (*module.inference.resolve(called), *(f"{value.type}.{last}" for value in held if value.type))


def executes(module: Module, statement: ast.stmt) -> bool:
    """Return whether a top-level statement does work, beyond defining and setting up."""
    if isinstance(statement, ast.If):
        if is_main_guard(statement):
            return True
        return not module.is_package and any(executes(module, child) for child in statement.body)
    if module.is_package:
        return False
    if isinstance(statement, ast.Match):
        return any(executes(module, child) for case in statement.cases for child in case.body)
    if isinstance(statement, (ast.For, ast.While, ast.With, ast.Try)):
        return any(executes(module, child) for child in statement.body)
    if _trains(module, statement):
        return True
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return isinstance(called, ast.Attribute) and called.attr in ("parse_args", "parse_known_args")
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        names = module.inference.resolve(statement.value.func)
        text = ast.unparse(statement.value.func)
        last = text.rpartition(".")[2]
        quiet = last not in _WORK and not load_sources().smoke_test.entries.search(last)
        if quiet and (in_package(module) or _tells_library(module, statement.value, names)):
            return False  # modules of a package call what sets them up: _init_api(), lazy_export_all()
        if not names and not isinstance(statement.value.func, (ast.Name, ast.Attribute)):
            return False
        return not any(name.startswith(_SETUP_CALLS) for name in (*names, text)) and "regist" not in text.lower()
    return False


def _tells_library(module: Module, call: ast.Call, names: tuple[str, ...]) -> bool:
    """`nest_asyncio.apply()`: is another library told something, and given nothing to work with?"""
    library = receiver_of(call)
    if call.args or call.keywords or not isinstance(library, ast.Name):
        return False
    imported = [binding.kind for binding in module.index.root.bindings.get(library.id, ())] == [BindingKind.IMPORT]
    return imported and not any(module.project.holds(name, module) for name in names or (library.id,))


def _trains(module: Module, statement: ast.stmt) -> bool:
    """Is this a step of a training, or the call of a function of the file that holds one: `pretrain(model, loader)`?"""
    if "backward" not in module.calls or not isinstance(statement, (ast.Assign, ast.Expr)):
        return False
    steps = module.index.calls_by_name.get("backward", ())
    places = [outermost_definition(module, call) or call for call in steps]
    called = {identifier(part.func) for part in walk(statement) if isinstance(part, ast.Call)}
    return any(place.name in called if isinstance(place, FUNCTIONS) else place in walk(statement) for place in places)


def outermost_definition(module: Module, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
    """Return the definition at the top of the module that `node` stands in, or None."""
    found = None
    for parent in module.index.ancestors(node):
        if isinstance(parent, (*FUNCTIONS, ast.ClassDef)):
            found = parent
    return found
