"""Options of a command line, as argparse, click and typer declare them, and fields of classes that hold settings."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.linter.analysis.dicts import entries_of
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import calls_named
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier

# What keeps settings under the names that it is given them by.
_HOLDERS = frozenset(("SimpleNamespace", "Namespace", "EasyDict", "edict", "AttrDict", "ConfigDict", "Munch", "Box"))


def flags_of(option: ast.Call) -> list[str]:
    """Return what a call that declares an option calls it: `-s` and `--seed`."""
    return [flag.value for flag in option.args if isinstance(flag, ast.Constant) and isinstance(flag.value, str)]


def destination(flag: str) -> str:
    """Return the name under which a parser keeps an option: `no_cache` of `--no-cache`, `fast` of `--fast/--slow`."""
    return flag.partition("/")[0].lstrip("-").replace("-", "_")


def added(name: str, module: Module) -> Iterator[ast.Call]:
    """Yield the calls of `add_argument` in a file that declare `args.name`."""
    for call in calls_named(module, ("add_argument",)):
        kept = given(call).get("dest")
        names = [str(kept.value)] if isinstance(kept, ast.Constant) else map(destination, flags_of(call))
        if identifier(call.func) == "add_argument" and name in names:
            yield call


def fields(name: str, module: Module) -> Iterator[ast.expr]:
    """Yield what `name` is in a file's classes that say so in their bodies, `name: bool = True`, and in its settings.

    These are `SimpleNamespace(name=True)` and `EasyDict({"name": True})`.
    """
    for holder in module.index.of_type(ast.ClassDef):
        for part in holder.body:
            if isinstance(part, ast.AnnAssign) and identifier(part.target) == name and part.value is not None:
                yield part.value
    for call in calls_named(module, _HOLDERS):
        called = {each.rpartition(".")[2] for each in module.inference.callees(call)} or {identifier(call.func)}
        if called.isdisjoint(_HOLDERS):
            continue
        yield from (keyword.value for keyword in call.keywords if keyword.arg == name)
        entries = (entry for display in call.args for entry in entries_of(display) or ())
        yield from (value for key, value in entries if isinstance(key, ast.Constant) and key.value == name)


def decorated(function: FunctionNode, name: str) -> ast.Call | None:
    """Return the `@click.option("--fast/--slow", default=True)` that a parameter of a command stands for."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and identifier(decorator.func) == "option":
            flags = flags_of(decorator)
            names = [flag for flag in flags if flag.isidentifier()] or [*map(destination, flags)]
            if name in names:
                return decorator
    return None


def given(call: ast.Call) -> dict[str | None, ast.expr]:
    """Return the arguments of a call that are given by name."""
    return {keyword.arg: keyword.value for keyword in call.keywords}


def truth_of(option: ast.Call) -> Truth:
    """Is a switch on (yes) or off (no) when nobody gives it? The default of `typer.Option(True)` stands first."""
    named = given(option)
    first = option.args[0] if option.args and identifier(option.func) == "Option" else None
    default, action, switch = named.get("default", first), named.get("action"), named.get("is_flag")
    if isinstance(default, ast.Constant):
        return Truth.of(bool(default.value)) if isinstance(default.value, bool) else Truth.UNKNOWN
    if default is None and isinstance(action, ast.Constant):
        return {"store_true": Truth.NO, "store_false": Truth.YES}.get(str(action.value), Truth.UNKNOWN)
    if default is None and isinstance(switch, ast.Constant) and switch.value is True:
        return Truth.NO
    return Truth.UNKNOWN
