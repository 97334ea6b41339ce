"""`rules/rounding.toml`: read strictly, and true of the installed torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from detlint.errors import RuleError
from detlint.linter import rounding_table
from detlint.rulebook import rules_folder


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("[exact]", "[exacts]"), "exact: missing"),
        (("adding =", "addin ="), "names.adding: missing"),
        (("results = [", "results = 3 # ["), "names.results: expected list"),
    ],
    ids=["missing table", "missing key", "wrong type"],
)
def test_broken_table_is_one_clear_error(
    change: tuple[str, str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (rules_folder() / "rounding.toml").read_text("utf-8").replace(*change, 1)
    (tmp_path / "rounding.toml").write_text(text, "utf-8")
    monkeypatch.setattr(rounding_table, "rules_folder", lambda: tmp_path)
    with pytest.raises(RuleError, match=reason):
        rounding_table.rounding_table.__wrapped__()


def test_integers_have_no_floating_methods() -> None:
    """What counts as rounded whoever has it must not work on integer tensors without making floats of them."""
    torch = pytest.importorskip("torch")
    ones = torch.ones(2, 2, dtype=torch.int64)
    for name in sorted(rounding_table.rounding_table().floating):
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
    table = rounding_table.rounding_table()
    homes = (torch, torch.nn.functional, torch.fft, torch.linalg, torch.Tensor)
    missing = [name for name in table.rounding | table.fractions if not any(hasattr(home, name) for home in homes)]
    assert missing == []
