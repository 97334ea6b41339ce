"""Which branches run no backward pass? Those of eval mode, without gradients, or with keys and values that are kept."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.guards import is_settled
from detlint.linter.programs.training import holds_in_eval_only
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Calls that ask whether anything is recorded, and the answer where nothing is.
_ASKING = {"is_grad_enabled": False, "is_inference_mode_enabled": True}
# What a function is told of the mode: `def forward(self, x, training=False)`.
_TRAINING = re.compile(r"^(is_?)?train(ing)?$", re.IGNORECASE)


def is_unrecorded(node: ast.AST, ctx: Context, tensor: ast.expr | None = None) -> bool:
    """Return whether conditions lead to `node` only where nothing is recorded, as `if not self.training:` does.

    So for what comes after `if self.training: return x`, and after `assert not self.training`; for work on a `tensor`
    also where that is asked whether it needs a gradient.
    """
    asked = f"{ast.unparse(tensor)}.requires_grad" if tensor is not None else ""

    def fact(test: ast.expr, holds: bool) -> bool:
        return _records_nothing(test, holds) or (bool(asked) and not holds and ast.unparse(test) == asked)

    return is_settled(node, fact, ctx)


def _records_nothing(test: ast.expr, holds: bool) -> bool:
    if isinstance(test, ast.BoolOp):
        return _is_mode_or_cache(test, holds)
    if isinstance(test, ast.Call):
        return _ASKING.get(identifier(test.func)) is holds
    if isinstance(test, ast.Compare):
        asked = getattr(test.comparators[0], "value", None) if isinstance(test.ops[0], (ast.Is, ast.Eq)) else None
        return isinstance(asked, bool) and _records_nothing(test.left, asked is holds)
    if isinstance(test, ast.Name):
        return not holds and _TRAINING.match(test.id) is not None
    return holds_in_eval_only(test) is holds


def _is_mode_or_cache(test: ast.BoolOp, holds: bool) -> bool:
    """`self.training and cache is None` that does not hold: who keeps keys and values for later steps infers.

    Of a cache alone nothing is known: many models fill theirs in training too.
    """
    others = [part for part in test.values if not _keeps_cache(part, holds)]
    decides = isinstance(test.op, ast.And) is not holds
    return decides and 0 < len(others) < len(test.values) and all(_records_nothing(part, holds) for part in others)


def _keeps_cache(test: ast.expr, holds: bool) -> bool:
    """`use_cache`, `past_key_values is not None`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _keeps_cache(test.operand, not holds)
    if isinstance(test, ast.Compare) and getattr(test.comparators[0], "value", test) is None:
        return isinstance(test.ops[0], ast.IsNot) is holds and _keeps_cache(test.left, True)
    return holds and gradient_table().caches.search(identifier(test)) is not None
