"""`rules/rounding.toml`: true of the installed torch."""

from __future__ import annotations

import pytest

from detlint.linter.tables.rounding import rounding_table


def test_integers_have_no_floating_methods() -> None:
    """What counts as rounded whoever has it must not work on integer tensors without making floats of them."""
    torch = pytest.importorskip("torch")
    ones = torch.ones(2, 2, dtype=torch.int64)
    for name in sorted(rounding_table().floating):
        method = getattr(torch.Tensor, name, None)
        if method is None:
            continue  # a method of distributions
        arguments = (-1,) if name in ("softmax", "log_softmax", "logsumexp") else ()
        try:
            result = method(ones, *arguments)
        except RuntimeError:
            continue
        assert result.is_floating_point(), name


def test_functions_exist() -> None:
    torch = pytest.importorskip("torch")
    table = rounding_table()
    homes = (torch, torch.nn.functional, torch.nn.utils, torch.fft, torch.linalg, torch.Tensor)
    missing = [name for name in table.rounding | table.fractions if not any(hasattr(home, name) for home in homes)]
    assert missing == []
