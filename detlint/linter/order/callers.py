"""Does anybody who calls a function have a use for the order it gives? Asks all callers in the project."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from detlint.conditions import Truth
from detlint.linter.analysis.callers import is_used_elsewhere, reads_of_attributes, results_of
from detlint.linter.analysis.calls import parameter_given
from detlint.linter.analysis.fixtures import takers_of
from detlint.linter.analysis.made import place_taken
from detlint.linter.analysis.returned import only_hands_on
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.order.choice import LoopChoice
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.form import Form, GivenBack, KeptIn, Trail
from detlint.linter.order.meant import filled_in, gives_entries, is_of_another_class, is_only_expected, versions
from detlint.linter.order.put_away import asks_whether_any, entries_read, taken_from_list
from detlint.linter.order.records import parts_read
from detlint.linter.order.uses import OrderUses
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier, is_own, names_in

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

_Attribute = tuple[ast.ClassDef, str]
_DEPTH = 10
_MOST_FUNCTIONS = 3  # that hand an order on to their own callers


def is_given_in_vain(
    sink: str, ctx: Context, depth: int = _MOST_FUNCTIONS, asked: frozenset[FunctionNode] = frozenset()
) -> bool:
    """Return whether an order ends in what a function gives to callers who all ignore it, and there are some.

    Tests say nothing about the use that a function has; a function handed on as a value may be called by anybody.
    What leads back to a function that is being asked about adds nothing to its uses.
    """
    if isinstance(sink, KeptIn):
        return _Disregard(ctx.elsewhere(sink.module), depth - 1, asked).of_attribute(sink.target, _DEPTH)
    if not isinstance(sink, GivenBack) or not depth:
        return False
    if sink.function in asked or is_only_expected(sink):
        return True
    asked |= {sink.function}
    takers = list(takers_of(sink.module.inference, sink.function))
    if takers:
        tests = _Disregard(ctx.elsewhere(sink.module), depth - 1, asked)
        return all(tests.of_parameter(*taker) for taker in takers)
    if _is_kept_in_vain(sink, _Disregard(ctx.elsewhere(sink.module), depth - 1, asked)):
        return True
    used = False
    for module, function in versions(sink):
        owner = module.index.class_at(function)
        for site in results_of(function, ctx.elsewhere(module)):
            if site is None:
                return False
            where, given = site
            unasked = is_test_file(where.module) and not is_test_file(sink.module)
            if isinstance(given, ast.Attribute) and owner is not None:  # a property: others may have one of that name
                unasked = unasked or is_of_another_class(given, where, owner, ctx.elsewhere(module))
            if unasked or sink.function in where.ancestors(given) or _is_dropped(given, where):
                continue
            reader = _Disregard(where, depth - 1, asked)
            ignored = reader.of_result(given, sink.places, sink.nested)
            if ignored is Truth.NO and only_hands_on(sink.function) and reader.leads_nowhere(given, sink.trail):
                ignored = Truth.YES
            if ignored is Truth.NO:
                return False
            used = used or ignored is Truth.YES
    return used


def _is_kept_in_vain(given: GivenBack, code: _Disregard) -> bool:
    """`config.skipped = names; return config`: whoever gets it, the project reads that of a `Config` in any order."""
    index, places = given.module.index, given.places
    stores = [
        node
        for node in index.of_type(ast.Attribute)
        if isinstance(node.ctx, ast.Store) and f".{node.attr}" in places and index.function_at(node) is given.function
    ]
    kept = {f".{store.attr}" for store in stores} == places
    return kept and bool(stores) and all(code.of_attribute(store, _DEPTH, given.nested) for store in stores)


class _Disregard(OrderUses):
    """Answers whether code of one file is known to have no use for an order. `functions` may hand it on from here.

    `asked` and `attributes` are being asked about: functions that give it, attributes that keep it.
    """

    def __init__(
        self,
        ctx: Context,
        functions: int,
        asked: frozenset[FunctionNode],
        attributes: frozenset[_Attribute] = frozenset(),
    ) -> None:
        super().__init__(ctx)
        self._asked = asked
        self._attributes = attributes
        self._functions = functions
        self._bindings: set[Binding] = set()  # that are being asked about

    def of_parameter(self, function: FunctionNode, parameter: ast.arg) -> bool:
        """Return whether a test has no use for the order of what it is given, or reads nothing of it."""
        binding = self._tracer.parameter(function, parameter.arg)
        return binding is not None and self._of_part(binding)

    def leads_nowhere(self, given: ast.expr, trail: Trail | None) -> bool:
        """`self.files = listed(folder)`, and `self.files.sort()`: would the same be silent without the function?

        Not what is done with each element in turn by code that nobody knows.
        """
        if trail is None or not self._leads_nowhere(OrderTracer(self._ctx.module).destination(given, trail)):
            return False
        uses = [given, *self._reads_of(given)]
        sorts = any(True for use in uses for _ in self._tracer.sorts_in_place(use))
        return sorts or all(map(self._is_known, uses))

    def _is_known(self, use: ast.expr) -> bool:
        """Is that no loop over it, and no call that is given all of it, of which nobody knows what they do?"""
        parent = self._tracer.index.parents.get(use)
        return not isinstance(parent, (ast.For, ast.comprehension, ast.Call)) or self.of(use)

    def of_result(self, given: ast.expr, places: frozenset[int | str], nested: bool) -> Truth:
        """Return whether that is known of what a function gives, in a tuple at `places`: `groups, _ = split(nodes)`.

        So of entries of a record. Who reads none of those says nothing of their use.
        """
        given = self._tracer.index.with_choice(given)
        statement = self._tracer.index.parents.get(given)
        if isinstance(statement, ast.Await):
            return self.of_result(statement, places, nested)
        keys = frozenset(place for place in places if isinstance(place, str))
        read = parts_read(given, keys, self._tracer) if keys and keys == places else None
        if read is not None:
            return Truth.of(self._of_all(read, _DEPTH)) if read else Truth.UNKNOWN
        numbered = frozenset(place for place in places if isinstance(place, int) and not keys)
        return Truth.of(self._of_parts(given, numbered, nested))

    def _of_parts(self, given: ast.expr, places: frozenset[int], nested: bool) -> bool:
        statement = self._tracer.index.parents.get(given)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if not places or not parts or not all(isinstance(part, ast.Name) or _is_own_attribute(part) for part in parts):
            return self.of(given, nested=nested and not places)
        return all(place < len(parts) and self._of_place(parts[place], nested) for place in places)

    def _of_place(self, target: ast.expr, nested: bool) -> bool:
        if isinstance(target, ast.Attribute):  # `self.groups, self.names = split(nodes)`
            return self.of_attribute(target, _DEPTH, nested)
        binding = self._tracer.binding_of(target) if isinstance(target, ast.Name) else None
        return binding is not None and self._of_part(binding, nested)

    def _of_part(self, binding: Binding, nested: bool = False) -> bool:
        """Of what comes along with other things; nothing need be done with it."""
        uses = self._tracer.module.flow(binding.scope).uses(binding)
        return isinstance(binding.scope.node, FUNCTIONS) and all(self.of(use, nested=nested) for use in uses)

    def of(self, node: ast.expr, depth: int = _DEPTH, nested: bool = False) -> bool:
        """Return whether the code around an expression is known to have no use for its order, or that inside it."""
        tracer = self._tracer
        parent = tracer.index.parents.get(node)
        if depth == 0 or parent is None:
            return False
        if tracer.shown(node) or self._is_text(node):
            return True
        inner = depth - 1
        if isinstance(parent, ast.Expr):
            return _is_own_step(node)
        if isinstance(parent, ast.Compare):
            return asks_whether_any(node, parent)
        if isinstance(parent, ast.Call):
            return node is not parent.func and self._of_argument(node, parent, inner)
        if isinstance(parent, ast.Attribute):
            return self._fills(parent) or parent.attr == "remove" or any(True for _ in tracer.sorts_in_place(node))
        if isinstance(parent, ast.keyword):
            call = tracer.index.parents[parent]
            given = isinstance(call, ast.Call) and self._of_argument(node, call, inner)
            return given or tracer.is_lookup(parent.arg or "")
        if isinstance(parent, ast.comprehension):
            return self._of_comprehension(parent, inner)
        if isinstance(parent, ast.For):
            return node is parent.iter and self._of_loop(parent)
        if isinstance(parent, ast.Assign):
            return len(parent.targets) == 1 and self._of_target(parent.targets[0], inner, nested)
        if isinstance(parent, ast.NamedExpr):
            return self._of_variable(parent.target, inner, nested) and self.of(parent, inner, nested)
        taken = place_taken(node, parent, tracer.index) if isinstance(parent, (ast.List, ast.Tuple)) else None
        if taken is not None:
            return self._of_target(taken, inner, nested)
        if isinstance(parent, ast.List) and parent.elts == [node] and not isinstance(node, ast.Starred):
            return self._of_all(taken_from_list(parent, self._ctx), inner)
        if isinstance(parent, ast.Dict):
            return any(
                tracer.is_lookup_key(key)
                for key, value in zip(parent.keys, parent.values, strict=True)
                if value is node
            )
        if isinstance(parent, (ast.Await, ast.BoolOp, ast.Starred)) or _is_joined(parent):
            return self.of(parent, inner)
        if isinstance(parent, (ast.Return, ast.YieldFrom)):
            function = tracer.index.function_at(parent)
            handed_on = GivenBack(self._ctx.module, function, "", nested=nested) if function is not None else ""
            return is_given_in_vain(handed_on, self._ctx, self._functions, self._asked)
        if isinstance(parent, ast.IfExp) and node is not parent.test:
            return self.of(parent, inner)
        if isinstance(parent, ast.Subscript):  # `times[0]` where there is one; `groups[i]`, where the order is inside
            inside = nested and not isinstance(parent.slice, ast.Slice) and self.of(parent, depth)
            return node is parent.value and (inside or tracer.is_only_element(node))
        if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            return node is parent.test
        return isinstance(parent, ast.UnaryOp)  # `not names`

    def _of_loop(self, loop: ast.For) -> bool:
        """Return whether a loop takes up no order, and does nothing of its own with each element in turn."""
        if not self._leads_nowhere(self._tracer.destination(loop.iter, Trail(gathered=True))):
            return False
        numbers = self._tracer.positions(loop.target, loop.iter)
        names = names_in(loop.target) - numbers
        body = LoopChoice(self._tracer, loop, names, numbers)
        return all(
            self._only_keeps(call)
            or body.is_for_one(call)
            or body.stores_by_name(call)
            or self._fills_own(call, body)
            or self._is_handled_alone(call, loop, names)
            or self._changes_itself(call, names)
            for call in body.actions()
        )

    def _fills_own(self, call: ast.Call, body: LoopChoice) -> bool:
        """`groups[name].append(row)`: each element has a list of its own in a dict of which nobody asks the order."""
        if not self._fills(call.func) or not isinstance(call.func.value, ast.Subscript):
            return False
        kept = self._tracer.collected(call.func.value, call, Trail(Form.MAPPING, gathered=True))
        return body.has_own(call.func.value) and self._leads_nowhere(kept)

    def _only_keeps(self, call: ast.Call) -> bool:
        """`seen.add(name)`, `logger.info(name)`, `lines.append(text)` of what a message is made of.

        So `model.load_state_dict(shard)`, which goes by the names in it, and `metric.reset()` of the element.
        """
        if self._tracer.shown(call.args[0] if call.args else call):
            return True
        if self._fills(call.func):
            return self._is_shown(call.func.value) or self._of_container(call.func.value, _DEPTH)
        name = identifier(call.func)
        by_name = self._tracer.loads_by_name(name) or self._tracer.adds_command(name)
        asserts = name.startswith("assert") and is_own(call.func)  # of each element by itself
        return name == "add" or by_name or asserts or self._asks_set(call) or self._updates_dict(call)

    def _leads_nowhere(self, sink: str | None) -> bool:
        return sink is None or is_given_in_vain(sink, self._ctx, self._functions, self._asked)

    def _of_comprehension(self, loop: ast.comprehension, depth: int) -> bool:
        around = self._tracer.index.parents[loop]
        if isinstance(around, (ast.SetComp, ast.DictComp)):  # a dict is looked things up in
            return self._leads_nowhere(self._tracer.destination(loop.iter))
        return isinstance(around, (ast.ListComp, ast.GeneratorExp)) and self.of(around, depth)

    def _of_argument(self, given: ast.expr, call: ast.Call, depth: int) -> bool:
        tracer = self._tracer
        names, functions = tracer.inference.callees(call), tracer.table.functions
        indifferent = functions["membership"] | functions["compiling"]
        if tracer.pairs_listings(call, names):
            return False
        if tracer.sorts(call) or not indifferent.isdisjoint(names) or self._asks_set(call) or self._asks_kind(call):
            return True
        if not functions["carrying"].isdisjoint(names):
            return self.of(call, depth)
        if self._fills(call.func):
            return self._of_container(call.func.value, depth)
        if not functions["adding"].isdisjoint(names):
            return self._leads_nowhere(tracer.destination(given, Trail(gathered=True)))
        if self._runs_for_each(given, call, names):
            return True
        return self._is_parameter_ignored(given, call, depth)

    def _is_parameter_ignored(self, given: ast.expr, call: ast.Call, depth: int) -> bool:
        """Return whether the function of the project that gets an argument ignores its order, and all it may mean."""
        for owner, function in self._run_by(call):
            parameter = parameter_given(function, call, given, skip_self=owner.index.class_at(function) is not None)
            if parameter is None:
                continue
            asked = [(self._of(place), version) for place, version in filled_in(owner, function)]
            return bool(asked) and all(there._of_named(version, parameter, depth) for there, version in asked)
        return False

    def _of(self, module: Module) -> _Disregard:
        return _Disregard(self._ctx.elsewhere(module), self._functions, self._asked, self._attributes)

    def _of_named(self, function: FunctionNode, parameter: str, depth: int) -> bool:
        binding = self._tracer.parameter(function, parameter)
        return binding is not None and self._of_binding(binding, depth)

    def _of_target(self, target: ast.expr, depth: int, nested: bool) -> bool:
        """`config["target_modules"] = names`, `config.target_modules = names`, or a variable."""
        if isinstance(target, ast.Subscript):
            read = entries_read(target.value, self._ctx)
            return self._tracer.is_lookup_key(target.slice) or self._of_all(read, depth - 1)
        if isinstance(target, ast.Attribute):
            return self._tracer.is_lookup(target.attr) or self.of_attribute(target, depth, nested)
        return self._of_variable(target, depth, nested)

    def _of_all(self, parts: list[ast.expr] | None, depth: int) -> bool:
        return parts is not None and depth > 0 and all(self.of(part, depth) for part in parts)

    def _of_variable(self, target: ast.expr, depth: int, nested: bool) -> bool:
        binding = self._tracer.binding_of(target) if isinstance(target, ast.Name) else None
        return binding is not None and self._of_binding(binding, depth, nested)

    def of_attribute(self, target: ast.Attribute, depth: int, nested: bool = False) -> bool:
        """`self.names = names`, `config.names = names`: does the project read it, and never for its order?

        That it is counted tells so much; as the length of an object it does where that gives its entries without it.
        """
        name, info = target.attr, self._class_of(target.value)
        if info is None or depth == 0:
            return False
        owner, home = info.node, self._ctx.elsewhere(info.module)
        if (owner, name) in self._attributes:
            return True
        asked, taken_up, own_length = self._attributes | {(owner, name)}, False, False
        counted: list[bool] = []
        for read in reads_of_attributes(name, self._ctx):
            if read is None:
                return False
            where, use = read
            if is_test_file(where.module) or is_of_another_class(use, where, owner, home):
                continue
            reader = _Disregard(where, self._functions, self._asked, asked)
            if not reader.of(use, depth - 1, nested):
                return False
            taken_up = taken_up or reader._takes_up(use)
            own_length = own_length or reader._tracer.is_own_length(use)
            counted.append(reader._tracer.counts_entries(use))
        if own_length:
            return taken_up or gives_entries(owner, name, info.module)
        return taken_up or (bool(counted) and all(counted))

    def _of_container(self, container: ast.expr, depth: int) -> bool:
        """Return whether a list that is filled here is not asked for its order either."""
        if isinstance(container, ast.Attribute) and is_own(container):
            return self.of_attribute(container, depth)
        bindings = self._tracer.module.definitions(container) if isinstance(container, ast.Name) else ()
        return bool(bindings) and all(self._of_binding(binding, depth) for binding in bindings)

    def _of_binding(self, binding: Binding, depth: int, nested: bool = False) -> bool:
        if binding in self._bindings:
            return True
        self._bindings.add(binding)
        found = self._of_uses(binding, depth, nested)
        self._bindings.remove(binding)
        return found

    def _of_uses(self, binding: Binding, depth: int, nested: bool) -> bool:
        module = self._tracer.module
        if isinstance(binding.scope.node, ast.Module):
            if is_used_elsewhere(binding.name, self._ctx):
                return False
        elif not isinstance(binding.scope.node, FUNCTIONS):
            return False
        flow = module.flow(binding.scope)
        longer = self._tracer.made_longer(binding, flow)
        uses = list(dict.fromkeys(use for each in (binding, *longer) for use in flow.uses(each)))
        sorts = [fixed for use in uses for fixed in self._tracer.fixes(use)]
        made = None if binding.kind is BindingKind.PARAMETER else binding.node  # there from the beginning
        before = [use for use in uses if flow.path(made, use, avoiding=sorts)] if sorts else uses
        return bool(uses) and all(self.of(use, depth, nested) for use in before)


def _is_own_step(node: ast.expr) -> bool:
    """A step of the object's own, or of the file's, and nobody keeps what comes of it."""
    called = node.func if isinstance(node, ast.Call) else node
    return is_own(called) or identifier(called).startswith("_")


def _is_dropped(given: ast.expr, where: Context) -> bool:
    """`model.remove_hooks()`, which says nothing of what others make of what it gives."""
    parent = where.parent(given)
    return isinstance(parent, ast.Expr) and not _is_own_step(given)


def _is_own_attribute(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and is_own(node)


def _is_joined(node: ast.AST) -> TypeGuard[ast.expr]:
    """`first + others`, `[*first, *others]`."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return any(isinstance(part, ast.Starred) for part in node.elts)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
