"""What does a name refer to? Followed through bindings, imports, re-exports, receivers and inheritance."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from detlint.linter.analysis.lookups import looked_up, registered, told_text
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, element_at, unpacked
from detlint.linter.source.node_lists import by_dimension, is_partial, picked
from detlint.linter.source.nodes import walk

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference
    from detlint.linter.analysis.module import Module

_MOST_STARRED = 8
_IMPORT = "importlib.import_module"
_OF_PATHS_ALONE = frozenset({"iterdir", "rglob"})
_OF_TENSORS_ALONE = frozenset({"new_empty", "new_empty_strided"})
_OF_POOLS_ALONE = frozenset({"imap_unordered"})
_BUILTIN_NAMES = frozenset(dir(builtins))
# What an assigned name can be another name for.
_NAMING = (ast.Name, ast.Attribute, ast.IfExp, ast.BoolOp, ast.Call)


def referred_names(inference: Inference, node: ast.expr) -> Iterator[str]:
    """Yield the qualified names that `node` may refer to, with repetitions."""
    if isinstance(node, ast.Name):
        yield from _name(inference, node)
    elif isinstance(node, ast.Attribute):
        yield from _attribute(inference, node)
    elif isinstance(node, ast.IfExp):
        yield from inference.resolve(node.body)
        yield from inference.resolve(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from inference.resolve(value)
    elif isinstance(node, ast.NamedExpr):
        yield from inference.resolve(node.value)
    elif isinstance(node, ast.Call):
        yield from _call(inference, node)
    elif isinstance(node, ast.Subscript):
        yield from _looked_up(inference, node.value, node.slice)
        # Generic classes: Dataset[int] is Dataset.
        yield from (name for name in inference.resolve(node.value) if name.rpartition(".")[2][:1].isupper())


def _name(inference: Inference, node: ast.Name) -> Iterator[str]:
    bindings = inference.module.definitions(node)
    if not bindings:
        yield from _unbound(inference, node.id)
    for binding in bindings:
        if binding.kind is BindingKind.IMPORT:
            yield inference.canonical(binding.target)
        elif isinstance(binding.node, (*FUNCTIONS, ast.ClassDef)):
            yield inference.module.qualified(binding.node)
        elif binding.kind is BindingKind.PARAMETER:
            owner = _class_of_classmethod(inference, binding)
            if owner is not None:
                yield inference.module.qualified(owner)
            elif isinstance(binding.value, (ast.Name, ast.Attribute)) and not _is_told_apart(node, inference):
                yield from inference.resolve(binding.value)  # `def __init__(self, pick=random.sample):`
        elif binding.kind is BindingKind.ASSIGN:
            value = unpacked(binding)
            if isinstance(value, _NAMING):
                yield from inference.resolve(value)
            elif isinstance(value, ast.Subscript):
                yield from _looked_up(inference, value.value, value.slice)


def _class_of_classmethod(inference: Inference, binding: Binding) -> ast.ClassDef | None:
    """Return the class that `cls` is, the first parameter of a class method."""
    function = binding.scope.node
    if binding.name != "cls" or not isinstance(function, FUNCTIONS) or function.args.args[:1] != [binding.node]:
        return None
    return inference.index.class_at(function) if "builtins.classmethod" in inference.decorators(function) else None


def _is_told_apart(name: ast.Name, inference: Inference) -> bool:
    """`if kind == RandomSampler:` around a use: is it asked which one a parameter is?"""
    tests = (test for test, _ in inference.index.conditions_around(name))
    compared = (part for test in tests for part in walk(test) if isinstance(part, ast.Compare))
    return any(getattr(side, "id", "") == name.id for part in compared for side in (part.left, *part.comparators))


def _unbound(inference: Inference, name: str) -> Iterator[str]:
    project = inference.module.project
    stars = inference.index.root.stars
    for star in stars:
        starred = project.find(star, inference.module)
        if starred is not None and project.exports(starred, name):
            yield inference.canonical(f"{starred.name}.{name}")
            return
    if name in _BUILTIN_NAMES:
        yield f"builtins.{name}"
        return
    for star in project.once(_stars_outside, inference.module) if stars else ():
        yield inference.canonical(f"{star}.{name}")


def _stars_outside(module: Module) -> tuple[str, ...]:
    """Return what a file imports all names of outside the project, through star imports of its own files as well."""
    outside: dict[str, None] = {}
    pending = [module]
    for place in pending:  # grows on the way
        for star in place.stars:
            starred = place.project.find(star, place)
            if starred is None:
                outside[star] = None
            elif starred not in pending and len(pending) < _MOST_STARRED:
                pending.append(starred)
    return tuple(outside)


def _attribute(inference: Inference, node: ast.Attribute) -> Iterator[str]:
    bases = inference.resolve(node.value)
    if bases:
        for base in bases:
            name = inference.canonical(f"{base}.{node.attr}")
            yield from _inherited(inference, name)
        return
    for value in inference.values(node.value):
        if value.kind in (Kind.INSTANCE, Kind.MODULE) and value.type:
            yield from instance_attribute(inference, value.type, node.attr)
        elif value.kind is Kind.TENSOR:
            yield f"torch.Tensor.{node.attr}"
        elif value.kind is Kind.ARRAY:
            yield f"numpy.ndarray.{node.attr}"
        elif value.kind in (Kind.LIST, Kind.SET, Kind.DICT, Kind.TUPLE):
            yield f"builtins.{value.kind.value}.{node.attr}"
        elif value.kind is Kind.STRING:
            yield f"builtins.str.{node.attr}"
        elif value.kind is Kind.UNKNOWN and not value.type and _lists_a_path(inference, node):
            yield f"pathlib.Path.{node.attr}"
        elif value.kind is Kind.UNKNOWN and not value.type and node.attr in _OF_TENSORS_ALONE:
            yield f"torch.Tensor.{node.attr}"
        elif value.kind is Kind.UNKNOWN and not value.type and node.attr in _OF_POOLS_ALONE:
            yield f"multiprocessing.Pool.{node.attr}"


def _lists_a_path(inference: Inference, node: ast.Attribute) -> bool:
    """Nothing but paths has `iterdir` and `rglob`; what globs for `*.png`, with no folder in front, is a path too."""
    if node.attr != "glob":
        return node.attr in _OF_PATHS_ALONE
    call = inference.index.parents.get(node)
    if not isinstance(call, ast.Call) or call.func is not node or len(call.args) != 1:
        return False
    return any(map(_starts_with_wildcard, (call.args[0], *(value.node for value in inference.values(call.args[0])))))


def _starts_with_wildcard(pattern: ast.AST | None) -> bool:
    """`"*.png"`, `f"*.{suffix}"`, `"*/" * depth`."""
    while isinstance(pattern, ast.BinOp):
        pattern = pattern.left
    if isinstance(pattern, ast.JoinedStr) and pattern.values:
        pattern = pattern.values[0]
    return isinstance(pattern, ast.Constant) and isinstance(pattern.value, str) and pattern.value.startswith("*")


def instance_attribute(inference: Inference, type_name: str, attribute: str) -> Iterator[str]:
    """Yield the qualified names of an attribute of an instance of the class `type_name`."""
    info = inference.class_named(type_name)
    if info is None:
        if type_name == "pathlib.Path" and attribute == "parent":
            return  # a property, which names nothing, but has a value
        if type_name in inference.types.modules and attribute in inference.types.module_methods:
            yield f"torch.nn.Module.{attribute}"
        else:
            yield f"{type_name}.{attribute}"
        return
    for ancestor in inference.mro(info):
        if attribute in ancestor.methods:
            if inference.property_of(info, attribute) is None:
                yield f"{ancestor.name}.{attribute}"
            return
    writes = list(inference.attribute_writes(info, attribute))
    for owner, write in writes:
        value = element_at(write.value, write.index)
        yield from owner.module.inference.resolve(value) if value is not None else ()
    if not writes and not any(attribute in ancestor.declared for ancestor in inference.mro(info)):
        for base in inference.external_bases(info):
            if base in inference.types.module_bases and attribute in inference.types.module_methods:
                base = "torch.nn.Module"
            yield f"{base}.{attribute}"


def _inherited(inference: Inference, name: str) -> Iterator[str]:
    """`Child.method` named on the class is its parent's where the child does not define it."""
    owner, _, attribute = name.rpartition(".")
    info = inference.class_named(owner) if owner else None
    if info is None or attribute in info.methods:
        yield name
    else:
        yield from instance_attribute(inference, owner, attribute)


def _call(inference: Inference, node: ast.Call) -> Iterator[str]:
    """The names that partial(f, …), getattr(module, "f"), {"f": f}.get("f") and import_module("m") stand for."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        yield from _looked_up(inference, node.func.value, node.args[0])
    for name in inference.resolve(node.func):
        if name == "functools.partial" and node.args:
            yield from inference.resolve(node.args[0])
        elif name == "builtins.getattr" and len(node.args) >= 2:
            for attribute in _attributes(inference, node.args[1]):
                yield from (inference.canonical(f"{base}.{attribute}") for base in inference.resolve(node.args[0]))
        elif name == _IMPORT:
            yield from _imported(inference, node)
        else:
            yield from _picked_by(inference, name)
            if not node.args and not node.keywords:
                yield from _imported_by(inference, name)


def _imported(inference: Inference, call: ast.Call) -> Iterator[str]:
    """`importlib.import_module("flash_attn")`."""
    name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if isinstance(name, str) and not name.startswith("."):
        yield inference.canonical(name)


def _imported_by(inference: Inference, name: str) -> Iterator[str]:
    """Yield the modules that a function of the project imports and gives back.

    `return importlib.import_module(…)`, or `import torch` and then `return torch`; also `return load_torch()`, of a
    function that does so, and `return torch` of what the file imports at its top.
    """
    definition = inference.module.project.definition(name)
    if definition is None or not isinstance(definition[1], FUNCTIONS):
        return
    inside, bound = definition[0].inference, definition[0].index.scopes[definition[1]].bindings
    last = definition[1].body[-1]
    handed_on = last.value if isinstance(last, ast.Return) else None
    if isinstance(handed_on, ast.Call) and not handed_on.args and not handed_on.keywords:
        yield from inside.resolve(handed_on)
    elif isinstance(handed_on, ast.Name) and handed_on.id not in bound:
        imported = (each for each in definition[0].definitions(handed_on) if each.kind is BindingKind.IMPORT)
        yield from (inside.canonical(each.target) for each in imported)
    for part in walk(definition[1]) if _imports(definition[0], bound) else ():
        given = part.value if isinstance(part, ast.Return) else None
        if isinstance(given, ast.Call) and _IMPORT in inside.resolve(given.func):
            yield from _imported(inside, given)
        elif isinstance(given, ast.Name):
            imported = (each for each in bound.get(given.id, ()) if each.kind is BindingKind.IMPORT)
            yield from (inside.canonical(each.target) for each in imported)


def _imports(module: Module, bound: Mapping[str, Sequence[Binding]]) -> bool:
    """May a function that binds these names import a module?"""
    imported = any(binding.kind is BindingKind.IMPORT for bindings in bound.values() for binding in bindings)
    return imported or _IMPORT.rpartition(".")[2] in module.calls


def _picked_by(inference: Inference, name: str) -> Iterator[str]:
    """Yield what a function of the project may give that ends on `return LAYERS[kind]`, or on a partial call."""
    definition = inference.module.project.definition(name)
    given = picked(definition[1]) if definition is not None and isinstance(definition[1], FUNCTIONS) else None
    if definition is not None and isinstance(given, ast.Subscript):
        yield from _looked_up(definition[0].inference, given.value, given.slice)
    elif definition is not None and given is not None:
        yield from definition[0].inference.resolve(given)


def _looked_up(inference: Inference, table: ast.expr, key: ast.expr) -> Iterator[str]:
    """`{"mean": mean_pool, "max": partial(max_pool, dim=1)}[reduce]`, and `models.__dict__["unet"]`."""
    if isinstance(table, ast.Attribute) and table.attr == "__dict__" and (name := told_text(inference, key)):
        yield from (inference.canonical(f"{base}.{name}") for base in inference.resolve(table.value))
    for where, value in looked_up(inference, table, key):
        if isinstance(value, (ast.Name, ast.Attribute)) or is_partial(value):
            yield from where.resolve(value)
    yield from registered(inference, table)


def _attributes(inference: Inference, node: ast.expr) -> list[str]:
    """Return what `getattr` may be asked for."""
    name = told_text(inference, node)
    return by_dimension(node) if name is None else [name]
