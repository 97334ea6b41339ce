"""Which calls of a function are alike, so that it need be read only once for them?"""

from __future__ import annotations

import ast
from collections.abc import Hashable

from detlint.linter.analysis.context import MISSING
from detlint.linter.modes.folding import constant_of, reduced
from detlint.linter.modes.frames import Closure, Frame


def fingerprint(frame: Frame) -> Hashable:
    """Return what tells this call of a function from others: roughly the constants, classes and objects it is given."""
    given = {name: frame.given(name) for name in frame.names()}
    return frozenset((name, _told(closure) if closure is not None else MISSING) for name, closure in given.items())


def _told(given: Closure) -> object:
    known = constant_of(given)
    if known is not MISSING:
        # One for all numbers but 0 and 1: it does not matter how wide a layer is, or how much drops.
        return 2 if isinstance(known, (int, float)) and known not in (0, 1) else known
    found = reduced(given)
    if isinstance(found.node, (ast.Name, ast.Attribute)):
        return found.module.inference.resolve(found.node)
    return found.node if isinstance(found.node, (ast.Call, ast.Dict, ast.Lambda)) else MISSING
