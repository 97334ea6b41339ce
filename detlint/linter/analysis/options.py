"""Options of a command line, as argparse, click and typer declare them, and fields of classes that hold settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.dicts import entries_of
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import calls_named
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier

# What keeps settings under the names that it is given them by.
_HOLDERS = frozenset(("SimpleNamespace", "Namespace", "EasyDict", "edict", "AttrDict", "ConfigDict", "Munch", "Box"))

# What settings are called, and classes that hold them.
_SETTINGS = re.compile(
    r"conf|cfg|setting|option|param|default|flags|(^|_)(args|opts?|hp)$|^(Args|Opts?)", re.IGNORECASE
)
# How absl's flags are defined, each with a name, a default and a text.
_FLAGS = ("DEFINE_bool", "DEFINE_boolean", "DEFINE_enum", "DEFINE_float", "DEFINE_integer", "DEFINE_string")
# Where a default stands that need not be given by name.
_PLACES = {"Option": 0, **dict.fromkeys(_FLAGS, 1)}
# What a parser stores where it meets a switch, by what the switch is when it is not met.
_SWITCHES: dict[object, bool] = {"store_true": False, "store_false": True}


def flags_of(option: ast.Call) -> list[str]:
    """Return what a call that declares an option calls it: `-s` and `--seed`."""
    return [flag.value for flag in option.args if isinstance(flag, ast.Constant) and isinstance(flag.value, str)]


def destination(flag: str) -> str:
    """Return the name under which a parser keeps an option: `no_cache` of `--no-cache`, `fast` of `--fast/--slow`."""
    return flag.partition("/")[0].lstrip("-").replace("-", "_")


def added(name: str, module: Module) -> Iterator[ast.Call]:
    """Yield the calls of `add_argument` in a file that declare `args.name`, and those of absl for `FLAGS.name`."""
    for call in calls_named(module, ("add_argument", *_FLAGS)):
        kept = given(call).get("dest")
        names = [str(kept.value)] if isinstance(kept, ast.Constant) else map(destination, flags_of(call))
        if identifier(call.func) in ("add_argument", *_FLAGS) and name in names:
            yield call


def fields(name: str, module: Module) -> Iterator[ast.expr]:
    """Yield what `name` is in the settings of a file: fields of classes, `name: bool = True`, and what holds options.

    These are `SimpleNamespace(name=True)`, `EasyDict({"name": True})`, and by what they are called
    `class Config: name = True`, `OPTIONS = {"name": True}` and `cfg.name = True`.
    """
    for holder in module.index.of_type(ast.ClassDef):
        for part in holder.body:
            if isinstance(part, ast.AnnAssign) and identifier(part.target) == name and part.value is not None:
                yield part.value
            elif isinstance(part, ast.Assign) and _SETTINGS.search(holder.name):
                yield from (part.value for target in part.targets if getattr(target, "id", "") == name)
    for call in calls_named(module, _HOLDERS):
        called = {each.rpartition(".")[2] for each in module.inference.callees(call)} or {identifier(call.func)}
        if called.isdisjoint(_HOLDERS):
            continue
        yield from (keyword.value for keyword in call.keywords if keyword.arg == name)
        entries = (entry for display in call.args for entry in entries_of(display) or ())
        yield from (value for key, value in entries if isinstance(key, ast.Constant) and key.value == name)
    yield from _kept_as_settings(name, module)


def _kept_as_settings(name: str, module: Module) -> Iterator[ast.expr]:
    """Yield the values of `OPTIONS = {"backend": {"name": True}}` and `cfg.name = True`."""
    for place, given_name, value in module.index.given_by_name() if module.holds_text(name) else ():
        around: ast.AST | None = module.index.parents.get(place) if given_name == name else None
        while isinstance(around, ast.Dict):
            around = module.index.parents.get(around)
        targets = around.targets if isinstance(around, ast.Assign) else []
        yield from (value for target in targets if _SETTINGS.search(identifier(target)))
    for target, value in module.index.assigned():
        if isinstance(target, ast.Attribute) and target.attr == name and _SETTINGS.search(identifier(target.value)):
            yield value


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


def default_of_option(option: ast.Call) -> ast.expr | None:
    """Return what an option is when nobody gives it; None where that is not written out, and so nothing or unknown.

    Without a default a switch is off, unless giving it switches something off.
    """
    named, place = given(option), _PLACES.get(identifier(option.func))
    first = option.args[place] if place is not None and place < len(option.args) else None
    default, action, switch = named.get("default", first), named.get("action"), named.get("is_flag")
    if default is not None:
        return default
    if isinstance(action, ast.Constant) and action.value in _SWITCHES:
        return ast.Constant(_SWITCHES[action.value])
    return ast.Constant(False) if isinstance(switch, ast.Constant) and switch.value is True else None
