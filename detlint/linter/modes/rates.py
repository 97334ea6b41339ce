"""How much do layers drop that are made with a rate: nothing, something, or what cannot be told?"""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.context import MISSING
from detlint.linter.modes.folding import constant, reduced
from detlint.linter.modes.frames import Closure, Frame
from detlint.linter.source.nodes import identifier

# Spreads a rate over layers, from the first to the last; and what makes a list of it.
_SPREADS = "linspace"
_AS_LIST = frozenset({"chunk", "numpy", "split", "tolist"})
# Arguments that say how much is dropped.
_RATE = re.compile(r"(\w+_)?drop_?(out|path|rate|prob)", re.I)
_MAX_STEPS = 6  # from what a layer is given back to there


def rate_of(frame: Frame | None, node: ast.expr) -> float | None:
    """Return the rate that an expression is in a frame, None where that cannot be told."""
    value = constant(frame, node)
    if value is MISSING and frame is not None and _holds_zeros(Closure(node, frame.module, frame)):
        return 0
    return value if isinstance(value, (int, float)) else None


def drops(call: ast.Call, frame: Frame | None) -> bool:
    """`rnn_unit(8, 8, dropout=rate)`: what is made of an unknown class is told to drop something."""
    named = [keyword.value for keyword in call.keywords if keyword.arg and _RATE.match(keyword.arg)]
    return any(not _is_nothing(frame, rate) for rate in named)


def _is_nothing(frame: Frame | None, node: ast.expr) -> bool:
    """`dropout=None` drops as little as `dropout=0.0` does."""
    rate = rate_of(frame, node)
    return (rate is not None and rate <= 0) or constant(frame, node) is None


def drops_nothing(call: ast.Call, frame: Frame | None) -> bool:
    """`F.dropout(x, p=self.rate, training=self.training)`, where the rate is known to be 0."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "p"] or call.args[1:2]
    return bool(given) and rate_of(frame, given[0]) == 0


def _holds_zeros(rates: Closure, steps: int = _MAX_STEPS) -> bool:
    """`[x.item() for x in torch.linspace(0, rate, depth)]` where the rate is 0: one for each layer, and all are."""
    if not steps:
        return False
    rates = reduced(rates)
    node = rates.node
    if isinstance(node, ast.Constant):
        return node.value == 0
    if isinstance(node, ast.Subscript):
        return _holds_zeros(rates._replace(node=node.value), steps - 1)
    if isinstance(node, ast.ListComp):
        return _goes_through(node) and _holds_zeros(rates._replace(node=node.generators[0].iter), steps - 1)
    if not isinstance(node, ast.Call):
        return False
    if identifier(node.func) == _SPREADS:
        ends = [rates._replace(node=end) for end in node.args[:2]]
        return len(ends) == 2 and all(
            isinstance(end := reduced(each).node, ast.Constant) and end.value == 0 for each in ends
        )
    method = node.func if isinstance(node.func, ast.Attribute) else None
    return method is not None and method.attr in _AS_LIST and _holds_zeros(rates._replace(node=method.value), steps - 1)


def _goes_through(listed: ast.ListComp) -> bool:
    """`[x for x in rates]`, `[x.item() for x in rates]`, `[float(x) for x in rates]`."""
    each = listed.elt
    if isinstance(each, ast.Call):
        each = each.func.value if isinstance(each.func, ast.Attribute) and not each.args else (each.args or [each])[0]
    return len(listed.generators) == 1 and identifier(each) == identifier(listed.generators[0].target) != ""
