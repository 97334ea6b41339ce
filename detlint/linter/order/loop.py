"""The body of a loop: which of its names depend on the element, which hold its number, and what stands outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from detlint.linter.analysis.made import given_to, made_of
from detlint.linter.analysis.values import Kind
from detlint.linter.order.form import base_names, counted_up, is_count, place_name
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode
from detlint.linter.source.nodes import arguments_of, names_in, stored_names

if TYPE_CHECKING:
    from detlint.linter.order.places import OrderPlaces

_MAX_STEPS = 4
_PAIR = 2  # `number, row`
_LONGEST_MODE = 3  # `"ab+"`
_NO_TEXT = ("sys.", "zipfile.")  # read by people, or taken out again by name


class LoopBody:
    """Answers about a loop, or about a function called from one.

    `elements` are the names that hold an element, `positions` those that hold its running number, `items` further
    expressions that are elements; `files` are parameters of a function that hold a file opened before the loop,
    `handed` those that hold anything else from outside it.
    """

    def __init__(
        self,
        tracer: OrderPlaces,
        body: ast.For | ast.AsyncFor | ast.While | ast.DictComp | FunctionNode,
        elements: frozenset[str],
        positions: frozenset[str],
        items: tuple[ast.expr, ...] = (),
        files: frozenset[str] = frozenset(),
        handed: frozenset[str] = frozenset(),
    ) -> None:
        self._places = tracer
        self._index = tracer.index
        self._body = body
        self._nodes = tuple(_own_nodes(body))
        self._made = tuple(binding for node in self._nodes for binding in bindings_of(node))
        self._positions = positions | counted_up(self._nodes)
        stores = (node for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self._bound = frozenset(node.id for node in stores if not self._only_starts(node))
        self._items = frozenset(items)
        self._files = files
        self._handed = handed
        self._keys = elements
        self._elements = self._derived(elements)

    def _is_handle(self, value: ast.expr) -> bool:
        """`module.register_forward_hook(record)`: each has its own, and what it gives only removes it again.

        Not `module.register_forward_hook(record(len(handles)))`, which says to each when its turn was.
        """
        if not self._places.gives_handle(value) or not self._has_element(value.func):
            return False
        told = [part for given in arguments_of(value) for part in ast.walk(given)]
        counts = any(is_count(part) for part in told if isinstance(part, ast.Call))
        return not counts and not any(map(self._has_position, told))

    def _derived(self, elements: frozenset[str]) -> frozenset[str]:
        """Return `elements` and every name that the body computes from them."""
        found = set(elements)
        size = -1
        while len(found) != size:
            size = len(found)
            for target, value in self._made:
                if value is not None and self._mentions(value, found) and not self._only_starts(target):
                    # `rows = rows + [row]` collects in `rows`, it does not make an element of it.
                    found |= stored_names(target) - names_in(value)
                    # `data.x = read(path)` makes `data` depend on the element too.
                    found |= base_names(target) & self._bound
            for node in self._nodes:
                found |= self._filled(node, found)
        return frozenset(found) - self._positions

    def _filled(self, node: ast.AST, names: set[str]) -> set[str]:
        """`row.append(word)`, `graph.parse(path)`, `row += [word]`: what the body makes depends on what it is given."""
        filled: ast.expr
        if isinstance(node, ast.AugAssign):
            filled, given = node.target, [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            filled, given = node.func.value, arguments_of(node)
        else:
            return set()
        if not isinstance(filled, ast.Name) or filled.id not in self._bound or self._starts_outside(filled):
            return set()
        return {filled.id} if any(self._mentions(argument, names) for argument in given) else set()

    def _starts_outside(self, name: ast.Name) -> bool:
        scope = self._index.scope_at(name).lookup(name.id)
        if scope is None or isinstance(self._body, FUNCTIONS):
            return scope is None or scope.node is not self._body or name.id in self._handed
        reads = isinstance(name.ctx, ast.Load) or isinstance(self._index.parents.get(name), ast.AugAssign)
        reaching = self._made_at(name) if reads else scope.bindings[name.id]
        return any(
            self._body not in self._index.ancestors(binding.node) or self._only_starts(binding.node)
            for binding in reaching
        ) or (reads and self._is_carried_over(name, [binding.node for binding in reaching]))

    def _is_carried_over(self, name: ast.Name, made: list[ast.AST]) -> bool:
        """`if written > limit: writer = ShardWriter(…)`: what an element before this one has made."""
        if not isinstance(self._body, ast.For):
            return False
        inside = (takewhile(lambda parent: parent is not self._body, self._index.ancestors(node)) for node in made)
        chosen = all(any(isinstance(parent, ast.If) for parent in around) for around in inside)
        return bool(made) and chosen and self._places.module.flow_at(name).path(self._body.target, name, avoiding=made)

    def _made_at(self, name: ast.Name) -> list[Binding]:
        """Return what a name holds where it is read; `text += part` goes on with what was there."""
        pending = list(self._places.module.definitions(name))
        for binding in pending:
            if binding.kind is BindingKind.AUGMENTED and isinstance(binding.node, ast.Name):
                before = self._places.module.definitions(binding.node)
                pending += [each for each in before if each not in pending]
        return [binding for binding in pending if binding.kind is not BindingKind.AUGMENTED]

    def _only_starts(self, place: ast.AST) -> bool:
        """`if i == 0: total = part`, `if total is None: total = part`: the first element starts what is collected."""
        child = place
        for parent in self._index.ancestors(place):
            if parent is self._body:
                return False
            if isinstance(parent, ast.If) and child in parent.body and self._asks_for_first(parent.test, place):
                return True
            child = parent
        return False

    def _asks_for_first(self, test: ast.expr, place: ast.AST) -> bool:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return isinstance(test.operand, ast.Name) and test.operand.id in self._positions
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) != 1:
            return False
        other = test.comparators[0]
        if isinstance(test.ops[0], ast.Is) and isinstance(other, ast.Constant) and other.value is None:
            return test.left.id in stored_names(place)
        number = isinstance(other, ast.Constant) and other.value in (0, 1) and isinstance(test.ops[0], ast.Eq)
        return number and test.left.id in self._positions

    def _has_default(self, name: ast.Name) -> bool:
        """Return whether the name has a value before the body runs; one given in another loop is for that loop."""
        scope = self._index.scope_at(name).lookup(name.id)
        around = {self._body, *self._index.ancestors(self._body)}
        return scope is None or any(
            self._body not in self._index.ancestors(binding.node)
            and all(loop in around for loop in self._index.ancestors(binding.node) if isinstance(loop, ast.For))
            for binding in scope.bindings[name.id]
        )

    def _is_taken_up(self, name: ast.Name) -> bool:
        """Is what the body binds to a name read after it, and not only for people?"""
        binding = self._places.binding_of(name)
        if binding is None:
            return False
        flow = self._places.module.flow_at(name)
        return any(
            self._body not in self._index.ancestors(use) and flow.path(name, use) and not self._places.shown(use)
            for use in flow.uses(binding)
        )

    def _mentions(self, node: ast.AST, names: set[str] | frozenset[str]) -> bool:
        return any(place_name(child) in names or child in self._items for child in ast.walk(node))

    def actions(self) -> Iterator[ast.Call]:
        """Yield the calls that the body makes for what they do alone, and that have to do with the element."""
        for node in self._nodes:
            done = node.value if isinstance(node, ast.Expr) else None
            done = done.value if isinstance(done, ast.Await) else done
            if isinstance(done, ast.Call) and self._has_element(done):
                yield done

    def stores_by_name(self, call: ast.Call) -> bool:
        """`group.save(name, weights[name])`: what is there for the element is stored under the element itself."""
        given = arguments_of(call)
        named = [value for value in given if isinstance(value, ast.Name) and value.id in self._keys]
        return bool(named) and any(self._has_element(value) for value in given if value not in named)

    def _has_element(self, node: ast.AST) -> bool:
        return self._mentions(node, self._elements)

    def _has_position(self, node: ast.AST) -> bool:
        return self._mentions(node, self._positions)

    def _is_outside(self, node: ast.expr) -> bool:
        """Return whether a container lives on after the body: a name bound outside it, or an attribute of self."""
        if isinstance(node, ast.Subscript):
            return self._is_outside(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._is_outside(node.func.value)
        if isinstance(node, ast.Attribute):
            return isinstance(node.value, ast.Name) and node.value.id not in self._elements
        if not isinstance(node, ast.Name) or node.id in self._elements:
            return False
        return self._index.scope_at(node).lookup(node.id) is not None and self._starts_outside(node)

    def _outer(self, container: ast.expr) -> list[ast.expr]:
        """Return the containers outside that one stands for: itself, or `train` and `valid` of `part = train`."""
        if self._is_outside(container):
            return [container]
        bindings = self._places.module.definitions(container) if isinstance(container, ast.Name) else ()
        made = [value for value in map(given_to, bindings) if value is not None]
        parts = [
            part for each in made for part in ((each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,))
        ]
        named: list[ast.expr] = [
            part for part in parts if isinstance(part, (ast.Name, ast.Attribute)) and self._is_outside(part)
        ]
        return named if len(named) == len(parts) and len(made) == len(bindings) else []

    def _is_shared(self, node: ast.expr) -> bool:
        """Return whether a container outside is filled by several elements: `rows`, not `rows[name]` of each name."""
        part = node
        while isinstance(part, (ast.Subscript, ast.Call, ast.Attribute)):
            if isinstance(part, ast.Subscript):
                if isinstance(part.slice, ast.Name) and part.slice.id in self._keys:
                    return False
                part = part.value
            elif isinstance(part, ast.Call):
                if part.args and isinstance(part.args[0], ast.Name) and part.args[0].id in self._keys:
                    return False
                part = part.func
            else:
                part = part.value
        return self._is_outside(node)

    def has_own(self, container: ast.expr) -> bool:
        """`rows[name]`, which stands outside, and is filled from one element alone."""
        outer = container.value if isinstance(container, ast.Subscript) else container
        return self._is_outside(outer) and not self._is_shared(container)

    def _is_partner(self, target: ast.expr) -> bool:
        """`row["v"]` and `row.v` of a row that stands at the same place, `rows[i].v`."""
        part = target
        while isinstance(part, (ast.Attribute, ast.Subscript)):
            part = part.value
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name):
                picked = [item.value for item in self._items if isinstance(item, ast.Subscript)]
                beside = not any(map(self._places.has_own_order, picked))
                if beside and part.slice.id in self._positions and self._places.has_own_order(part.value):
                    return True
        return part is not target and isinstance(part, ast.Name) and part.id in self._positions

    def _is_numbered(self, node: ast.expr, steps: int = _MAX_STEPS) -> bool:
        """Return whether the running number, and nothing of the element itself, stands in an expression."""
        if not steps or self._has_element(node):
            return False
        made = (value for target, value in self._made if names_in(target) & names_in(node) and value is not None)
        return self._gives_number(node) or any(self._is_numbered(value, steps - 1) for value in made)

    def _is_open_file(self, node: ast.expr, steps: int = _MAX_STEPS) -> bool:
        """Return whether a file was opened before the loop, so that its text is written piece by piece."""
        if isinstance(node, ast.IfExp):
            return self._is_open_file(node.body, steps) or self._is_open_file(node.orelse, steps)
        if not isinstance(node, ast.Name) or not steps:
            return False
        if node.id in self._files:
            return True
        if self._is_outside(node):
            values = self._places.inference.values(node)
            # A progress bar is gone through, and writes beside itself.
            aside = (value.kind is Kind.ITERATOR or value.type.startswith(_NO_TEXT) for value in values)
            return not self._is_imported(node) and not any(aside)
        # `out = train if drawn else valid`: another name for a file that stands outside
        given = made_of(self._places.module, node)
        return any(
            self._appends(value) if isinstance(value, ast.Call) else self._is_open_file(value, steps - 1)
            for value in given
            if isinstance(value, (ast.Name, ast.IfExp, ast.Call))
        )

    def _appends(self, call: ast.Call) -> bool:
        """`open(out, "a")`: the same file for each element, and what is written goes to its end."""
        if getattr(call.func, "attr", getattr(call.func, "id", "")) != "open" or self._has_element(call):
            return False
        given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        modes = [value.value for value in given if isinstance(value, ast.Constant)]
        return any(isinstance(mode, str) and mode.startswith("a") and len(mode) <= _LONGEST_MODE for mode in modes)

    def _is_imported(self, node: ast.Name) -> bool:
        """`soundfile.write(name, wave)` writes a whole file, not into one that is open."""
        return any(binding.kind is BindingKind.IMPORT for binding in self._index.bindings_of(node))

    def _gives_number(self, value: ast.expr) -> bool:
        """Return whether the running number is part of a value, and does not only pick from lists that go along.

        `texts[i]` is no number where `texts` was made of the list that the loop runs over.
        """
        picks = [
            part
            for part in ast.walk(value)
            if isinstance(part, ast.Subscript) and self._goes_along(part.value, _MAX_STEPS)
        ]
        picking = {name for pick in picks for name in ast.walk(pick.slice)}
        return any(place_name(part) in self._positions and part not in picking for part in ast.walk(value))

    def _goes_along(self, sequence: ast.expr, steps: int) -> bool:
        """Return whether a list has the order of what the loop runs over: it is that, or made of it."""
        if names_in(sequence) & self._iterated:
            return True
        if not steps or not isinstance(sequence, ast.Name):
            return False
        made = made_of(self._places.module, sequence)
        return any(
            isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and self._goes_along(part, steps - 1)
            for value in made
            if value is not None
            for part in ast.walk(value)
        )

    @cached_property
    def _iterated(self) -> frozenset[str]:
        """The lists that the loop runs over, and those that they were made of."""
        if not isinstance(self._body, (ast.For, ast.AsyncFor)):
            return frozenset()
        found = set(names_in(self._body.iter))
        pending = [name for name in ast.walk(self._body.iter) if isinstance(name, ast.Name)]
        for _ in range(_MAX_STEPS):
            made = [value for name in pending for value in made_of(self._places.module, name)]
            lists = [value.generators[0].iter for value in made if isinstance(value, ast.ListComp)]
            pending = [value for value in lists if isinstance(value, ast.Name)]
            found |= {name.id for name in pending}
        return frozenset(found)


def _own_nodes(body: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a body in source order, nested functions and classes left out."""
    pending = list(reversed(getattr(body, "body", [])))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            pending += reversed(list(ast.iter_child_nodes(node)))


def bindings_of(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield the targets that a statement binds, each with its value; those of `zip` one by one."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from _iterated(node.target, node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _iterated(target: ast.expr, iterable: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """`k` of `enumerate(rows, first)` and of `range(first, first + len(rows))` comes from where it begins alone."""
    called = getattr(iterable.func, "id", "") if isinstance(iterable, ast.Call) else ""
    given = iterable.args if isinstance(iterable, ast.Call) else []
    pair = target.elts if isinstance(target, ast.Tuple) else []
    if called == "zip" and len(pair) == len(given):
        yield from zip(pair, given, strict=True)
    elif called == "enumerate" and given and len(pair) == _PAIR:
        yield pair[0], given[1] if len(given) > 1 else None
        yield pair[1], given[0]
    elif called == "range" and given and (len(given) > 1 or is_count(given[0])):
        yield target, given[0] if len(given) > 1 else None
    else:
        yield target, iterable
