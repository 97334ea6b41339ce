"""Do programs of a project run what draws in another file, and does none of them seed it?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.callers import users_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.smoke import is_smoke_test, is_trial
from detlint.linter.randomness.seeding import Seed, seeding_of


def runs_unseeded(node: ast.AST, library: str, ctx: Context) -> str:
    """Say what no program that leads to a draw from a library's global generator seeds: "it", or "it before".

    Nothing where one does, or none leads there. What is drawn as a file is imported comes before all that a program
    seeds after its imports. Tests are no such programs, nor is what only tries a file out.
    """
    users = {user.module: user.program for user in users_of(node, ctx) if user.program is not None}
    programs = [
        program
        for module, program in users.items()
        if not (is_test_file(module) or is_smoke_test(module) or is_trial(module))
    ]
    seedings = [seeding_of(program) for program in programs]
    if not any(seeding.reach.leads_to(ctx.module, node) for seeding in seedings):
        return ""
    seeds = [(seeding.program, seed) for seeding in seedings for seed in seeding.of(library)]
    if not seeds:
        return "it"
    at_import = ctx.module.index.function_at(node) is None
    return "it before" if at_import and all(_is_after_imports(*each) for each in seeds) else ""


def _is_after_imports(program: Program, seed: Seed) -> bool:
    """Does a program itself seed, below all that it imports at the top?"""
    imports = [part for part in program.module.tree.body if isinstance(part, (ast.Import, ast.ImportFrom))]
    return seed.module is program.module and all(part.lineno < seed.node.lineno for part in imports)
