"""Two records really made under different settings: what departs first is named, and the true cause stands first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.errors import RecordError, UsageError
from detlint.runtime.report import Verdict
from tests.runtime.schemas import validator


class Net(nn.Module):
    def __init__(self, *, eps: float = 1e-5, activation: object = torch.relu) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.GroupNorm(2, 8, eps=eps)
        self.activation = activation
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.activation(self.norm(self.conv(x)))).mean((2, 3)))  # type: ignore[operator]


def net(seed: int = 0, **options: object) -> Net:
    torch.manual_seed(seed)
    return Net(**options).eval()  # type: ignore[arg-type]


def image(seed: int = 1, size: int = 24) -> torch.Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(seed))


def subjects(comparison: detlint.RecordComparison) -> list[str]:
    return [item.subject for item in comparison.explanations]


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def without_onednn() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


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


# ---- other sequences of operators ------------------------------------------------------------------------------------


def test_other_operators_for_the_same_work_are_aligned() -> None:
    weight = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))

    def one(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.linear(torch.relu(x), weight).exp()

    def two(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x)[:, None] * weight).sum(-1).exp()

    first = detlint.record(one, (x, weight))
    found = detlint.compare(first, detlint.record(two, (x, weight)))
    assert found.verdict in (Verdict.BITWISE, Verdict.ROUNDING)
    (stretch,) = found.stretches
    assert [event.op for event in stretch.first] == ["aten.t.default", "aten.mm.default"]
    assert stretch.second[-1].op == "aten.sum.dim_IntList"
    assert found.pairs == len(first.trace) - len(stretch.first)  # relu, exp, and the detach of the output
    if found.first is not None:
        assert found.first.stretch == stretch
        assert found.first.same_inputs
        assert subjects(found) == ["operators"]


def test_extra_operators_that_change_nothing_are_no_departure() -> None:
    def one(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).exp().sum()

    def two(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).clone().exp().sum()

    found = detlint.compare(detlint.record(one, image()), detlint.record(two, image()))
    assert found.verdict is Verdict.BITWISE
    assert found.departures == ()
    assert [event.op for stretch in found.stretches for event in stretch.second] == ["aten.clone.default"]


def test_another_operator_is_named_with_its_line() -> None:
    found = detlint.compare(detlint.record(net(), image()), detlint.record(net(activation=torch.tanh), image()))
    assert found.first is not None
    assert (found.first.event.op, found.first.other.op) == ("aten.relu.default", "aten.tanh.default")
    assert found.first.same_inputs
    assert found.first.event.source is not None
    assert found.first.event.source.path == __file__


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


# ---- training --------------------------------------------------------------------------------------------------------


def train(
    path: Path, *, order: tuple[int, ...] = (0, 1, 2, 3), rate: float = 0.05, count: int = 2, seed: int = 0
) -> detlint.Record:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 22 * 22, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with threads(count), detlint.Recorder(path, model) as recorder:
        for number in order:
            loss = model(image(number)).square().mean()
            loss.backward()
            optimizer.step()
            recorder.step(model, loss=loss, inputs=image(number))
            optimizer.zero_grad()
    return recorder.record()


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


def test_gradients_that_only_one_record_has_are_missing_and_no_difference() -> None:
    found = detlint.compare(detlint.record(net(), image()), detlint.record(net(), image(), backward=True))
    assert found.verdict is Verdict.BITWISE
    assert found.missing == ("only one record has a backward pass",)
    assert not found.ok


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
