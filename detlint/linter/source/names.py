"""Who binds a name? Scopes of a module and the bindings in them, as Python's own rules have it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from detlint.linter.source.nodes import unless_none


class BindingKind(Enum):
    """How a name came by its value."""

    IMPORT = "import"
    ASSIGN = "assign"
    AUGMENTED = "augmented"
    PARAMETER = "parameter"
    FUNCTION = "function"
    CLASS = "class"
    ITERATION = "iteration"
    CONTEXT = "context"
    OTHER = "other"


@dataclass(slots=True, eq=False)  # not frozen, though nobody changes it: that makes making one four times as slow
class Binding:
    """One place that binds `name`.

    `node` is the binding node (Name, arg, alias, FunctionDef, ClassDef …). `value` is the expression behind it: the
    assigned value, the iterated iterable, the entered context, a parameter's default; `index` is the position in it
    where it is unpacked, -1 for a starred target. `target` is the dotted name an import binds.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    scope: Scope
    value: ast.expr | None = None
    index: tuple[int, ...] = ()
    target: str = ""

    @property
    def of_same_name(self) -> list[Binding]:
        """Every binding of the variable, itself included; a `nonlocal` one belongs to a scope further out."""
        owner = self.scope.lookup(self.name)
        return owner.bindings[self.name] if owner is not None else [self]


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = (
    ast.Module
    | ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.Lambda
    | ast.ListComp
    | ast.SetComp
    | ast.DictComp
    | ast.GeneratorExp
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FOR_LOOPS = (ast.For, ast.AsyncFor)
LOOPS = (*FOR_LOOPS, ast.While)
SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *COMPREHENSIONS)


class Scope:
    """A region of code with names of its own: module, class, function, lambda or comprehension."""

    __slots__ = ("bindings", "foreign", "node", "parent", "qualname", "stars")

    def __init__(self, node: ScopeNode, parent: Scope | None, qualname: str) -> None:
        self.node = node
        self.parent = parent
        self.qualname = qualname
        self.bindings: dict[str, list[Binding]] = {}
        self.foreign: dict[str, str] = {}
        self.stars: list[str] = []

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def module_scope(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def lookup(self, name: str) -> Scope | None:
        """Return the scope that binds `name` for code standing in this one, or None (a builtin or a star import)."""
        scope: Scope | None = self
        while scope is not None:
            if scope is self or not scope.is_class:
                where = scope.foreign.get(name)
                if where == "global":
                    scope = scope.module_scope
                    return scope if name in scope.bindings else None
                if where is None and name in scope.bindings:
                    return scope
            scope = scope.parent
        return None

    def function(self) -> Scope:
        """Return the nearest function, class or module scope: the one whose body the code runs in."""
        scope = self
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        return scope

    def _bind(self, binding: Binding) -> None:
        where = self.foreign.get(binding.name)
        owner: Scope = self
        if where == "global":
            owner = self.module_scope
        elif where == "nonlocal" and self.parent is not None:
            owner = self.parent.lookup(binding.name) or self
        owner.bindings.setdefault(binding.name, []).append(binding)


class ScopeBuilder:
    """Collects the bindings of a module. `enter` and what BINDERS names are called parents first, in source order."""

    def __init__(self, module_name: str, is_package: bool) -> None:
        self._module_name = module_name
        self._is_package = is_package

    def enter(self, node: ScopeNode, parent: Scope | None) -> Scope:
        """Return the new scope that `node` opens inside `parent`, with its parameters bound."""
        name = getattr(node, "name", "")
        prefix = parent.qualname if parent is not None else ""
        scope = Scope(node, parent, f"{prefix}.{name}" if prefix and name else name or prefix)
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            for argument, default in parameters(node.args):
                scope._bind(Binding(argument.arg, BindingKind.PARAMETER, argument, scope, default))
        return scope

    def _targets(
        self,
        target: ast.expr,
        scope: Scope,
        kind: BindingKind,
        value: ast.expr | None,
        index: tuple[int, ...] = (),
    ) -> None:
        if isinstance(target, ast.Name):
            # Only a walrus binds outside its comprehension; loop targets of comprehensions stay inside.
            scope._bind(Binding(target.id, kind, target, scope, value, index))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for position, element in enumerate(target.elts):
                starred = isinstance(element, ast.Starred)
                inner = element.value if isinstance(element, ast.Starred) else element
                self._targets(inner, scope, kind, value, (*index, -1 if starred else position))

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            self._targets(target, scope, BindingKind.ASSIGN, node.value)

    def _ann_assign(self, node: ast.AnnAssign, scope: Scope) -> None:
        self._targets(node.target, scope, BindingKind.ASSIGN, node.value)

    def _aug_assign(self, node: ast.AugAssign, scope: Scope) -> None:
        self._targets(node.target, scope, BindingKind.AUGMENTED, node.value)

    def _walrus(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._targets(node.target, scope.function(), BindingKind.ASSIGN, node.value)

    def _for(self, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
        self._targets(node.target, scope, BindingKind.ITERATION, node.iter)

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._targets(item.optional_vars, scope, BindingKind.CONTEXT, item.context_expr)

    def _definition(self, node: FunctionNode | ast.ClassDef, scope: Scope) -> None:
        kind = BindingKind.CLASS if isinstance(node, ast.ClassDef) else BindingKind.FUNCTION
        scope._bind(Binding(node.name, kind, node, scope))

    def _handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            scope._bind(Binding(node.name, BindingKind.OTHER, node, scope))

    def _capture(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name:
            scope._bind(Binding(node.name, BindingKind.OTHER, node, scope))

    def _rest(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest:
            scope._bind(Binding(node.rest, BindingKind.OTHER, node, scope))

    def _declare(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        # Python wants it in front of anything in the function that binds the name.
        word = "global" if isinstance(node, ast.Global) else "nonlocal"
        scope.foreign.update(dict.fromkeys(node.names, word))

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope._bind(Binding(target.id, BindingKind.OTHER, target, scope))

    def _import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            target = alias.name if alias.asname else alias.name.partition(".")[0]
            bound = alias.asname or target
            scope._bind(Binding(bound, BindingKind.IMPORT, alias, scope, target=target))

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        base = absolute_name(node, self._module_name, self._is_package)
        for alias in node.names:
            if alias.name == "*":
                scope.stars.append(base)
                continue
            target = f"{base}.{alias.name}" if base else alias.name
            scope._bind(Binding(alias.asname or alias.name, BindingKind.IMPORT, alias, scope, target=target))


def unpacked(binding: Binding) -> ast.expr | None:
    """Return what a name is bound to where that is written in its place: `f` of `drop, act = f, g`, or else None."""
    return element_at(unless_none(binding.value), binding.index)


def element_at(value: ast.expr | None, place: Iterable[int]) -> ast.expr | None:
    """Return what stands at a place of tuples and lists that are written out."""
    for position in place:
        inner = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        plain = 0 <= position < len(inner) and not any(isinstance(part, ast.Starred) for part in inner)
        value = inner[position] if plain else None
    return value


def set_to(value: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> list[ast.expr]:
    """Return what a value is assigned to, as `self.act` for `g` of `drop, self.act = f, g`; nothing if to nothing."""
    statement = parents.get(value)
    place: tuple[int, ...] = ()
    if isinstance(statement, (ast.Tuple, ast.List)) and isinstance(parents.get(statement), ast.Assign):
        place, statement = (statement.elts.index(value),), parents[statement]
    if isinstance(statement, ast.AnnAssign):
        return [statement.target]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    found = [element_at(target, place) for target in targets]
    return [target for target in found if target is not None]


def import_in_force(bindings: Iterable[Binding], parents: Mapping[ast.AST, ast.AST]) -> Binding | None:
    """Return the import that readers of a file see: of `import a` and a later `try: import a.b as a` the second.

    Of what is tried and what stands in for it, it is what is tried; None where no import binds the name, or where a
    function or class of the file takes it over, which an import on a condition leaves to the readers.
    """
    found: Binding | None = None
    taken_over = False
    for binding in bindings:
        if binding.kind is not BindingKind.IMPORT:
            defined = isinstance(binding.node, (*FUNCTIONS, ast.ClassDef))
            if defined and isinstance(parents.get(binding.node), ast.Module):
                found, taken_over = None, True
            continue
        statement = parents.get(binding.node)
        block = parents.get(statement) if statement is not None else None
        if isinstance(block, ast.Try) and statement in block.body:
            block = parents.get(block)
        if (found is None and not taken_over) or isinstance(block, ast.Module):
            found = binding
    return found


def parameters(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield each parameter with its default, in order of declaration."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults += arguments.defaults
    yield from zip(positional, defaults, strict=True)
    if arguments.vararg:
        yield arguments.vararg, None
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    if arguments.kwarg:
        yield arguments.kwarg, None


def run_by(definition: FunctionNode | ast.ClassDef) -> FunctionNode | None:
    """Return what a call of a definition runs: a function itself, of a class its own constructor, if it has one.

    Of several that is the last: those before it are declared with `typing.overload`, or bound anew.
    """
    if isinstance(definition, FUNCTIONS):
        return definition
    made = (part for part in reversed(definition.body) if isinstance(part, FUNCTIONS) and part.name == "__init__")
    return next(made, None)


def by_place(arguments: ast.arguments) -> list[str]:
    """Return the names of the parameters that arguments without a name go to, one each."""
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]


def absolute_name(node: ast.ImportFrom, module_name: str, is_package: bool) -> str:
    """Return the dotted name of the module that `from … import` reads, relative dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module_name.split(".")
    keep = len(parts) - node.level + (1 if is_package else 0)
    base = parts[: max(keep, 0)]
    return ".".join([*base, node.module] if node.module else base)


# What binds names, and how.
BINDERS: dict[type[ast.AST], Callable[[ScopeBuilder, Any, Scope], None]] = {
    ast.Assign: ScopeBuilder._assign,
    ast.AnnAssign: ScopeBuilder._ann_assign,
    ast.AugAssign: ScopeBuilder._aug_assign,
    ast.NamedExpr: ScopeBuilder._walrus,
    ast.For: ScopeBuilder._for,
    ast.AsyncFor: ScopeBuilder._for,
    ast.comprehension: ScopeBuilder._for,
    ast.With: ScopeBuilder._with,
    ast.AsyncWith: ScopeBuilder._with,
    ast.FunctionDef: ScopeBuilder._definition,
    ast.AsyncFunctionDef: ScopeBuilder._definition,
    ast.ClassDef: ScopeBuilder._definition,
    ast.ExceptHandler: ScopeBuilder._handler,
    ast.MatchAs: ScopeBuilder._capture,
    ast.MatchStar: ScopeBuilder._capture,
    ast.MatchMapping: ScopeBuilder._rest,
    ast.Global: ScopeBuilder._declare,
    ast.Nonlocal: ScopeBuilder._declare,
    ast.Delete: ScopeBuilder._delete,
    ast.Import: ScopeBuilder._import,
    ast.ImportFrom: ScopeBuilder._import_from,
}
