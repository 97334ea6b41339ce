"""What stands at the same place of another sequence: a row that gets the result of its number, whosever that is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.elements import gone_through
from detlint.linter.analysis.made import given_to
from detlint.linter.analysis.values import Kind
from detlint.linter.order.counts import OrderCounts
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import arguments_of, identifier, names_in
from detlint.linter.tables.elements import element_table

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_MAX_STEPS = 3
_COUNTERS = frozenset("ijkn")
_COPYING = frozenset({"builtins.list", "builtins.tuple", "builtins.sorted", "builtins.iter", "itertools.cycle"})
_VIEWS = frozenset({"items", "keys", "values", "copy"})


class OrderPartners(OrderCounts):
    """Answers about loops over several sequences. `source` is the call that gives an order, where there is one."""

    def __init__(self, module: Module, source: ast.Call | None = None) -> None:
        super().__init__(module)
        self._source = source
        self._handed_in: set[ast.AST] = set()  # parameters that get the order from a call

    @property
    def is_finished_work(self) -> bool:
        """Is the order that in which parallel work finishes?"""
        return self._source is not None

    def partners(self, target: ast.expr, iterable: ast.expr) -> frozenset[str]:
        """`label` of `for label, path in zip(labels, paths)` where labels have their own order: as good as a number."""
        zipped, target = self._counted_off(target, iterable)
        if not isinstance(zipped, ast.Call) or not isinstance(target, ast.Tuple):
            return frozenset()
        if "builtins.zip" not in self.inference.callees(zipped):
            return frozenset()
        pairs = list(zip(target.elts, zipped.args, strict=False))
        if self._source in zipped.args:
            given = [name for name, value in pairs if isinstance(value, ast.Name)]
        else:
            given = [name for name, value in pairs if self.has_own_order(value)]
        own = len(given) < len(zipped.args)
        return frozenset(name.id for name in given if own and isinstance(name, ast.Name))

    def pairs_listings(self, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`zip(photos, outlines)` of two listings."""
        return "builtins.zip" in names and len({self.listing_of(given) for given in call.args} - {None}) > 1

    def companions(self, target: ast.expr, iterable: ast.expr, picked: ast.expr) -> frozenset[str]:
        """`row` of `for i, row in enumerate(rows)` where rows have their own order, and what `i` picks has not."""
        rows, row = self._counted_off(target, iterable)
        if row is target or not self.has_own_order(rows) or self.has_own_order(picked):
            return frozenset()
        return names_in(row)

    def _counted_off(self, target: ast.expr, iterable: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return `rows` and `row` of `for i, row in enumerate(tqdm(rows))`."""
        rows, place = gone_through(self.inference, iterable, (1,))
        counted = place == () and isinstance(target, ast.Tuple) and len(target.elts) > 1
        return rows, target.elts[1] if counted and isinstance(target, ast.Tuple) else target

    def goes_with_number(self, result: ast.expr, counted: frozenset[str]) -> bool:
        """`yield index, answer` of what finishes: whoever takes it goes by the number, unless that was counted here.

        So of `yield Answer(index=index, text=text)`, of `yield names[future], future.result()`, and of what a function
        declares to be such pairs: `-> Iterator[tuple[int, str]]`.
        """
        if self._source is not None and (self._goes_with_key(result) or self._is_declared_numbered(result)):
            return True
        if isinstance(result, ast.Tuple) and len(result.elts) > 1:
            places = result.elts[:1]
        elif isinstance(result, ast.Call) and len(result.keywords) > 1:
            places = [word.value for word in result.keywords if word.arg and element_table().names_numbers(word.arg)]
        else:
            return False
        names = [place.id for place in places if isinstance(place, ast.Name) and place.id not in counted]
        return self._source is not None and any(
            name in _COUNTERS or element_table().names_numbers(name) for name in names
        )

    def _goes_with_key(self, result: ast.expr) -> bool:
        """`names[future], future.result()`: what was handed in for it, which the finished one itself leads to."""
        key = result.elts[0] if isinstance(result, ast.Tuple) and len(result.elts) > 1 else None
        if not isinstance(key, ast.Subscript) or not isinstance(key.slice, ast.Name):
            return False
        bindings = self.module.definitions(key.slice)
        return bool(bindings) and all(binding.kind is BindingKind.ITERATION for binding in bindings)

    def _is_declared_numbered(self, result: ast.expr) -> bool:
        """`-> AsyncIterator[tuple[int, str]]` of the function that yields it."""
        function = self.index.function_at(result)
        declared = function.returns if function is not None else None
        pair = declared.slice if isinstance(declared, ast.Subscript) else None
        pair = pair.elts[0] if isinstance(pair, ast.Tuple) and pair.elts else pair  # `Generator[tuple[int, str], None]`
        if not isinstance(pair, ast.Subscript) or identifier(pair.value).lower() != "tuple":
            return False
        first = pair.slice.elts[0] if isinstance(pair.slice, ast.Tuple) and len(pair.slice.elts) > 1 else None
        return isinstance(first, ast.Name) and "builtins.int" in self.inference.resolve(first)

    def has_own_order(self, value: ast.expr, steps: int = _MAX_STEPS) -> bool:
        """Return whether a sequence is what the caller gives, written out, or made of that or of numbers one by one."""
        if isinstance(value, ast.Name) and self.is_parameter(value):
            return self._handed_in.isdisjoint(binding.node for binding in self.module.definitions(value))
        if {found.kind for found in self.inference.values(value)} == {Kind.MODULE}:
            return True  # layers, whose weights are saved by their number
        if not steps:
            return False
        if isinstance(value, ast.Name):
            bindings = self.module.definitions(value)
            made = [given_to(binding) for binding in bindings if binding.kind is BindingKind.ASSIGN]
            return len(made) == len(bindings) == 1 and made[0] is not None and self.has_own_order(made[0], steps - 1)
        if isinstance(value, ast.ListComp):
            return len(value.generators) == 1 and self.has_own_order(value.generators[0].iter, steps)
        if not isinstance(value, ast.Call):
            parts = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
            return bool(parts) and all(isinstance(part, ast.Constant) for part in parts)
        if self._knows_numbers_alone(value):
            return True
        if isinstance(value.func, ast.Attribute) and not value.args:
            return value.func.attr in _VIEWS and self.has_own_order(value.func.value, steps)
        copies = not _COPYING.isdisjoint(self.inference.callees(value))
        return bool(copies and value.args) and self.has_own_order(value.args[0], steps)

    def _knows_numbers_alone(self, call: ast.Call) -> bool:
        """`palette(len(names))`: a function that is given numbers puts what it makes into an order of its own."""
        own = isinstance(call.func, ast.Attribute) and not self.inference.resolve(call.func)
        given = arguments_of(call)
        return bool(given) and not own and all(map(self._is_number, given))

    def _is_number(self, value: ast.expr) -> bool:
        """`len(names)`, `max(len(names), 1)`."""
        if isinstance(value, ast.Call) and not {"builtins.max", "builtins.min"}.isdisjoint(
            self.inference.callees(value)
        ):
            return len(value.args) > 1 and all(map(self._is_number, value.args))
        return {found.kind for found in self.inference.values(value)} == {Kind.NUMBER}
