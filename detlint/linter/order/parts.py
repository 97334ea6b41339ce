"""What does a loop over a part of an order count or add up? Another order leaves out other elements."""

from __future__ import annotations

import ast

from detlint.linter.order.sums import LoopSums
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import arguments_of, names_in


class LoopParts(LoopSums):
    """Answers about what a body measures. `leaves_rest` says that it runs for some elements and never for others."""

    leaves_rest = False

    def _measures_part(self, node: ast.AST) -> bool:
        """`right += 1` where an element passes a test, `total += loss(path)`, `metric.update(answer)`."""
        if not self.leaves_rest:
            return False
        if isinstance(node, ast.AugAssign):
            depends = self._has_element(node.value) or self._depends_on_element(node)
            return depends and self._is_result(node.target)
        if isinstance(node, ast.Assign):  # `best = max(best, score(path))`
            target = node.targets[0]
            again = isinstance(target, ast.Name) and target.id in names_in(node.value)
            return again and self._has_element(node.value) and self._is_result(target)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            measure = node.func.value
            given = any(map(self._has_element, arguments_of(node)))
            return given and self._is_outside(measure) and not self._shows_progress(measure)
        return False

    def _depends_on_element(self, node: ast.stmt) -> bool:
        """Does a test of the element decide whether a statement runs, or a `continue` before it?"""
        passed = (other.test for other in self._nodes if isinstance(other, ast.If) and _passes_on(other.body))
        return any(map(self._has_element, (*self._conditions(node), *passed)))

    def _is_result(self, target: ast.expr) -> bool:
        """Is a sum or a count read after the loop, and no count of what went wrong or of what ends the loop?"""
        if not isinstance(target, ast.Name):
            return self._is_shared(target)
        if isinstance(self._body, FUNCTIONS) or self._places.is_complaint(target.id) or self._ends_loop(target.id):
            return False
        binding = self._places.binding_of(target)
        if binding is None or not self._starts_outside(target):
            return False
        flow = self._places.module.flow_at(target)
        return any(self._body not in self._index.ancestors(use) for use in flow.uses(binding))

    def _ends_loop(self, name: str) -> bool:
        """`if found >= limit: break`."""
        tests = (node.test for node in self._nodes if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Break))
        return any(name in names_in(test) for test in tests)

    def _shows_progress(self, node: ast.expr) -> bool:
        return any(word in ast.unparse(node).lower() for word in (*self._places.table.progress, "bar"))


def _passes_on(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Continue)
