"""Seeds that a program asks for and never reads: whoever gives one expects the same results again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.options import destination, flags_of
from detlint.linter.analysis.program import Program, calls_named
from detlint.linter.programs.training import trains
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_SEED = re.compile(r"((manual|random|rng|torch|numpy|np|python|global)_)?(seed|random_state)")
_OPTIONS = ("add_argument", "option", "Option")
_SEED_FLAG = re.compile(
    r"^--?([a-z]+[-_])*(seed([-_](all|everything|num|number|value))?|random[-_]state)$", re.IGNORECASE
)
# Methods of data sets and functions by which what draws nothing else does.
_DRAWING = ("shuffle", "sample", "train_test_split")
# What takes all options of a command line at once.
_WHOLE = frozenset({"vars", "locals", "__dict__", "_get_kwargs", "asdict", "HfArgumentParser", "from_argparse_args"})
_OPTIONS_NAMES = {"args", "opt", "opts", "options", "params", "hparams", "flags", "cfg", "config"}
_PRINTED = frozenset({"print", "pprint", "info", "debug", "log", "warning", "format"})
_SHOWN = frozenset({"print", "pprint", "str", "repr", "info", "debug", "dump", "dumps", "save", "log", "format"})


def unused_seeds(ctx: Context) -> Iterator[tuple[ast.AST, str]]:
    """Yield the options `--seed` and the parameters `seed` that a program takes and never reads, with their names."""
    if ctx.program is None or not _WHOLE.isdisjoint(ctx.module.index.names_used):
        return
    found = [*_unread_options(ctx, ctx.program), *_forgotten_parameters(ctx)]
    if found and any(map(_may_draw, ctx.program.modules)):
        yield from found


def _unread_options(ctx: Context, program: Program) -> Iterator[tuple[ast.AST, str]]:
    for option in calls_named(ctx.module, ("add_argument",)):
        flag = next((flag for flag in flags_of(option) if _SEED.fullmatch(destination(flag))), None)
        if flag is None or not flag.startswith("--") or any(keyword.arg == "dest" for keyword in option.keywords):
            continue
        read = any(_reads(module, destination(flag), option) for module in program.modules)
        if not read and not _hands_options_on(ctx):
            yield next(part for part in option.args if getattr(part, "value", None) == flag), flag


def _forgotten_parameters(ctx: Context) -> Iterator[tuple[ast.AST, str]]:
    for function in ctx.module.index.of_type(ast.FunctionDef):
        for argument, _ in parameters(function.args):
            if _SEED.fullmatch(argument.arg) and _is_forgotten(argument.arg, function, ctx):
                yield argument, argument.arg


def _may_draw(module: Module) -> bool:
    """Does a file import anything that may draw by itself, or shuffle and sample?"""
    table, own = load_sources().indifferent, module.project
    named = [name for name in module.outline.imports if not own.holds(name, module)]
    packages = {name.rpartition(".")[0] for name in named}
    others = (name for name in named if name not in packages)
    return any(map(module.may_read, _DRAWING)) or not all(map(table.draws_nothing, others))


def seed_defaults(module: Module) -> Iterator[ast.expr]:
    """Yield the defaults of options for a seed on the command line: `--seed`, `--manual-seed`."""
    for option in calls_named(module, _OPTIONS):
        if any(_SEED_FLAG.search(flag) for flag in flags_of(option)):
            defaults = [*option.args[:1], *(keyword.value for keyword in option.keywords if keyword.arg == "default")]
            yield from (default.body if isinstance(default, ast.Lambda) else default for default in defaults)


def _reads(module: Module, name: str, option: ast.Call) -> bool:
    """Does a module read an attribute or an entry of this name, not only to show it, or name it in a string?

    `random.seed(0)` reads no option, and `if args.seed is not None:` none of its value.
    """
    idle = {call.func for call in module.index.calls_by_name.get(name, ())}
    uses = (use for use in module.index.names_used.get(name, ()) if use not in idle)
    if not all(_is_shown(use, module) or _is_asked_for(use, module) for use in uses):
        return True
    own = set(walk(option))
    return any(part.value == name and part not in own for part in module.index.of_type(ast.Constant))


def _is_shown(use: ast.AST, module: Module) -> bool:
    """`logging.info("seed %d", args.seed)`."""
    around = (parent for parent in module.index.ancestors(use) if isinstance(parent, (ast.Call, ast.stmt)))
    call = next(around, None)
    return isinstance(call, ast.Call) and identifier(call.func) in _PRINTED


def _is_asked_for(use: ast.AST, module: Module) -> bool:
    """`if args.seed is not None:`, `if args.seed:`."""
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.Compare) and isinstance(parent.ops[0], (ast.Is, ast.IsNot)):
        use, parent = parent, module.index.parents.get(parent)
    return isinstance(parent, ast.If) and parent.test is use


def _hands_options_on(ctx: Context) -> bool:
    """Do all options of a command line go to code that is not there to be read: `Trainer(args)`?"""
    called = ctx.module.index.calls_by_name
    for parse in (*called.get("parse_args", ()), *called.get("parse_known_args", ())):
        names = _bound_to(parse, ctx)
        function = ctx.function(parse)
        if isinstance(ctx.statement(parse), ast.Return) and function is not None:
            names = set().union(*(_bound_to(call, ctx) for call in called.get(function.name, ())))
        names = names or _OPTIONS_NAMES
        for call in ctx.module.index.of_type(ast.Call):
            given = arguments_of(call)
            passed = any(identifier(part) in names and isinstance(part, (ast.Name, ast.Attribute)) for part in given)
            known = any(ctx.module.project.definition(name) is not None for name in ctx.callees(call))
            if passed and not known and identifier(call.func) not in _SHOWN:
                return True
    return False


def _bound_to(call: ast.Call, ctx: Context) -> set[str]:
    """Return the names that the result of a call is bound to."""
    return {identifier(target) for target in getattr(ctx.statement(call), "targets", ())} - {""}


def _is_forgotten(name: str, function: FunctionNode, ctx: Context) -> bool:
    """Is this a function of the program that trains, or its main one, and does nothing in it read the parameter?"""
    if isinstance(ctx.parent(function), ast.ClassDef) or function.decorator_list:
        return False
    if not (trains(function) or (function.name == "main" and trains(ctx.module.tree))):
        return False
    reads = (part for part in walk(function) if isinstance(part, ast.Name) and part.id == name)
    return not any(True for _ in reads)
