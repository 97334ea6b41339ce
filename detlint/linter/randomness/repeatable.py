"""Can a value be had again in the next run?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.context import Call
from detlint.linter.analysis.origins import FACTORIES, Origin, passed
from detlint.linter.analysis.parameters import annotation_values
from detlint.linter.analysis.project import Module
from detlint.linter.analysis.texts import is_text
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.randomness.seeding import Seed
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier
from detlint.randomness import load_sources

SALTED = "hash(), which Python salts anew for strings in every process"
_HASHES = frozenset({Kind.STRING, Kind.NONE})
# Names of what is counted; a tuple of these holds no strings.
_COUNTS = re.compile(
    r"(^|_)(seeds?|epochs?|ranks?|idx|index|indices|steps?|updates?|iter(ation)?|worker(_id)?|num|count|size|offset|[ijkn])_?$"
)
_MAX_STEPS = 3
_STABLE = frozenset({Kind.NUMBER, Kind.BOOL})


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
    """Is the hash of this value salted? Of strings, bytes and None always, of tuples where they may hold them.

    What stands under a key is taken for text: nobody hashes a number for a seed. So for a parameter that gets it.
    """
    if isinstance(value, ast.Tuple):
        return not all(_is_number(module, element) for element in value.elts)
    if is_text(module, value):
        return True
    if any(hash_varies(given.module, given.node, steps - 1) for given in _given(module, value) if steps):
        return True
    found = module.inference.values(value)
    kept = isinstance(value, (ast.Subscript, ast.Attribute)) and not _is_number(module, value)
    return any(each.kind in _HASHES or (kept and each.kind is Kind.UNKNOWN) for each in found) or (kept and not found)


def _given(module: Module, value: ast.expr) -> Iterator[Origin]:
    """Yield what the file passes for a parameter of one of its functions: `row["id"]` for `def seed_of(name):`."""
    bindings = module.definitions(value) if isinstance(value, ast.Name) else ()
    for binding in bindings:
        if binding.kind is BindingKind.PARAMETER and isinstance(binding.scope.node, FUNCTIONS):
            yield from passed(module, binding.scope.node, binding.name, (module,))


def _is_number(module: Module, value: ast.expr) -> bool:
    inner = value.value if isinstance(value, ast.Starred) else value
    if is_text(module, inner):
        return False
    if all(found.kind in _STABLE for found in module.inference.values(inner)):
        return True
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "item":
        return True  # of a tensor
    declared = {each.kind for each in _declared(module, inner)} - {Kind.NONE}
    if declared:
        return declared <= _STABLE
    name = identifier(inner)
    if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant):
        name = str(inner.slice.value)
    return _COUNTS.search(name) is not None


def _declared(module: Module, value: ast.expr) -> Iterator[Value]:
    """Yield what annotations promise of a variable anywhere in its scope, or of a field: `cell.row` of `cell: Cell`."""
    if isinstance(value, ast.Name):
        for binding in module.index.bindings_of(value):
            node = binding.node
            kept = module.index.annotations.get(node) if isinstance(node, ast.Name) else None
            annotation = node.annotation if isinstance(node, ast.arg) else kept
            if annotation is not None:
                yield from annotation_values(module.inference, annotation, annotation)
    elif isinstance(value, ast.Attribute):
        known = [each for each in module.inference.values(value.value) if each.kind is Kind.INSTANCE]
        for owner in known or _declared(module, value.value):
            info = module.inference.class_named(owner.type) if owner.kind is Kind.INSTANCE else None
            for ancestor in module.inference.mro(info) if info is not None else ():
                annotation = ancestor.declared.get(value.attr)
                if annotation is not None:
                    yield from annotation_values(ancestor.module.inference, annotation, annotation)
