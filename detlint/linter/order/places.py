"""Where values are kept: an order goes on through variables, attributes of self and containers that are filled."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import read_elsewhere
from detlint.linter.analysis.values import Kind
from detlint.linter.order import form
from detlint.linter.order.form import KEYED, Filled, Form, GivenBack, KeptIn, Trail, boxed, entry_key, unboxed
from detlint.linter.order.partners import OrderPartners
from detlint.linter.order.unread import is_read_nowhere
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import holds_one, identifier, is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.flow import Flow
    from detlint.linter.analysis.module import Module


class OrderPlaces(OrderPartners):
    """Follows an order through what it is stored in; `destination` follows it through an expression."""

    def destination(self, node: ast.expr, trail: Trail | None = None) -> str | None:
        """Return in words what takes over the order of `node`, or None where nothing is known to."""
        raise NotImplementedError

    def target(self, target: ast.expr, statement: ast.AST, trail: Trail) -> str | None:
        if isinstance(target, ast.Name):
            binding = self.binding_of(target)
            return None if binding is None else self.binding(binding, statement, trail)
        if isinstance(target, (ast.Tuple, ast.List)):
            if holds_one(target):
                return None  # only one element fits
            if trail.form is Form.SEQUENCE and not self.is_zip(statement):
                return "the names it is unpacked into"
            if trail.form not in (Form.SEQUENCE, Form.NESTED):
                return None
            inner = unboxed(trail)
            taken = target.elts
            if isinstance(trail.place, int) and not any(isinstance(element, ast.Starred) for element in taken):
                taken = taken[trail.place : trail.place + 1]
            return self.first(self.target(element, statement, inner) for element in taken)
        if isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Slice):
                return self.collected(target.value, statement, trail)
            if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                return self._entry(target.value, target.slice.value, statement, trail)
            if trail.form in KEYED:
                return None  # a dict among others: the order of its keys is rarely anybody's
            return self.collected(target.value, statement, replace(trail, form=Form.NESTED))
        return self.attribute(target, statement, trail) if isinstance(target, ast.Attribute) else None

    def _entry(self, record: ast.expr, key: str, statement: ast.AST, trail: Trail) -> str | None:
        """`info["labels"] = labels`: goes on where that entry is read, or all of the record, not other entries.

        So does `args.files = files`, where `key` is `.files`.
        """
        if self.is_complaint(key) or self.is_lookup(key):
            return None
        if isinstance(record, ast.Attribute):
            return self._entry_of_part(record, key, statement, trail)
        if isinstance(record, ast.Subscript):  # `rows[i]["labels"] = labels`
            return None if trail.form in KEYED else self.target(record, statement, boxed(trail))
        if not isinstance(record, ast.Name):
            return None
        scope = self.index.scope_at(record).lookup(record.id)
        if scope is None or not isinstance(scope.node, (*FUNCTIONS, ast.Module)):
            return None
        flow = self.module.flow(scope)
        uses = [use for binding in self.module.definitions(record) for use in flow.uses(binding)]
        later = [use for use in dict.fromkeys(uses) if use is not record and flow.path(statement, use)]
        read = {use: self._entry_at(use) for use in later}
        same = [item for item in read.values() if item is not None and entry_key(item) == key]
        if not trail.subset and any(True for item in same for _ in self.sorts_in_place(item)):
            return None
        sorts = [] if trail.subset else [fixed for use in later for fixed in self.fixes(use)]
        whole = [use for use, item in read.items() if item is None and flow.path(statement, use, avoiding=sorts)]
        nested = trail if trail.form in KEYED else replace(trail, form=Form.NESTED, place=key)
        found = self.first(
            [self.destination(item, trail) for item in same] + [self.destination(use, nested) for use in whole]
        )
        unread = not same and not whole and trail.form is not Form.MAPPING
        return Filled(self.module, record, trail, key) if unread and self._is_received(record, scope.node) else found

    def _entry_of_part(self, part: ast.Attribute, key: str, statement: ast.AST, trail: Trail) -> str | None:
        """`data.uns["genes"] = genes`: goes on where this file looks it up, or the caller does who gives the data.

        What is made here holds it as well: `data = AnnData(counts)`.
        """
        owner = part.value
        if trail.form in KEYED or is_own(part) or not isinstance(owner, ast.Name):
            return None
        if not self.is_parameter(owner):
            return self._entry(owner, f".{part.attr}", statement, boxed(trail))
        text = ast.unparse(part)
        entries = (item for item in self.index.of_type(ast.Subscript) if entry_key(item) == key)
        read = [item for item in entries if isinstance(item.ctx, ast.Load) and ast.unparse(item.value) == text]
        return (
            self.first(self.destination(item, trail) for item in read)
            if read
            else Filled(self.module, owner, trail, text)
        )

    def _is_received(self, record: ast.Name, function: ast.AST) -> bool:
        """Return whether a record is the caller's; `**options` is the function's own."""
        bindings = self.module.definitions(record)
        own = function.args.kwarg if isinstance(function, FUNCTIONS) else None
        return bool(bindings) and all(b.kind is BindingKind.PARAMETER and b.node is not own for b in bindings)

    def _entry_at(self, use: ast.Name) -> ast.Subscript | ast.Attribute | None:
        """Return `record["key"]` around a use of the record; None where it is used as a whole or with other keys."""
        item = self.index.parents.get(use)
        if not isinstance(item, (ast.Subscript, ast.Attribute)) or item.value is not use:
            return None
        around = self.index.parents.get(item)
        saving = self.table.methods["serializing"] | self.table.methods["receiving"]
        if isinstance(around, ast.Call) and around.func is item and identifier(item) in saving:
            return None
        return item if entry_key(item) is not None else None

    def binding(self, binding: Binding, after: ast.AST | None, trail: Trail) -> str | None:
        if self.is_complaint(binding.name) or not isinstance(binding.scope.node, (*FUNCTIONS, ast.Module)):
            return None
        flow = self.module.flow(binding.scope)
        longer = self.made_longer(binding, flow) if trail.form in (Form.SEQUENCE, Form.TEXT) else ()
        uses = {use: None for each in (binding, *longer) for use in flow.uses(each)}
        found = self._uses(uses, flow, after, trail)
        constant = found is None and isinstance(binding.scope.node, ast.Module) and not binding.name.startswith("__")
        return self._read_elsewhere(binding.name, trail) if constant else found

    def of(self, module: Module) -> OrderPlaces:
        """Return what follows the same order through another module."""
        raise NotImplementedError

    def _read_elsewhere(self, constant: str, trail: Trail) -> str | None:
        """Return what takes over the order of a variable of the module in the files that import it."""
        if trail.calls >= form.MAX_CALLS:
            return None
        inner = replace(trail, calls=trail.calls + 1)
        reads = read_elsewhere(constant, self.module)
        return self.first(self.of(other).destination(use, inner) for other, use in reads)

    def _uses(self, uses: Iterable[ast.Name], flow: Flow, after: ast.AST | None, trail: Trail) -> str | None:
        uses = tuple(uses)
        sorts = [] if trail.subset else [fixed for use in uses for fixed in self.fixes(use)]
        tested = [
            test for use in uses for test in (self._rebound_if_filled(use), self.leaves_one(use)) if test is not None
        ]
        return self.first(
            self._use(
                use, [*sorts, *(test for test in tested if test not in self.index.ancestors(use))], flow, after, trail
            )
            for use in uses
        )

    def _use(self, use: ast.Name, fixed: list[ast.AST], flow: Flow, after: ast.AST | None, trail: Trail) -> str | None:
        if fixed and not flow.path(after, use, avoiding=fixed):
            if trail.form is not Form.WALK:
                return None
            trail = replace(trail, form=Form.SORTED_WALK)  # the names in each folder stay as they are
        return self.destination(use, trail)

    def _rebound_if_filled(self, use: ast.Name) -> ast.If | None:
        """Return `if names: names = …` where the use is its test: what passes it by is empty and has no order.

        So `if len(names) > 0:`, and `> 1`, since one name has no order either.
        """
        test: ast.AST | None = use
        counted = self.index.parents.get(use)
        if isinstance(counted, ast.Call) and "builtins.len" in self.inference.callees(counted):
            compare = self.index.parents.get(counted)
            few = isinstance(compare, ast.Compare) and isinstance(compare.ops[0], (ast.Gt, ast.NotEq, ast.GtE))
            number = getattr(compare.comparators[0], "value", None) if isinstance(compare, ast.Compare) else None
            test = compare if few and number in (0, 1) else counted
        branch = self.index.parents.get(test) if test is not None else None
        if not isinstance(branch, ast.If) or branch.test is not test:
            return None
        rebinds = any(
            isinstance(target, ast.Name) and target.id == use.id
            for statement in branch.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
        )
        return branch if rebinds else None

    def fixes(self, use: ast.Name) -> Iterator[ast.AST]:
        """Yield the nodes after which the variable is in order: a sort in place, or a sort that is on by default.

        Where it fails before the sort, nobody makes use of it.
        """
        for fixed in self._sorts(use):
            yield fixed
            for parent in self.index.ancestors(fixed):
                if isinstance(parent, ast.Try):
                    yield from (handler.body[0] for handler in parent.handlers)

    def _sorts(self, use: ast.Name) -> Iterator[ast.AST]:
        sorts = [*self.sorts_in_place(use)]
        statement = self.index.statement(use)
        if isinstance(statement, ast.Assign) and self._is_sorted_within(use, statement):
            same = (isinstance(target, ast.Name) and target.id == use.id for target in statement.targets)
            sorts += [statement] if any(same) else []
        for node in sorts:
            condition = self.unless_turned_off(node)
            yield from (node,) if condition is None else (node, condition)

    def _is_sorted_within(self, use: ast.expr, statement: ast.stmt) -> bool:
        """`sorted(files)`, `dict(sorted(found.items()))`: not `sorted(load(name) for name in files)[:5]`."""
        part: ast.AST = use
        for parent in self.index.ancestors(use):
            if isinstance(parent, ast.Call) and part is not parent.func and self.sorts(parent):
                return True
            if parent is statement or not isinstance(parent, (ast.Call, ast.Attribute)):
                return False
            part = parent
        return False

    def collected(self, container: ast.expr, change: ast.AST, trail: Trail) -> str | None:
        """Return what takes over the order in which `change` fills `container`."""
        inside = Form.MAPPING if trail.form is Form.MAPPING else Form.NESTED
        if isinstance(container, ast.Subscript):
            key = entry_key(container)
            if key is not None and isinstance(container.value, ast.Name):
                return self._entry(container.value, key, change, trail)
            return self.collected(container.value, change, replace(trail, form=inside))
        if isinstance(container, ast.Call) and isinstance(container.func, ast.Attribute):
            # by_class.setdefault(name, []).append(path)
            return self.collected(container.func.value, change, replace(trail, form=inside))
        if isinstance(container, ast.Attribute):
            return self.attribute(container, change, trail)
        if not isinstance(container, ast.Name) or self.is_complaint(container.id):
            return None
        kinds = {value.kind for value in self.inference.values(container)}
        if kinds == {Kind.SET}:
            return None
        scope = self.index.scope_at(container).lookup(container.id)
        if scope is None or not isinstance(scope.node, (*FUNCTIONS, ast.Module)):
            return None
        flow = self.module.flow(scope)
        bindings = self._current(container)
        more = [binding for binding in scope.bindings[container.id] if binding.kind is BindingKind.AUGMENTED]
        uses = {use: None for binding in dict.fromkeys([*bindings, *more]) for use in flow.uses(binding)}
        later = [use for use in uses if use is not container and flow.path(change, use)]
        found = self._uses(later, flow, change, trail)
        received = bool(bindings) and all(binding.kind is BindingKind.PARAMETER for binding in bindings)
        if found is None and received and trail.form is not Form.MAPPING:
            return Filled(self.module, container, trail)
        return found

    def _current(self, container: ast.Name) -> tuple[Binding, ...]:
        """Return the bindings that a container is filled through: those that reach it, or the one it makes."""
        if isinstance(container.ctx, ast.Load):
            return self.module.definitions(container)
        binding = self.binding_of(container)
        return () if binding is None else (binding,)

    def attribute(self, target: ast.Attribute, change: ast.AST, trail: Trail) -> str | None:
        """`self.files = …`: follow it into the methods; where none reads it, whoever holds the object does."""
        owner = self.index.class_at(target)
        if not isinstance(target.value, ast.Name) or self.is_complaint(target.attr):
            return None
        receivers = {value.type for value in self.inference.values(target.value)}
        if owner is None or self.module.qualified(owner) not in receivers:
            keyed = trail.form is Form.MAPPING  # `graph.edata[name] = …`
            return None if keyed else self._entry(target.value, f".{target.attr}", change, trail)
        loads = [
            node
            for node in self.index.of_type(ast.Attribute)
            if node.attr == target.attr
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name)
            and node.value.id == target.value.id
            and self.index.class_at(node) is owner
        ]
        stores = self._stores_beside(target, change)
        loads = [load for load in loads if self._lasts_until(load, change, stores)]
        others = [load for load in loads if self.index.statement(load) is not change]
        if not trail.subset and any(self._fixes_order(load, target.attr) for load in others):
            return None
        inherited = not others and not self._is_assigned_again(target)
        if inherited and any(self._fixes_order(load, target.attr) for load in loads):
            return None  # `self.pools = list(set(self.pools))` of what a base class made, and takes up
        read, reached = False, []
        for load in loads:
            counted = (trail.subset or self.is_own_length(load)) and self.counts_entries(load)
            if counted or self.only_fills(load) or self.only_tests(load):
                continue
            read = True
            reached.append(self.destination(load, trail))
        found = [each for each in reached if each is not None]
        if found:
            return self._given_back(target, found, trail)
        if read or trail.form in (Form.TEXT, *KEYED) or is_read_nowhere(target.attr, owner, self.module):
            return None
        return KeptIn(self.module, target, trail) if self._lasts_until(None, change, stores) else None

    def _given_back(self, target: ast.Attribute, found: list[str], trail: Trail) -> str:
        """`self._files`, where it goes on by what one method gives alone; a public attribute may go other ways too."""
        given = [each for each in found if isinstance(each, GivenBack)]
        alone = len(given) == len(found) and len({each.function for each in given}) == 1
        if alone and target.attr.startswith("_"):
            return given[0].under(f"self.{target.attr}")
        open_ended = all(isinstance(each, form.KEPT) for each in found)
        return KeptIn(self.module, target, trail) if open_ended else f"self.{target.attr}"

    def filled_by(self, given: ast.expr, key: str, call: ast.Call, trail: Trail) -> str | None:
        """Return what takes over the order in which `call` fills an argument, or an entry of it."""
        return self._entry(given, key, call, trail) if key else self.collected(given, call, trail)

    def _stores_beside(self, target: ast.Attribute, change: ast.AST) -> list[ast.Assign]:
        """Return what else sets the attribute to something else, in the function that `change` stands in."""
        function, text = self.index.function_at(change), ast.unparse(target)
        same = (node for node in self.index.of_type(ast.Attribute) if node.attr == target.attr and node is not target)
        stores = (node for node in same if isinstance(node.ctx, ast.Store) and ast.unparse(node) == text)
        statements = (self.index.statement(node) for node in stores if self.index.function_at(node) is function)
        others = [node for node in statements if isinstance(node, ast.Assign) and node is not change]
        return [node for node in others if not self._hands_on(node, text)]

    def _hands_on(self, statement: ast.Assign, text: str) -> bool:
        """`self.names = self.names[:10]`, `self.names = self.names or found`; `name in self.names` hands on nothing."""
        parts = (part for part in ast.walk(statement.value) if isinstance(part, ast.Attribute))
        return any(
            not isinstance(self.index.parents[part], ast.Compare) and not self._is_sorted_within(part, statement)
            for part in parts
            if ast.unparse(part) == text
        )

    def _lasts_until(self, load: ast.Attribute | None, change: ast.AST, stores: list[ast.Assign]) -> bool:
        """Does an attribute still hold it there, or at the end? Not after `self.names = sorted(found)` on each way."""
        function = self.index.function_at(change)
        if not stores or function is None:
            return True
        goal = load if load is not None and self.index.function_at(load) is function else None
        return self.module.flow_at(change).path(change, goal, avoiding=stores)

    def _is_assigned_again(self, target: ast.Attribute) -> bool:
        owner, text = self.index.class_at(target), ast.unparse(target)
        stores = (node for node in self.index.of_type(ast.Attribute) if isinstance(node.ctx, ast.Store))
        return any(
            node is not target and ast.unparse(node) == text and self.index.class_at(node) is owner for node in stores
        )

    def _fixes_order(self, load: ast.Attribute, attribute: str) -> bool:
        """`self.files.sort()` or `self.files = sorted(self.files)`, unless nobody does so who does not ask for it."""
        if self.is_off_by_default(load):
            return False
        if any(True for _ in self.sorts_in_place(load)):
            return True
        parent = self.index.parents.get(load)
        statement = self.index.statement(load)
        return (
            isinstance(parent, ast.Call)
            and self.sorts(parent)
            and isinstance(statement, ast.Assign)
            and any(isinstance(t, ast.Attribute) and t.attr == attribute for t in statement.targets)
        )

    def only_tests(self, load: ast.Attribute) -> bool:
        """`self.files is None`, `not self.files`, `len(self.files) < 1`, `print(len(self.files))`.

        Which tells nothing of who takes them up.
        """
        parent = self.index.parents.get(load)
        if isinstance(parent, ast.Compare):
            return all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)
        if isinstance(parent, ast.Call):
            told = isinstance(self.index.parents.get(parent), ast.Compare) or self.shown(load)
            return (told or isinstance(self.index.statement(load), ast.Expr)) and self.counts_entries(load)
        return isinstance(parent, ast.UnaryOp) or (isinstance(parent, ast.If) and parent.test is load)

    def is_own_length(self, load: ast.Attribute) -> bool:
        """`return len(self.files)` in `__len__`: whoever indexes the object, a subclass too, goes by their places."""
        function = self.index.function_at(load)
        return function is not None and function.name == "__len__" and not load.attr.startswith("_")

    def counts_entries(self, load: ast.expr) -> bool:
        """`len(self.files)`."""
        parent = self.index.parents.get(load)
        return isinstance(parent, ast.Call) and "builtins.len" in self.inference.callees(parent)

    def only_fills(self, load: ast.expr) -> bool:
        """`self.files.append(name)`, `self.files[i] = name`, `self.files = self.files + more`."""
        parent = self.index.parents.get(load)
        if isinstance(parent, ast.Subscript) and parent.value is load:
            return isinstance(parent.ctx, ast.Store)
        filling = self.table.methods["appending"] | self.table.methods["extending"]
        if isinstance(parent, ast.Attribute):
            return parent.attr in filling
        statement = self.index.statement(load)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return any(ast.unparse(target) == ast.unparse(load) for target in targets)
