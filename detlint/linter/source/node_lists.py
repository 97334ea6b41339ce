"""The nodes of a file by type, and what can be told from them without knowing scopes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeGuard, TypeVar

from detlint.linter.source.names import FunctionNode, parameters

NodeT = TypeVar("NodeT", bound=ast.AST)


class NodeLists:
    """`nodes` lists the nodes of a syntax tree by type, in source order."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)

    def of_type(self, kind: type[NodeT]) -> Sequence[NodeT]:
        """Return every node of exactly this type, in source order."""
        return self.nodes.get(kind, ())  # type: ignore[return-value]

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
        for call in self.calls_by_name.get("map", ()):
            for name in _identifiers_behind(call.args[0]) if len(call.args) > 1 else ():
                for meant in (name, *self.aliases.get(name, ())):
                    meaning.setdefault(meant, []).append(call)
        for call in self.calls_by_name.get("__call__", ()):
            for name in (*self._got_by_name(call.func), *self._looked_up(call.func), *self._picked(call.func)):
                meaning.setdefault(name, []).append(call)
        return meaning

    def _looked_up(self, function: ast.expr) -> Iterator[str]:
        """Yield what stands in the table of names of `{"mean": mean_pool}[kind]` or `POOLS[kind]`."""
        if isinstance(function, ast.Subscript):
            for name in _identifiers_behind(function):
                yield from (name, *self.aliases.get(name, ()))

    def _picked(self, function: ast.expr) -> Iterator[str]:
        """Yield what a function of the file may give, `layer_of(kind)` of a table of names, where that is called."""
        name = _identifier(function.func) if isinstance(function, ast.Call) else None
        for table in self._tables_of_functions.get(name, ()) if name is not None else ():
            yield from (table, *self.aliases.get(table, ()))

    @cached_property
    def _tables_of_functions(self) -> dict[str, set[str]]:
        """Identifiers behind the functions that functions end on, see `picked`."""
        tables: dict[str, set[str]] = {}
        for function in self.of_type(ast.FunctionDef):
            given = picked(function)
            if given is not None:
                tables.setdefault(function.name, set()).update(_identifiers_behind(given))
        return tables

    def _got_by_name(self, function: ast.expr) -> Iterator[str]:
        """Yield what `getattr(nn, "ReLU")` may get, and `getattr(nn, kind)` by the defaults of parameters named so."""
        if not isinstance(function, ast.Call) or _identifier(function.func) != "getattr" or len(function.args) < 2:
            return
        name = function.args[1]
        if isinstance(name, ast.Constant):
            yield str(name.value)
        elif isinstance(name, ast.Name):
            yield from self._text_defaults.get(name.id, ())
        else:
            yield from by_dimension(name)

    @cached_property
    def _text_defaults(self) -> dict[str, set[str]]:
        """Strings that parameters are by default."""
        defaults: dict[str, set[str]] = {}
        for argument, default in self._defaults():
            if isinstance(default, ast.Constant) and isinstance(default.value, str):
                defaults.setdefault(argument.arg, set()).add(default.value)
        return defaults

    def _defaults(self) -> Iterator[tuple[ast.arg, ast.expr]]:
        """Yield the parameters of all functions that have a default, with that."""
        functions: list[FunctionNode] = [*self.of_type(ast.FunctionDef), *self.of_type(ast.AsyncFunctionDef)]
        for function in functions:
            for argument, default in parameters(function.args):
                if default is not None:
                    yield argument, default

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

    def given_by_name(self) -> Iterator[tuple[ast.keyword | ast.Constant, str, ast.expr]]:
        """Yield `fast=True` of all calls, then `"fast": True` of all dictionaries: place, name and value of each."""
        for keyword in self.of_type(ast.keyword):
            if keyword.arg is not None:
                yield keyword, keyword.arg, keyword.value
        for display in self.of_type(ast.Dict):
            for key, value in zip(display.keys, display.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key, key.value, value

    @cached_property
    def attribute_changes(self) -> dict[str, list[ast.Attribute]]:
        """Where code sets or deletes each attribute by its name."""
        changes: dict[str, list[ast.Attribute]] = {}
        for attribute in self.of_type(ast.Attribute):
            if not isinstance(attribute.ctx, ast.Load):
                changes.setdefault(attribute.attr, []).append(attribute)
        return changes

    @cached_property
    def attributes_written(self) -> frozenset[str]:
        """Attributes that assignments set, and those that `setattr` sets by a literal name."""
        pending: list[ast.expr] = [target for node in self.of_type(ast.Assign) for target in node.targets]
        written: set[str] = set()
        for target in pending:
            if isinstance(target, ast.Attribute):
                written.add(target.attr)
            elif isinstance(target, (ast.Tuple, ast.List)):
                pending.extend(target.elts)
        for call in self.calls_meaning.get("setattr", ()):
            name = call.args[1] if len(call.args) == 3 else None
            if isinstance(name, ast.Constant):
                written.add(str(name.value))
        return frozenset(written)

    @cached_property
    def aliases(self) -> dict[str, frozenset[str]]:
        """For each name bound to another one, the identifiers that may stand behind it."""
        behind: dict[str, set[str]] = {}
        for alias in self.of_type(ast.alias):
            if alias.asname and alias.asname != alias.name:
                behind.setdefault(alias.asname, set()).add(alias.name.rpartition(".")[2])
        for target, value in self.assigned():
            bound = _identifier(target)
            named = frozenset(_identifiers_behind(value)) if bound is not None else frozenset()
            if isinstance(value, ast.Call) and not named:
                named = frozenset(self._tables_of_functions.get(_identifier(value.func) or "", ()))
            if named and bound is not None:
                behind.setdefault(bound, set()).update(named)
        for argument, default in self._defaults():
            named = frozenset(_identifiers_behind(default))
            if named:
                behind.setdefault(argument.arg, set()).update(named)
        # Two steps are enough for `drop = F.dropout` under `from … import dropout as d`.
        return {
            name: frozenset(direct | {far for near in direct for far in behind.get(near, ())})
            for name, direct in behind.items()
        }

    def assigned(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Yield each target of an assignment with its value; `drop, act = F.dropout, F.relu` is two of them."""
        for assignment in self.of_type(ast.Assign):
            for target in assignment.targets:
                if isinstance(target, ast.Tuple) and isinstance(assignment.value, ast.Tuple):
                    if len(target.elts) == len(assignment.value.elts):
                        yield from zip(target.elts, assignment.value.elts, strict=True)
                else:
                    yield target, assignment.value
        for annotated in self.of_type(ast.AnnAssign):
            if annotated.value is not None:
                yield annotated.target, annotated.value
        yield from ((walrus.target, walrus.value) for walrus in self.of_type(ast.NamedExpr))


def picked(function: FunctionNode) -> ast.Subscript | ast.Call | None:
    """Return `LAYERS[kind]` of a function that ends on `return LAYERS[kind]`, and so `partial(F.dropout, p=rate)`."""
    last = function.body[-1]
    given = last.value if isinstance(last, ast.Return) else None
    return given if given is not None and (isinstance(given, ast.Subscript) or is_partial(given)) else None


def by_dimension(node: ast.expr) -> list[str]:
    """Return the names that f"Conv{dimensions}d" may be: torch has each for one, two and three dimensions."""
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    texts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    named = len(parts) == 3 and len(texts) == 2 and texts[1] == "d"
    return [f"{texts[0]}{number}d" for number in (1, 2, 3)] if named else []


def is_partial(node: ast.expr) -> TypeGuard[ast.Call]:
    """`partial(pool, dim=1)`, by its name alone."""
    return isinstance(node, ast.Call) and _identifier(node.func) == "partial" and bool(node.args)


def _identifier(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _identifiers_behind(value: ast.expr) -> Iterator[str]:
    pending = [value]  # as deep as an expression may be
    while pending:
        value = pending.pop()
        name = _identifier(value)
        if name is not None:
            yield name
        elif isinstance(value, ast.IfExp):
            pending += (value.orelse, value.body)
        elif isinstance(value, ast.Subscript):
            pending.append(value.value)
        elif isinstance(value, ast.Dict):
            pending += [each for each in reversed(value.values) if _identifier(each) is not None or is_partial(each)]
        elif isinstance(value, ast.Call) and value.args:
            called = _identifier(value.func)
            if called == "get" and isinstance(value.func, ast.Attribute):
                pending.append(value.func.value)
            elif is_partial(value):
                pending.append(value.args[0])
            elif called == "getattr" and len(value.args) >= 2:
                asked = value.args[1]
                yield from [str(asked.value)] if isinstance(asked, ast.Constant) else by_dimension(asked)
