"""Eager against compiled: real differences of Inductor on the CPU, and backends that are broken on purpose."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn

import detlint
from detlint.errors import UsageError
from detlint.runtime.pieces import cut
from detlint.runtime.report import Cause, ProbeResult, Verdict

X = torch.linspace(-2, 2, 64).reshape(4, 16)


def compiled(model: Callable[..., object], sample: object = X, **options: Any) -> ProbeResult:
    return detlint.audit(model, sample, probes=["compile"], runs=2, **options).probes["compile"]


def seeded(*layers: Callable[[], nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(layer() for layer in layers))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.sigmoid(self.mix(x))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Block(), Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def broken(match: Callable[[fx.Node], bool]) -> Callable[..., Any]:
    """A backend that adds a thousandth to what the matching operators give."""

    def backend(module: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        module = copy.deepcopy(module)
        for node in list(module.graph.nodes):
            if match(node):
                with module.graph.inserting_after(node):
                    off = module.graph.call_function(torch.ops.aten.add.Tensor, (node, 1e-3))
                node.replace_all_uses_with(off, delete_user_cb=lambda user, off=off: user is not off)
        module.recompile()
        return module.forward

    return backend


def of_aten(backend: Callable[..., Any]) -> Callable[..., Any]:
    """The same, of the graphs that AOTAutograd makes."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch._aot_autograd.utils import make_boxed_func

    return aot_autograd(fw_compiler=lambda module, examples: make_boxed_func(backend(module, examples)))


def _has_compiler() -> bool:
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        from torch._inductor.cpp_builder import get_cpp_compiler
    except ImportError:  # torch 2.4
        from torch._inductor.codecache import cpp_compiler as get_cpp_compiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return False
    return True


@pytest.fixture(autouse=True)
def _no_helpers() -> Iterator[None]:
    """So few kernels are compiled faster in this process than in others that must be started."""
    from torch._inductor import config

    with config.patch(compile_threads=1):
        yield


OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5)
"""Inductor of torch 2.4 does not say which kernels it wrote, its backward graphs name no modules."""

needs_compiler = pytest.mark.skipif(not _has_compiler(), reason="Inductor needs a C++ compiler for the CPU")

SIGMOID = broken(lambda node: node.target is torch.ops.aten.sigmoid.default)


@pytest.mark.parametrize(
    "backend",
    [
        of_aten(SIGMOID),
        broken(lambda node: node.target is torch.sigmoid),
    ],
    ids=["aten", "torch"],
)
def test_the_operator_that_a_broken_backend_breaks_is_named(backend: Callable[..., Any]) -> None:
    probe = compiled(Stack(), compile_backend=backend)
    assert probe.verdict is Verdict.BEYOND_ROUNDING
    event = probe.first_divergence
    assert event is not None
    assert (event.op, event.module) == ("aten.sigmoid.default", "blocks.0")
    assert event.source is not None
    assert event.source.function.endswith("forward")
    assert event.index >= 0, "an event of the trace"
    assert probe.divergence is not None
    assert probe.divergence.confirmed
    assert probe.divergence.at_operator is not None
    assert probe.divergence.at_operator.max_abs == pytest.approx(1e-3, rel=1e-3)
    assert "torch.compile(backend='eager'): the same bits" in probe.evidence


def test_a_broken_operator_in_the_middle_is_found_by_its_place() -> None:
    """The graph breaks before it, so it lies in the second of two graphs."""

    class Broken(Stack):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.blocks[1](self.blocks[0](x))
            torch._dynamo.graph_break()
            return torch.cosh(self.blocks[2](x))

    probe = compiled(Broken(), compile_backend=of_aten(broken(lambda node: node.target is torch.ops.aten.cosh.default)))
    assert "torch.compile sees 2 graphs" in probe.evidence[0]
    assert probe.first_divergence is not None
    assert (probe.first_divergence.op, probe.first_divergence.module) == ("aten.cosh.default", "")


def test_operators_that_depart_only_together_are_named_together() -> None:
    def follows_linear(node: fx.Node) -> bool:
        sources = [source.target for source in node.all_input_nodes]
        return node.target is torch.ops.aten.sigmoid.default and torch.ops.aten.addmm.default in sources

    probe = compiled(Stack(), compile_backend=of_aten(broken(follows_linear)))
    assert probe.first_divergence is not None
    assert (probe.first_divergence.op, probe.first_divergence.module) == ("aten.sigmoid.default", "blocks.0")
    assert probe.divergence is not None
    assert probe.divergence.confirmed is False
    (line,) = [line for line in probe.evidence if "compiled alone: the same bits" in line]
    assert "aten.addmm.default, aten.sigmoid.default" in line


def test_gradients_are_compared_too() -> None:
    backward = broken(lambda node: node.target is torch.ops.aten.sigmoid_backward.default)
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch._aot_autograd.utils import make_boxed_func

    backend = aot_autograd(
        fw_compiler=lambda module, examples: make_boxed_func(backward(module, examples)),
        bw_compiler=lambda module, examples: make_boxed_func(backward(module, examples)),
    )
    probe = compiled(Stack(), backward=True, compile_backend=backend)
    assert probe.verdict is Verdict.BEYOND_ROUNDING
    assert {difference.name.partition(" ")[0] for difference in probe.outputs} == {"gradient"}
    event = probe.first_divergence
    assert event is not None
    assert (event.op, event.phase.value) == ("aten.sigmoid_backward.default", "backward")
    assert event.module == ("" if OLD else "blocks.2")


def test_a_backend_that_only_runs_the_graph_gives_the_same_bits() -> None:
    probe = compiled(Stack(), compile_backend="aot_eager")
    assert probe.verdict is Verdict.BITWISE
    assert probe.evidence == (
        "torch.compile sees 1 graph with 9 operations",
        "torch.compile(backend='aot_eager'): the same bits as eager",
    )


class Attention(nn.Module):
    """Eager attention takes a fast path that Dynamo does not trace."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.heads(x, x, x, need_weights=False)[0])


def test_another_program_than_the_eager_one_is_told() -> None:
    probe = compiled(Attention().eval(), torch.randn(2, 10, 64), compile_backend="aot_eager")
    if probe.verdict is Verdict.BITWISE:
        pytest.skip("both programs round alike on this machine")
    assert probe.verdict is Verdict.ROUNDING
    assert probe.first_divergence is not None
    assert probe.first_divergence.op == "aten._native_multi_head_attention.default"
    assert "runs in eager mode only" in probe.cause
    assert probe.remedy == "torch.backends.mha.set_fastpath_enabled(False)"
    assert torch.backends.mha.get_fastpath_enabled()


def test_rounding_of_another_program_hides_no_broken_operator() -> None:
    probe = compiled(Attention().eval(), torch.randn(2, 10, 64), compile_backend=of_aten(SIGMOID))
    assert probe.verdict is Verdict.BEYOND_ROUNDING
    assert probe.first_divergence is not None
    assert probe.first_divergence.op == "aten.sigmoid.default"


def test_what_cannot_be_compiled_is_skipped_with_the_reason() -> None:
    def refusing(module: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        raise NotImplementedError("no such machine")

    probe = compiled(Stack(), compile_backend=refusing)
    assert probe.verdict is Verdict.SKIPPED
    assert (
        probe.reason
        == "torch.compile(backend='refusing'): the model cannot be compiled: NotImplementedError: no such machine"
    )
    hidden = torch.compiler.disable(lambda x: x + 1)
    eager = compiled(lambda x: hidden(x))
    assert eager.reason == "torch.compile finds nothing in the model that it can compile"
    model = nn.Sequential(Stack(), nn.Linear(16, 2))
    model[0].compile(backend="eager")
    again = compiled(model)
    assert again.reason == "0 is compiled already: pass the model that torch.compile was given"
    assert compiled(torch.compile(Stack(), backend="eager")).reason.startswith("the model is compiled already")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"compile_backend": "inductr"}, "did you mean 'inductor'"),
        ({"compile_modes": ("max-autotun",)}, "did you mean 'max-autotune'"),
        ({"compile_modes": ()}, "compile_modes is empty"),
        ({"compile_modes": ("max-autotune",), "compile_backend": "aot_eager"}, "only Inductor has modes"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compiled(Stack(), **options)


def test_the_model_and_the_compiler_are_left_as_they_were() -> None:
    from torch._inductor import config

    model = seeded(lambda: nn.Linear(16, 8), lambda: nn.BatchNorm1d(8)).train()
    mine = torch.compile(lambda x: torch.sin(x) + 1, backend="eager")
    result = mine(X)
    before, settings = copy.deepcopy(model.state_dict()), config.save_config_portable()
    flags = detlint.audit(model, X, probes=[]).environment
    compiled(model, compile_backend=of_aten(SIGMOID))
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert config.save_config_portable() == settings
    assert detlint.audit(model, X, probes=[]).environment == flags
    assert torch.equal(mine(X), result)


@needs_compiler
def test_the_process_is_left_as_it_was() -> None:
    before, limit = dict(os.environ), sys.getrecursionlimit()
    compiled(seeded(lambda: nn.Linear(16, 16)))
    assert dict(os.environ) == before
    assert sys.getrecursionlimit() == limit


@needs_compiler
@pytest.mark.parametrize(
    "norm, op",
    [
        (lambda: nn.LayerNorm(128).eval(), "aten.native_layer_norm.default"),
        (lambda: nn.BatchNorm1d(128), "aten._native_batch_norm_legit_functional.default"),
    ],
    ids=["layer norm", "batch norm"],
)
def test_norms_differ_by_rounding_under_inductor(norm: Callable[[], nn.Module], op: str) -> None:
    """Inductor decomposes them, and the parts round otherwise."""
    model = seeded(lambda: nn.Linear(64, 128), norm, nn.Tanh, lambda: nn.Linear(128, 8))
    probe = compiled(model, torch.randn(32, 64, generator=torch.Generator().manual_seed(0)))
    assert probe.verdict is Verdict.ROUNDING
    assert 0 < probe.max_abs < 1e-5
    assert probe.first_divergence is not None
    assert (probe.first_divergence.op, probe.first_divergence.module) == (op, "1")
    assert "simpler operators that it is decomposed into" in probe.cause
    assert "torch.compile(mode='default'): other bits than eager, the same in each run" in probe.evidence
    assert "torch.compile(backend='aot_eager'): the same bits" in probe.evidence
    assert "torch.compile(backend='aot_eager_decomp_partition'): other bits" in probe.evidence
    assert f"{op} compiled alone: other bits" in probe.evidence
    assert OLD or any(line.startswith("kernels: cpp_fused_") for line in probe.evidence)


@needs_compiler
def test_dropout_draws_other_numbers_under_inductor() -> None:
    probe = compiled(seeded(lambda: nn.Linear(16, 16), nn.Dropout))
    assert (probe.verdict, probe.kind) == (Verdict.BEYOND_ROUNDING, Cause.RANDOMNESS)
    assert probe.first_divergence is not None
    assert probe.first_divergence.op == "aten.native_dropout.default"
    assert probe.cause.endswith("it vanishes without Inductor's own random numbers")
    assert probe.remedy == "torch.compile(options={'fallback_random': True})"
    assert "the whole model without Inductor's own random numbers: the same bits" in probe.evidence


@needs_compiler
def test_what_rounds_hides_nothing_that_breaks() -> None:
    """Batch norm comes first and departs too, by rounding."""
    probe = compiled(seeded(lambda: nn.BatchNorm1d(16), nn.Dropout))
    assert probe.verdict is Verdict.BEYOND_ROUNDING
    assert probe.first_divergence is not None
    assert probe.first_divergence.op == "aten.native_dropout.default"
    assert probe.remedy == "torch.compile(options={'fallback_random': True})"
    assert "the whole model without Inductor's own random numbers: rounding only" in probe.evidence


@needs_compiler
@pytest.mark.skipif(torch.get_num_threads() < 2, reason="races need two CPU threads")
def test_a_race_of_compiled_code_is_told_from_rounding() -> None:
    """Eager `index_add` adds in one order; Inductor's adds from several threads."""

    class Histogram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            places = torch.randint(0, 50, (1_000_000,), generator=torch.Generator().manual_seed(0))
            self.register_buffer("places", places)

        def forward(self, weights: torch.Tensor) -> torch.Tensor:
            return torch.zeros(50).index_add(0, self.places, torch.tanh(weights))

    weights = torch.rand(1_000_000, generator=torch.Generator().manual_seed(0))
    report = detlint.audit(Histogram(), weights, probes=["repeat", "compile"], runs=10)
    assert report.probes["repeat"].verdict is Verdict.BITWISE
    probe = report.probes["compile"]
    assert (probe.verdict, probe.kind) == (Verdict.ROUNDING, Cause.RUN_TO_RUN)
    assert probe.first_divergence is not None
    assert probe.first_divergence.op == "aten.index_add.default"
    assert probe.remedy == "torch.use_deterministic_algorithms(True)"
    assert "without several threads: the same bits" in probe.evidence
    (finding,) = probe.findings
    assert (finding.code, finding.severity.value) == ("DET701", "error")


@needs_compiler
def test_autotuning_is_tried_in_processes_of_their_own() -> None:
    from torch._inductor import config

    model = seeded(lambda: nn.Linear(16, 16), nn.Tanh)
    # for one kernel, these cost more than they save
    settings = {"cpp.vec_isa_ok": True} if OLD else {"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}
    with config.patch(settings):
        probe = compiled(model, compile_modes=["max-autotune-no-cudagraphs"])
    told = [line for line in probe.evidence if "new processes" in line]
    assert told, probe.evidence
    assert (probe.kind is Cause.RUN_TO_RUN) == ("caches empty: other bits" in told[0])


def test_a_missing_compiler_is_named() -> None:
    from torch._inductor import config
    from torch._inductor.utils import fresh_inductor_cache

    with fresh_inductor_cache(), config.patch({"cpp.cxx": ("no-such-compiler",)}):
        probe = compiled(seeded(lambda: nn.Linear(16, 16), nn.Tanh))
    assert probe.verdict is Verdict.SKIPPED
    assert "InvalidCxxCompiler" in probe.reason
    assert "no-such-compiler" in probe.reason


def test_cut_makes_a_graph_of_some_nodes() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        return torch.cos(y) + y

    graph = fx.symbolic_trace(program)
    sine, cosine, _ = (node for node in graph.graph.nodes if node.op == "call_function")
    module, read, given = cut(graph, [cosine])
    assert ([node.name for node in read], [node.name for node in given]) == (["sin"], ["cos"])
    assert torch.equal(module(X)[0], X.cos())
    module, read, given = cut(graph, [sine, cosine])
    assert ([node.name for node in read], [node.name for node in given]) == (["x"], ["sin", "cos"])
