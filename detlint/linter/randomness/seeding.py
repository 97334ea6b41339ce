"""What a program seeds, from what, and whether it asks for deterministic algorithms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from detlint.linter.analysis.attribute_writes import attribute_writes
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Argument, Call
from detlint.linter.analysis.dicts import may_hold
from detlint.linter.analysis.may_use import calls_among
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.origins import Origin, origins, passed
from detlint.linter.analysis.own_options import gathering
from detlint.linter.analysis.program import Program, calls_named, outermost_definition
from detlint.linter.analysis.reach import SEEDS, Reach, uses_of
from detlint.linter.programs.loader_workers import in_loader_worker
from detlint.linter.randomness.optional_requests import stays_off
from detlint.linter.randomness.stray_flags import stray_flags
from detlint.linter.randomness.trainer_settings import determinism_settings, full_determinism
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier
from detlint.randomness import LIBRARIES, Seeder, load_sources

# Folders of programs that show a library.
_SHOWCASE = re.compile(r"(examples?|notebooks?|docs?|tutorials?|demos?|benchmarks?|samples?|recipes?)", re.IGNORECASE)
_HELPER_DEPTH = 4
_DEVICES = ("torch.cuda.", "torch.mps.", "torch.xpu.", "torch.npu.")
# The name by which a process learns which of its group it is.
_RANK = re.compile(r"(^|_)rank$|(^|_)process_index$|(^|\.)get_(world_)?rank$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Seed:
    """A call that seeds global generators. `seeder` is None for a helper known by its name alone."""

    module: Module
    node: ast.Call
    seeder: Seeder | None

    @property
    def libraries(self) -> tuple[str, ...]:
        return LIBRARIES if self.seeder is None else self.seeder.libraries

    @property
    def only_devices(self) -> bool:
        """Are only the generators of devices seeded, and the one of the CPU not?"""
        return self.seeder is not None and self.seeder.call.name.startswith(_DEVICES)

    @property
    def value(self) -> ast.expr | None:
        """The expression that the call seeds with; None where it is not written out."""
        if self.seeder is None or self.seeder.seed is None:
            return None
        return Call(self.node, self.seeder.call).argument(self.seeder.seed).value

    def argument(self, name: str) -> Argument:
        """Return what the call passes for a parameter."""
        return Argument(None) if self.seeder is None else Call(self.node, self.seeder.call).argument(name)


class Seeding:
    """The seeds of a program and of everything it imports."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.reach = Reach(program)

    @cached_property
    def seeds(self) -> tuple[Seed, ...]:
        """Every seeding call that can run, the program's own file first.

        An example is not the library that it shows, and library code is not what it imports: what seeds somewhere
        inside that counts only where importing it is enough, or where the file calls it, by helpers whose names say so.
        The workers of a loader take their seeds from torch: where nothing else seeds that, they are as good as none.
        """
        found = (*self._named(), *self._at_import())
        main = tuple(seed for seed in found if not in_loader_worker(seed.module, seed.node))
        return found if any("torch" in seed.libraries for seed in main) else main

    def _named(self) -> Iterator[Seed]:
        return (
            seed
            for module in self.program.modules
            for seed in seeds_in(module)
            if self.reach.leads_to(module, seed.node)
            and not self._is_left_out(seed)
            and (
                module not in self._library
                or module.index.function_at(seed.node) is None
                or self.call_of(seed, self._own_modules) is not None
            )
        )

    def _at_import(self) -> Iterator[Seed]:
        """Yield the seeds of packages that run first where a module inside is imported: a/__init__.py for `a.b.c`."""
        imported = self.program.modules if self.program.is_library else self.program.modules[1:]
        packages: dict[str, Module] = {}
        for module in imported:
            package = module.name.rpartition(".")[0]
            while package and package not in packages:
                packages[package] = module
                package = package.rpartition(".")[0]
        for name, importer in packages.items():
            package_module = importer.project.find(name, importer)
            if package_module is not None and package_module not in self.program.modules:
                for seed in seeds_in(package_module):
                    at_top = outermost_definition(package_module, seed.node) is None
                    if at_top and self.program.runs(package_module, seed.node):
                        yield seed

    def _is_left_out(self, seed: Seed) -> bool:
        """Is it seeded with a parameter, None by default, that all calls in the program leave out?

        `def sample_poses(self, count, seed=None): np.random.seed(seed)` gives NumPy a number of the system's.
        """
        value = seed.value
        if self.program.is_library or not isinstance(value, ast.Name):
            return False
        bindings = seed.module.definitions(value)
        only = bindings[0] if len(bindings) == 1 else None
        if only is None or only.kind is not BindingKind.PARAMETER or not isinstance(only.scope.node, FUNCTIONS):
            return False
        function, missing = only.scope.node, isinstance(only.value, ast.Constant) and only.value.value is None
        return missing and not function.decorator_list and self._leaves_out(seed.module, function, value.id)

    def _leaves_out(self, owner: Module, function: FunctionNode, parameter: str) -> bool:
        """Is every use of a function of this name a call, one of them at least, and does none give the parameter?"""
        around = owner.index.class_at(function)
        name = around.name if function.name == "__init__" and around is not None else function.name
        uses = [(module, use) for module in self.program.modules for use in uses_of(module, name)]
        for module, use in uses:
            call = module.index.parents.get(use)
            if not isinstance(call, ast.Call) or call.func is not use or _hides(call):
                return False
            skip_self = isinstance(use, ast.Attribute) or name != function.name
            given = argument_of(function, parameter, call, skip_self=skip_self)
            if given is not None and not (isinstance(given, ast.Constant) and given.value is None):
                return False
        return bool(uses)

    @cached_property
    def _library(self) -> frozenset[Module]:
        """The modules of the library that a program among its examples shows; for library code, all but itself."""
        if self.program.is_library:
            return frozenset(self.program.modules[1:])
        folders = self.program.module.name.split(".")[:-1]
        depth = next((depth for depth, folder in enumerate(folders, 1) if _SHOWCASE.fullmatch(folder)), 0)
        return frozenset(module for module in self.program.modules if module.name.split(".")[:depth] != folders[:depth])

    @cached_property
    def _own_modules(self) -> tuple[Module, ...]:
        return tuple(module for module in self.program.modules if module not in self._library)

    def place_in(self, module: Module, seed: Seed) -> ast.Call | None:
        """Return where a module seeds: the seed itself, or the first call in it that leads to the seed in another one.

        A library that seeds somewhere deep inside is not this module seeding: the helpers have to say so by name.
        """
        return seed.node if seed.module is module else self.call_of(seed, (module,))

    def has_place_in(self, module: Module) -> bool:
        """Does a module seed anything?"""
        return any(self.place_in(module, seed) is not None for seed in self.seeds)

    def call_of(self, seed: Seed, places: Sequence[Module]) -> ast.Call | None:
        """Return the first call in `places` that leads to a seed, through functions whose names speak of seeding."""
        wanted = [(seed.module, seed.module.index.function_at(seed.node))]
        for _ in range(_HELPER_DEPTH):
            callers: dict[tuple[Module, FunctionNode | None], None] = {}
            for owner, function in wanted:
                if function is None or not SEEDS.search(function.name):
                    continue
                for module, call in calls_among(self.program.modules, owner, function):
                    if module in places:
                        return call
                    callers[module, module.index.function_at(call)] = None
            wanted = list(callers)
        return None

    def of(self, library: str) -> tuple[Seed, ...]:
        """Return the calls that seed a library's global generator."""
        return tuple(seed for seed in self.seeds if library in seed.libraries)

    def origins(self, seed: Seed) -> Iterator[Origin]:
        """Yield the expressions that a seed is made of: for a helper that cannot be read, its arguments."""
        values = seed.node.args if seed.seeder is None else [seed.value] if seed.value is not None else []
        for value in values:
            yield from origins(seed.module, value, self.program.modules)

    def depends_on_rank(self, seed: Seed) -> bool:
        """Does each process of a group get a seed of its own?"""
        device_specific = seed.argument("device_specific").value
        if isinstance(device_specific, ast.Constant) and device_specific.value is True:
            return True
        rank = seed.argument("rank")
        if rank.given:
            return True
        return seed.value is not None and depends_on_rank(seed.module, seed.value, self.program)

    def shared(self, library: str) -> bool:
        """Is the library seeded with a number that is the same in every process?"""
        return any(not self.depends_on_rank(seed) for seed in self.of(library) if not seed.only_devices)

    @cached_property
    def mentions_determinism(self) -> bool:
        """Does anything in the program switch deterministic algorithms on or off, or leave that to its caller?"""
        return bool(self._settings) or any(self._asks(seed) for seed in self.seeds)

    @cached_property
    def _settings(self) -> tuple[ast.expr, ...]:
        """What the program passes or assigns where determinism is switched; a hidden argument counts as given."""
        table = load_sources()
        found: list[ast.expr] = []
        for module in self.program.modules[:1] if self.program.is_library else self.program.modules:
            for call in calls_named(module, table.requests.lasts):
                for name in module.inference.callees(call):
                    request = table.requests.get(name)
                    if request is None or _is_temporary(module, call) or not self._turns_on(module, call):
                        continue
                    argument = Call(call, request.call).argument(request.parameter)
                    if argument.given and argument.value is not None:
                        found.append(argument.value)
                    elif argument.hidden and self.may_be_spread(module, call, request.parameter):
                        found.append(call)
            for call in calls_named(module, ("set_defaults",)):  # of a parser, whatever it is called
                if identifier(call.func) == "set_defaults":
                    found += [keyword.value for keyword in call.keywords if keyword.arg == "deterministic"]
            found += determinism_settings(module)
            found += (value for place, value in full_determinism(module) if self._turns_on(module, place))
            found += (write.value for write in stray_flags(module))  # which is a finding of its own
            lasts = frozenset(name.rpartition(".")[2] for name in table.request_assignments)
            found += [
                write.value
                for write in attribute_writes(module, lasts)
                if write.name in table.request_assignments
                and not _is_temporary(module, write.node)
                and self._turns_on(module, write.node)
            ]
        return tuple(found)

    def may_be_spread(self, module: Module, call: ast.Call, parameter: str) -> bool:
        """May an argument be among those that `*` and `**` hide, going by what the program passes to get there?"""
        if not may_be_spread(module, call, parameter):
            return False
        hidden = [word.value for word in call.keywords if word.arg is None]
        hidden += [argument for argument in call.args if isinstance(argument, ast.Starred)]
        functions = [gathering(module, each) for each in hidden]
        return self.program.is_library or not all(
            function is not None and not function.decorator_list and self._leaves_out(module, function, parameter)
            for function in functions
        )

    def _turns_on(self, module: Module, node: ast.AST) -> bool:
        if self.program.starts_another(module, outermost_definition(module, node)):
            return self.reach.leads_to(module, node)
        return self.program.runs(module, node) and not stays_off(module, node, self.program)

    def _asks(self, seed: Seed) -> bool:
        if seed.seeder is None:
            return not _is_of_an_object(seed)  # what a helper of another project does is not known
        if seed.seeder.deterministic in ("", "always"):
            return bool(seed.seeder.deterministic)
        argument = seed.argument(seed.seeder.deterministic)
        return argument.hidden or (argument.given and not is_off(argument.value))


def seeding_of(program: Program) -> Seeding:
    """Return the seeding of a program, worked out once."""
    return program.module.project.once(Seeding, program)


def seeds_in(module: Module) -> Iterator[Seed]:
    """Yield the calls of a module that seed a global generator, in source order."""
    table = load_sources()
    calls = set(calls_named(module, table.seeders.lasts))
    for name in module.calls:
        if table.helpers.fits(name):
            calls.update(module.index.calls_by_name.get(name, ()))
    for call in sorted(calls, key=place):
        names = module.inference.callees(call)
        seeder = next((found for name in names if (found := table.seeders.get(name))), None)
        if seeder is not None or _is_unknown_helper(module, call, names):
            yield Seed(module, call, seeder)


def may_seed(module: Module) -> bool:
    """Return whether a file calls anything whose name says that it seeds: asked before all that it imports is read."""
    table = load_sources()
    named = (name for name in module.calls if name != "__init__")
    return any(SEEDS.search(name) or name in table.seeders.lasts or table.helpers.fits(name) for name in named)


def may_be_spread(module: Module, call: ast.Call, parameter: str) -> bool:
    """May an argument be among those that `*` and `**` hide?"""
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return True
    return any(may_hold(module, keyword.value, parameter) for keyword in call.keywords if keyword.arg is None)


def _hides(call: ast.Call) -> bool:
    """Does a call pass something that is not written out?"""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(keyword.arg is None for keyword in call.keywords)


def place(call: ast.Call) -> tuple[int, int, int, int]:
    """Return where a call stands, as a sort key: `f()()` and `f()` begin at the same place."""
    return (call.lineno, call.col_offset, call.end_lineno or 0, call.end_col_offset or 0)


def _is_unknown_helper(module: Module, call: ast.Call, names: tuple[str, ...]) -> bool:
    """Is this a function of code that is not there to be read, whose name says that it seeds?"""
    table = load_sources()
    if any(module.project.definition(name) is not None for name in names):
        return False
    if _seeds_an_object(module, call.func):
        return False
    if not names:
        return table.helpers.fits(identifier(call.func), wide=True)
    return any(table.helpers.covers(name) for name in names)


def _seeds_an_object(module: Module, function: ast.expr) -> bool:
    """`environment.seed(0)` of what a call made: its own generator, and no other."""
    if not isinstance(function, ast.Attribute) or function.attr != "seed" or not isinstance(function.value, ast.Name):
        return False
    made = [binding.value for binding in module.definitions(function.value)]
    return bool(made) and all(isinstance(value, ast.Call) for value in made)


def depends_on_rank(module: Module, value: ast.expr, program: Program) -> bool:
    """Does a value depend on which process of a group computes it?"""
    for origin in origins(module, value, program.modules):
        node = origin.node
        text = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Call):
            text = next(iter(origin.module.inference.callees(node)), "")
            text = text or ast.unparse(node.func)
            words = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            words = [node.slice.value]
        else:
            words = []
        named = any(isinstance(word, str) and _RANK.search(word) for word in (text, *words))
        if named and not (isinstance(node, ast.Name) and _is_left_at_default(origin.module, node, program)):
            return True
    return False


def _is_left_at_default(module: Module, name: ast.Name, program: Program) -> bool:
    """`def set_seed(seed, rank=0):`, whose calls in the program all leave the rank out?"""
    bindings = module.definitions(name)
    only = bindings[0] if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER else None
    function = only.scope.node if only is not None and isinstance(only.value, ast.Constant) else None
    if not isinstance(function, FUNCTIONS):
        return False
    called = any(True for _ in calls_among(program.modules, module, function))
    return called and not any(True for _ in passed(module, function, name.id, program.modules))


def _is_of_an_object(seed: Seed) -> bool:
    """`environment.set_seed(0)`: what is no function sets nothing but what its object draws."""
    owners = [name.split(".")[-2:-1] for name in seed.module.inference.callees(seed.node)]
    return bool(owners) and all(owner and owner[0][:1].isupper() for owner in owners)


def _is_temporary(module: Module, node: ast.AST) -> bool:
    """Does the function around `node` look first how determinism is set, to put it back later?"""
    function = module.index.function_at(node)
    return function is not None and any(
        isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Load)
        and part.attr in ("deterministic", "are_deterministic_algorithms_enabled")
        and module.inference.resolve(part)[:1]
        in (("torch.backends.cudnn.deterministic",), ("torch.are_deterministic_algorithms_enabled",))
        for part in ast.walk(function)
    )


def is_off(value: ast.expr | None) -> bool:
    """Return whether a value that switches determinism switches it off."""
    return isinstance(value, ast.Constant) and value.value in (False, None, 0, "default")
