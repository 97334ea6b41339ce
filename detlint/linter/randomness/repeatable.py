"""Can a value be had again in the next run?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.context import Call
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.options import added, fields, given
from detlint.linter.analysis.origins import FACTORIES, Origin, passed
from detlint.linter.analysis.texts import is_text
from detlint.linter.analysis.values import Kind
from detlint.linter.randomness.seeding import Seed
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.elements import element_table
from detlint.randomness import load_sources

SALTED = "hash(), which Python salts anew for strings in every process"
_HASHES = frozenset({Kind.STRING, Kind.NONE})
# Keys of what is counted: any other key of a record is taken for that of a text, as nobody hashes a number for a seed.
_COUNTS = re.compile(r"(^|_)(seeds?|epochs?|ranks?|idx|index|steps?|iter(ation)?|worker(_id)?|num|count|size|offset)$")
_MAX_STEPS = 3
_MOST_FILES = 6  # that mention a function: of one that more of them do, its own file tells


def why_unrepeatable(origin: Origin) -> str:
    """Return where a value comes from that no other run repeats ("the clock"); empty for all others."""
    call = origin.node
    table = load_sources().unrepeatable
    if not isinstance(call, ast.Call):
        made = getattr(origin.module.index.parents.get(call), "arg", None) in FACTORIES
        names = origin.module.inference.resolve(call) if made else ()
        return next((words for name in names if (words := table.get(name))), "")
    for name in origin.module.inference.callees(call):
        words = table.get(name)
        if words is not None:
            return words
        if name == "builtins.hash" and call.args and hash_varies(origin.module, call.args[0]):
            return SALTED
    return ""


def made_up(seed: Seed) -> str:
    """Return what a seeding call without a seed takes one from; empty where it is given one."""
    if seed.seeder is None or seed.seeder.implicit:
        return ""
    name = seed.seeder.call.name
    if not seed.seeder.call.parameters:
        return load_sources().unrepeatable.get(name) or ""
    if name not in ("numpy.random.seed", "random.seed"):
        return ""
    argument = Call(seed.node, seed.seeder.call).argument(seed.seeder.seed or "")
    nothing = isinstance(argument.value, ast.Constant) and argument.value.value is None
    return "the operating system's randomness" if nothing else ""


def hash_varies(module: Module, value: ast.expr, steps: int = _MAX_STEPS) -> bool:
    """Is the hash of this value salted? Where it is shown to be text, bytes or None, or a tuple that holds some.

    Shown by what it is made of, what is done with it, its name or key, or what the project passes for a parameter.
    """
    if isinstance(value, ast.Tuple):
        return any(hash_varies(module, element, steps) for element in value.elts)
    if is_text(module, value) or _is_under_key(module, value):
        return True
    if any(hash_varies(origin.module, origin.node, steps - 1) for origin in _given(module, value) if steps):
        return True
    kinds = {each.kind for each in module.inference.values(value)}
    if not kinds <= {Kind.UNKNOWN}:
        return not kinds.isdisjoint(_HASHES)
    return any(map(element_table().names_texts, _names(module, value))) or _is_option_of_text(module, value)


def _is_option_of_text(module: Module, value: ast.expr) -> bool:
    """`args.env_id`, where the file declares the option or field, each time with a text for its default."""
    if not isinstance(value, ast.Attribute):
        return False
    defaults = [*fields(value.attr, module), *(given(call).get("default") for call in added(value.attr, module))]
    texts = (isinstance(default, ast.Constant) and isinstance(default.value, str) for default in defaults)
    return bool(defaults) and all(texts)


def _is_under_key(module: Module, value: ast.expr) -> bool:
    """`row["sequence"]`, and `row[field]` after `field = "question" if short else "text"`."""
    keys = module.inference.values(value.slice) if isinstance(value, ast.Subscript) else ()
    texts = [key.node.value if isinstance(key.node, ast.Constant) else None for key in keys]
    return bool(texts) and all(isinstance(text, str) and _COUNTS.search(text) is None for text in texts)


def _names(module: Module, value: ast.expr) -> Iterator[str]:
    """Yield the name of a variable or attribute, and that of what it is an element of: `self.urls[0]`."""
    held = value.value if isinstance(value, ast.Subscript) else value
    if isinstance(held, (ast.Name, ast.Attribute)):
        yield identifier(held)
    for binding in module.definitions(value) if isinstance(value, ast.Name) else ():
        if binding.kind is BindingKind.ITERATION and isinstance(binding.value, (ast.Name, ast.Attribute)):
            yield identifier(binding.value)


def _given(module: Module, value: ast.expr) -> Iterator[Origin]:
    """Yield what the project passes for a parameter of one of its functions: `row["id"]` for `def seed_of(name):`."""
    bindings = module.definitions(value) if isinstance(value, ast.Name) else ()
    for binding in bindings:
        function = binding.scope.node
        if binding.kind is BindingKind.PARAMETER and isinstance(function, FUNCTIONS):
            search = module.project.search(function.name, module, _MOST_FILES)
            others = map(module.project.at, search.found or ()) if search is not None else ()
            yield from passed(module, function, binding.name, tuple(dict.fromkeys((module, *others))))
