"""The tracer records what runs, where it was called from, and changes nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from detlint.runtime.events import OpEvent, Phase, Trace
from detlint.runtime.memory import Memory
from detlint.runtime.tracer import Tracer


def traced(function: Callable[[], object], *roots: nn.Module, canonical: bool = False) -> tuple[Trace, object]:
    with Tracer(roots, memory=Memory(canonical=canonical)) as tracer:
        result = function()
    return tracer.trace(), result


def read(memory: Memory, tensor: torch.Tensor) -> int | None:
    return memory.read(tensor, memory.block(tensor)).digest


def event_of(trace: Trace, op: str) -> OpEvent:
    found = [event for event in trace.events if event.name == op]
    assert found, f"{op} not among {[event.op for event in trace.events]}"
    return found[0]


def line_of(function: Callable[..., object], mark: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(place for place, line in enumerate(lines) if f"# {mark}" in line)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()  # layer
        x = self.drop(x)  # drop
        return x[torch.tensor([0, 0, 1])]  # gather


def test_events_name_module_line_phase_and_shapes() -> None:
    block = Block()
    trace, _ = traced(lambda: block(torch.ones(3, 4)).sum().backward(), block)
    products = [event for event in trace.events if event.name == "aten.addmm"]
    assert [event.module for event in products] == ["layers.0", "layers.1"]
    assert {event.module_type for event in products} == {"Linear"}
    assert {event.source.line for event in products if event.source} == {line_of(Block.forward, "layer")}
    assert products[0].outputs[0].shape == (3, 4)
    assert products[0].outputs[0].dtype == "float32"

    gather = event_of(trace, "aten.index")
    assert (gather.module, gather.phase, gather.source and gather.source.path) == ("", Phase.FORWARD, __file__)

    scatter = event_of(trace, "aten.index_put")
    assert (scatter.phase, scatter.source and scatter.source.line) == (
        Phase.BACKWARD,
        line_of(Block.forward, "gather"),
    )
    assert scatter.arguments["accumulate"] is True
    weights = [event for event in trace.events if event.name == "aten.mm" and event.phase is Phase.BACKWARD]
    assert [event.module for event in weights] == ["layers.1", "layers.1", "layers.0"]
    assert [call.path for call in trace.modules] == ["", "layers.0", "layers.1", "drop"]


def test_random_draws_are_told_with_generator_and_size() -> None:
    block = Block()
    trace, _ = traced(lambda: block(torch.ones(3, 4)), block)
    (draw,) = [event for event in trace.events if event.rng is not None]
    assert (draw.module, draw.rng and draw.rng.generator, draw.rng and draw.rng.elements) == ("drop", "cpu", 12)
    assert draw.source is not None
    assert draw.source.line == line_of(Block.forward, "drop")
    block.eval()
    trace, _ = traced(lambda: block(torch.ones(3, 4)), block)
    assert not [event for event in trace.events if event.rng is not None]


def test_generators_of_the_caller_are_told_apart() -> None:
    generator = torch.Generator()
    trace, _ = traced(lambda: torch.rand(5, generator=generator))
    assert trace.events[0].rng is not None
    assert trace.events[0].rng.generator == "given"


def outputs_of(function: Callable[[], torch.Tensor], *, canonical: bool = False) -> list[int | None]:
    trace, _ = traced(function, canonical=canonical)
    return [meta.digest for meta in trace.events[-1].outputs]


BASE = torch.arange(24.0).reshape(4, 6)
WRITES: dict[str, Callable[[torch.Tensor], object]] = {
    "in place": lambda x: x.mul_(2),
    "through a view": lambda x: x[1:3].mul_(2),
    "through a view of a view": lambda x: x.t()[2:][1].fill_(7),
    "out=": lambda x: torch.mul(BASE, 2, out=x),
    "out= of a slice": lambda x: torch.mul(BASE[0], 2, out=x[0]),
    "copy_": lambda x: x.copy_(BASE + 5),
    "index_put_": lambda x: x.__setitem__((torch.tensor([0, 2]),), 9.0),
    "foreach": lambda x: torch._foreach_add_([x[0], x[1]], 1.0),
    "masked": lambda x: x.masked_fill_(x > 3, 0.0),
    "set_ elsewhere": lambda x: x.set_(BASE.clone() * 3),
    "data": lambda x: setattr(x, "data", BASE * 5),
    "zero_": lambda x: x.zero_(),
}
REBINDS = ("set_ elsewhere", "data")


@pytest.mark.parametrize("canonical", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_reads_after_writes_see_the_new_bytes(write: str, canonical: bool) -> None:
    """Remembered digests must be those that a fresh look at the bytes gives, whatever was written through."""

    def run() -> torch.Tensor:
        x = BASE.clone()
        view = x[1:]
        x.sum(), view.sum()  # both are known now
        WRITES[write](x)
        return torch.stack([x.sum(), view.sum(), x.t().sum(), x.flatten().sum()])

    trace, _ = traced(run, canonical=canonical)
    with torch.utils._python_dispatch._disable_current_modes():
        x = BASE.clone()
        view = x[1:]
        WRITES[write](x)
        expected = [read(Memory(canonical=canonical), tensor) for tensor in (x, view)]
    sums = [event for event in trace.events if event.name == "aten.sum"]
    assert sums[2].inputs[0].digest == expected[0]
    if write in REBINDS:  # the view stays on the old memory, which nothing wrote to
        assert sums[3].inputs[0].digest == sums[1].inputs[0].digest
    else:
        assert sums[3].inputs[0].digest == expected[1]


def test_mutated_arguments_are_outputs() -> None:
    def run() -> None:
        x = torch.zeros(3)
        torch._foreach_add_([x], 1.0)

    trace, _ = traced(run)
    added = trace.events[-1]
    assert added.mutated == ("self",)
    assert len(added.outputs) == 1
    assert added.outputs[0].digest != added.inputs[0].digest


def test_running_statistics_count_as_written_in_train_mode_only() -> None:
    norm = nn.BatchNorm1d(4)
    trace, _ = traced(lambda: norm(torch.ones(3, 4)), norm)
    assert event_of(trace, "aten.native_batch_norm").mutated == ("running_mean", "running_var")
    norm.eval()
    trace, _ = traced(lambda: norm(torch.ones(3, 4)), norm)
    assert event_of(trace, "aten.native_batch_norm").mutated == ()


def test_fresh_memory_is_known_as_unfilled_until_written() -> None:
    def run() -> None:
        x = torch.empty(4)
        x[:2] = 1.0
        x.neg()
        x.zero_()
        x.abs()

    trace, _ = traced(run)
    allocated = event_of(trace, "aten.empty")
    assert allocated.uninitialized
    assert allocated.outputs[0].digest is None
    assert event_of(trace, "aten.neg").inputs[0].unfilled == allocated.index
    assert event_of(trace, "aten.abs").inputs[0].unfilled is None


def test_origins_lead_back_to_the_event_that_wrote() -> None:
    trace, _ = traced(lambda: (torch.ones(3) + 1).view(1, 3).neg())
    added, negated = event_of(trace, "aten.add"), event_of(trace, "aten.neg")
    assert negated.inputs[0].origin == added.index
    assert added.inputs[0].origin == 0


def test_storage_that_was_freed_and_given_out_again_is_new() -> None:
    """An address says nothing: the next tensor may get the memory of one that died."""
    memory = Memory()
    digests = set()
    for value in range(50):
        tensor = torch.full((1000,), float(value))
        digests.add(read(memory, tensor))
        del tensor
    assert len(digests) == 50


def test_a_view_is_not_digested_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(100, 100)
    memory = Memory()
    read(memory, x)
    monkeypatch.setattr(memory._digester, "digest", lambda tensor: pytest.fail("digested twice"))
    assert read(memory, x.t()) == read(memory, x.view(-1)) == read(memory, x)


class Plain(TorchDispatchMode):
    """Notes names only."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def same_with_and_without(model: nn.Module, *args: torch.Tensor) -> None:
    torch.manual_seed(0)
    with Plain() as plain:
        one = model(*args)
    torch.manual_seed(0)
    with Tracer([model]) as tracer:
        two = model(*args)
    assert [event.op for event in tracer.trace().events] == plain.names
    assert torch.equal(one, two)
    torch.manual_seed(0)
    assert torch.equal(model(*args), two)


def test_fused_encoder_layers_stay_fused() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    with torch.no_grad():
        same_with_and_without(layer, torch.randn(2, 5, 16))
        trace, _ = traced(lambda: layer(torch.randn(2, 5, 16)), layer)
    assert "aten._transformer_encoder_layer_fwd" in [event.name for event in trace.events]


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3)), id="conv"),
        pytest.param(lambda: nn.MultiheadAttention(8, 2), id="attention"),
        pytest.param(lambda: nn.LSTM(8, 4, 2, dropout=0.5), id="lstm"),
    ],
)
def test_same_operators_and_bits_with_and_without_the_tracer(build: Callable[[], nn.Module]) -> None:
    torch.manual_seed(1)
    module = build()
    if isinstance(module, nn.Sequential):
        same_with_and_without(module, torch.randn(2, 3, 8, 8))
        return

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result = self.inner(x, x, x) if isinstance(module, nn.MultiheadAttention) else self.inner(x)
            return result[0]

    same_with_and_without(First(), torch.randn(5, 2, 8))


def test_inference_mode_keeps_composite_operators() -> None:
    layer = nn.Linear(3, 3)
    with torch.inference_mode():
        trace, _ = traced(lambda: layer(torch.ones(2, 3)), layer)
    assert "aten.linear" in [event.name for event in trace.events]
    with torch.no_grad():
        trace, _ = traced(lambda: layer(torch.ones(2, 3)), layer)
    assert "aten.addmm" in [event.name for event in trace.events]


def test_autocast_runs_in_bfloat16() -> None:
    layer = nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trace, _ = traced(lambda: layer(torch.ones(2, 4)), layer)
    product = next(event for event in trace.events if event.name in ("aten.addmm", "aten.linear"))
    assert product.outputs[0].dtype == "bfloat16"
    assert product.outputs[0].digest is not None


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_modules_are_recomputed_in_their_own_phase(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    model = Checkpointed()
    trace, _ = traced(lambda: model(torch.ones(2, 4, requires_grad=True)).sum().backward(), model)
    tanh = [event.phase for event in trace.events if event.name == "aten.tanh"]
    assert tanh == [Phase.FORWARD, Phase.RECOMPUTE]
    backward = event_of(trace, "aten.tanh_backward")
    assert (backward.phase, backward.module) == (Phase.BACKWARD, "inner.1")


def test_backward_of_a_custom_function_stands_at_its_own_line() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return gradient.mul(2.0).cos()  # custom

    trace, _ = traced(lambda: Double.apply(torch.ones(3, requires_grad=True)).sum().backward())
    cosine = event_of(trace, "aten.cos")
    assert (cosine.phase, cosine.source and cosine.source.line) == (
        Phase.BACKWARD,
        line_of(Double.backward, "custom"),
    )


def test_custom_operators_are_one_event() -> None:
    def noisy(x, scale):  # type: ignore[no-untyped-def]
        x.add_(1.0)
        return x * scale * torch.rand(1)

    # torch 2.4 reads annotations as they stand, and here they would be texts
    noisy.__annotations__ = {"x": torch.Tensor, "scale": float, "return": torch.Tensor}
    noisy = torch.library.custom_op("detlint_test::noisy", noisy, mutates_args={"x"})
    trace, _ = traced(lambda: noisy(torch.zeros(3), 2.0))
    event = event_of(trace, "detlint_test.noisy")
    assert event.mutated == ("x",)
    assert event.rng is not None
    assert event.arguments["scale"] == 2.0
    assert len(event.outputs) == 2


def test_a_module_that_raises_leaves_no_trace_on_the_stack() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fails = Fails()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.fails(x)
            except ValueError:
                return x.neg()

    model = Tries()
    trace, _ = traced(lambda: model(torch.ones(2)), model)
    assert event_of(trace, "aten.neg").module == ""
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_modules_built_on_the_way_are_named_by_their_class() -> None:
    class Builds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.Linear(2, 2)(x)

    model = Builds()
    trace, _ = traced(lambda: model(torch.ones(1, 2)), model)
    assert event_of(trace, "aten.addmm").module == "<Linear>"


def test_the_tracer_keeps_no_tensor_alive() -> None:
    import gc
    import weakref

    dead: list[weakref.ref[object]] = []

    def run() -> torch.Tensor:
        x = torch.ones(1000)
        for _ in range(20):
            x = x * 1.5
            dead.append(weakref.ref(x.untyped_storage()))
        return x.sum()

    with Tracer() as tracer:
        run()
        gc.collect()
        expired = [torch.UntypedStorage._expired(block.holder) for block in tracer._memory._blocks.values()]
    assert sum(expired) >= len(expired) - 2
