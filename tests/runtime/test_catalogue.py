"""Events written by hand, matched with the tables: what can differ, where, under which settings."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
import torchgen
import yaml

from detlint.dispatch import load_dispatch
from detlint.findings import Finding, Severity
from detlint.runtime.catalogue import Catalogue
from detlint.runtime.events import OpEvent, Phase, SourceLine, TensorMeta, Value
from detlint.runtime.flags import Flags

OFF = Flags(
    deterministic_mode=0,
    cudnn_deterministic=False,
    cudnn_enabled=True,
    flash_attention=True,
    mem_efficient_attention=True,
    cudnn_attention=True,
)
STRICT = replace(OFF, deterministic_mode=2)
WARN = replace(OFF, deterministic_mode=1)

F32 = TensorMeta((200_000,), "float32", "cpu", (1,), requires_grad=True)
F64 = replace(F32, dtype="float64")
HALF = replace(F32, dtype="float16")
IDX = TensorMeta((200_000,), "int64", "cpu", (1,))
MASK = replace(IDX, dtype="bool")
SMALL = replace(F32, shape=(100,))


def event(op: str, phase: Phase = Phase.FORWARD, module_type: str = "", **arguments: Value) -> OpEvent:
    return OpEvent(
        index=0,
        op=op,
        module="layers.3",
        module_type=module_type,
        source=SourceLine("model.py", 12, "forward"),
        phase=phase,
        arguments=arguments,
        outputs=(next((value for value in arguments.values() if isinstance(value, TensorMeta)), F32),),
    )


def on_cuda(recorded: OpEvent) -> OpEvent:
    def moved(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(moved(item) for item in value)
        return replace(value, device="cuda:0") if isinstance(value, TensorMeta) else value

    return replace(
        recorded,
        arguments={name: moved(value) for name, value in recorded.arguments.items()},
        outputs=tuple(replace(output, device="cuda:0") for output in recorded.outputs),
    )


def index_put(*, accumulate: bool, self: TensorMeta = F32, index: TensorMeta = IDX) -> OpEvent:
    return event("aten.index_put_.default", self=self, indices=(index,), values=self, accumulate=accumulate)


BACKWARD = event("aten.mul.Tensor", Phase.BACKWARD, self=F32)
ADD = index_put(accumulate=True)
SDPA = event("aten._scaled_dot_product_flash_attention_for_cpu.default", query=F32, attn_mask=None)
SDPA_BACKWARD = event(
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
    Phase.BACKWARD,
    grad_out=F32,
    query=F32,
    attn_mask=None,
)
BILINEAR = event("aten.upsample_bilinear2d_backward.default", Phase.BACKWARD, grad_output=F32)
SCATTER = event("aten.scatter_add.default", self=F32, dim=0, index=IDX, src=F32)
LSTM = event("aten.mkldnn_rnn_layer.default", module_type="LSTM", input=F32)
GRU_GATE = event("aten.addmm.default", module_type="GRU", self=F32)
CONV_BACKWARD = event("aten.convolution_backward.default", Phase.BACKWARD, grad_output=F32, input=F32, transposed=False)
CTC = event("aten._ctc_loss.Tensor", log_probs=F32)


def entries(events: list[OpEvent], target: str, flags: Flags, workspace: str = "") -> list[str]:
    catalogue = Catalogue.load((target,), flags, torch_version="2.13", workspace=workspace)
    return [hazard.operator.name for hazard in catalogue.hazards(events)]


CASES: dict[str, tuple[list[OpEvent], str, Flags, list[str]]] = {
    "accumulate races on the CPU": ([ADD], "cpu", OFF, ["index-put-accumulate-cpu"]),
    "accumulate sorts on CUDA": ([on_cuda(ADD)], "cuda", OFF, []),
    "accumulate is predicted stable on CUDA": ([ADD], "cuda", OFF, []),
    "accumulate in float64 runs on one thread": ([index_put(accumulate=True, self=F64)], "cpu", OFF, []),
    "accumulate of few elements too": ([index_put(accumulate=True, self=SMALL)], "cpu", OFF, []),
    "accumulate is cured by the flag": ([ADD], "cpu", STRICT, []),
    "accumulate is cured by the flag that warns": ([ADD], "cpu", WARN, []),
    "an index that can repeat": ([index_put(accumulate=False)], "cpu", OFF, ["index-put-duplicates"]),
    "a mask cannot repeat": ([index_put(accumulate=False, index=MASK)], "cpu", OFF, []),
    "scatter_add is stable on the CPU": ([SCATTER], "cpu", OFF, []),
    "scatter_add on CUDA": ([on_cuda(SCATTER)], "cuda", OFF, ["scatter-add"]),
    "scatter_add predicted for CUDA": ([SCATTER], "cuda", OFF, ["scatter-add"]),
    "attention forward is stable": ([SDPA], "cuda", OFF, []),
    "attention backward, recorded": ([SDPA_BACKWARD], "cuda", OFF, ["efficient-attention-backward"]),
    "attention backward is cured by the flag": ([SDPA_BACKWARD], "cuda", STRICT, []),
    "attention backward is not cured by the flag that warns": (
        [SDPA_BACKWARD],
        "cuda",
        WARN,
        ["efficient-attention-backward"],
    ),
    "attention that CUDA would not fuse": (
        [SDPA_BACKWARD],
        "cuda",
        replace(OFF, mem_efficient_attention=False),
        [],
    ),
    "attention in half precision": (
        [replace(SDPA_BACKWARD, arguments={**SDPA_BACKWARD.arguments, "query": HALF})],
        "cuda",
        OFF,
        ["flash-attention-backward", "cudnn-attention-backward"],
    ),
    "attention backward on the CPU is stable": ([SDPA_BACKWARD], "cpu", OFF, []),
    "an LSTM is cuDNN's on CUDA": ([LSTM], "cuda", OFF, ["rnn-cudnn"]),
    "a GRU in single gates too": ([GRU_GATE], "cuda", OFF, ["rnn-cudnn"]),
    "an LSTM without cuDNN": ([LSTM], "cuda", replace(OFF, cudnn_enabled=False), []),
    "convolution backward": ([CONV_BACKWARD], "cuda", OFF, ["conv-backward"]),
    "convolution backward, deterministic cuDNN": (
        [CONV_BACKWARD],
        "cuda",
        replace(OFF, cudnn_deterministic=True),
        [],
    ),
    "a derivative that is not recorded": ([CTC, BACKWARD], "cuda", OFF, ["ctc-loss-backward"]),
    "no derivative where nothing was differentiated": ([CTC], "cuda", OFF, []),
    "memory that is not filled is no hazard by itself": (
        [event("aten.empty.memory_format", size=(3,))],
        "cpu",
        OFF,
        [],
    ),
    "an operator of another library": ([event("mylib.op.default", x=F32)], "cuda", OFF, []),
}


@pytest.mark.parametrize(("events", "target", "flags", "expected"), CASES.values(), ids=CASES.keys())
def test_hazards(events: list[OpEvent], target: str, flags: Flags, expected: list[str]) -> None:
    assert entries(events, target, flags) == expected


def test_a_matrix_product_needs_the_workspace_only_where_older_releases_raise() -> None:
    def names(version: str, flags: Flags, workspace: str = "") -> list[str]:
        catalogue = Catalogue.load(("cuda",), flags, torch_version=version, workspace=workspace)
        return [hazard.operator.name for hazard in catalogue.hazards([event("aten.addmm.default", self=F32)])]

    assert names("2.4.1", OFF) == []
    assert names("2.4.1", STRICT) == ["cublas-workspace"]
    assert names("2.4.1", STRICT, ":4096:8") == []
    assert names("2.13.0", STRICT) == []


def test_a_workspace_cures_what_cublas_splits() -> None:
    assert entries([LSTM], "cuda", OFF, workspace=":4096:8") == []
    assert entries([LSTM], "cuda", OFF, workspace=":0:0") == ["rnn-cudnn"]


def findings(
    events: list[OpEvent], targets: tuple[str, ...] = ("cpu", "cuda"), flags: Flags = OFF
) -> tuple[Finding, ...]:
    return Catalogue.load(targets, flags, torch_version="2.13").findings(events)


def test_a_finding_says_where_what_and_why() -> None:
    (finding,) = findings([ADD])
    assert (finding.code, finding.severity) == ("DET302", Severity.WARNING)
    assert (finding.op, finding.module) == ("aten.index_put_.default", "layers.3")
    assert (finding.location.path, finding.location.line) == ("model.py", 12)
    assert (finding.passes, finding.devices) == (("forward",), ("cpu",))
    assert finding.message.startswith("index_put_: threads add floats into the same place")
    assert "index_add_" in finding.remedy


def test_a_prediction_is_called_one_and_names_what_runs() -> None:
    (finding,) = findings([SDPA_BACKWARD])
    assert finding.devices == ("cuda",)
    assert finding.passes == ("backward",)
    assert finding.message.startswith(
        "_scaled_dot_product_efficient_attention_backward for "
        "_scaled_dot_product_flash_attention_for_cpu_backward (predicted for cuda): "
    )


def test_a_derivative_is_called_one() -> None:
    (finding,) = findings([CTC, BACKWARD])
    assert finding.passes == ("backward",)
    assert finding.message.startswith("the backward of _ctc_loss (predicted for cuda): ")


def test_a_derivative_that_was_recorded_stands_for_itself() -> None:
    (finding,) = findings([SDPA, SDPA_BACKWARD])
    assert finding.op == SDPA_BACKWARD.op
    assert finding.passes == ("backward",)


def test_warn_only_never_claims_that_the_flag_is_missing() -> None:
    (finding,) = findings([SDPA_BACKWARD], flags=WARN)
    assert finding.code == "DET301"
    assert "warn_only=True" in finding.message


def test_one_finding_for_each_entry_module_and_line() -> None:
    other_line = replace(SCATTER, source=SourceLine("model.py", 13, "forward"))
    other_module = replace(SCATTER, module="layers.4")
    assert len(findings([SCATTER, SCATTER, other_line, other_module, SCATTER])) == 3


def test_an_operator_without_a_line_of_the_program_is_reported() -> None:
    (finding,) = findings([replace(SCATTER, source=None)])
    assert str(finding.location) == "<aten.scatter_add.default>:1:1"


def test_rules_that_are_off_by_default_are_only_information() -> None:
    (finding,) = findings([index_put(accumulate=False)], targets=("cpu",))
    assert (finding.code, finding.severity) == ("DET305", Severity.INFO)


def _native_functions() -> dict[str, set[str]]:
    path = Path(torchgen.__file__).with_name("packaged") / "ATen/native/native_functions.yaml"
    found: dict[str, set[str]] = {}
    for entry in yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        name = "aten::" + entry["func"].partition("(")[0].partition(".")[0]
        keys = ",".join(entry.get("dispatch") or {"Composite": ""}).replace(" ", "").split(",")
        found.setdefault(name, set()).update(keys)
    return found


def test_the_dispatch_table_names_operators_and_settings_that_exist() -> None:
    known, flags = _native_functions(), {field.name for field in fields(Flags)}
    for entry in load_dispatch():
        for name in (*entry.traced, *entry.runs):
            assert name in known, name
        for module in entry.modules:
            assert hasattr(torch.nn, module)
        assert set(entry.settings) <= flags
        if entry.devices == ("cuda",) and entry.runs != ("aten::cudnn_convolution_transpose",):
            assert all("CPU" not in known[name] for name in entry.runs)
