"""What would stand in the place of a call, were the function it calls written out there?

`net(x)` for `run(net, x)`, of `def run(model, batch): return model(batch)`: most questions are about one file and the
names in it, and a line that moved into a helper is the same line.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.source.names import (
    COMPREHENSIONS,
    Binding,
    BindingKind,
    FunctionNode,
    element_at,
    parameters,
)
from detlint.linter.source.nodes import decorating, identifier, is_none, is_own, unless_none, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

# Helpers that call helpers.
_MOST_HELPERS = 4
_MOST_STATEMENTS = 4
_MOST_PARTS = 200
# What opens a scope or binds a name of its own, which means nothing elsewhere.
_BOUND_TO_THEIR_PLACE = (*COMPREHENSIONS, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
# Decorators that leave what a function gives as it is.
_PASSING = frozenset({"staticmethod", "no_grad", "inference_mode", "enable_grad"})
_TEXT = "str"
_OF_OBJECTS = ("self", "cls")

Given = Mapping[str, ast.expr]


def written_out(module: Module, node: ast.expr) -> ast.expr:
    """Return what `node` is with the helpers that it calls written out, or `node` itself where it calls none.

    And what `self.drop` is set to, where that is plain.
    """
    for _ in range(_MOST_HELPERS):
        node = unless_none(node)
        written = kept_in(module, node)
        if isinstance(node, ast.Call):
            written = module.project.once(_WrittenHere, module).of(node)
        if written is None:
            return node
        node = written
    return node


def made_here(module: Module, binding: Binding) -> ast.expr | None:
    """Return what a name is bound to where that is written in its place, or in a helper: see `unpacked`."""
    whole = whole_here(module, binding)
    found = element_at(whole, binding.index)
    return written_out(module, found) if found is not None and binding.kind is BindingKind.ASSIGN else found


def each_here(module: Module, node: ast.expr) -> list[ast.expr | None]:
    """Return what a name may stand for, None where that is no one expression; any other expression as it is."""
    if not isinstance(node, ast.Name):
        return [written_out(module, node)]
    return [made_here(module, binding) for binding in module.definitions(node)]


def whole_here(module: Module, binding: Binding) -> ast.expr | None:
    """Return the call behind a name, alone or as one of several results: `net(x)` of `out, state = run(net, x)`."""
    if binding.value is None or binding.kind is not BindingKind.ASSIGN:
        return binding.value
    return written_out(module, binding.value)


def kept_in(module: Module, node: ast.expr) -> ast.expr | None:
    """Return what `self.drop` is set to by the function that reads it, or by its class, if that sets it but once.

    So of what a property does nothing but give. None where the class stands in another file. `self.drop = None` sets
    nothing.
    """
    owner = module.index.class_at(node) if is_own(node) else None
    if owner is None or not isinstance(node, ast.Attribute):
        return None
    found = module.inference.attribute_writes(module.inference.class_info(owner), node.attr)
    writes = [(info, write) for info, write in found if not is_none(write.value)]
    function = module.index.function_at(node)
    here = [(info, write) for info, write in writes if write.method is function and function is not None]
    if here:  # the last one before, unless it stands in a branch
        last = [write for _, write in here if write.value.lineno < node.lineno][-1:]
        around = set(module.index.ancestors(node))
        writes = here if last and module.index.parents.get(module.index.statement(last[0].value)) in around else []
        writes = [(info, write) for info, write in writes if write in last]
    if not writes:
        return given_by_property(module, node)
    if len(writes) != 1 or writes[0][0].module is not module:
        return None
    return element_at(writes[0][1].value, writes[0][1].index)


def given_by_property(module: Module, node: ast.Attribute) -> ast.expr | None:
    """Return the `self.rate` of `return self.rate`, where a property of the class around does nothing else."""
    getter = own_property(module, node)
    result = _result(getter[1]) if getter is not None and getter[0] is module else None
    last = getter[1].body[-1] if getter is not None else None
    return result if isinstance(last, ast.Return) and result is last.value else None


def own_property(module: Module, node: ast.Attribute) -> tuple[Module, FunctionNode] | None:
    """Return the function that computes `self.rate`, with its module, where that is a property of the class around."""
    owner = module.index.class_at(node) if is_own(node) else None
    return module.inference.property_of(module.inference.class_info(owner), node.attr) if owner is not None else None


class _WrittenHere:
    """The calls of one file, with what they stand for."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[ast.Call, ast.expr | None] = {}

    def of(self, call: ast.Call) -> ast.expr | None:
        if call not in self._known:
            self._known[call] = None  # while it is worked out
            self._known[call] = self._written(call)
        return self._known[call]

    def _written(self, call: ast.Call) -> ast.expr | None:
        found = list(functions_called(self._module.inference, call))
        owner, function = found[0] if len(found) == 1 else (None, None)
        if owner is None or function is None or not _is_plain(function, call):
            return None
        result = _result(function)
        if result is None or any(isinstance(part, _BOUND_TO_THEIR_PLACE) for part in walk(result)):
            return None
        given = _given(function, call)
        for name in (part for part in walk(result) if isinstance(part, ast.Name)):
            if name.id not in given and not self._means_the_same(name, owner, call):
                return None
        copy = _Copy(call, given)
        written = copy.of(result)
        for part, around in copy.around.items():
            self._module.graft(part, around)
        if written not in given.values():
            self._module.graft(written, self._module.index.parents[call])
        return written

    def _means_the_same(self, name: ast.Name, owner: Module, call: ast.Call) -> bool:
        """Return whether a name of the helper is a global that its caller knows by that name too."""
        index = self._module.index
        there, here = owner.index.scope_at(name).lookup(name.id), index.scope_at(call).lookup(name.id)
        if owner is self._module or there is None:
            return there is here
        imported = owner.inference.resolve(name)
        if there is not owner.index.root or here is not index.root or not imported:
            return False
        same = ast.copy_location(ast.Name(name.id, ast.Load()), call)
        self._module.graft(same, index.parents[call])
        return self._module.inference.resolve(same) == imported


def _is_plain(function: FunctionNode, call: ast.Call) -> bool:
    """Is it the function itself that is called, and not what a class or a decorator makes of it?"""
    if isinstance(function, ast.AsyncFunctionDef) or identifier(call.func) != function.name:
        return False
    spread = any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords)
    if function.returns is not None and any(identifier(part) == _TEXT for part in walk(function.returns)):
        return False  # `-> list[str]` says more than what is returned
    return not spread and all(identifier(decorating(each)) in _PASSING for each in function.decorator_list)


def _result(function: FunctionNode) -> ast.expr | None:
    """Return what a function gives that does nothing else: `out = net(x)` and `return out` give `net(x)`."""
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if not 0 < len(body) <= _MOST_STATEMENTS or not isinstance(body[-1], ast.Return) or body[-1].value is None:
        return None
    named: dict[str, ast.expr] = {}
    for statement in body[:-1]:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name) or target.id in named:
            return None
        named[target.id] = _Copy(statement.value, named).of(statement.value)
    result = _Copy(body[-1].value, named).of(body[-1].value) if named else body[-1].value
    return result if sum(1 for _ in walk(result)) < _MOST_PARTS else None


def _given(function: FunctionNode, call: ast.Call) -> dict[str, ast.expr]:
    """Return what the parameters of a function are in a call, the object that it is called on among them."""
    method = isinstance(call.func, ast.Attribute)
    given: dict[str, ast.expr] = {}
    for argument, default in parameters(function.args):
        if argument.arg in _OF_OBJECTS and isinstance(call.func, ast.Attribute):
            given[argument.arg] = call.func.value
            continue
        value = argument_of(function, argument.arg, call, skip_self=method)
        value = default if value is None and isinstance(default, ast.Constant) else value
        if value is not None:
            given[argument.arg] = value
    return given


class _Copy:
    """A copy of an expression at another place, with other expressions in the places of some names.

    `around` are the new nodes, each with what is right around it.
    """

    def __init__(self, place: ast.expr, given: Given) -> None:
        self._place = place
        self._given = given
        self.around: dict[ast.AST, ast.AST] = {}

    def of(self, node: ast.expr) -> ast.expr:
        copied = self._of(node)
        assert isinstance(copied, ast.expr)
        return copied

    def _of(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name) and node.id in self._given:
            return self._given[node.id]
        if not isinstance(node, (ast.expr, ast.keyword)):
            return node  # operators and contexts are the same everywhere
        copied = ast.copy_location(node.__class__(**dict(ast.iter_fields(node))), self._place)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(copied, field, [self._inside(copied, part) for part in value])
            elif isinstance(value, ast.AST):
                setattr(copied, field, self._inside(copied, value))
        return copied

    def _inside(self, around: ast.AST, part: object) -> object:
        if not isinstance(part, ast.AST):
            return part
        copied = self._of(part)
        if copied is not part and not (isinstance(part, ast.Name) and part.id in self._given):
            self.around[copied] = around
        return copied
