"""Where a file sets attributes of modules by name: `torch.backends.cudnn.benchmark = True`, `setattr(…)`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from detlint.linter.analysis.dicts import looped_items
from detlint.linter.analysis.module import Module


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """An assignment to a qualified name, as in `torch.backends.cudnn.benchmark = True`."""

    module: Module
    node: ast.stmt
    name: str
    value: ast.expr


def attribute_writes(module: Module, lasts: Collection[str]) -> Iterator[Write]:
    """Yield assignments `a.b = value` whose attribute is one of `lasts`, with the qualified name of the target."""
    if module.writes.isdisjoint(lasts) and not ("setattr" in module.calls and module.holds_any(lasts)):
        return
    for node in module.index.of_type(ast.Assign):
        pairs = [pair for target in node.targets for pair in _unpacked(target, node.value)]
        for written, value in pairs:
            if isinstance(written, ast.Attribute) and written.attr in lasts:
                for name in module.inference.resolve(written):
                    yield Write(module, node, name, value)
    for call in module.index.calls_by_name.get("setattr", ()):
        for attribute, value in _set(module, call) if len(call.args) == 3 else ():
            if attribute in lasts:
                for base in module.inference.resolve(call.args[0]):
                    yield Write(module, module.index.statement(call), f"{base}.{attribute}", value)


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target with its own value: `a.x, a.y = 1, 2` is two assignments."""
    if isinstance(target, (ast.Tuple, ast.List)):
        branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        for branch in branches:
            if isinstance(branch, (ast.Tuple, ast.List)) and len(branch.elts) == len(target.elts):
                for inner, part in zip(target.elts, branch.elts, strict=True):
                    yield from _unpacked(inner, part)
    else:
        yield target, value


def _set(module: Module, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield what `setattr(cudnn, "benchmark", True)` sets, or `for name, value in FLAGS.items(): setattr(…)`."""
    _, name, value = call.args
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        yield name.value, value
    keys, values = (module.definitions(part) if isinstance(part, ast.Name) else () for part in (name, value))
    together = len(keys) == len(values) == 1 and keys[0].value is values[0].value
    if together and values[0].index == (*keys[0].index[:-1], 1):
        yield from looped_items(module, name).items()
