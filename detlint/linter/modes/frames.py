"""A function that is being read for one call of it: what its parameters are there, and which branches are taken."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own, walk

# Spreads a rate over layers, from the first to the last; and what makes a list of it.
_SPREADS = "linspace"
_AS_LIST = frozenset({"chunk", "numpy", "split", "tolist"})
# Arguments that say how much is dropped.
_RATE = re.compile(r"(\w+_)?drop_?(out|path|rate|prob)", re.I)
_MAX_STEPS = 6  # from what a layer is given back to there


if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module


@dataclass(frozen=True, slots=True)
class Frame:
    """A constructor or function that is being read, the call that runs it, and the frame of that call.

    `module` is that of the function, `at` that of the call, where somebody may ask what is given.
    """

    function: FunctionNode
    call: ast.Call | None
    caller: Frame | None
    module: Module | None = None
    at: Module | None = None

    def literal(self, node: ast.expr) -> object:
        """Return the constant that an expression of this function has: written there, or what callers pass for a name.

        `MISSING` where that cannot be told.
        """
        if isinstance(node, ast.Subscript):
            return 0 if self._holds_zeros(node.value) else MISSING
        if isinstance(node, ast.IfExp):
            body, other = self.literal(node.body), self.literal(node.orelse)
            return body if body == other else MISSING
        kept = _only_kept(self.function, node)
        if kept is not None:
            return self.literal(kept)
        if not isinstance(node, ast.Name):
            return literal_of(node) if not self._holds_zeros(node) else 0
        return MISSING if _is_rebound(self.function, node.id) else self._given(node.id)

    def _holds_zeros(self, rates: ast.expr, steps: int = _MAX_STEPS) -> bool:
        """`[x.item() for x in torch.linspace(0, rate, depth)]` where the rate is 0: one for each layer, and all are."""
        if not steps:
            return False
        kept = _only_kept(self.function, rates)
        if kept is not None:
            return self._holds_zeros(kept, steps - 1)
        if isinstance(rates, ast.Name):
            made = _only_assigned(self.function, rates.id)
            return self._holds_zeros(made, steps - 1) if made is not None else self._is_zero(rates)
        if isinstance(rates, ast.Subscript):
            return self._holds_zeros(rates.value, steps - 1)
        if isinstance(rates, ast.ListComp):
            return _goes_through(rates) and self._holds_zeros(rates.generators[0].iter, steps - 1)
        if not isinstance(rates, ast.Call):
            return False
        if identifier(rates.func) == _SPREADS:
            ends = rates.args[:2]
            return len(ends) == 2 and all(
                isinstance(end, (ast.Name, ast.Constant)) and self._is_zero(end) for end in ends
            )
        method = rates.func if isinstance(rates.func, ast.Attribute) else None
        return method is not None and method.attr in _AS_LIST and self._holds_zeros(method.value, steps - 1)

    def _is_zero(self, rate: ast.expr) -> bool:
        return number_of(self.literal(rate)) == 0

    def given(self, name: str) -> tuple[Module, ast.expr] | None:
        """Return what a parameter is, and the module that says so: what callers pass, else its default."""
        if self.call is None or _is_rebound(self.function, name):
            return None
        given = argument_of(self.function, name, self.call, skip_self=True)
        if given is None:
            default = next((value for argument, value in parameters(self.function.args) if argument.arg == name), None)
            if self.module is None or default is None or _spread(self.call):
                return None
            return self.module, default
        handed_on = self.caller.given(given.id) if self.caller is not None and isinstance(given, ast.Name) else None
        return handed_on or ((self.at, given) if self.at is not None else None)

    def literals(self) -> Hashable:
        """Return what tells this call of the function from others: the constants that it is given, roughly."""
        keywords = self.call.keywords if self.call is not None else []
        names = [argument.arg for argument, _ in parameters(self.function.args)]
        names += [keyword.arg for keyword in keywords if keyword.arg is not None]
        return frozenset((name, _rough(self._given(name))) for name in names)

    def _given(self, name: str) -> object:
        given = argument_of(self.function, name, self.call, skip_self=True) if self.call is not None else None
        if given is not None:
            return self.caller.literal(given) if self.caller is not None else _constant_at(self.at, given)
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


def _only_assigned(function: FunctionNode, name: str) -> ast.expr | None:
    """Return what a variable of a function is set to, where that is done once, and it is no parameter."""
    if any(argument.arg == name for argument, _ in parameters(function.args)):
        return None
    stores = [part for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
    statements = [part for part in walk(function) if isinstance(part, ast.Assign)]
    values = [part.value for part in statements if [getattr(t, "id", "") for t in part.targets] == [name]]
    return values[0] if len(values) == 1 and sum(store.id == name for store in stores) == 1 else None


def _only_kept(function: FunctionNode, node: ast.expr) -> ast.expr | None:
    """Return `rate` for `self.rate`, where a function does `self.rate = rate` once, and sets it to nothing else."""
    if not isinstance(node, ast.Attribute) or not is_own(node):
        return None
    stores = [part for part in walk(function) if is_own(part) and identifier(part) == node.attr]
    stores = [part for part in stores if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)]
    statements = [part for part in walk(function) if isinstance(part, ast.Assign)]
    values = [part.value for part in statements if len(part.targets) == 1 and part.targets[0] in stores]
    only = values[0] if len(values) == len(stores) == 1 else None
    return None if only is None or any(part is node or is_own(part) for part in walk(only)) else only


def _goes_through(listed: ast.ListComp) -> bool:
    """`[x for x in rates]`, `[x.item() for x in rates]`, `[float(x) for x in rates]`."""
    each = listed.elt
    if isinstance(each, ast.Call):
        each = each.func.value if isinstance(each.func, ast.Attribute) and not each.args else (each.args or [each])[0]
    return len(listed.generators) == 1 and identifier(each) == identifier(listed.generators[0].target) != ""


def literal_of(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else MISSING


def _constant_at(place: Module | None, node: ast.expr) -> object:
    """Return the constant that an expression is at a place: `0` of `Net(p=config.p)`, after `config = Config(p=0)`."""
    if place is None or isinstance(node, ast.Constant):
        return literal_of(node)
    found = {
        literal_of(value.node) if isinstance(value.node, ast.Constant) else MISSING
        for value in place.inference.values(node)
    }
    return found.pop() if len(found) == 1 else MISSING


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


def drops(call: ast.Call, frame: Frame | None) -> bool:
    """`rnn_unit(8, 8, dropout=rate)`: what is made of an unknown class is told to drop something."""
    literal = frame.literal if frame is not None else literal_of
    rates = [keyword.value for keyword in call.keywords if keyword.arg and _RATE.match(keyword.arg)]
    values = [literal(rate) for rate in rates]
    return any(value is MISSING or (number_of(value) or 0) > 0 for value in values)


def drops_nothing(call: ast.Call, frame: Frame | None) -> bool:
    """`F.dropout(x, p=self.rate, training=self.training)`, where the rate is known to be 0."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "p"] or call.args[1:2]
    literal = frame.literal if frame is not None else literal_of
    return bool(given) and number_of(literal(given[0])) == 0
