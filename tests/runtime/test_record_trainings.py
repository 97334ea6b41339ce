"""Records of two trainings: the step that departs is named, and what stands behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import detlint
from detlint.runtime.report import Verdict
from tests.runtime.recordings import subjects, train


def test_equal_trainings_agree_to_the_bit(tmp_path: Path) -> None:
    train(tmp_path / "one")
    train(tmp_path / "two")
    found = detlint.compare(tmp_path / "one", tmp_path / "two")
    assert found.verdict is Verdict.BITWISE
    assert found.steps == (4, 4)


def test_batches_in_another_order_are_told_with_their_step(tmp_path: Path) -> None:
    found = detlint.compare(train(tmp_path / "one"), train(tmp_path / "two", order=(0, 1, 3, 2)))
    assert found.verdict is Verdict.BEYOND_ROUNDING
    assert found.first is not None
    assert (found.first.name, found.first.step) == ("input", 2)
    assert subjects(found)[0] == "inputs"
    assert "in step 2" in found.explanations[0].says
    told = ": the same batches come in another order, this one in step 3 of the second record"
    assert found.explanations[0].says.endswith(told)


def test_samples_in_another_order_within_a_batch_are_told(tmp_path: Path) -> None:
    def run(path: Path, order: tuple[int, ...]) -> None:
        model = nn.Linear(4, 4)
        batch = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))[list(order)]
        with detlint.Recorder(path) as recorder:
            recorder.step(model, inputs=batch)

    run(tmp_path / "one", (0, 1, 2))
    run(tmp_path / "two", (2, 0, 1))
    found = detlint.compare(tmp_path / "one", tmp_path / "two")
    assert found.explanations[0].says.endswith("): as far as can be told, the same values in another order")


def test_other_weights_at_the_beginning_of_training_stand_first(tmp_path: Path) -> None:
    found = detlint.compare(train(tmp_path / "one"), train(tmp_path / "two", seed=1))
    assert subjects(found)[0] == "weights"
    assert found.explanations[0].says.startswith("the weights differ before the first step: 0.weight first (by ")


def test_another_learning_rate_shows_in_the_parameters_of_the_first_step(tmp_path: Path) -> None:
    found = detlint.compare(train(tmp_path / "one"), train(tmp_path / "two", rate=0.1))
    assert found.first is not None
    assert (found.first.name, found.first.step) == ("0.weight", 0)
    assert found.first.verdict is Verdict.BEYOND_ROUNDING
    assert subjects(found)[0] == "optimizer"


def test_threads_show_as_rounding_in_the_gradients(tmp_path: Path) -> None:
    """The bias before batch norm has a gradient of zero: all that is left of it is rounding, and no departure."""
    found = detlint.compare(train(tmp_path / "one", count=1), train(tmp_path / "two", count=2))
    if found.first is None:
        pytest.skip("on this machine the number of threads changes none of these sums")
    assert found.first.step == 0
    assert found.first.verdict is Verdict.ROUNDING
    assert subjects(found)[0] == "flags.threads"
    assert all(item.verdict is Verdict.ROUNDING for item in found.results if item.step == 0)


def test_random_numbers_drawn_elsewhere_are_told(tmp_path: Path) -> None:
    def run(path: Path, seed: int) -> None:
        model = nn.Linear(4, 4)
        nn.init.ones_(model.weight)
        nn.init.zeros_(model.bias)
        torch.manual_seed(seed)
        with detlint.Recorder(path) as recorder:
            for _ in range(2):
                recorder.step(model, loss=model(torch.ones(2, 4) + torch.rand(2, 4)).sum())

    run(tmp_path / "one", 0)
    run(tmp_path / "two", 1)
    found = detlint.compare(tmp_path / "one", tmp_path / "two")
    assert subjects(found)[0] == "generators"
    assert found.explanations[0].says == "the cpu generator stands elsewhere in step 0"


def test_steps_beyond_the_shorter_record_are_named(tmp_path: Path) -> None:
    found = detlint.compare(train(tmp_path / "one"), train(tmp_path / "two", order=(0, 1)))
    assert found.verdict is Verdict.BITWISE
    assert found.missing == ("only the first 2 steps are in both records",)
    assert not found.ok, "training that stopped early has not been repeated"
    lines = found.to_text().splitlines()
    assert lines[0].endswith(": the same bits, as far as both go")
    assert lines[1] == "  only the first 2 steps are in both records"
