"""Does a sample's result depend on the batch? Models that do in one known way, and models that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import detlint
from detlint.runtime.batching import sample_windows
from detlint.runtime.flags import Flags, using
from detlint.runtime.report import Cause, ProbeResult, Verdict

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available() or torch.get_num_threads() < 2,
    reason="another convolution for another batch needs oneDNN and two CPU threads",
)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


IMAGES = noise(4, 3, 32, 32)


def asked(model: Callable[..., object], sample: object = IMAGES, **options: Any) -> ProbeResult:
    return detlint.audit(model, sample, probes="batch", **options).probes["batch"]


def told(result: ProbeResult) -> str:
    return "\n".join(result.evidence)


def convolutions(*more: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.BatchNorm2d(32), *more
    )


@needs_onednn
def test_a_convolution_that_rounds_otherwise_is_named_and_so_is_its_library() -> None:
    result = asked(convolutions().eval())
    assert result.verdict is Verdict.ROUNDING
    assert result.kind is Cause.SHAPE
    assert result.first_divergence is not None
    assert (result.first_divergence.op, result.first_divergence.module) == ("aten.convolution.default", "0")
    assert result.divergence is not None
    assert result.divergence.confirmed
    assert result.cause.endswith("in a batch of 4 than alone; it vanishes without oneDNN")
    assert result.remedy == "torch.backends.mkldnn.enabled = False"
    assert "oneDNN ran convolution " in told(result)
    with using(Flags(mkldnn_enabled=False)):
        assert asked(convolutions().eval()).verdict is Verdict.BITWISE


@needs_onednn
def test_the_figures_are_those_of_an_independent_computation() -> None:
    model = convolutions(nn.ReLU(), nn.Conv2d(32, 8, 1)).eval()
    result = asked(model)
    with torch.no_grad():
        batch = model(IMAGES).numpy()
        singly = np.concatenate([model(image[None]).numpy() for image in IMAGES])
    gap = np.abs(batch.astype(np.float64) - singly.astype(np.float64))
    assert gap.max() > 0
    for percent, value in result.percentiles.items():
        assert value == np.percentile(gap, percent, method="higher")
    (difference,) = result.outputs
    assert difference.differing == np.count_nonzero(batch != singly)
    assert difference.numel == batch.size
    assert result.max_abs == gap.max()
    assert result.psnr == pytest.approx(10 * np.log10(np.abs(batch).max().astype(float) ** 2 / np.square(gap).mean()))
    assert gap[difference.place] == gap.max()


def test_models_that_take_each_value_by_itself_are_bitwise() -> None:
    result = asked(lambda x: {"a": x.relu(), "b": x.amax((1, 2, 3))})
    assert result.verdict is Verdict.BITWISE
    for size in (2, 3, 4):
        assert f"batch of {size} against one by one" in told(result)
    assert "among neighbours of NaN" in told(result)


def test_batch_statistics_are_beyond_rounding_and_gone_after_eval() -> None:
    model = convolutions().train()
    before = model[1].running_mean.clone()  # type: ignore[union-attr, operator]
    result = asked(model)
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.first_divergence is not None
    assert (result.first_divergence.op, result.first_divergence.module) == ("aten.native_batch_norm.default", "1")
    assert "samples depend on each other there" in result.cause
    assert result.remedy == "call model.eval()"
    assert all(module.training for module in model.modules())
    assert torch.equal(model[1].running_mean, before)  # type: ignore[arg-type, index]


def test_a_size_from_which_on_all_is_the_same_is_found() -> None:
    """Only a sample alone is computed otherwise, so a second one beside it helps."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum(-1) if len(x) > 1 else x.double().sum(-1).float()

    result = asked(model, noise(5, 1000))
    assert result.verdict is Verdict.ROUNDING
    assert result.divergence is not None
    assert result.divergence.sequence_forks
    assert "a sample gets the same bits in all batches of 2 and more" in result.evidence
    assert result.remedy == "give the model at least 2 samples at a time"


def test_where_one_sample_is_refused_pairs_are_compared() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    result = asked(model, noise(5, 8))
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.first_divergence is not None
    assert result.first_divergence.op == "aten.native_batch_norm.default"
    assert "batch of 5 against two by two: beyond-rounding" in told(result)
    result = asked(model, noise(2, 8))
    assert result.verdict is Verdict.SKIPPED
    assert "Expected more than 1 value per channel" in result.reason


@pytest.mark.parametrize(
    ("model", "op"),
    [
        (lambda x: F.softmax(x.flatten(1), dim=0), "aten._softmax.default"),
        (lambda x: x * 2 - x.mean(0), "aten.mean.dim"),
        (lambda x: x.cumsum(0), "aten.cumsum.default"),
        (lambda x: x + 1e-12 * x.flip(0), "aten.flip.default"),
        (lambda x: x + x[0], "aten.select.int"),
        (lambda x: x / x.abs().max(), "aten.max.default"),
    ],
    ids=["softmax", "mean", "cumsum", "tiny", "first", "scale"],
)
def test_the_operator_that_lets_neighbours_in_is_named(model: Callable[..., object], op: str) -> None:
    """However little of a neighbour comes through, NaN does."""
    result = asked(model, noise(4, 6, 8))
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.first_divergence is not None
    assert result.first_divergence.op == op
    assert "depend on each other" in result.cause


def test_statistics_of_each_sample_are_no_dependence() -> None:
    model = nn.Sequential(nn.InstanceNorm2d(3), nn.GroupNorm(1, 3), nn.LayerNorm(32))
    assert asked(model).verdict in (Verdict.BITWISE, Verdict.ROUNDING)


def test_dropout_is_told_from_neighbours() -> None:
    result = asked(nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 8)).train(), noise(6, 8))
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.kind is Cause.RANDOMNESS
    assert result.remedy == "call model.eval()"
    assert "the same bits: sample 3 among copies of itself; sample 3 among neighbours" in told(result)


def test_other_operators_for_another_batch_are_told() -> None:
    result = asked(lambda x: x.cos().sum(-1) if len(x) < 4 else (x + 1).cos().sum(-1), noise(4, 8))
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.divergence is not None
    assert result.divergence.sequence_forks
    assert result.cause.startswith("other operators run in a batch of 4 than alone: aten.add.Tensor")
    assert "the first operator after that to give a sample other values: aten.cos.default" in told(result)


def test_a_place_in_the_batch_that_counts_is_told() -> None:
    result = asked(lambda x: x * torch.arange(len(x))[:, None], noise(4, 8))
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.cause.startswith("aten.arange.default gives a sample another number")
    assert asked(lambda x: x[torch.arange(len(x)), 1], noise(4, 8)).verdict is Verdict.BITWISE


class Experts(nn.Module):
    """Sends each token to one of two layers: how many go together depends on the batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.layers = nn.Linear(64, 2), nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        out, chosen = torch.zeros_like(tokens), self.gate(tokens).argmax(-1)
        for number, layer in enumerate(self.layers):
            (where,) = torch.where(chosen == number)
            out = out.index_add(0, where, layer(tokens[where]))
        return out.view_as(x)


def test_what_cannot_be_followed_sample_by_sample_is_said() -> None:
    result = asked(Experts(), noise(7, 5, 64))
    assert result.verdict in (Verdict.BITWISE, Verdict.ROUNDING)  # up to the kernels of this machine
    if result.verdict is Verdict.ROUNDING and result.divergence is not None and not result.divergence.sequence_forks:
        assert "aten.index_add" in result.cause
        assert "through which samples cannot be followed" in result.cause


class Scores(nn.Module):
    """Takes the batch in different dimensions, a table that all samples share, and returns more than samples."""

    def forward(self, steps: torch.Tensor, keep: torch.Tensor, *, table: torch.Tensor) -> dict[str, torch.Tensor]:
        own = steps.transpose(0, 1) * keep[:, :, None]
        return {"scores": own + table, "last": own[None, :, -1], "loss": own.square().mean()}


def test_inputs_that_count_samples_elsewhere_or_not_at_all() -> None:
    sample = detlint.Sample((noise(5, 3, 8), noise(3, 5)), {"table": noise(5, 8)})
    result = asked(Scores(), sample, batch_dim=1)
    assert result.verdict is Verdict.BITWISE
    assert result.evidence[:2] == (
        "dimension 1 of args[0] and dimension 0 of args[1] counts 3 samples; shared: table",
        "not compared, as it does not count samples: loss",
    )


def test_layers_that_take_time_first() -> None:
    lstm = nn.LSTM(8, 16)
    result = asked(lstm, noise(7, 3, 8))
    assert "dimension 1 of args[0] counts 3 samples" in told(result)
    assert result.verdict in (Verdict.BITWISE, Verdict.ROUNDING)
    mixed = asked(lstm, noise(7, 3, 8), batch_dim=0)
    assert mixed.verdict is Verdict.BEYOND_ROUNDING


def test_attention_across_the_batch() -> None:
    """The usual mistake: batch first into a layer that takes time first."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0).eval()
    result = asked(model, noise(4, 6, 16), batch_dim=0)
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.first_divergence is not None
    assert "attention" in result.first_divergence.op or "bmm" in result.first_divergence.op


def test_a_dimension_where_samples_mix_is_still_the_batch() -> None:
    """Along dimension 1 nothing mixes; but no layer takes time first, so dimension 0 counts samples."""
    assert asked(nn.Softmax(dim=0), noise(4, 8)).verdict is Verdict.BEYOND_ROUNDING


def test_a_batch_is_made_of_one_sample() -> None:
    result = asked(nn.Sequential(nn.Flatten(), nn.Softmax(dim=0)), IMAGES[:1])
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert result.evidence[0] == "dimension 0 of args[0] counts 4 samples, made of one by rolling its last dimension"
    tokens = torch.randint(0, 50, (1, 9), generator=torch.Generator().manual_seed(0))
    assert asked(nn.Embedding(50, 4), tokens).verdict is Verdict.BITWISE


def test_nothing_to_ask() -> None:
    assert "no output shrinks" in asked(lambda x: x.sum(), noise(4, 8)).reason
    assert asked(lambda x: x + 1, torch.tensor(1.0)).verdict is Verdict.SKIPPED
    assert "the model raises ValueError: squares only" in asked(only_squares, noise(4, 4)).reason


def only_squares(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] != x.shape[1]:
        raise ValueError("squares only")
    return x * 2


@pytest.mark.parametrize(
    ("model", "sample", "reason"),
    [
        pytest.param(
            lambda x: (x * 2).to_sparse(),
            torch.ones(4, 8),
            "the outputs cannot be compared: NotImplementedError",
            id="sparse",
        ),
        pytest.param(lambda x: x * 2, torch.ones(0, 8), "none has a dimension that counts any", id="no-samples"),
    ],
)
def test_what_cannot_be_cut_into_samples_is_skipped(
    model: Callable[..., object], sample: torch.Tensor, reason: str
) -> None:
    result = asked(model, sample)
    assert result.verdict is Verdict.SKIPPED
    assert reason in result.reason


def test_where_nothing_can_be_cut_along_dimension_0_the_next_is_tried() -> None:
    def four(x: torch.Tensor) -> torch.Tensor:
        if len(x) != 4:
            raise ValueError("four only")
        return x * 2

    result = asked(four, noise(4, 8))
    assert result.evidence[0] == "dimension 1 of args[0] counts 8 samples"
    assert result.evidence[1].endswith("with 1 the model raises ValueError: four only")


def test_a_model_that_refuses_some_trials_is_asked_the_others() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        if len(x) == 3 or bool(x.isnan().any()):
            raise ValueError("not so")
        return x * 2

    result = asked(refuses, noise(4, 8))
    assert result.verdict is Verdict.BITWISE
    assert "batch of 3 against one by one: not tried, the model raises ValueError: not so" in told(result)
    assert "among neighbours of NaN: not tried" in told(result)


def test_samples_of_another_shape_are_not_called_equal() -> None:
    """Cut to the longest of the batch: a shorter one alone comes out shorter."""

    def model(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return x[:, : int(lengths.max())]

    result = asked(model, (noise(4, 6), torch.tensor([6, 3, 6, 6])))
    assert "batch of 4 against one by one: not tried, output of sample 1 without company: (1, 3) does not fit" in told(
        result
    )


def test_gradients_are_left_out_and_said_to_be() -> None:
    result = asked(nn.Linear(8, 4), noise(5, 8), backward=True)
    assert result.verdict in (Verdict.BITWISE, Verdict.ROUNDING)
    assert "gradients add up over the batch and were not compared" in result.evidence


def test_windows_of_a_sample() -> None:
    assert sample_windows((4, 3), (1, 3), 4, 2, 1) == ((slice(2, 3), slice(None)),)
    assert sample_windows((20,), (5,), 4, 1, 1) == ((slice(5, 10),), (slice(1, None, 4),))
    assert sample_windows((4, 4), (1, 1), 4, 3, 1) == ((slice(3, 4), slice(3, 4)),)
    assert sample_windows((20, 7), (10, 7), 4, 2, 2) == ((slice(10, 20), slice(None)),)
    assert sample_windows((4, 3), (1, 2), 4, 0, 1) == ()
    assert sample_windows((4, 3), (3,), 4, 0, 1) == ()


def test_lengths_belong_to_samples_though_the_longest_decides() -> None:
    """A vector of the batch's size may be something else: here results move with samples and lengths together."""

    def pooled(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return x[..., : int(lengths.max())].mean(-1)

    lengths = torch.tensor([12, 5, 9, 3])
    frames = noise(4, 6, 12) * (torch.arange(12) < lengths[:, None, None])
    result = asked(pooled, (frames, lengths))
    assert result.verdict is Verdict.BEYOND_ROUNDING
    assert "counts 4 samples; shared" not in told(result)
