"""`rules/memory.toml`: true of the installed torch and NumPy."""

from __future__ import annotations

from functools import reduce

import pytest

from detlint.linter.tables.memory import memory_table

_LIBRARIES = ("torch", "numpy")


def test_functions_exist() -> None:
    modules = {name: pytest.importorskip(name) for name in _LIBRARIES}
    table = memory_table()
    views = {f"{library}.{name}" for library in _LIBRARIES for name in table.methods["views"]}
    named = set().union(*table.functions.values()) - views
    qualified = [name.split(".") for name in sorted(named) if name.split(".")[0] in modules]
    missing = [parts for parts in qualified if not _has(modules[parts[0]], parts[1:])]
    assert missing == []


def test_methods_exist() -> None:
    torch, numpy = (pytest.importorskip(name) for name in _LIBRARIES)
    homes = (torch.Tensor, numpy.ndarray)
    others = {"ptp"}  # of NumPy 1
    others |= {"expand_dims", "rollaxis", "array_split", "atleast_1d", "atleast_2d", "atleast_3d"}  # functions alone
    others |= {"view_as_real", "view_as_complex"}
    missing = [
        name
        for names in memory_table().methods.values()
        for name in names
        if name not in others and not any(hasattr(home, name) for home in homes)
    ]
    assert missing == []


def _has(module: object, parts: list[str]) -> bool:
    return reduce(lambda found, part: getattr(found, part, None), parts, module) is not None
