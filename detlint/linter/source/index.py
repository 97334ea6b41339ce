"""One pass over a file's `ast` that records parents, scopes, definitions and the nodes checks wake on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeVar

from detlint.linter.source.names import (
    BINDERS,
    COMPREHENSIONS,
    FUNCTIONS,
    SCOPES,
    Binding,
    FunctionNode,
    Scope,
    ScopeBuilder,
)
from detlint.linter.source.node_lists import NodeLists
from detlint.linter.source.nodes import CHILD_FIELDS, unless_none

# The children of these do not all see the same names.
_DIVIDED = frozenset((*SCOPES, ast.comprehension))
_LEAVING = (ast.Return, ast.Raise, ast.Continue)

NodeT = TypeVar("NodeT", bound=ast.AST)


class Index(NodeLists):
    """What one pass over a syntax tree finds.

    `parents` leads from every node upward, `nodes` lists nodes by type in source order, `scopes` gives the scope
    that a node opens. `annotations` are those of variables and attributes, by the target that stands before them.
    """

    def __init__(self, tree: ast.Module, module_name: str, is_package: bool) -> None:
        super().__init__(tree)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self._name_scopes: dict[ast.AST, Scope] = {}
        self._uses: dict[str, dict[Scope | None, list[ast.Name]]] = {}  # of each name, by the scope that binds it
        builder = ScopeBuilder(module_name, is_package)
        self.root = builder.enter(tree, None)
        self.scopes[tree] = self.root
        self._walk(builder)
        self.annotations: dict[ast.expr, ast.expr] = {
            node.target: node.annotation for node in self.of_type(ast.AnnAssign)
        }
        self._read_annotated()

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
            if kind is ast.Constant:
                continue
            if kind in BINDERS:
                BINDERS[kind](builder, node, scope)
            if kind in _DIVIDED and node is not self.tree:
                self._divide(node, scope, builder, stack)
                continue
            for field in CHILD_FIELDS[kind]:
                value = getattr(node, field)
                if value.__class__ is list:
                    for child in reversed(value):
                        if child is not None:
                            parents[child] = node
                            push(child)
                elif value is not None:
                    parents[value] = node
                    push(value)

    def _divide(self, node: ast.AST, scope: Scope, builder: ScopeBuilder, stack: list[ast.AST | Scope]) -> None:
        """Put the children of `node` on the stack, each under the scope that it is evaluated in: its own or another."""
        if isinstance(node, ast.comprehension):
            inner, around, outside = scope, scope.parent or scope, _evaluated_outside(scope.node)
        else:
            inner = self.scopes[node] = builder.enter(node, scope)  # type: ignore[arg-type]
            around, outside = scope, _evaluated_outside(node)
        stack.append(scope)
        for field in CHILD_FIELDS[node.__class__]:
            value = getattr(node, field)
            for child in reversed(value) if isinstance(value, list) else (value,):
                if child is not None:
                    self.parents[child] = node
                    stack += (child, around if child in outside else inner)

    def _read_annotated(self) -> None:
        """Make `names: list[str] = found` the assignment that it is, but for fields that a class declares.

        The annotation keeps its place under the old statement.
        """
        annotated = [node for node in self.of_type(ast.AnnAssign) if node.value and not self.scope_at(node).is_class]
        plain: dict[ast.AST, ast.Assign] = {}
        for statement in annotated:
            assert statement.value is not None
            assign = ast.copy_location(ast.Assign([statement.target], statement.value), statement)
            self.parents[assign] = self.parents[statement]
            self.parents[statement.target] = self.parents[statement.value] = assign
            plain[statement] = assign
        for around in {self.parents[statement] for statement in annotated}:
            for field in CHILD_FIELDS[around.__class__]:
                body = getattr(around, field)
                if isinstance(body, list):
                    body[:] = [plain.get(part, part) for part in body]
        if annotated:
            self.nodes[ast.Assign] += plain.values()
            self.nodes[ast.Assign].sort(key=_place)
            kept = set(self.of_type(ast.AnnAssign)) - set(annotated)
            self.nodes[ast.AnnAssign] = sorted(kept, key=_place)

    def forget(self) -> None:
        """Free the scopes, whose bindings refer back to them."""
        self._uses.clear()
        for scope in self.scopes.values():
            scope.bindings.clear()

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around `node`, the nearest first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def branches_around(self, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
        """Yield the test of each `if` inside the function that `node` stands under, and whether it has to hold."""
        child = node
        for parent in self.ancestors(node):
            if isinstance(parent, FUNCTIONS):
                return
            if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
                yield parent.test, child in (parent.body if isinstance(parent, ast.If) else (parent.body,))
            child = parent

    def conditions_around(self, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
        """Yield what `branches_around` does, and what holds after `if mode == "same": return x`."""
        yield from self.branches_around(node)
        child = node
        for parent in self.ancestors(node):
            yield from _left_before(child, parent)
            if isinstance(parent, FUNCTIONS):
                return
            child = parent

    def facts_around(self, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
        """Yield what `conditions_around` does, and what is asserted before: `assert not self.training`."""
        yield from self.conditions_around(node)
        child = node
        for parent in self.ancestors(node):
            for before in _before(child, parent):
                if isinstance(before, ast.Assert):
                    yield before.test, True
            if isinstance(parent, FUNCTIONS):
                return
            child = parent

    def scope_at(self, node: ast.AST) -> Scope:
        """Return the scope whose names `node` sees."""
        known = self._name_scopes.get(node)
        if known is not None:
            return known
        path: tuple[ast.AST, ...] = (node,)
        for parent in self.ancestors(node):
            scope = self.scopes.get(parent)
            if scope is not None and not any(child in path for child in _evaluated_outside(parent)):
                return scope
            path = (path[-1], parent)
        return self.root

    def bindings_of(self, name: ast.Name) -> Sequence[Binding]:
        """Return every binding of the variable that `name` means, wherever in its scope; none of a builtin."""
        owner = self.scope_at(name).lookup(name.id)
        return owner.bindings[name.id] if owner is not None else ()

    def uses_of(self, name: ast.Name) -> Iterator[ast.Name]:
        """Yield every read of the variable that `name` means, wherever in its scope, under other definitions too."""
        yield from self.uses_in(self.scope_at(name).lookup(name.id), name.id)

    def uses_in(self, owner: Scope | None, name: str) -> Sequence[ast.Name]:
        """Return every read of a name that a scope binds, or no scope at all, in source order."""
        by_scope = self._uses.get(name)
        if by_scope is None:
            by_scope = self._uses[name] = {}
            for use in self.names_used.get(name, ()):
                if isinstance(use, ast.Name):
                    by_scope.setdefault(self.scope_at(use).lookup(name), []).append(use)
        return by_scope.get(owner, ())

    def entry_of(self, use: ast.expr) -> ast.expr:
        """Return the whole `rows[0][1]` around a use of `rows`, or the use where nothing of it is taken."""
        around = self.parents.get(use)
        while isinstance(around, ast.Subscript) and around.value is use:
            use, around = around, self.parents.get(around)
        return use

    def with_choice(self, node: ast.expr) -> ast.expr:
        """Return `Net() if wanted else None` around `Net()`, or the node where no such choice is made."""
        around = self.parents.get(node)
        while isinstance(around, ast.IfExp) and unless_none(around) is unless_none(node):
            node, around = around, self.parents.get(around)
        return node

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


def _left_before(statement: ast.AST, around: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the tests of the `if`s before a statement in its block of which a branch leaves, and what has to hold."""
    for before in _before(statement, around):
        if isinstance(before, ast.If):
            leaves = [isinstance(branch[-1], _LEAVING) for branch in (before.body, before.orelse) if branch]
            if any(leaves):
                yield before.test, not leaves[0]


def _before(statement: ast.AST, around: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements before one in its block."""
    for block in (getattr(around, "body", ()), getattr(around, "orelse", ())):
        if isinstance(statement, ast.stmt) and isinstance(block, list) and statement in block:
            yield from block[: block.index(statement)]


def _place(node: ast.AST) -> tuple[int, int]:
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def _evaluated_outside(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return what stands in a scope node and is evaluated in the scope around it: children, and the first iterable."""
    if isinstance(node, FUNCTIONS):
        return (*node.decorator_list, node.args, *((node.returns,) if node.returns else ()))
    if isinstance(node, ast.ClassDef):
        return (*node.decorator_list, *node.bases, *node.keywords)
    if isinstance(node, ast.Lambda):
        return (node.args,)
    if isinstance(node, COMPREHENSIONS):
        return (node.generators[0].iter,)
    return ()
