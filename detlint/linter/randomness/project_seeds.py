"""Does any file of a project hold the name of a function that seeds? A cheap question: no file is parsed for it."""

from __future__ import annotations

from detlint.linter.analysis.project import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.randomness import load_sources

_NUMBERS = ("seed", "random_seed")  # a variable far more often than a function that seeds
_MOST_TESTS = 40  # where more files than these mention a word, not all of them are tests


def project_seeds(module: Module, *, in_tests: bool = True) -> bool:
    """Does any file of the project mention seeding, or any that is no test?"""
    words = sorted(word for word in load_sources().seeders.lasts.difference(_NUMBERS) if "seed" in word)
    words.sort(key="manual_seed".__ne__)  # what nearly all have that seed at all, first
    for word in words:
        search = module.project.search(word, module, 0 if in_tests else _MOST_TESTS)
        if search is None or search.found is None:
            return True
        if not all(is_test_file(module.project.at(path)) for path in search.found):
            return True
    return False
