"""Parts of a model that are put into eval mode one by one: `net.encoder.eval()`, and then `net(x)`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.module import Module
from detlint.linter.modes.names import Key, ModelNames
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.source.names import BindingKind


def parts_in_eval_mode(modes: ModelNames, key: Key, node: ast.AST) -> frozenset[str]:
    """Return the attributes of a model that are switched before a place in its function, or anywhere in its class."""
    found: set[str] = set()
    for call in modes.index.calls_by_name.get("eval", ()):
        if switched(call) is not Mode.EVAL or not isinstance(call.func, ast.Attribute):
            continue
        parts = [part for part in _meant(modes.module, call.func.value) if modes.key(part.value) == key]
        if parts and _comes_before(modes, key, call, node):
            found.update(part.attr for part in parts)
    return frozenset(found)


def values_of_parts(module: Module, call: ast.Call, parts: Collection[str]) -> Iterator[ast.AST]:
    """Yield what a class sets these attributes to, and what the call that makes it hands in for them."""
    for name in module.inference.callees(call) if parts else ():
        info = module.inference.class_named(name)
        for ancestor in info.module.inference.mro(info) if info is not None else ():
            built = ancestor.methods.get("__init__")
            for write in (write for part in parts for write in ancestor.attributes.get(part, ())):
                yield write.value
                if ancestor is info and built is not None and isinstance(write.value, ast.Name):
                    given = argument_of(built, write.value.id, call, skip_self=True)
                    yield from (given,) if given is not None else ()


def _meant(module: Module, part: ast.expr) -> list[ast.Attribute]:
    """Return `net.encoder`, also of `for part in (net.encoder, net.decoder): part.eval()`."""
    if isinstance(part, ast.Attribute):
        return [part]
    bindings = module.definitions(part) if isinstance(part, ast.Name) else ()
    listed = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.ITERATION else None
    elements = listed.elts if isinstance(listed, (ast.Tuple, ast.List)) else []
    return [element for element in elements if isinstance(element, ast.Attribute)]


def _comes_before(modes: ModelNames, key: Key, call: ast.Call, node: ast.AST) -> bool:
    function = modes.index.function_at(node)
    if modes.index.function_at(call) is function:
        return modes.module.flow_at(node).path(call, node)
    return isinstance(key.owner, ast.ClassDef)
