"""Is this a test? Tests build layers, run them once and look at shapes: nothing there is inference."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.outline import is_main_guard
from detlint.linter.analysis.program import program_of
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import decorating, identifier

_FOLDERS = frozenset({"test", "tests", "testing", "unittests"})
_EXPECTING = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
# Decorators that say so of a test whatever the machine; `skipif` and `skipUnless` ask first.
_SKIPS = frozenset({"pytest.mark.skip", "unittest.skip"})
_RUNNERS = ("unittest.", "pytest.", "absl.testing.", "numpy.testing.")


def is_test_file(module: Module) -> bool:
    """Return whether a file is named like a test, or stands in a folder of tests of its project."""
    return module.project.once(_is_test_file, module)


def _is_test_file(module: Module) -> bool:
    path = module.source.path
    if path.name == "conftest.py" or (_is_named_test(path) and not module.project.once(_is_script, module)):
        return True
    root = module.project.layout.root(path.parent)
    folders = path.relative_to(root).parts[:-1] if path.is_relative_to(root) else ()
    return not _FOLDERS.isdisjoint(folders)


def is_unit_test(module: Module) -> bool:
    """Return whether a test file leaves it to a test runner to execute it: no program, at most `unittest.main()`.

    What stands between tests that nothing here calls only sets them up.
    """
    if not is_test_file(module):
        return False
    runs = any(
        name.startswith(_RUNNERS) or name.endswith(".run_tests")
        for word in ("main", "run_tests", "run_module_suite")
        for call in module.index.calls_by_name.get(word, ())
        for name in module.inference.callees(call)
    )
    return runs or program_of(module) is None or _only_sets_up(module)


def runs_own_tests(module: Module) -> bool:
    """Does a test file do no more by itself than a test runner would: `if __name__ == "__main__": test_shapes()`?"""
    guards = [node for node in module.tree.body if isinstance(node, ast.If) and is_main_guard(node)]
    steps = [step for guard in guards for step in guard.body]
    return bool(steps) and is_test_file(module) and all(map(_runs_test, steps))


def _runs_test(step: ast.stmt) -> bool:
    call = step.value if isinstance(step, ast.Expr) else None
    plain = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not (call.args or call.keywords)
    return plain and isinstance(call, ast.Call) and identifier(call.func).startswith("test_")


def is_meant_to_fail(node: ast.AST, module: Module) -> bool:
    """`with pytest.raises(ValueError):` around it: nothing comes out of there but the error."""
    for parent in module.index.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return False
        if isinstance(parent, ast.With) and _expects_error(parent):
            return True
    return False


def expected_failures(module: Module) -> Iterator[ast.stmt]:
    """Yield what stands in a `with pytest.raises(ValueError):`."""
    if _EXPECTING.isdisjoint(module.index.calls_by_name):
        return
    for node in module.index.of_type(ast.With):
        if _expects_error(node):
            yield from node.body


def _expects_error(node: ast.With) -> bool:
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    return any(identifier(call.func) in _EXPECTING for call in calls)


def skipped_tests(module: Module) -> Iterator[ast.stmt]:
    """Yield the tests, and classes of tests, that no test runner runs: `@pytest.mark.skip(reason="too slow")`."""
    if "skip" not in module.index.names_used:
        return
    index = module.index
    definitions: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = [
        *index.of_type(ast.FunctionDef),
        *index.of_type(ast.AsyncFunctionDef),
        *index.of_type(ast.ClassDef),
    ]
    for node in definitions:
        marks = (module.inference.resolve(decorating(decorator)) for decorator in node.decorator_list)
        if any(not _SKIPS.isdisjoint(names) for names in marks):
            yield node


def _only_sets_up(module: Module) -> bool:
    tests = [node.name for node in module.tree.body if isinstance(node, FUNCTIONS) and node.name.startswith("test_")]
    guarded = any(is_main_guard(node) for node in module.tree.body if isinstance(node, ast.If))
    return bool(tests) and not guarded and module.index.names_used.keys().isdisjoint(tests)


def _is_named_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.stem.endswith("_test")


def _is_script(module: Module) -> bool:
    """`test_net.py` may be the program that evaluates a trained net: it executes something, and holds no tests.

    What reads a command line is a program, whatever its functions are called.
    """
    index = module.index
    if "ArgumentParser" in index.names_used:
        return program_of(module) is not None
    functions = [node.name.lower() for node in index.of_type(ast.FunctionDef) if not _is_step_of_script(module, node)]
    classes = [node.name.lower() for node in index.of_type(ast.ClassDef)]
    if any(name.startswith("test") for name in functions + classes):
        return False
    if any(name.endswith(("test", "tests", "testcase")) for name in classes):
        return False
    return program_of(module) is not None


def _is_step_of_script(module: Module, function: ast.FunctionDef) -> bool:
    """`test(net, loader)`, by what the file hands over itself; a test runner knows nothing to call it with."""
    calls = module.index.calls_by_name.get(function.name, ())
    return function.name == "test" and any(call.args or call.keywords for call in calls)
