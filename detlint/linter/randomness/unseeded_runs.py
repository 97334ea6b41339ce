"""Do programs of a project run what draws in another file, and does none of them seed it?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.callers import users_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.smoke import is_smoke_test, is_trial
from detlint.linter.randomness.seeding import seeding_of


def runs_unseeded(node: ast.AST, library: str, ctx: Context) -> bool:
    """Return whether programs that use a file lead to a draw from a library's global generator, and none seeds that.

    Tests are no such programs, nor is what only tries a file out.
    """
    users = {user.module: user.program for user in users_of(node, ctx) if user.program is not None}
    programs = [
        program
        for module, program in users.items()
        if not (is_test_file(module) or is_smoke_test(module) or is_trial(module))
    ]
    seedings = [seeding_of(program) for program in programs]
    runs = any(seeding.reach.leads_to(ctx.module, node) for seeding in seedings)
    return runs and not any(seeding.of(library) for seeding in seedings)
