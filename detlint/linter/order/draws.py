"""Does a loop draw random numbers? Then which element gets which of them depends on the order."""

from __future__ import annotations

import ast

from detlint.linter.analysis.program import program_of
from detlint.linter.analysis.testcode import is_unit_test
from detlint.linter.order.choice import LoopChoice
from detlint.linter.randomness.seeding import seeds_in
from detlint.linter.source.nodes import receiver_of
from detlint.randomness import load_sources

_STREAMS = ("numpy.random.Generator.", "numpy.random.RandomState.", "random.Random.")


class LoopDraws(LoopChoice):
    """Answers about the draws in a body. `reseeded` says that a loop around it seeds for each element."""

    reseeded = False

    def draws(self, expression: ast.expr) -> bool:
        """Does an expression, which is worked out for each element, draw from what was seeded before?"""
        return any(isinstance(part, ast.Call) and self._draws_from_one_stream(part) for part in ast.walk(expression))

    def _draws_from_one_stream(self, call: ast.Call) -> bool:
        """A draw from what was seeded before the loop: each element gets the numbers that are next."""
        names = self._places.inference.callees(call)
        receiver = receiver_of(call)
        if receiver is not None and any(name.startswith(_STREAMS) for name in names):
            return self._is_stream(receiver)
        draw = next(filter(None, map(load_sources().draws.get, names)), None)
        if draw is None or self._seeds_each():
            return False
        own = [keyword.value for keyword in call.keywords if keyword.arg in draw.generator]
        if own:
            return any(map(self._is_stream, own))
        seeds = seeds_in(self._places.module)
        # A library is seeded by whoever calls it; in a program without a seed the draws themselves are the matter, and
        # what a test draws without one it asserts of any.
        unseeded = is_unit_test(self._places.module) or program_of(self._places.module) is not None
        return any(draw.library in seed.libraries for seed in seeds) or not unseeded

    def _is_stream(self, generator: ast.expr) -> bool:
        """Return whether a generator stands outside, and was made with a seed as far as that can be told."""
        if not isinstance(generator, (ast.Name, ast.Attribute)) or not self._is_outside(generator):
            return False
        made = [value.node for value in self._places.inference.values(generator)]
        return not any(isinstance(node, ast.Call) and not node.args and not node.keywords for node in made)

    def _seeds_each(self) -> bool:
        """Does the body seed a global generator, or the code around it for each element?"""
        return self.reseeded or any(seed.node in self._nodes for seed in seeds_in(self._places.module))
