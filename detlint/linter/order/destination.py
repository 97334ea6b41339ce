"""Where does an arbitrary order end up? Follows a value upward through expressions, variables, attributes and calls.

The order of a directory listing, of a set or of finished futures only matters if it reaches data: items, numbers,
text, a choice, or whoever calls. Everything that is not known to take over an order is taken to ignore it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace

from detlint.linter.analysis.made import place_taken, target_of
from detlint.linter.analysis.values import Kind
from detlint.linter.order.effects import LoopEffects
from detlint.linter.order.form import (
    CHOICE,
    DRAWS,
    KEEPING_ORDER,
    KEYED,
    NUMBERING,
    PAIRING,
    Form,
    Trail,
    boxed,
    unboxed,
)
from detlint.linter.order.items import OrderItems
from detlint.linter.order.sums import gives_floats, is_measure, reading_calls
from detlint.linter.source.nodes import names_in

_WHOLE = ("values", "T", "iloc", "loc", "data")  # attributes that hold all of an array or a table
_TAKING_APART = (ast.Assign, ast.Await, ast.NamedExpr, ast.Return, ast.Subscript)  # parents of what is one tuple still
_TAKING_APART_BY_KEY = (*_TAKING_APART, ast.Attribute, ast.Call, ast.keyword)  # a record is one for who gets it too


class OrderTracer(OrderItems):
    """Follows orders through one module; asks a tracer of its own for another module where calls lead there."""

    def destination(self, node: ast.expr, trail: Trail | None = None) -> str | None:
        """Return in words what takes over the order of `node`, or None where nothing is known to."""
        trail = trail or Trail()
        parent = self.index.parents.get(node)
        apart = _TAKING_APART_BY_KEY if isinstance(trail.place, str) else _TAKING_APART
        if trail.place is not None and not isinstance(parent, apart):
            trail = replace(trail, place=None)
        key = (node, trail.form, trail.subset, trail.tensors, trail.place, trail.boxes)
        if key in self._seen:
            return None
        self._seen.add(key)
        if parent is None or self.shown(node):
            return None
        method = _PARENTS.get(parent.__class__)
        return method(self, node, parent, trail) if method is not None else None

    def _carry(self, node: ast.expr, parent: ast.expr, trail: Trail) -> str | None:
        return self.destination(parent, trail)

    def _display(self, node: ast.expr, parent: ast.expr, trail: Trail) -> str | None:
        if isinstance(parent, ast.Dict) and self._is_lookup_entry(node, parent, text=trail.form is Form.TEXT):
            return None
        taken = place_taken(node, parent, self.index) if isinstance(parent, (ast.Tuple, ast.List)) else None
        if taken is not None:
            return self.target(taken, self.index.parents[parent], trail)
        if isinstance(node, ast.Starred) or trail.form in KEYED:
            return self.destination(parent, trail)
        return self.destination(parent, replace(boxed(trail), place=self._place_returned(node, parent)))

    def _place_returned(self, node: ast.expr, display: ast.expr) -> int | None:
        """`return names, weights`: whoever unpacks that, or takes one of the two, gets only that one."""
        if not isinstance(display, ast.Tuple) or any(isinstance(part, ast.Starred) for part in display.elts):
            return None
        target = target_of(display, self.index)  # `result = names, weights`, `return result`
        held = [*self.index.uses_of(target)] if isinstance(target, ast.Name) else [display]
        returned = held and all(isinstance(self.index.parents.get(use), ast.Return) for use in held)
        return display.elts.index(node) if returned else None

    def _is_lookup_entry(self, node: ast.expr, record: ast.Dict, *, text: bool) -> bool:
        """`{"target_modules": names}`; `{"error": f"none of {names}"}`, a text."""
        keys = [key for key, value in zip(record.keys, record.values, strict=True) if value is node]
        return any(map(self.is_lookup_key, keys)) or (text and any(map(self.is_complaint_key, keys)))

    def _binary(self, node: ast.expr, parent: ast.BinOp, trail: Trail) -> str | None:
        if not isinstance(parent.op, KEEPING_ORDER):
            return None
        behind = isinstance(parent.op, ast.Add) and node is parent.right and trail.form is Form.SEQUENCE
        return self.destination(parent, replace(trail, behind=trail.behind or behind))

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

    def _element(self, node: ast.expr, parent: ast.ListComp | ast.GeneratorExp, trail: Trail) -> str | None:
        if trail.form in KEYED and not trail.subset:
            return None  # a dict among others: the order of its keys is rarely anybody's
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
            return self.first(self.destination(part, unboxed(trail)) for part in parts)
        if isinstance(whole, ast.SetComp):
            return None
        statement = self.index.parents.get(whole)
        if isinstance(statement, ast.Expr) and isinstance(whole, ast.ListComp):
            return self._run(whole.elt, statement, trail)
        if self._numbers_entries(parent, whole, self.positions(parent.target, parent.iter)):
            return NUMBERING
        if isinstance(whole, ast.DictComp) and self._numbers_entries(
            parent, whole, self.partners(parent.target, parent.iter)
        ):
            return PAIRING
        if isinstance(whole, ast.DictComp):
            effects = LoopEffects(self, whole, names_in(parent.target), frozenset())
            if effects.draws(whole.value):
                return DRAWS
            if effects.meets_next(whole.value):
                return PAIRING
            return self.destination(whole, replace(trail, form=Form.MAPPING))
        made = getattr(whole, "elt", whole)
        if self.gives_handle(made) and not trail.subset:
            return None
        tensors = (trail.tensors or bool(reading_calls(self, made))) and not is_measure(made)
        tensors = tensors or (trail.each_run and gives_floats(self, made))
        return self.destination(whole, replace(trail, form=Form.SEQUENCE, tensors=tensors))

    def _run(self, action: ast.expr, statement: ast.Expr, trail: Trail) -> str | None:
        """`[rows.append(read(path)) for path in paths]`, which stands for a loop."""
        if not isinstance(action, ast.Call) or not isinstance(action.func, ast.Attribute):
            return None
        filling = self.table.methods["appending"] | self.table.methods["extending"]
        return self.collected(action.func.value, statement, trail) if action.func.attr in filling else None

    def _numbers_entries(self, loop: ast.comprehension, whole: ast.expr, positions: frozenset[str]) -> bool:
        """`{name: i for i, name in enumerate(names)}`, `dict((name, i) for i, name in enumerate(names))`."""
        call = self.index.parents.get(whole)
        if isinstance(whole, ast.DictComp):
            used = names_in(whole.key) | names_in(whole.value)
        elif isinstance(whole, (ast.ListComp, ast.GeneratorExp)) and isinstance(call, ast.Call):
            mapping = {"builtins.dict", "collections.OrderedDict"}.intersection(self.inference.callees(call))
            used = names_in(whole.elt) if mapping else frozenset()
        else:
            return False
        return bool(positions & used and (names_in(loop.target) - positions) & used)

    def _method(self, node: ast.expr, parent: ast.Attribute, trail: Trail) -> str | None:
        """A method called on the value, or an attribute of it."""
        call = self.index.parents.get(parent)
        methods = self.table.methods
        if trail.form is Form.GRAPH and parent.attr == "nodes":  # an attribute, and a method that gives all of them
            whole = call if isinstance(call, ast.Call) and call.func is parent else parent
            return self.destination(whole, replace(trail, form=Form.SEQUENCE))
        if not (isinstance(call, ast.Call) and call.func is parent):
            if trail.form in (Form.SEQUENCE, Form.NESTED) and parent.attr not in _WHOLE and self._is_column(parent):
                return self.destination(parent, unboxed(trail))
            return self.destination(parent, trail) if parent.attr in _WHOLE else None
        if trail.form is Form.GRAPH:
            return self.destination(call, trail) if parent.attr in methods["carrying"] else None
        if trail.form is Form.MAPPING:
            if parent.attr in ("items", "keys", "values"):
                return self.destination(call, replace(trail, form=Form.SEQUENCE))
            return None
        if trail.gathered and parent.attr in methods["rows"]:  # made of files and results; names make columns
            return self.destination(call, replace(trail, form=Form.SEQUENCE))
        if trail.gathered and parent.attr in methods["records"]:
            return self.destination(call, trail)
        if trail.form is Form.NESTED:
            if parent.attr in ("items", "values", "get", "pop"):
                other = (
                    call.args
                    and isinstance(call.args[0], ast.Constant)
                    and trail.place not in (None, call.args[0].value)
                )
                form = Form.SEQUENCE if parent.attr in ("get", "pop") else Form.NESTED
                return None if other else self.destination(call, replace(trail, form=form, place=None))
            if parent.attr in methods["carrying"] or self._gives_its_like(node, call):
                return self.destination(call, trail)
            if parent.attr in methods["serializing"]:
                return self.destination(call, replace(trail, form=Form.TEXT))
            return f"{parent.attr}()" if parent.attr in methods["receiving"] else None  # a column of a table
        if trail.form is Form.TEXT:
            return self.destination(call, trail)
        if parent.attr in methods["carrying"]:
            return self.destination(call, trail)
        if parent.attr in methods["averaging"]:
            return self._reduced(node, parent.attr, trail)
        if parent.attr in methods["choosing"]:
            return self.taken_out(node, call)
        if parent.attr in methods["numbering"]:
            return NUMBERING
        return f"{parent.attr}()" if parent.attr in methods["receiving"] else None

    def _gives_its_like(self, node: ast.expr, call: ast.Call) -> bool:
        """`record.with_history(entry)` gives a record: a method of the project's that gives one of its kind."""
        classes, given = (
            {value.type for value in self.inference.values(each) if value.kind is Kind.INSTANCE}
            for each in (node, call)
        )
        return any(self.inference.class_named(name) is not None for name in classes & given)

    def _assigned(self, node: ast.expr, parent: ast.Assign, trail: Trail) -> str | None:
        if node is not parent.value:
            return None
        return self.first(self.target(target, parent, trail) for target in parent.targets)

    def _walrus(self, node: ast.expr, parent: ast.NamedExpr, trail: Trail) -> str | None:
        return self.target(parent.target, parent, trail) or self.destination(parent, trail)

    def _augmented(self, node: ast.expr, parent: ast.AugAssign, trail: Trail) -> str | None:
        if node is not parent.value or not isinstance(parent.op, ast.Add):
            return None
        return self.collected(parent.target, parent, trail)

    def _entered(self, node: ast.expr, parent: ast.withitem, trail: Trail) -> str | None:
        if node is not parent.context_expr or parent.optional_vars is None:
            return None
        statement = self.index.parents[parent]
        return self.target(parent.optional_vars, statement, trail)


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
    ast.NamedExpr: OrderTracer._walrus,
    ast.AugAssign: OrderTracer._augmented,
    ast.For: OrderTracer._loop,
    ast.AsyncFor: OrderTracer._loop,
    ast.withitem: OrderTracer._entered,
    ast.Return: OrderTracer.returned,
    ast.Yield: OrderTracer.returned,
    ast.YieldFrom: OrderTracer.returned,
}
