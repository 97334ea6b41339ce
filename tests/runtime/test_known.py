"""Under fake tensors a model can ask for what follows from its sample, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn

import detlint
from detlint.errors import AuditError


class Model(nn.Module):
    """Runs a function; its weight is never known."""

    def __init__(self, function: Callable[[nn.Parameter, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.weight, x)


def imagined(
    function: Callable[[nn.Parameter, torch.Tensor], torch.Tensor], x: torch.Tensor | None = None
) -> detlint.AuditReport:
    return detlint.audit(Model(function), torch.tensor([3, 0, 2, 0]) if x is None else x, execute=False)


def _by_item(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return weight.expand(int(x.max().item()), 4).clone()


def _by_branch(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return weight.new_ones(3) if (x == 0).any() else weight.new_ones(2)


def _by_mask(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[x > 0], torch.arange(1)])


def _by_constant(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return weight.new_ones(int((x + torch.tensor([0, 3, 0, 0])).unique().numel()))


def _through_a_written_view(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(2, 2, dtype=torch.long)
    mask.view(-1)[1:] += 1
    return weight.new_ones(int(mask.sum()))


def _by_lengths(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return weight.new_ones(len(torch.arange(4).repeat_interleave(x)) - 2)


@pytest.mark.parametrize(
    "function", [_by_item, _by_branch, _by_mask, _by_constant, _through_a_written_view, _by_lengths]
)
def test_what_follows_from_the_sample_is_known(
    function: Callable[[nn.Parameter, torch.Tensor], torch.Tensor],
) -> None:
    report = imagined(function)
    assert report.events[-1].outputs[0].shape[0] == 3
    assert not any("not known" in spot for spot in report.blind_spots)
    assert [event.op for event in report.events] == [
        event.op for event in detlint.audit(Model(function), torch.tensor([3, 0, 2, 0]), probes=()).events
    ]


def _of_a_weight(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return weight.new_ones(int(weight.sum().item()))


def _drawn(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return weight.new_ones(int(torch.randint(1, 4, (1,)).item()))


def _unwritten(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    return weight.new_ones(int(torch.empty(1, dtype=torch.long).item()))


def _overwritten(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
    lengths = torch.zeros(4, dtype=torch.long)
    lengths[:2].copy_(weight.detach()[:2])
    return weight.new_ones(int(lengths.sum().item()))


@pytest.mark.parametrize("function", [_of_a_weight, _drawn, _unwritten, _overwritten])
def test_what_only_a_real_run_has_is_not_made_up(
    function: Callable[[nn.Parameter, torch.Tensor], torch.Tensor],
) -> None:
    with pytest.raises(AuditError, match=rf"asks for a value at {__file__}:\d+ .*only a real run has"):
        imagined(function)


def test_floats_of_the_sample_are_not_known() -> None:
    with pytest.raises(AuditError, match="only a real run has"):
        imagined(lambda weight, x: weight.new_ones(int(x.sum().item())), torch.ones(4))


def test_checks_over_unknown_values_are_taken_to_pass_and_named() -> None:
    def checked(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
        assert torch.isfinite(weight).all()
        return weight - 1 if torch.isinf(weight).any() else weight + 1

    report = imagined(checked)
    assert {"aten.add", "aten.sub"} & {event.name for event in report.events} == {"aten.add"}
    line = checked.__code__.co_firstlineno
    (spot,) = [spot for spot in report.blind_spots if "not known" in spot]
    assert f"{__file__}:{line + 1}" in spot
    assert f"{__file__}:{line + 2}" in spot


def test_masks_over_unknown_values_select_everything() -> None:
    report = imagined(lambda weight, x: weight[(weight > 0.5).nonzero().squeeze(1)] + 1)
    assert report.events[-1].outputs[0].shape == (4,)
    assert any("masks to select everything" in spot for spot in report.blind_spots)


def test_constants_of_the_model_are_not_written_to() -> None:
    constant = torch.zeros(2, dtype=torch.long)

    def writes(weight: nn.Parameter, x: torch.Tensor) -> torch.Tensor:
        constant.view(-1).add_(1)
        return weight + 1

    imagined(writes)
    assert constant.tolist() == [0, 0]


def _transformer(kind: str, **config: Any) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, kind)
    common = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.device("meta"):
        built: nn.Module = model(model.config_class(**{**common, **config})).eval()
    return built


def _tokens(*, padded: bool = False) -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, 5:] = 0 if padded else 1
    return {"input_ids": torch.arange(5, 21).view(2, 8), "attention_mask": mask}


TRANSFORMERS: dict[str, tuple[dict[str, Any], Mapping[str, torch.Tensor]]] = {
    "BertModel": ({}, _tokens()),
    "BertForSequenceClassification": ({}, _tokens(padded=True)),
    "GPT2LMHeadModel": ({"n_embd": 32, "n_layer": 1, "n_head": 2}, _tokens()),
    "LlamaForCausalLM": ({}, _tokens(padded=True)),
    "T5ForConditionalGeneration": (
        {"d_model": 32, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0},
        {**_tokens(), "labels": torch.ones(2, 4, dtype=torch.long)},
    ),
    "ViTModel": ({"image_size": 32}, {"pixel_values": torch.zeros(1, 3, 32, 32)}),
}


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_transformers_run_the_same_operators_on_meta(kind: str) -> None:
    config, sample = TRANSFORMERS[kind]
    model = _transformer(kind, **config)
    imagined = detlint.audit(model, sample, execute=False)
    real = detlint.audit(type(model)(model.config).eval(), sample, probes=())
    assert [event.op for event in imagined.events] == [event.op for event in real.events]
    assert not any("not known" in spot for spot in imagined.blind_spots)


def test_a_mixture_of_experts_runs_all_of_them() -> None:
    model = _transformer("MixtralForCausalLM", num_local_experts=3, num_key_value_heads=2)
    report = detlint.audit(model, _tokens(), execute=False)
    ran = {event.module for event in report.events if ".experts." in event.module}
    assert {path.split(".experts.")[1].split(".")[0] for path in ran} == {"0", "1", "2"}
    assert any(finding.op == "aten.index_add_.default" for finding in report.findings)
