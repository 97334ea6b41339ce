"""A function that is being read for one call of it: what its parameters are there, and which branches are taken."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import walk


@dataclass(frozen=True, slots=True)
class Frame:
    """A constructor or function that is being read, the call that runs it, and the frame of that call."""

    function: FunctionNode
    call: ast.Call | None
    caller: Frame | None

    def literal(self, node: ast.expr) -> object:
        """Return the constant that an expression of this function has: written there, or what callers pass for a name.

        `MISSING` where that cannot be told.
        """
        if not isinstance(node, ast.Name):
            return literal_of(node)
        return MISSING if _is_rebound(self.function, node.id) else self._given(node.id)

    def literals(self) -> Hashable:
        """Return what tells this call of the function from others: the constants that it is given, roughly."""
        keywords = self.call.keywords if self.call is not None else []
        names = [argument.arg for argument, _ in parameters(self.function.args)]
        names += [keyword.arg for keyword in keywords if keyword.arg is not None]
        return frozenset((name, _rough(self._given(name))) for name in names)

    def _given(self, name: str) -> object:
        given = argument_of(self.function, name, self.call, skip_self=True) if self.call is not None else None
        if given is not None:
            return self.caller.literal(given) if self.caller is not None else literal_of(given)
        if self.call is not None and any(isinstance(argument, ast.Starred) for argument in self.call.args):
            return MISSING
        default = next((value for argument, value in parameters(self.function.args) if argument.arg == name), None)
        spread = _spread(self.call)
        if not spread:
            return literal_of(default)
        return self.caller._handed_on(spread, name, default) if self.caller is not None else MISSING

    def truth(self, test: ast.expr) -> bool | None:
        """Return whether a condition on the function's parameters holds: `if norm:`, `norm is not None`, `p > 0`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            truths, decisive = set(map(self.truth, test.values)), isinstance(test.op, ast.Or)
            return decisive if decisive in truths else None if None in truths else not decisive
        if not isinstance(test, ast.Compare):
            value = self.literal(test)
            return None if value is MISSING else bool(value)
        left, right = self.literal(test.left), self.literal(test.comparators[0])
        if left is MISSING or right is MISSING or len(test.ops) > 1:
            return None
        if isinstance(test.ops[0], (ast.Is, ast.Eq)):
            return left == right
        if isinstance(test.ops[0], (ast.IsNot, ast.NotEq)):
            return left != right
        small, great = number_of(right), number_of(left)
        return great > small if isinstance(test.ops[0], ast.Gt) and small is not None and great is not None else None

    def _handed_on(self, spread: list[ast.expr], name: str, default: ast.expr | None) -> object:
        """Return the constant of a keyword argument that the function takes into its `**kwargs` and hands on.

        It is the default where nobody passes one.
        """
        kept = self.function.args.kwarg
        if self.call is None or kept is None or [getattr(value, "id", "") for value in spread] != [kept.arg]:
            return MISSING
        own = any(argument.arg == name for argument, _ in parameters(self.function.args))
        given = next((keyword.value for keyword in self.call.keywords if keyword.arg == name and not own), None)
        if given is not None:
            return self.caller.literal(given) if self.caller is not None else literal_of(given)
        outer = _spread(self.call)
        if outer and not own:
            return self.caller._handed_on(outer, name, default) if self.caller is not None else MISSING
        return literal_of(default) if _is_only_spread(self.function, kept.arg) else MISSING


def literal_of(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else MISSING


def number_of(value: object) -> float | None:
    return value if isinstance(value, (int, float)) else None


def _is_rebound(function: FunctionNode, name: str) -> bool:
    stores = (part for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    return any(part.id == name for part in stores)


def _spread(call: ast.Call | None) -> list[ast.expr]:
    """Return what a call is given behind `**`."""
    return [keyword.value for keyword in call.keywords if keyword.arg is None] if call is not None else []


def _is_only_spread(function: FunctionNode, options: str) -> bool:
    """`**kwargs`, to which nothing is added on the way."""
    uses = [part for part in walk(function) if isinstance(part, ast.Name) and part.id == options]
    spread = [part.value for part in walk(function) if isinstance(part, ast.keyword) and part.arg is None]
    return all(use in spread for use in uses)


def _rough(value: object) -> object:
    """Return a constant, one for all numbers but 0 and 1: it does not matter how wide a layer is, or how much drops."""
    return 2 if number_of(value) is not None and value not in (0, 1) else value
