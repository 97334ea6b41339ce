"""Every table in `rules/` is read strictly: what is wrong with it is one line that names file, key and reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from detlint.dispatch import load_dispatch
from detlint.errors import RuleError
from detlint.influences import load_influences
from detlint.layers import load_layers
from detlint.linter.analysis.values import load_types
from detlint.linter.tables.elements import element_table
from detlint.linter.tables.gradients import gradient_table
from detlint.linter.tables.memory import memory_table
from detlint.linter.tables.order import order_table
from detlint.linter.tables.rounding import rounding_table
from detlint.operators import load_operators
from detlint.randomness import load_sources
from detlint.sums import load_sums
from detlint.tables import RULES_FOLDER

Read = Callable[[Path], object]

# what reads the table → its file, what to change in it, what to say
BROKEN: list[tuple[Read, str, tuple[str, str], str]] = [
    (load_dispatch, "dispatch.toml", ("[[dispatch]]", "[[dispach]]"), "dispatch: missing"),
    (load_dispatch, "dispatch.toml", ("traced = [", "trased = ["), "dispatch[1].traced: missing"),
    (load_dispatch, "dispatch.toml", ('devices = ["cuda"]', 'devices = ["cuba"]'), "devices: 'cuba' is not one of"),
    (element_table, "elements.toml", ("[names]", "[name]"), "names: missing"),
    (element_table, "elements.toml", ("alike =", "alikes ="), "names.alike: missing"),
    (gradient_table, "gradients.toml", ("[words]", "[wordz]"), "words: missing"),
    (gradient_table, "gradients.toml", ("of-receiver =", "of-receivr ="), "methods.of-receiver: missing"),
    (gradient_table, "gradients.toml", ('"images?"', '"images("'), "words.data: missing ), unterminated subpattern"),
    (gradient_table, "gradients.toml", ('"images?"', "3"), "words.data: expected a list of strings"),
    (load_influences, "influences.toml", ("[groups]", "[group]"), "groups: missing"),
    (load_layers, "layers.toml", ("[steady]", "[stead]"), "steady: missing"),
    (load_layers, "layers.toml", ("[[layer]]\ncalls = [", "[[layer]]\ncall = ["), "layer[1].calls: missing"),
    (memory_table, "memory.toml", ("[functions]", "[function]"), "functions: missing"),
    (memory_table, "memory.toml", ("reading_first =", "reading_frst ="), "functions.reading_first: missing"),
    (load_operators, "operators.toml", ("signatures = [", "signature = ["), "signatures: missing"),
    (order_table, "order.toml", ("[words]", "[wordz]"), "words: missing"),
    (order_table, "order.toml", ("carrying =", "carryin ="), "functions.carrying: missing"),
    (order_table, "order.toml", ("progress = [", "progress = 3 # ["), "words.progress: expected list, got int"),
    (rounding_table, "rounding.toml", ("[exact]", "[exacts]"), "exact: missing"),
    (rounding_table, "rounding.toml", ("adding =", "addin ="), "names.adding: missing"),
    (rounding_table, "rounding.toml", ("joining = [", "joining = 3 # ["), "names.joining: expected list, got int"),
    (load_sources, "sources.toml", ("[indifferent]", "[indiferent]"), "indifferent: missing"),
    (load_sums, "sums.toml", ("[[sum]]", "[[summ]]"), "sum: missing"),
    (load_types, "types.toml", ("[aliases]", "[alias]"), "aliases: missing"),
]


@pytest.mark.parametrize(("read", "name", "change", "reason"), BROKEN)
def test_a_broken_table_is_one_clear_error(
    read: Read, name: str, change: tuple[str, str], reason: str, tmp_path: Path
) -> None:
    text = (RULES_FOLDER / name).read_text("utf-8")
    assert change[0] in text
    path = tmp_path / name
    path.write_text(text.replace(*change), "utf-8")
    with pytest.raises(RuleError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert reason in message
    assert "\n" not in message


@pytest.mark.parametrize("read", dict.fromkeys(case[0] for case in BROKEN))
def test_what_is_no_table_is_one_clear_error(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(RuleError, match=r"x.toml: cannot be read: No such file"):
        read(path)
    path.write_text("x = = 1", "utf-8")
    with pytest.raises(RuleError, match=r"x.toml: not valid TOML: "):
        read(path)
