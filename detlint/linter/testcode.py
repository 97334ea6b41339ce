"""Is this a test? Tests build layers, run them once and look at shapes: nothing there is inference."""

from __future__ import annotations

from detlint.linter.project import Module

_FOLDERS = frozenset({"test", "tests", "testing", "unittests"})


def is_test_file(module: Module) -> bool:
    """Return whether a file is named like a test or stands in a folder of tests of its project."""
    path = module.source.path
    if path.name.startswith("test_") or path.stem.endswith("_test") or path.name == "conftest.py":
        return True
    root = module.project.root(path.parent)
    folders = path.relative_to(root).parts[:-1] if path.is_relative_to(root) else ()
    return not _FOLDERS.isdisjoint(folders)
