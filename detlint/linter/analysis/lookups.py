"""What stands in tables of functions and classes, `LAYERS[kind]`, of this file, of a class or of another file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import decorating, identifier, is_own, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference
    from detlint.linter.analysis.module import Module

_MOST_FILES = 16

_Display: TypeAlias = ast.Dict | ast.List | ast.Tuple


def looked_up(inference: Inference, table: ast.expr, key: ast.expr) -> Iterator[tuple[Inference, ast.expr]]:
    """Yield what stands under a key, all of it where that is not told, each with the inference of its file.

    A list is only asked for a place that is told: `[Encoder, Decoder][1]`.
    """
    found = _display(inference, table)
    if found is None:
        return
    where, display = found
    name = told_text(inference, key)
    place = key.value if isinstance(key, ast.Constant) and type(key.value) is int else None
    told = name if name is not None else place
    if isinstance(display, ast.Dict):
        for named, value in zip(display.keys, display.values, strict=True):
            if told is None or getattr(named, "value", told) == told:
                yield where, value
    elif place is not None and place < len(display.elts) and not any(map(_is_starred, display.elts)):
        yield where, display.elts[place]


def registered(inference: Inference, table: ast.expr) -> Iterator[str]:
    """Yield the names of what decorators put into an empty table: `@register` over a class, `@register("small")`."""
    found = _display(inference, table)
    if found is None or not isinstance(found[1], ast.Dict) or found[1].keys or not isinstance(table, ast.Name):
        return
    home = found[0].module
    for decorator in _decorators_of(home, table.id):
        qualified = home.qualified(decorator)
        search = home.project.search(decorator.name, home, _MOST_FILES)
        found_in = map(home.project.at, (search.found or ()) if search is not None else ())
        # Most files that mention it only call it or import it; they need not be parsed.
        others = [each for each in found_in if each is not home and each.holds_text(f"@{decorator.name}")]
        for module in (home, *others):
            yield from (module.qualified(each) for each in _decorated(module, decorator.name, qualified))


def tables_filled_by(inference: Inference, decorator: ast.expr) -> Iterator[tuple[Module, str]]:
    """Yield the tables that a decorator puts what it decorates into, by name, with their file."""
    for name in inference.resolve(decorator):
        definition = inference.module.project.definition(name)
        for table, filling in _fillings(definition[0]) if definition is not None else ():
            if definition is not None and filling is definition[1]:
                yield definition[0], table


def _decorators_of(module: Module, table: str) -> Iterator[FunctionNode]:
    """Yield the functions that put what they decorate into a table, or those around them."""
    yield from (filling for name, filling in _fillings(module) if name == table)


def _fillings(module: Module) -> Iterator[tuple[str, FunctionNode]]:
    """Yield the tables of a file that decorators fill, each with its decorator: `TABLE[name] = cls`, `return cls`."""
    for statement in module.index.of_type(ast.Assign):
        target = statement.targets[0]
        if not isinstance(target, ast.Subscript) or not isinstance(statement.value, ast.Name):
            continue
        around = [parent for parent in module.index.ancestors(statement) if isinstance(parent, FUNCTIONS)]
        if not around:
            continue
        put = statement.value.id
        given = any(argument.arg == put for argument, _ in parameters(around[0].args))
        returned = (part.value for part in walk(around[0]) if isinstance(part, ast.Return))
        if given and any(isinstance(value, ast.Name) and value.id == put for value in returned):
            yield identifier(target.value), around[-1]


def _decorated(module: Module, name: str, qualified: str) -> Iterator[FunctionNode | ast.ClassDef]:
    definitions: list[FunctionNode | ast.ClassDef] = [*module.index.of_type(ast.ClassDef)]
    definitions += module.index.of_type(ast.FunctionDef)
    for definition in definitions:
        called = [decorating(decorator) for decorator in definition.decorator_list]
        if any(identifier(each) == name and qualified in module.inference.resolve(each) for each in called):
            yield definition


def told_text(inference: Inference, node: ast.expr) -> str | None:
    """Return the string that a key or the name of an attribute is: a literal, or what a parameter is by default."""
    if isinstance(node, ast.Name):
        found = [binding.value for binding in inference.module.definitions(node) if isinstance(binding.node, ast.arg)]
        return told_text(inference, found[0]) if len(found) == 1 and isinstance(found[0], ast.Constant) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_starred(element: ast.expr) -> bool:
    return isinstance(element, ast.Starred)


def _display(inference: Inference, table: ast.expr) -> tuple[Inference, _Display] | None:
    if isinstance(table, (ast.Dict, ast.List, ast.Tuple)):
        return inference, table
    if isinstance(table, ast.Name):
        bindings = inference.module.definitions(table)
        if len(bindings) == 1 and bindings[0].kind is BindingKind.IMPORT:
            return _of_other_file(inference, inference.canonical(bindings[0].target))
        made = [binding.value for binding in bindings]
        return (inference, made[0]) if len(made) == 1 and _is_display(made[0]) else None
    if is_own(table):
        return _of_class(inference, table)
    names = inference.resolve(table) if isinstance(table, ast.Attribute) else ()
    return _of_other_file(inference, names[0]) if len(names) == 1 else None


def _of_class(inference: Inference, table: ast.expr) -> tuple[Inference, _Display] | None:
    """`self.LAYERS`, which the class or one of its bases has once for all."""
    owner = inference.index.class_at(table)
    for info in inference.mro(inference.class_info(owner)) if owner is not None else ():
        writes = info.attributes.get(identifier(table), ())
        if writes:
            made = writes[0].value if len(writes) == 1 and writes[0].method is None else None
            return (info.module.inference, made) if _is_display(made) else None
    return None


def _of_other_file(inference: Inference, name: str) -> tuple[Inference, _Display] | None:
    place, _, last = name.rpartition(".")
    module = inference.module.project.named(place)
    bindings = module.index.root.bindings.get(last, ()) if module is not None else ()
    made = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN else None
    return (module.inference, made) if module is not None and _is_display(made) else None


def _is_display(node: ast.expr | None) -> TypeGuard[_Display]:
    return isinstance(node, (ast.Dict, ast.List, ast.Tuple))
