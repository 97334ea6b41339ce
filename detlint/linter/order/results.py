"""What callers make of the order that a function gives."""

from __future__ import annotations

import ast
from dataclasses import replace

from detlint.linter.analysis.made import target_of
from detlint.linter.order.arrays import OrderArrays
from detlint.linter.order.form import MAX_CALLS, Form, GivenBack, Trail
from detlint.linter.source.names import FUNCTIONS


class OrderResults(OrderArrays):
    """Follows an order out of a function, to the calls of it in the same file."""

    def returned(self, node: ast.expr, parent: ast.AST, trail: Trail) -> str | None:
        function = self.index.function_at(parent)
        if function is None or self.is_complaint(function.name) or self.fills_page(function):
            return None
        if trail.entered and trail.entered[-1].function is function:
            last = trail.entered[-1]
            return last.tracer.destination(last.call, replace(trail, entered=trail.entered[:-1]))
        word = "returns" if isinstance(parent, ast.Return) else "yields"
        callers = self.callers(function)
        if trail.form is Form.MAPPING and not trail.subset:  # whoever looks things up in it has no use for the order
            gone_through = (call for call in callers if trail.gathered or self._is_kept_or_viewed(call))
            return self.first(self.destination(call, trail) for call in gone_through)
        if callers and not trail.subset and all(self._is_sorted_by_caller(call, trail) for call in callers):
            return None
        nested = isinstance(self.index.parents.get(function), FUNCTIONS)
        lookup = self.is_lookup(function.name)
        private = function.name.startswith("_") or nested or lookup
        if callers and private and not trail.partial and trail.calls < MAX_CALLS:
            inner = replace(trail, calls=trail.calls + 1)
            found = self.first(self.destination(call, inner) for call in callers)
            # What is listed may only be gone through; what was worked out at the same time is kept for its values.
            if found is not None or lookup or not self.is_finished_work:
                return found
        places = frozenset(() if trail.place is None else (trail.place,))
        text = f"what {function.name}() {word}"
        further = None if self.is_finished_work else trail
        given = GivenBack(self.module, function, text, places, nested=trail.is_nested, trail=further)
        return None if lookup else given

    def _is_kept_or_viewed(self, call: ast.Call) -> bool:
        """`self.files = self.files_by_label()`, `files_by_label().items()`."""
        parent = self.index.parents.get(call)
        kept = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Attribute)
        return kept or isinstance(parent, ast.Attribute)

    def _is_sorted_by_caller(self, call: ast.Call, trail: Trail) -> bool:
        """`sorted(listed(folder))`, or `names = listed(folder)` where all that is done is to sort or to count them."""
        if self.sorted_at_once(call):
            return True
        target = target_of(call, self.index)
        binding = self.binding_of(target) if isinstance(target, ast.Name) else None
        if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
            return False
        parents = [self.index.parents.get(use) for use in self.module.flow(binding.scope).uses(binding)]
        sorts = any(isinstance(parent, ast.Call) and self.sorts(parent) for parent in parents)
        return sorts and self.destination(call, trail) is None
