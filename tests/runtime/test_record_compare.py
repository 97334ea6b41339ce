"""Two records really made under different settings: what departs first is named, and the true cause stands first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.errors import RecordError, UsageError
from detlint.runtime.report import Verdict
from tests.runtime.recordings import image, net, subjects, threads, train, without_onednn
from tests.runtime.schemas import validator


def test_equal_runs_agree_to_the_bit() -> None:
    found = detlint.compare(
        detlint.record(net(), image(), backward=True), detlint.record(net(), image(), backward=True)
    )
    assert found.verdict is Verdict.BITWISE
    assert found.ok
    assert found.first is None
    assert found.explanations == found.other_settings == found.stretches == ()
    assert found.pairs == found.operators[0] == found.operators[1]


# ---- settings of the machine -----------------------------------------------------------------------------------------


def test_the_number_of_threads_stands_first() -> None:
    generator = torch.Generator().manual_seed(0)
    sample = (torch.randn(512, 512, generator=generator), torch.randn(512, 512, generator=generator))

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(torch.relu(x) @ y, y)

    with threads(1):
        one = detlint.record(loss, sample)
    with threads(2):
        two = detlint.record(loss, sample)
    found = detlint.compare(one, two)
    if found.first is None:
        pytest.skip("on this machine the number of threads changes none of these sums")
    assert found.first.event.op in ("aten.mm.default", "aten.mse_loss.default")
    assert found.first.same_inputs
    assert found.first.verdict is Verdict.ROUNDING
    assert found.verdict is Verdict.ROUNDING
    assert subjects(found)[0] == "flags.threads"


def test_onednn_stands_first_for_a_convolution() -> None:
    one = detlint.record(net(), image())
    with without_onednn():
        two = detlint.record(net(), image())
    found = detlint.compare(one, two)
    if found.first is None:
        pytest.skip("this build of torch computes convolutions the same way without oneDNN")
    assert found.first.event.op == "aten.convolution.default"
    assert found.first.event.module == "conv"
    assert found.first.same_inputs
    assert found.verdict is Verdict.ROUNDING
    assert found.ok
    assert not detlint.compare(one, two, allow="bitwise").ok
    assert subjects(found)[0] == "flags.mkldnn_enabled"


def test_of_two_settings_the_one_that_reaches_the_operator_stands_first() -> None:
    one = detlint.record(net(), image())
    with without_onednn(), threads(1):
        two = detlint.record(net(), image())
    environment = {**two.environment, "python": "3.99.0"}
    found = detlint.compare(one, replace(two, environment=environment))
    if found.first is None:
        pytest.skip("this build of torch computes convolutions the same way without oneDNN")
    assert subjects(found)[0] == "flags.mkldnn_enabled"
    assert "python" not in subjects(found)
    assert "python" in [item.subject for item in found.other_settings]


def test_settings_that_differ_and_do_not_matter_are_no_explanation() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    one = detlint.record(double, torch.ones(3))
    with without_onednn():
        two = detlint.record(double, torch.ones(3))
    found = detlint.compare(one, two)
    assert found.verdict is Verdict.BITWISE
    assert found.explanations == ()
    assert [item.subject for item in found.other_settings] == ["flags.mkldnn_enabled"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_another_dtype_is_compared_in_values(dtype: torch.dtype) -> None:
    one = detlint.record(net(), image(), backward=True)
    two = detlint.record(net().to(dtype), image().to(dtype), backward=True)
    found = detlint.compare(one, two)
    assert found.verdict is Verdict.ROUNDING
    assert found.first is not None
    assert found.first.event.op == "aten.convolution.default"
    assert subjects(found)[0] == "dtype"
    assert "inputs" not in subjects(found)
    assert "weights" not in subjects(found)


def test_another_dtype_does_not_hide_a_wrong_result() -> None:
    one = detlint.record(net(), image())
    two = detlint.record(net(activation=torch.tanh).bfloat16(), image().bfloat16())
    found = detlint.compare(one, two)
    assert found.first_beyond is not None
    assert found.first_beyond.event.op == "aten.relu.default"
    assert found.first_beyond.other.op == "aten.tanh.default"


def test_an_operator_that_races_is_told_before_settings() -> None:
    index = torch.randint(0, 64, (400_000,), generator=torch.Generator().manual_seed(0))
    sample = (torch.randn(400_000, generator=torch.Generator().manual_seed(1)), index)

    def add(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(64).index_put_((index,), x, accumulate=True)

    one = detlint.record(add, sample)
    for _ in range(20):
        found = detlint.compare(one, detlint.record(add, sample))
        if found.first is not None:
            break
    else:
        pytest.skip("no race in 20 runs")
    assert found.first.event.op == "aten.index_put_.default"
    assert subjects(found) == ["operator"]
    assert "from run to run" in found.explanations[0].says


# ---- the program itself ----------------------------------------------------------------------------------------------


def test_other_weights_are_told_first() -> None:
    found = detlint.compare(detlint.record(net(0), image()), detlint.record(net(1), image()))
    assert found.verdict is Verdict.BEYOND_ROUNDING
    assert not found.ok
    assert subjects(found)[0] == "weights"
    assert "conv.weight first" in found.explanations[0].says


def test_one_weight_that_differs_a_little_is_named() -> None:
    other = net()
    with torch.no_grad():
        other.head.weight[1, 2] += 1e-6
    found = detlint.compare(detlint.record(net(), image()), detlint.record(other, image()))
    assert "the weights differ: head.weight first" in found.explanations[0].says
    assert found.first is not None
    assert found.first.event.op == "aten.addmm.default"
    assert found.verdict is Verdict.ROUNDING


def test_other_inputs_are_told_before_weights() -> None:
    found = detlint.compare(detlint.record(net(0), image(1)), detlint.record(net(1), image(2)))
    assert subjects(found)[:2] == ["inputs", "weights"]
    assert "the inputs differ: args[0] first" in found.explanations[0].says


def test_a_parameter_in_one_record_only_is_named() -> None:
    other = net()
    other.extra = nn.Parameter(torch.ones(1))
    found = detlint.compare(detlint.record(net(), image()), detlint.record(other, image()))
    assert found.explanations[0].says == "the weights differ: extra first (in one record only)"
    assert found.verdict is Verdict.BITWISE


def test_dropout_in_one_record_only_is_the_mode() -> None:
    found = detlint.compare(detlint.record(net(), image()), detlint.record(net().train(), image()))
    assert found.verdict is Verdict.BEYOND_ROUNDING
    assert found.first is not None
    assert found.first.event is None
    assert found.first.other.module == "drop"
    assert subjects(found)[0] == "mode"
    assert found.explanations[0].says.startswith("drop ran in another mode")
    assert (found.explanations[0].first, found.explanations[0].second) == ("eval mode", "train mode")


def test_a_mode_that_changes_no_operator_is_no_suspect() -> None:
    one = detlint.record(nn.Sequential(nn.Conv2d(3, 8, 3)).eval(), image())
    with without_onednn():
        two = detlint.record(nn.Sequential(nn.Conv2d(3, 8, 3)).train(), image())
    assert "mode" not in subjects(detlint.compare(one, two))


def test_other_seeds_of_dropout_are_told() -> None:
    one, two = (detlint.record(net().train(), image(), seed=seed) for seed in (0, 1))
    found = detlint.compare(one, two)
    assert found.first is not None
    assert found.first.event.module == "drop"
    assert found.first.event.rng is not None
    assert subjects(found)[0] == "seed"
    again = detlint.compare(one, detlint.record(net().train(), image(), seed=0))
    assert again.verdict is Verdict.BITWISE


def test_another_argument_is_told() -> None:
    found = detlint.compare(detlint.record(net(), image()), detlint.record(net(eps=0.1), image()))
    assert found.first is not None
    assert found.first.event.op == "aten.native_group_norm.default"
    assert subjects(found)[0] == "arguments"
    assert found.explanations[0].first == "eps=1e-05"
    assert found.explanations[0].second == "eps=0.1"
    assert found.first.verdict is Verdict.BEYOND_ROUNDING


def test_gradients_that_only_one_record_has_are_missing_and_no_difference() -> None:
    found = detlint.compare(detlint.record(net(), image()), detlint.record(net(), image(), backward=True))
    assert found.verdict is Verdict.BITWISE
    assert found.missing == ("only one record has a backward pass",)
    assert not found.ok


# ---- values and their digests ----------------------------------------------------------------------------------------


def test_indices_that_are_returned_count_and_those_that_nobody_reads_do_not() -> None:
    one, two = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 1.0])
    returned = detlint.compare(detlint.record(torch.sort, one), detlint.record(torch.sort, two))
    assert returned.first is not None
    assert returned.first.event.op == "aten.sort.default"
    assert returned.verdict is Verdict.BEYOND_ROUNDING

    def values(x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x).values.exp()

    unread = detlint.compare(detlint.record(values, one), detlint.record(values, two))
    assert unread.departures == ()
    assert unread.verdict is Verdict.BITWISE


def test_layouts_compare() -> None:
    flat, last = image(), image().contiguous(memory_format=torch.channels_last)
    found = detlint.compare(detlint.record(net(), flat), detlint.record(net(), last))
    assert "inputs" not in subjects(found)
    assert found.verdict in (Verdict.BITWISE, Verdict.ROUNDING)


def test_what_becomes_nan_is_beyond_rounding() -> None:
    def root(x: torch.Tensor) -> torch.Tensor:
        return x.sqrt()

    found = detlint.compare(detlint.record(root, torch.ones(3)), detlint.record(root, -torch.ones(3)))
    assert found.first is not None
    assert found.first.gap.note == "0 NaN and 0 infinite against 3 NaN and 0 infinite"
    assert found.first.verdict is Verdict.BEYOND_ROUNDING


def test_a_single_wrong_value_is_seen_in_digests_whatever_the_values_kept() -> None:
    x = torch.rand(10_000, generator=torch.Generator().manual_seed(0))
    other = x.clone()
    other[5] = other[5] / 2  # not among the positions kept
    found = detlint.compare(detlint.record(torch.neg, x), detlint.record(torch.neg, other))
    assert found.verdict is not Verdict.BITWISE
    assert subjects(found) == ["inputs"]


def test_digests_of_a_device_are_replaced_by_values() -> None:
    one = detlint.record(net(), image())
    results = tuple(
        tuple(None if item is None else replace(item, device_digest=True, digest=1) for item in row)
        for row in one.results
    )
    found = detlint.compare(one, replace(one, results=results))
    assert found.departures == ()
    assert "by their statistics" in found.blind_spots[0]


# ---- what comes out --------------------------------------------------------------------------------------------------


def test_json_follows_its_schema(tmp_path: Path) -> None:
    checker = validator("comparison.json")
    passes = detlint.record(net(), image()), detlint.record(net(1).train(), image(), backward=True)
    steps = train(tmp_path / "one"), train(tmp_path / "two", rate=1.0)
    for one, two in (passes, (passes[0], passes[0]), steps):
        document = detlint.compare(one, two).to_dict()
        checker.validate(document)


def test_text_says_what_departs_and_why() -> None:
    with without_onednn():
        two = detlint.record(net(eps=0.1), image())
    text = str(detlint.compare(detlint.record(net(eps=0.1, activation=torch.tanh), image()), two))
    lines = text.splitlines()
    assert lines[0] == "FAILED the first record against the second record: different beyond rounding"
    assert "first departure" in text
    assert "could explain it, the first one most of all (nothing of it was tried)" in lines


def test_names_cannot_write_to_the_terminal() -> None:
    one = replace(detlint.record(net(), image()), model="\x1b[31mred")
    assert "\x1b" not in detlint.compare(one, one).to_text()


def test_only_like_is_compared_with_like(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds one pass, the second record the steps of a training"):
        detlint.compare(detlint.record(net(), image()), train(tmp_path / "one"))


def test_a_misspelt_allowance_is_a_clear_error() -> None:
    record = detlint.record(torch.neg, torch.ones(1))
    with pytest.raises(UsageError, match="did you mean 'rounding'"):
        detlint.compare(record, record, allow="roundings")


def test_what_is_no_record_and_no_path_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="expected a record or the path of one, got int"):
        detlint.compare(1, 2)  # type: ignore[arg-type]
