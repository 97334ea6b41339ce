"""Rewrites of where things are kept and what they are called: imports, settings, attributes, layers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .trees import Fresh, Function, Renamed, Rewritten, assign, behind_imports, first_place, load, statements, stored_in

_PACKAGES = frozenset({"glob", "numpy", "os", "random", "torch", "torch.nn", "torch.nn.functional", "transformers"})
_CONTAINERS = ("Buffer", "ModuleDict", "ModuleList", "Parameter", "ParameterList")


def whole_imports(tree: ast.Module) -> Rewritten | None:
    """`import numpy as np`, `from torch import nn` become `import numpy`, `import torch`; names are written out."""
    names: dict[str, str] = {}
    for node in list(tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname and alias.name in _PACKAGES:
                    names[alias.asname], alias.asname = alias.name, None
        elif isinstance(node, ast.ImportFrom) and node.module in _PACKAGES and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            tree.body[tree.body.index(node)] = ast.Import([ast.alias(node.module)])
    if not names or names.keys() & stored_in(tree) or "*" in names:
        return None
    return Rewritten(Renamed(names).visit(tree))


def direct_imports(tree: ast.Module) -> Rewritten | None:
    """`nn.Linear(…)` becomes `Linear(…)`, with an import of its own."""
    packages: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            packages |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in _PACKAGES}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            full = ((alias, f"{node.module}.{alias.name}") for alias in node.names)
            packages |= {alias.asname or alias.name: name for alias, name in full if name in _PACKAGES}
    fresh = Fresh(tree)
    wanted: dict[str, str] = {}
    for node in ast.walk(tree):
        function = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(function, ast.Attribute):
            continue
        package = packages.get(ast.unparse(function.value))
        if package is not None and function.attr not in fresh and wanted.get(function.attr, package) == package:
            wanted[function.attr] = package
            node.func = load(function.attr)
    place = first_place(tree)
    tree.body[place:place] = [ast.ImportFrom(package, [ast.alias(name)], 0) for name, package in wanted.items()]
    return Rewritten(tree) if wanted else None


def other_names(tree: ast.Module) -> Rewritten | None:
    """`import torch` becomes `import torch as th`, and so on."""
    names = {"torch": "th", "random": "rnd", "os": "osys", "numpy": "npy"}
    changed = False
    for node in tree.body:
        for alias in node.names if isinstance(node, ast.Import) else ():
            if alias.name in names and alias.asname is None:
                alias.asname, changed = names[alias.name], True
            else:
                names.pop(alias.name, None)
    return Rewritten(Renamed(names).visit(tree)) if changed and not names.keys() & stored_in(tree) else None


def annotated(tree: ast.Module) -> Rewritten:
    """`x = f()` becomes `x: Any = f()`, also of attributes."""

    class Annotate(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.stmt:
            target = node.targets[0]
            if len(node.targets) > 1 or not isinstance(target, (ast.Name, ast.Attribute)):
                return node
            return ast.AnnAssign(target, load("Any"), node.value, int(isinstance(target, ast.Name)))

    Annotate().visit(tree)
    tree.body.insert(first_place(tree), statements("from typing import Any")[0])
    return Rewritten(tree)


def _settings(tree: ast.Module) -> Iterator[ast.keyword]:
    """Yield the keywords of calls that are given a constant."""
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            value = keyword.value
            if keyword.arg and isinstance(value, ast.Constant) and isinstance(value.value, (bool, int, float, str)):
                yield keyword


def _kept_elsewhere(
    tree: ast.Module, read: str, kept: Callable[[dict[str, ast.expr]], list[ast.stmt]]
) -> Rewritten | None:
    """Move the constants that calls are given by keyword to the top: `read` tells how to get one by name there."""
    values: dict[str, ast.expr] = {}
    for number, keyword in enumerate(_settings(tree)):
        name = f"{keyword.arg}_{number}"
        values[name] = keyword.value
        keyword.value = ast.parse(read.format(name), mode="eval").body
    if not values or {"CONFIG", "Config", "config", "args", "parser"} & stored_in(tree):
        return None
    place = behind_imports(tree)
    tree.body[place:place] = kept(values)
    return Rewritten(tree)


def in_constants(tree: ast.Module) -> Rewritten | None:
    """`f(mode="linear")` becomes `f(mode=mode_0)` of a constant of the module."""
    return _kept_elsewhere(tree, "{}", lambda values: [assign(name, value) for name, value in values.items()])


def in_dictionary(tree: ast.Module) -> Rewritten | None:
    """`f(mode="linear")` becomes `f(mode=CONFIG["mode_0"])`."""

    def kept(values: dict[str, ast.expr]) -> list[ast.stmt]:
        return [assign("CONFIG", ast.Dict([ast.Constant(name) for name in values], [*values.values()]))]

    return _kept_elsewhere(tree, 'CONFIG["{}"]', kept)


def in_dataclass(tree: ast.Module) -> Rewritten | None:
    """`f(mode="linear")` becomes `f(mode=config.mode_0)`."""

    def kept(values: dict[str, ast.expr]) -> list[ast.stmt]:
        lines = [f"    {name}: {_type(value)} = {ast.unparse(value)}" for name, value in values.items()]
        head = ["from dataclasses import dataclass", "@dataclass", "class Config:"]
        return statements("\n".join([*head, *lines, "config = Config()"]))

    return _kept_elsewhere(tree, "config.{}", kept)


def in_arguments(tree: ast.Module) -> Rewritten | None:
    """`f(mode="linear")` becomes `f(mode=args.mode_0)`, the default on the command line."""

    def kept(values: dict[str, ast.expr]) -> list[ast.stmt]:
        added = [f'parser.add_argument("--{name}", default={ast.unparse(value)})' for name, value in values.items()]
        head = ["import argparse", "parser = argparse.ArgumentParser()"]
        return statements("\n".join([*head, *added, "args = parser.parse_args()"]))

    return _kept_elsewhere(tree, "args.{}", kept)


def _type(value: ast.expr) -> str:
    return type(value.value).__name__ if isinstance(value, ast.Constant) else "object"


def in_parameters(tree: ast.Module) -> Rewritten | None:
    """`f(mode="linear")` in a function becomes `f(mode=mode)`, a parameter with that default."""
    changed = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("test") or node.args.kwonlyargs:
            continue
        taken = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} | stored_in(node)
        for keyword in _settings(ast.Module([node], [])) if node.args.vararg is None else ():
            if keyword.arg and keyword.arg not in taken:
                taken.add(keyword.arg)
                node.args.args.append(ast.arg(keyword.arg))
                node.args.defaults.append(keyword.value)
                keyword.value, changed = load(keyword.arg), True
    return Rewritten(tree) if changed else None


def in_attributes(tree: ast.Module) -> Rewritten | None:
    """Variables of methods become attributes: `x = f()` becomes `self.now_x = f()`."""
    changed = False
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for method in (node for node in owner.body if isinstance(node, ast.FunctionDef)):
            parts = (part for part in ast.walk(method) if part is not method)
            if (
                any(isinstance(part, (Function, ast.Lambda)) for part in parts)
                or not method.args.args
                or method.args.args[0].arg != "self"
            ):
                continue
            variables = _plain_variables(method)
            for part in ast.walk(method):
                for name, value in list(ast.iter_fields(part)):
                    _replace_names(part, name, value, variables)
            changed |= bool(variables)
    return Rewritten(tree) if changed else None


def _plain_variables(method: ast.FunctionDef) -> set[str]:
    """Return what a method sets by plain assignments alone."""
    plain = {
        part.targets[0].id
        for part in ast.walk(method)
        if isinstance(part, ast.Assign) and len(part.targets) == 1 and isinstance(part.targets[0], ast.Name)
    }
    loops = (part.target for part in ast.walk(method) if isinstance(part, (ast.For, ast.comprehension)))
    opened = (i.optional_vars for part in ast.walk(method) if isinstance(part, ast.With) for i in part.items)
    others = [target for target in (*loops, *opened) if target is not None]
    taken = {part.id for target in others for part in ast.walk(target) if isinstance(part, ast.Name)}
    return plain - taken - {argument.arg for argument in method.args.args}


def _replace_names(part: ast.AST, field: str, value: object, variables: set[str]) -> None:
    def replaced(node: object) -> object:
        if isinstance(node, ast.Name) and node.id in variables:
            return ast.Attribute(load("self"), f"now_{node.id}", node.ctx)
        return node

    if isinstance(value, list):
        setattr(part, field, [replaced(node) for node in value])
    elif isinstance(value, ast.Name):
        setattr(part, field, replaced(value))


def in_module_dict(tree: ast.Module) -> Rewritten | None:
    """Layers of a module go into a dictionary of them: `self.norm` becomes `self.blocks["norm"]`."""
    changed = False
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        init = next((node for node in owner.body if isinstance(node, Function) and node.name == "__init__"), None)
        layers = {name: node for node in (init.body if init is not None else ()) if (name := _layer_named(node))}
        if init is None or not layers:
            continue
        last = init.body.index([*layers.values()][-1])
        package = ast.unparse(next(iter(layers.values())).value.func).rpartition(".")[0]
        entries = ast.Dict([ast.Constant(name) for name in layers], [node.value for node in layers.values()])
        (made,) = statements(f"self.blocks = {package}.ModuleDict({ast.unparse(entries)})")
        init.body[last] = made
        init.body = [node for node in init.body if node not in layers.values()]
        _Blocks(set(layers)).visit(owner)
        changed = True
    return Rewritten(tree) if changed else None


def _layer_named(statement: ast.stmt) -> str:
    """Return `norm` of `self.norm = nn.BatchNorm2d(8)`, or nothing."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return ""
    target, made = statement.targets[0], ast.unparse(statement.value.func)
    kind = made.rpartition(".")[2]
    is_layer = made.startswith(("nn.", "torch.nn.")) and kind[:1].isupper() and kind not in _CONTAINERS
    return target.attr if is_layer and isinstance(target, ast.Attribute) else ""


class _Blocks(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if not own or node.attr not in self._names:
            return node
        return ast.Subscript(ast.Attribute(load("self"), "blocks", ast.Load()), ast.Constant(node.attr), node.ctx)


PLACES: dict[str, Callable[[ast.Module], Rewritten | None]] = {
    "whole-imports": whole_imports,
    "direct-imports": direct_imports,
    "other-names": other_names,
    "annotated": annotated,
    "in-constants": in_constants,
    "in-dictionary": in_dictionary,
    "in-dataclass": in_dataclass,
    "in-arguments": in_arguments,
    "in-parameters": in_parameters,
    "in-attributes": in_attributes,
    "in-module-dict": in_module_dict,
}
