"""Where does an arbitrary order end up? Follows a value upward through expressions, variables, attributes and calls.

The order of a directory listing, of a set or of finished futures only matters if it reaches data: items, numbers,
text, a choice, or whoever calls. Everything that is not known to take over an order is taken to ignore it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace

from detlint.linter.elements import gone_through
from detlint.linter.names import FUNCTIONS
from detlint.linter.order_calls import OrderCalls
from detlint.linter.order_effects import LoopEffects
from detlint.linter.order_form import (
    CHOICE,
    KEEPING_ORDER,
    MAX_CALLS,
    NUMBERING,
    SUM,
    Form,
    Trail,
    counted_up,
    names_in,
)
from detlint.linter.order_sums import is_measure, reading_calls
from detlint.linter.values import Kind


class OrderTracer(OrderCalls):
    """Follows orders through one module; asks a tracer of its own for another module where calls lead there."""

    def destination(self, node: ast.expr, trail: Trail | None = None) -> str | None:
        """Return in words what takes over the order of `node`, or None where nothing is known to."""
        trail = trail or Trail()
        key = (node, trail.form, trail.subset, trail.tensors)
        if key in self._seen:
            return None
        self._seen.add(key)
        parent = self.index.parents.get(node)
        if parent is None or self.shown(node):
            return None
        method = _PARENTS.get(parent.__class__)
        return method(self, node, parent, trail) if method is not None else None

    def _carry(self, node: ast.expr, parent: ast.expr, trail: Trail) -> str | None:
        return self.destination(parent, trail)

    def _display(self, node: ast.expr, parent: ast.expr, trail: Trail) -> str | None:
        if isinstance(parent, ast.Dict) and self._is_lookup_entry(node, parent):
            return None
        if isinstance(node, ast.Starred) or trail.form is Form.MAPPING:
            return self.destination(parent, trail)
        return self.destination(parent, replace(trail, form=Form.NESTED))

    def _is_lookup_entry(self, node: ast.expr, record: ast.Dict) -> bool:
        """`{"target_modules": names}`."""
        keys = [key for key, value in zip(record.keys, record.values, strict=True) if value is node]
        return any(
            isinstance(key, ast.Constant) and isinstance(key.value, str) and self.is_lookup(key.value) for key in keys
        )

    def _binary(self, node: ast.expr, parent: ast.BinOp, trail: Trail) -> str | None:
        if isinstance(parent.op, KEEPING_ORDER):
            return self.destination(parent, trail)
        return None

    def _alternative(self, node: ast.expr, parent: ast.BoolOp, trail: Trail) -> str | None:
        """`found or other`; whoever writes `found and other` asks whether there are any."""
        return self.destination(parent, trail) if isinstance(parent.op, ast.Or) else None

    def _searched(self, node: ast.expr, parent: ast.Compare, trail: Trail) -> str | None:
        """`name in names[:100]`: the order has decided what is in."""
        searched = node in parent.comparators and any(isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops)
        return CHOICE if searched and trail.subset else None

    def _branch(self, node: ast.expr, parent: ast.IfExp, trail: Trail) -> str | None:
        return None if node is parent.test else self.destination(parent, trail)

    def _formatted(self, node: ast.expr, parent: ast.FormattedValue, trail: Trail) -> str | None:
        string = self.index.parents[parent]
        assert isinstance(string, ast.expr)
        return self.destination(string, replace(trail, form=Form.TEXT))

    def _subscript(self, node: ast.expr, parent: ast.Subscript, trail: Trail) -> str | None:
        if not isinstance(parent.ctx, ast.Load):
            return None
        if node is parent.slice:
            return self._index(parent, trail)
        if trail.form is Form.NESTED:
            return self.destination(parent, replace(trail, form=Form.SEQUENCE))
        if trail.form is not Form.SEQUENCE:
            return None
        index = parent.slice
        if isinstance(index, ast.Tuple) and _is_whole(index.elts[0]):  # `waves[:, :length]`
            return self.destination(parent, trail)
        if isinstance(index, ast.Slice):
            whole = _is_whole(index)
            subset = trail.subset or not (whole or self._is_chunk(parent))
            found = self.destination(parent, replace(trail, subset=subset))
            return found if found or whole else self._by_position(parent, index)
        if isinstance(index, ast.UnaryOp):
            index = index.operand
        if isinstance(index, ast.Constant):
            return None if self._is_just_added(parent) else self.choice(node, parent)
        return self._by_position(parent, index)

    def _index(self, item: ast.Subscript, trail: Trail) -> str | None:
        """`scores[order]` is in that order, but not where it is stored under the same index."""
        if any(name.startswith("typing.") for name in self.inference.resolve(item.value)):
            return None
        statement = self.index.parents.get(item)
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        index = ast.dump(item.slice)
        if any(isinstance(target, ast.Subscript) and ast.dump(target.slice) == index for target in targets):
            return None
        return self.destination(item, replace(trail, form=Form.SEQUENCE))

    def _is_just_added(self, item: ast.Subscript) -> bool:
        """`paths.append(path)` and `paths[-1]` in one loop: that is `path`."""
        if ast.unparse(item.slice) != "-1":
            return False
        loop = next((parent for parent in self.index.ancestors(item) if isinstance(parent, ast.For)), None)
        return loop is not None and any(
            isinstance(call.func, ast.Attribute)
            and ast.unparse(call.func.value) == ast.unparse(item.value)
            and loop in self.index.ancestors(call)
            for call in self.index.calls_by_name.get("append", ())
        )

    def _by_position(self, item: ast.Subscript, index: ast.expr) -> str | None:
        """`files[i]`, `files[i:i + 8]`: in a loop over the positions items follow the order as if it ran over them."""
        names = self._places_named(index)
        for parent in self.index.ancestors(item):
            if isinstance(parent, FUNCTIONS):
                asked = not isinstance(index, ast.Slice) and self.is_asked_for(index, item.value)
                return "the item at each index" if asked else None
            if isinstance(parent, (ast.For, ast.AsyncFor)) and names & names_in(parent.target):
                places = names | self.companions(parent.target, parent.iter, item.value)
                return self._effects(parent, frozenset(), frozenset(places), Trail(), (item,))
            if isinstance(parent, ast.While) and names & counted_up(ast.walk(parent)):
                return self._effects(parent, frozenset(), frozenset(names), Trail(), (item,))
            if isinstance(parent, (ast.ListComp, ast.GeneratorExp)):
                return self.destination(parent, Trail(subset=_goes_in_steps(parent.generators[0].iter)))
            if isinstance(parent, ast.DictComp) and names & names_in(parent.generators[0].target):
                return self._entry_by_position(item, parent, names)
        return None

    def _entry_by_position(self, item: ast.Subscript, made: ast.DictComp, names: set[str]) -> str | None:
        """`{folders[i]: i for i in range(len(folders))}`."""
        around = {item, *self.index.ancestors(item)}
        other = made.value if made.key in around else made.key
        return NUMBERING if names & names_in(other) else self.destination(made, Trail(Form.MAPPING))

    def _is_chunk(self, item: ast.Subscript) -> bool:
        """`files[i:i + 8]` in a loop over `i`: all of them have their turn."""
        names = self._places_named(item.slice)
        around = {item, *self.index.ancestors(item)}
        return any(
            isinstance(parent, (ast.For, ast.AsyncFor))
            and parent.iter not in around
            and not names.isdisjoint(names_in(parent.target))
            for parent in around
        )

    def _places_named(self, index: ast.expr) -> set[str]:
        """Return the names in an index; of `start` and `end` of a slice also those that they are worked out from."""
        found = [name for name in ast.walk(index) if isinstance(name, ast.Name)]
        made = (
            [b.value for name in found for b in self.module.definitions(name)] if isinstance(index, ast.Slice) else []
        )
        return {name.id for name in found}.union(*(names_in(value) for value in made if value is not None))

    def _element(self, node: ast.expr, parent: ast.ListComp | ast.GeneratorExp, trail: Trail) -> str | None:
        return self.destination(parent, replace(trail, form=Form.NESTED))

    def _entry_made(self, node: ast.expr, parent: ast.DictComp, trail: Trail) -> str | None:
        """`{key: list(words) for key, words in found.items()}`."""
        return self.destination(parent, replace(trail, form=Form.NESTED)) if node is parent.value else None

    def _comprehension(self, node: ast.expr, parent: ast.comprehension, trail: Trail) -> str | None:
        if node is not parent.iter:
            return None
        whole = self.index.parents[parent]
        assert isinstance(whole, ast.expr)
        if trail.form is Form.SORTED_WALK:
            return self._names_of_walk(parent.target, whole, trail)
        inner = self._inner_name(parent) if trail.form is Form.NESTED else None
        if inner is not None:
            parts = [n for n in ast.walk(whole) if isinstance(n, ast.Name) and n.id == inner.id and n is not inner]
            return self.first(self.destination(part, replace(trail, form=Form.SEQUENCE)) for part in parts)
        if isinstance(whole, ast.SetComp):
            return None
        statement = self.index.parents.get(whole)
        if isinstance(statement, ast.Expr) and isinstance(whole, ast.ListComp):
            return self._run(whole.elt, statement, trail)
        if self._numbers_entries(parent, whole):
            return NUMBERING
        if isinstance(whole, ast.DictComp):
            return self.destination(whole, replace(trail, form=Form.MAPPING))
        made = getattr(whole, "elt", whole)
        tensors = (trail.tensors or bool(reading_calls(self, made))) and not is_measure(made)
        return self.destination(whole, replace(trail, form=Form.SEQUENCE, tensors=tensors))

    def _run(self, action: ast.expr, statement: ast.Expr, trail: Trail) -> str | None:
        """`[rows.append(read(path)) for path in paths]`, which stands for a loop."""
        if not isinstance(action, ast.Call) or not isinstance(action.func, ast.Attribute):
            return None
        filling = self.table.methods["appending"] | self.table.methods["extending"]
        return self.collected(action.func.value, statement, trail) if action.func.attr in filling else None

    def _numbers_entries(self, loop: ast.comprehension, whole: ast.expr) -> bool:
        """`{name: i for i, name in enumerate(names)}`, `dict((name, i) for i, name in enumerate(names))`."""
        call = self.index.parents.get(whole)
        if isinstance(whole, ast.DictComp):
            used = names_in(whole.key) | names_in(whole.value)
        elif isinstance(whole, (ast.ListComp, ast.GeneratorExp)) and isinstance(call, ast.Call):
            mapping = {"builtins.dict", "collections.OrderedDict"}.intersection(self.inference.callees(call))
            used = names_in(whole.elt) if mapping else frozenset()
        else:
            return False
        positions = self.positions(loop.target, loop.iter)
        return bool(positions & used and (names_in(loop.target) - positions) & used)

    def _method(self, node: ast.expr, parent: ast.Attribute, trail: Trail) -> str | None:
        """A method called on the value, or an attribute of it."""
        call = self.index.parents.get(parent)
        methods = self.table.methods
        if not (isinstance(call, ast.Call) and call.func is parent):
            return self.destination(parent, trail) if parent.attr in ("values", "T", "iloc") else None
        if trail.form is Form.MAPPING:
            if parent.attr in ("items", "keys", "values"):
                return self.destination(call, replace(trail, form=Form.SEQUENCE))
            return None
        if trail.form is Form.NESTED:
            if parent.attr in ("items", "values", "get", "pop"):
                form = Form.SEQUENCE if parent.attr in ("get", "pop") else Form.NESTED
                return self.destination(call, replace(trail, form=form))
            if parent.attr in methods["carrying"]:
                return self.destination(call, trail)
            return f"{parent.attr}()" if parent.attr in methods["receiving"] else None  # a column of a table
        if trail.form is Form.TEXT:
            return self.destination(call, trail)
        if parent.attr in methods["carrying"]:
            return self.destination(call, trail)
        if trail.tensors and parent.attr in methods["averaging"]:
            return SUM
        if parent.attr in methods["choosing"]:
            return self.taken_out(node, call)
        if parent.attr in methods["numbering"]:
            return NUMBERING
        return f"{parent.attr}()" if parent.attr in methods["receiving"] else None

    def _assigned(self, node: ast.expr, parent: ast.Assign, trail: Trail) -> str | None:
        if node is not parent.value:
            return None
        return self.first(self.target(target, parent, trail) for target in parent.targets)

    def _annotated(self, node: ast.expr, parent: ast.AnnAssign, trail: Trail) -> str | None:
        return self.target(parent.target, parent, trail) if node is parent.value else None

    def _walrus(self, node: ast.expr, parent: ast.NamedExpr, trail: Trail) -> str | None:
        return self.target(parent.target, parent, trail) or self.destination(parent, trail)

    def _augmented(self, node: ast.expr, parent: ast.AugAssign, trail: Trail) -> str | None:
        if node is not parent.value or not isinstance(parent.op, ast.Add):
            return None
        return self.collected(parent.target, parent, trail)

    def _loop(self, node: ast.expr, parent: ast.For, trail: Trail) -> str | None:
        if node is not parent.iter or trail.form is Form.TEXT:
            return None
        if trail.form is Form.NESTED:
            return self._inner(parent, trail)
        if trail.form is Form.SORTED_WALK or (trail.form is Form.WALK and self._sorts_folders(parent)):
            return self._names_of_walk(parent.target, parent, trail)
        positions = self.positions(parent.target, parent.iter) | self.partners(parent.target, parent.iter)
        found = self._effects(parent, names_in(parent.target) - positions, positions, trail)
        return self._names_of_walk(parent.target, parent, trail) if not found and trail.form is Form.WALK else found

    def _inner(self, loop: ast.For, trail: Trail) -> str | None:
        """The sequences inside a container, one after the other."""
        target = self._inner_name(loop)
        binding = self.binding_of(target) if target is not None else None
        return None if binding is None else self.binding(binding, None, replace(trail, form=Form.SEQUENCE))

    def _inner_name(self, loop: ast.For | ast.comprehension) -> ast.Name | None:
        """Return what holds each sequence in turn: `files` in `for label, files in by_label.items()`."""
        source, place = gone_through(self.inference, loop.iter, (1,))
        target = loop.target
        if place == () and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        if isinstance(source, ast.Call) and self.sorts(source) and source.args:
            source = source.args[0]
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "items":
            target = target.elts[-1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
        elif isinstance(source, ast.Call) and isinstance(target, ast.Tuple):  # `for rows, name in zip([a, b], names)`
            zipped = zip(target.elts, source.args, strict=False)
            target = next((part for part, given in zipped if isinstance(given, ast.List)), target)
        elif Kind.LIST not in {value.kind for value in self.inference.values(source)}:
            return None  # the keys of a dict, or what nobody knows
        return target if isinstance(target, ast.Name) else None

    def _effects(
        self,
        loop: ast.For | ast.AsyncFor | ast.While,
        elements: frozenset[str],
        positions: frozenset[str],
        trail: Trail,
        items: tuple[ast.expr, ...] = (),
    ) -> str | None:
        inner = replace(trail, form=Form.SEQUENCE)
        return LoopEffects(self, loop, elements, positions, items, inner).destination()

    def taken_out(self, node: ast.expr, call: ast.Call) -> str | None:
        """`todo.pop()`: in a loop that empties what it is taken from it is an iteration, elsewhere a choice."""
        statement = self.index.statement(call)
        names = {name for target in getattr(statement, "targets", ()) for name in names_in(target)}
        for parent in self.index.ancestors(call):
            if isinstance(parent, FUNCTIONS):
                break
            if isinstance(parent, ast.While) and _leaves_some(parent.test, node):
                return self.choice(node, call)
            if isinstance(parent, (ast.While, ast.For)):
                return self._effects(parent, frozenset(names), frozenset(), Trail(Form.SEQUENCE), (call,))
        return self.choice(node, call)

    def _sorts_folders(self, loop: ast.For) -> bool:
        """Return whether a loop over os.walk sorts its folders in place, which fixes the order of the walk."""
        target = _counted(loop.target)
        if not isinstance(target, ast.Tuple) or len(target.elts) < 2 or not isinstance(target.elts[1], ast.Name):
            return False
        folders = target.elts[1].id
        names = [name for name in self.index.of_type(ast.Name) if name.id == folders]
        inside = [name for name in names if loop in self.index.ancestors(name)]
        return any(True for name in inside for _ in self.sorts_in_place(name))

    def _names_of_walk(self, target: ast.expr, loop: ast.AST, trail: Trail) -> str | None:
        """Follow the file names of one folder, the last of the three that os.walk gives."""
        target = _counted(target)
        if not isinstance(target, ast.Tuple) or len(target.elts) < 3 or not isinstance(target.elts[2], ast.Name):
            return None
        names = target.elts[2]
        inner = replace(trail, form=Form.SEQUENCE)
        loads = [
            node for node in self.index.of_type(ast.Name) if node.id == names.id and isinstance(node.ctx, ast.Load)
        ]
        inside = [node for node in loads if loop in self.index.ancestors(node)]
        if any(True for node in inside for _ in self.sorts_in_place(node)):
            return None
        return self.first(self.destination(node, inner) for node in inside)

    def _entered(self, node: ast.expr, parent: ast.withitem, trail: Trail) -> str | None:
        if node is not parent.context_expr or parent.optional_vars is None:
            return None
        statement = self.index.parents[parent]
        return self.target(parent.optional_vars, statement, trail)

    def returned(self, node: ast.expr, parent: ast.AST, trail: Trail) -> str | None:
        function = self.index.function_at(parent)
        if function is None or self.is_complaint(function.name):
            return None
        if trail.entered and trail.entered[-1].function is function:
            last = trail.entered[-1]
            return last.tracer.destination(last.call, replace(trail, entered=trail.entered[:-1]))
        word = "returns" if isinstance(parent, ast.Return) else "yields"
        callers = self.callers(function)
        if trail.form is Form.MAPPING and not trail.subset:  # whoever looks things up in it has no use for the order
            listed = [call for call in callers if isinstance(self.index.parents.get(call), ast.Attribute)]
            return self.first(self.destination(call, trail) for call in listed)
        if callers and not trail.subset and all(self._is_sorted_by_caller(call, trail) for call in callers):
            return None
        nested = isinstance(self.index.parents.get(function), FUNCTIONS)
        lookup = self.is_lookup(function.name)
        if callers and (function.name.startswith("_") or nested or lookup) and trail.calls < MAX_CALLS:
            inner = replace(trail, calls=trail.calls + 1)
            return self.first(self.destination(call, inner) for call in callers)
        return None if lookup else f"what {function.name}() {word}"

    def _is_sorted_by_caller(self, call: ast.Call, trail: Trail) -> bool:
        """`sorted(listed(folder))`, or `names = listed(folder)` where all that is done is to sort or to count them."""
        if self.sorted_at_once(call):
            return True
        statement = self.index.parents.get(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        binding = self.binding_of(target) if isinstance(target, ast.Name) else None
        if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
            return False
        parents = [self.index.parents.get(use) for use in self.module.flow(binding.scope).uses(binding)]
        sorts = any(isinstance(parent, ast.Call) and self.sorts(parent) for parent in parents)
        return sorts and self.destination(call, trail) is None


def _is_whole(index: ast.expr) -> bool:
    """`[:]`."""
    return isinstance(index, ast.Slice) and index.lower is None and index.upper is None


def _goes_in_steps(places: ast.expr) -> bool:
    """`range(rank, len(names), world_size)`."""
    return isinstance(places, ast.Call) and getattr(places.func, "id", "") == "range" and len(places.args) == 3


def _leaves_some(test: ast.expr, emptied: ast.expr) -> bool:
    """`while len(saved) > limit`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Gt, ast.GtE)):
        return False
    least = test.comparators[0]
    return ast.unparse(test.left) == f"len({ast.unparse(emptied)})" and not isinstance(least, ast.Constant)


def _counted(target: ast.expr) -> ast.expr:
    """Return `(folder, dirs, names)` of `for i, (folder, dirs, names) in enumerate(…)`."""
    parts = target.elts if isinstance(target, ast.Tuple) else []
    return parts[1] if len(parts) == 2 and isinstance(parts[1], ast.Tuple) else target


# How an order goes on, by the node right around the expression that carries it.
_PARENTS: Mapping[type[ast.AST], Callable[..., str | None]] = {
    ast.Call: OrderTracer._argument,
    ast.keyword: OrderTracer._keyword,
    ast.Starred: OrderTracer._carry,
    ast.Await: OrderTracer._carry,
    ast.BoolOp: OrderTracer._alternative,
    ast.List: OrderTracer._display,
    ast.Tuple: OrderTracer._display,
    ast.Dict: OrderTracer._display,
    ast.BinOp: OrderTracer._binary,
    ast.IfExp: OrderTracer._branch,
    ast.Compare: OrderTracer._searched,
    ast.FormattedValue: OrderTracer._formatted,
    ast.Subscript: OrderTracer._subscript,
    ast.Attribute: OrderTracer._method,
    ast.comprehension: OrderTracer._comprehension,
    ast.ListComp: OrderTracer._element,
    ast.GeneratorExp: OrderTracer._element,
    ast.DictComp: OrderTracer._entry_made,
    ast.Assign: OrderTracer._assigned,
    ast.AnnAssign: OrderTracer._annotated,
    ast.NamedExpr: OrderTracer._walrus,
    ast.AugAssign: OrderTracer._augmented,
    ast.For: OrderTracer._loop,
    ast.AsyncFor: OrderTracer._loop,
    ast.withitem: OrderTracer._entered,
    ast.Return: OrderTracer.returned,
    ast.Yield: OrderTracer.returned,
    ast.YieldFrom: OrderTracer.returned,
}
