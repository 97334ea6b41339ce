"""The table of sums: valid, about operators and arguments that torch has, and right about what it counts."""

from __future__ import annotations

from fnmatch import filter as matching
from pathlib import Path

import pytest

from detlint.errors import RuleError
from detlint.sums import load_sums, sums_of


def test_operators_and_arguments_exist() -> None:
    torch = pytest.importorskip("torch")
    names = {name.rpartition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    for entry in load_sums():
        for pattern in entry.operators:
            found = matching(names, pattern)
            assert found, pattern
            if entry.argument and pattern == found[0]:
                packet = getattr(torch.ops.aten, pattern)
                schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
                assert any(entry.argument in [item.name for item in schema.arguments] for schema in schemas), pattern


@pytest.mark.parametrize(
    ("operator", "shape", "terms"),
    [
        ("mm", (2, 3), 3),
        ("convolution", (8, 3, 5, 5), 75),
        ("_scaled_dot_product_flash_attention_for_cpu", (1, 2, 7, 16), 7),
        ("index_put_", (4, 5), 20),
        ("sum", (), 1),
    ],
)
def test_terms_are_counted(operator: str, shape: tuple[int, ...], terms: int) -> None:
    assert [entry.count(shape) for entry in sums_of(operator) if entry.argument] == [terms]


def test_what_adds_nothing_up_has_no_entry() -> None:
    assert sums_of("relu") == ()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('operators = ["mm"]\nterms = "first"\nargument = "self"', "sum[1].terms: 'first' is not one of"),
        ('operators = ["mm"]\nterms = "last"', "sum[1].argument: needed"),
        ('operators = ["mm"]\nterms = "per result"\nargument = "self"', "takes none"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, entry: str, reason: str) -> None:
    path = tmp_path / "sums.toml"
    path.write_text(f"[[sum]]\n{entry}\n")
    with pytest.raises(RuleError) as raised:
        load_sums(path)
    assert reason in str(raised.value)
