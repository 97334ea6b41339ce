"""Stage 1: one pass over a file's `ast` that records parents, scopes, definitions and the nodes checks wake on."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from detlint.linter.names import BINDERS, FUNCTIONS, SCOPES, FunctionNode, Scope, ScopeBuilder, ScopeNode
from detlint.linter.nodes import child_fields, walk

_SCOPE_TYPES = frozenset(SCOPES)

NodeT = TypeVar("NodeT", bound=ast.AST)


class Index:
    """What one pass over a syntax tree finds.

    `parents` leads from every node upward, `nodes` lists nodes by type in source order, `scopes` gives the scope
    that a node opens.
    """

    def __init__(self, tree: ast.Module, module_name: str, is_package: bool) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self.scopes: dict[ast.AST, Scope] = {}
        self._name_scopes: dict[ast.AST, Scope] = {}
        builder = ScopeBuilder(module_name, is_package)
        self.root = builder.enter(tree, None)
        self.scopes[tree] = self.root
        self._walk(builder)

    def _walk(self, builder: ScopeBuilder) -> None:
        # An explicit stack: source may be nested deeper than Python's own recursion limit.
        # A scope on the stack is the one of what lies below it.
        parents, nodes, name_scopes = self.parents, self.nodes, self._name_scopes
        scope = self.root
        stack: list[ast.AST | Scope] = [self.tree]
        push, pop = stack.append, stack.pop
        while stack:
            node = pop()
            if isinstance(node, Scope):
                scope = node
                continue
            kind = node.__class__
            nodes[kind].append(node)
            if kind is ast.Name:
                name_scopes[node] = scope
                continue
            if kind in BINDERS:
                builder.visit(node, scope)
            if kind in _SCOPE_TYPES and node is not self.tree:
                self._enter(node, scope, builder, stack)  # type: ignore[arg-type]
                continue
            for field in child_fields(kind):
                value = getattr(node, field, None)
                if value.__class__ is list:
                    for child in reversed(value):
                        if child is not None:
                            parents[child] = node
                            push(child)
                elif value is not None:
                    parents[value] = node
                    push(value)

    def _enter(self, node: ScopeNode, scope: Scope, builder: ScopeBuilder, stack: list[ast.AST | Scope]) -> None:
        """Open the scope of `node` and put its children on the stack, each under the scope that it is evaluated in."""
        inner = self.scopes[node] = builder.enter(node, scope)
        outside = _evaluated_outside(node)
        stack.append(scope)
        for field in child_fields(node.__class__):
            value = getattr(node, field, None)
            for child in reversed(value) if isinstance(value, list) else (value,):
                if child is not None:
                    self.parents[child] = node
                    stack += (child, scope if child in outside else inner)

    def of_type(self, kind: type[NodeT]) -> Sequence[NodeT]:
        """Return every node of exactly this type, in source order."""
        return self.nodes.get(kind, ())  # type: ignore[return-value]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around `node`, the nearest first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def scope_at(self, node: ast.AST) -> Scope:
        """Return the scope whose names `node` sees."""
        known = self._name_scopes.get(node)
        if known is not None:
            return known
        child = node
        for parent in self.ancestors(node):
            scope = self.scopes.get(parent)
            if scope is not None and child not in _evaluated_outside(parent):
                return scope
            child = parent
        return self.root

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that `node` stands in (itself if it is one)."""
        if isinstance(node, ast.stmt):
            return node
        for parent in self.ancestors(node):
            if isinstance(parent, ast.stmt):
                return parent
        raise ValueError("the module itself stands in no statement")

    def function_at(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function whose body holds `node`, or None at module or class level."""
        scope = self.scope_at(node)
        while True:
            if isinstance(scope.node, FUNCTIONS):
                return scope.node
            if scope.parent is None or isinstance(scope.node, ast.ClassDef):
                return None
            scope = scope.parent

    def class_at(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class around `node`, through functions."""
        return next((parent for parent in self.ancestors(node) if isinstance(parent, ast.ClassDef)), None)

    @cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """Calls by the last identifier of what they call; "__call__" where that is no name."""
        calls: dict[str, list[ast.Call]] = {}
        for call in self.of_type(ast.Call):
            calls.setdefault(_identifier(call.func) or "__call__", []).append(call)
        return calls

    @cached_property
    def calls_meaning(self) -> dict[str, list[ast.Call]]:
        """Calls by each identifier that they may mean, aliases seen through."""
        meaning = {name: list(calls) for name, calls in self.calls_by_name.items()}
        for alias, targets in self.aliases.items():
            for target in targets if alias in self.calls_by_name else ():
                meaning.setdefault(target, []).extend(self.calls_by_name[alias])
        return meaning

    @cached_property
    def names_used(self) -> dict[str, list[ast.AST]]:
        """Reads of each identifier, as a name or as an attribute."""
        used: dict[str, list[ast.AST]] = {}
        for name in self.of_type(ast.Name):
            if isinstance(name.ctx, ast.Load):
                used.setdefault(name.id, []).append(name)
        for attribute in self.of_type(ast.Attribute):
            used.setdefault(attribute.attr, []).append(attribute)
        return used

    @cached_property
    def names_by_definition(self) -> tuple[frozenset[str], tuple[tuple[str, frozenset[str]], ...]]:
        """Names that top-level code reads, and those that each outermost function or class reads."""
        outside: set[str] = set()
        inside: list[tuple[str, frozenset[str]]] = []
        pending: list[ast.AST] = list(self.tree.body)
        while pending:
            node = pending.pop()
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                inside.append((node.name, frozenset(names_read(node))))
                pending.extend(node.decorator_list)
            else:
                outside.update(_name_read(node))
                pending.extend(ast.iter_child_nodes(node))
        return frozenset(outside), tuple(inside)

    @cached_property
    def aliases(self) -> dict[str, frozenset[str]]:
        """For each name bound to another one, the identifiers that may stand behind it."""
        behind: dict[str, set[str]] = {}
        for alias in self.of_type(ast.alias):
            if alias.asname and alias.asname != alias.name:
                behind.setdefault(alias.asname, set()).add(alias.name.rpartition(".")[2])
        for assignment in self.of_type(ast.Assign):
            named = frozenset(_identifiers_behind(assignment.value))
            for target in assignment.targets:
                bound = _identifier(target)
                if named and bound is not None:
                    behind.setdefault(bound, set()).update(named)
        # Two steps are enough for `drop = F.dropout` under `from … import dropout as d`.
        return {
            name: frozenset(direct | {far for near in direct for far in behind.get(near, ())})
            for name, direct in behind.items()
        }


def names_read(node: ast.AST) -> Iterator[str]:
    """Yield the identifiers that are read under `node`, as names or as attributes."""
    for child in walk(node):
        yield from _name_read(child)


def _name_read(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,) if isinstance(node.ctx, ast.Load) else ()
    return (node.attr,) if isinstance(node, ast.Attribute) else ()


def _identifier(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _identifiers_behind(value: ast.expr) -> Iterator[str]:
    name = _identifier(value)
    if name is not None:
        yield name
    elif isinstance(value, ast.IfExp):
        yield from _identifiers_behind(value.body)
        yield from _identifiers_behind(value.orelse)
    elif isinstance(value, ast.Call) and value.args:
        called = _identifier(value.func)
        if called == "partial":
            yield from _identifiers_behind(value.args[0])
        elif called == "getattr" and len(value.args) >= 2 and isinstance(value.args[1], ast.Constant):
            yield str(value.args[1].value)


def _evaluated_outside(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return the children of a scope node that are evaluated in the scope around it."""
    if isinstance(node, FUNCTIONS):
        return (*node.decorator_list, node.args, *((node.returns,) if node.returns else ()))
    if isinstance(node, ast.ClassDef):
        return (*node.decorator_list, *node.bases, *node.keywords)
    if isinstance(node, ast.Lambda):
        return (node.args,)
    return ()
