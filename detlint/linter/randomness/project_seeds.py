"""Does any file of a project hold the name of a function that seeds? A cheap question: few files are parsed for it."""

from __future__ import annotations

import ast

from detlint.linter.analysis.callers import users_of
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import in_package
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.smoke import is_trial
from detlint.linter.randomness.seeding import seeding_of, seeds_in
from detlint.randomness import load_sources

_NUMBERS = ("seed", "random_seed")  # a variable far more often than a function that seeds
_MOST_TESTS = 40  # where more files than these mention a word, nobody looks what they are
_OF_GENERATORS = "manual_seed"
_MOST_READ = 8


def project_seeds_globally(module: Module, *, in_tests: bool = True) -> bool:
    """Does any file mention seeding but by seeding generators of its own: `torch.Generator().manual_seed(0)`?

    Any that is no test, if those of tests do not count.
    """
    return any(_is_mentioned(word, module, in_tests) for word in _words())


def _is_mentioned(word: str, module: Module, in_tests: bool) -> bool:
    of_generators = word == _OF_GENERATORS
    most = (_MOST_READ if of_generators else 0) if in_tests else _MOST_TESTS
    search = module.project.search(word, module, most)
    if search is None or search.found is None:
        return True
    if in_tests and not of_generators:
        return bool(search.found)
    files = (module.project.at(path) for path in search.found)
    counted = (file for file in files if in_tests or not is_test_file(file))
    return any(not of_generators or any(seeds_in(file)) for file in counted)


def is_seeded_by_others(node: ast.AST, ctx: Context) -> bool:
    """Is this for other files of a package whose programs seed, and run here by a main guard that only tries it out?"""
    if not in_package(ctx.module) or not is_trial(ctx.module):
        return False
    users = [user for user in users_of(node, ctx) if user.module is not ctx.module and not is_test_file(user.module)]
    programs = (user.program for user in users if user.program is not None)
    return bool(users) and (
        project_seeds_globally(ctx.module) or any(seeding_of(program).seeds for program in programs)
    )


def _words() -> list[str]:
    words = sorted(word for word in load_sources().seeders.lasts.difference(_NUMBERS) if "seed" in word)
    words.sort(key=_OF_GENERATORS.__ne__)  # what nearly all have that seed at all, first
    return words
