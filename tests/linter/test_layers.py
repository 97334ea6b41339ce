"""`rules/layers.toml` against the installed torch: every layer exists, with these parameters and defaults."""

from __future__ import annotations

import inspect
from ast import literal_eval

import pytest
import tomli

from detlint.layers import Layer, ReadyMade, load_layers
from detlint.tables import RULES_FOLDER

torch = pytest.importorskip("torch")


def torch_layers() -> list[Layer]:
    table = tomli.loads((RULES_FOLDER / "layers.toml").read_text("utf-8"))
    calls = [call for entry in table["layer"] for call in entry["calls"]]
    names = [call.partition("(")[0] for call in calls if call.startswith("torch.nn.")]
    layers = [load_layers().layers.get(name) for name in names]
    return [layer for layer in layers if layer is not None]


@pytest.mark.parametrize("layer", [pytest.param(layer, id=layer.call.name) for layer in torch_layers()])
def test_layer_is_torchs(layer: Layer) -> None:
    constructor = getattr(torch.nn, layer.call.name.rpartition(".")[2])
    # Recurrent layers hide theirs behind *args; their base class states it.
    signature = inspect.signature(constructor)
    if "args" in signature.parameters:
        signature = inspect.signature(torch.nn.RNNBase)
    defaults = {parameter.name: parameter.default for parameter in layer.call.parameters}
    if layer.rate:
        assert layer.rate in signature.parameters
        assert float(signature.parameters[layer.rate].default) == float(literal_eval(str(defaults[layer.rate])))


@pytest.mark.parametrize(
    ("made", "name", "expected"),
    [
        pytest.param(ReadyMade(True), None, True, id="one model"),
        pytest.param(ReadyMade(True, "name", excluded=("vit_*",)), "resnet50", True, id="named"),
        pytest.param(ReadyMade(True, "name", excluded=("vit_*",)), "vit_tiny", False, id="excluded"),
        pytest.param(ReadyMade(True, "name", excluded=("vit_*",)), None, True, id="name not known"),
        pytest.param(
            ReadyMade(True, "repo", only=("pytorch/vision*",)), "pytorch/vision:v0.10", True, id="in the list"
        ),
        pytest.param(ReadyMade(True, "repo", only=("pytorch/vision*",)), "someone/else", None, id="not in the list"),
        pytest.param(ReadyMade(True, "repo", only=("pytorch/vision*",)), None, None, id="list, name not known"),
    ],
)
def test_which_ready_made_model(made: ReadyMade, name: str | None, expected: bool | None) -> None:
    assert made.holds_for(name) is expected
