"""The table of operators: it is valid, says what torch does, and a broken one is refused with one clear line."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from detlint.cli import detlint
from detlint.conditions import UNKNOWN, Truth
from detlint.errors import RuleError, UsageError
from detlint.operators import (
    NEWEST,
    Operator,
    by_aten_name,
    by_python_name,
    in_force,
    load_operators,
    matching,
    parse_version,
)
from detlint.tables import DEVICES, RULES_FOLDER
from detlint.upgrades import changes

ROOT = Path(__file__).resolve().parent.parent


def verdicts(name: str, release: str, *, devices: tuple[str, ...] = ("cuda",), **known: object) -> set[str]:
    """What do the entries of a public name say under the flag, for a call of which these arguments are known?"""
    entries = by_python_name(in_force(load_operators(), torch_version=release, devices=devices)).get(name, ())
    return {entry.with_flag for entry in entries if entry.applies(Known(known)) is Truth.YES}


class Known:
    """Arguments of which some literals are known, and facts about the tensor worked on."""

    def __init__(self, known: dict[str, object]) -> None:
        self.known = known

    def has(self, name: str) -> bool:
        return True

    def literal(self, name: str) -> object:
        return self.known.get(name, UNKNOWN)

    def given(self, name: str) -> Truth:
        return Truth.of(self.known[name] is not None if name in self.known else None)

    def tensor(self, name: str) -> Truth:
        return Truth.of(self.known.get(f"{name}_is_tensor"))  # type: ignore[arg-type]

    def distinct(self, name: str) -> Truth:
        return Truth.of(self.known.get(f"{name}_is_distinct"))  # type: ignore[arg-type]

    def dtype(self, name: str) -> str | None:
        return self.known.get(f"{name}_dtype")  # type: ignore[return-value]

    def ndim(self, name: str) -> int | None:
        return self.known.get(f"{name}_ndim")  # type: ignore[return-value]

    def numel(self, name: str) -> int | None:
        return self.known.get(f"{name}_numel")  # type: ignore[return-value]

    def length(self, name: str) -> int | None:
        return self.known.get(f"{name}_length")  # type: ignore[return-value]

    def layout(self, name: str) -> str | None:
        return self.known.get(f"{name}_layout")  # type: ignore[return-value]

    def fact(self, name: str) -> Truth:
        return Truth.of(self.known.get(name))  # type: ignore[arg-type]


INTERPOLATE = "torch.nn.functional.interpolate"
PAD = "torch.nn.functional.pad"
SCATTER = "torch.Tensor.scatter_"
REDUCE = "torch.Tensor.scatter_reduce_"

# public name, release, what is known about the call, the verdicts of the table: {} is silence
FACTS = [
    ("torch.nn.AvgPool3d", "1.8", {}, {"error"}),
    ("torch.nn.AvgPool3d", NEWEST, {}, {"error"}),
    ("torch.nn.AdaptiveAvgPool2d", NEWEST, {"output_size": (7, 7)}, {"error"}),
    ("torch.nn.AdaptiveAvgPool2d", NEWEST, {"output_size": 1}, set()),
    ("torch.nn.AdaptiveAvgPool2d", NEWEST, {"output_size": (1, 1)}, set()),
    ("torch.nn.AdaptiveAvgPool2d", NEWEST, {}, {"error"}),  # a variable size is seldom one
    ("torch.nn.AdaptiveAvgPool1d", NEWEST, {"output_size": 1}, set()),
    ("torch.nn.AdaptiveMaxPool3d", NEWEST, {"output_size": 2}, {"unaffected"}),
    ("torch.nn.LocalResponseNorm", NEWEST, {}, {"error"}),
    ("torch.nn.MaxPool3d", "2.12", {"return_indices": True}, {"error"}),
    ("torch.nn.MaxPool3d", "2.13", {"return_indices": True}, {"deterministic"}),
    ("torch.nn.MaxPool3d", "2.13", {"return_indices": False}, {"error"}),
    ("torch.nn.MaxUnpool2d", "1.12", {}, {"unaffected"}),
    ("torch.nn.MaxUnpool2d", "1.13", {}, {"error"}),
    (INTERPOLATE, NEWEST, {"mode": "nearest", "antialias": False}, set()),
    (INTERPOLATE, NEWEST, {"mode": "linear"}, {"error"}),
    (INTERPOLATE, "2.0", {"mode": "bilinear", "antialias": False}, {"error"}),
    (INTERPOLATE, "2.1", {"mode": "bilinear", "antialias": False}, {"deterministic"}),
    (INTERPOLATE, "2.13", {"mode": "bilinear", "antialias": True}, {"error"}),
    (INTERPOLATE, "2.8", {"mode": "trilinear"}, {"error"}),
    (INTERPOLATE, "2.9", {"mode": "trilinear"}, {"deterministic"}),
    (INTERPOLATE, "2.14", {"mode": "bicubic", "antialias": False}, {"error"}),
    (INTERPOLATE, "2.15", {"mode": "bicubic", "antialias": False}, {"deterministic"}),
    (INTERPOLATE, NEWEST, {"mode": "area", "size": None}, {"error"}),
    (INTERPOLATE, NEWEST, {"mode": "area", "size": 1}, set()),
    (INTERPOLATE, NEWEST, {}, set()),
    (PAD, NEWEST, {"mode": "constant", "pad_length": 4}, set()),
    (PAD, NEWEST, {"mode": "circular", "pad_length": 4}, set()),
    (PAD, NEWEST, {"mode": "reflect", "pad_length": 2}, {"error"}),
    (PAD, "2.6", {"mode": "reflect", "pad_length": 4}, {"error"}),
    (PAD, "2.7", {"mode": "reflect", "pad_length": 4}, {"deterministic"}),
    (PAD, "2.1", {"mode": "replicate", "pad_length": 4}, {"error"}),
    (PAD, "2.2", {"mode": "replicate", "pad_length": 4}, {"deterministic"}),
    (PAD, "2.7", {"mode": "replicate", "pad_length": 6}, {"error"}),
    (PAD, "2.8", {"mode": "replicate", "pad_length": 6}, {"deterministic"}),
    ("torch.nn.ReflectionPad2d", "2.6", {}, {"error"}),
    ("torch.nn.ReflectionPad2d", "2.7", {}, {"deterministic"}),
    ("torch.nn.ReplicationPad1d", "2.7", {}, {"error"}),
    ("torch.nn.ReplicationPad1d", "2.8", {}, {"deterministic"}),
    ("torch.nn.functional.cross_entropy", NEWEST, {"input_ndim": 2, "reduction": "mean"}, set()),
    ("torch.nn.functional.cross_entropy", NEWEST, {"input_ndim": 4, "reduction": "mean"}, {"error"}),
    ("torch.nn.functional.cross_entropy", NEWEST, {"input_ndim": 4, "reduction": "none"}, set()),
    ("torch.nn.functional.cross_entropy", NEWEST, {"reduction": "mean"}, set()),
    ("torch.nn.EmbeddingBag", NEWEST, {"mode": "max"}, {"error"}),
    ("torch.Tensor.scatter_add_", "1.9", {}, {"error"}),
    ("torch.Tensor.scatter_add_", "1.12", {"input_ndim": 1}, {"deterministic"}),
    ("torch.Tensor.scatter_add_", "1.12", {"input_ndim": 2}, {"error"}),
    ("torch.Tensor.scatter_add_", NEWEST, {}, {"deterministic"}),
    ("torch.Tensor.scatter_add_", NEWEST, {"src_dtype": "int64"}, set()),
    ("torch.Tensor.scatter_add_", NEWEST, {"index_is_distinct": True}, set()),
    (REDUCE, NEWEST, {"reduce": "sum"}, {"deterministic"}),
    (REDUCE, NEWEST, {"reduce": "prod"}, {"error"}),
    (REDUCE, NEWEST, {"reduce": "amax"}, set()),
    (SCATTER, NEWEST, {"src_is_tensor": False, "reduce": None}, set()),
    (SCATTER, NEWEST, {"src_is_tensor": True, "reduce": "multiply"}, {"error"}),
    ("torch.Tensor.index_add_", "1.8", {}, {"error"}),
    ("torch.Tensor.index_add_", "1.9", {}, {"deterministic"}),
    ("torch.Tensor.index_reduce_", NEWEST, {"reduce": "amax"}, {"error"}),
    ("torch.Tensor.put_", NEWEST, {"accumulate": False}, {"error"}),
    ("torch.Tensor.put_", NEWEST, {"accumulate": True}, {"error"}),
    ("torch.take", NEWEST, {}, {"error"}),
    ("torch.cumsum", "2.5", {"input_dtype": "float32", "input_ndim": 2}, {"error"}),
    ("torch.cumsum", "2.6", {"input_dtype": "float32", "input_ndim": 2}, set()),
    ("torch.cumsum", "2.6", {"input_dtype": "float32", "input_ndim": 1}, {"deterministic"}),
    ("torch.cumsum", "2.6", {"input_dtype": "int64", "input_ndim": 1}, set()),
    ("torch.cumprod", NEWEST, {"input_dtype": "float32", "input_ndim": 1}, {"unaffected"}),
    ("torch.histc", "2.8", {"input_dtype": "int64"}, {"error"}),
    ("torch.histc", "2.9", {"input_dtype": "int64"}, set()),
    ("torch.bincount", "2.0", {"weights": None}, {"error"}),
    ("torch.bincount", "2.1", {"weights": None}, set()),
    ("torch.bincount", "2.1", {"weights": "given"}, {"error"}),
    ("torch.kthvalue", "2.9", {}, {"error"}),
    ("torch.kthvalue", "2.10", {}, set()),
    ("torch.median", NEWEST, {"dim": None}, set()),
    ("torch.median", NEWEST, {"dim": 0}, {"error"}),
    ("torch.bmm", NEWEST, {"input_layout": "sparse"}, {"deterministic"}),
    ("torch.bmm", NEWEST, {"input_layout": "strided"}, set()),
    ("torch.nn.functional.grid_sample", NEWEST, {"mode": "nearest"}, {"error"}),
    ("torchvision.ops.roi_align", "2.0", {}, {"unaffected"}),
    ("torchvision.ops.roi_align", "2.1", {}, {"deterministic"}),
    ("flash_attn.flash_attn_func", NEWEST, {"deterministic": False}, {"unaffected"}),
    ("flash_attn.flash_attn_func", NEWEST, {"deterministic": True}, set()),
    ("torch.Tensor.index_add_", NEWEST, {"compiled": True}, {"deterministic"}),
]


@pytest.mark.parametrize(
    ("name", "release", "known", "expected"),
    [pytest.param(*row, id=f"{row[0]}-{row[1]}-{row[2]}") for row in FACTS],
)
def test_what_torch_does(name: str, release: str, known: dict[str, object], expected: set[str]) -> None:
    assert verdicts(name, release, **known) == expected


@pytest.mark.parametrize("name", ["torch.index_add", "torch.Tensor.scatter_add_", "torch.gather"])
def test_eager_cpu_is_stable_where_it_was_measured(name: str) -> None:
    assert verdicts(name, NEWEST, devices=("cpu",), compiled=False) == set()


def test_published_measurements_agree() -> None:
    """github.com/minnervva/correctness: forward Conv2d never varied, ConvTranspose2d mostly did."""
    forward = in_force(load_operators(), devices=("cuda",), passes=("forward",))
    by_name = by_python_name(operator for operator in forward if not operator.auditor_only)
    assert "torch.nn.Conv2d" not in by_name
    assert "torch.nn.AvgPool3d" not in by_name
    assert "torch.nn.ConvTranspose2d" in by_name
    assert "torch.index_add" in by_name
    assert "torch.scatter_reduce" in by_name


def test_the_linter_is_not_told_to_report_every_layer() -> None:
    everywhere = {
        "torch.nn.Linear",
        "torch.nn.Embedding",
        "torch.nn.LSTM",
        "torch.matmul",
        "torch.nn.functional.scaled_dot_product_attention",
        "torch.nn.MultiheadAttention",
        "torch.Tensor.__getitem__",
        "torch.nn.MaxPool2d",
    }
    reported = by_python_name(
        operator
        for operator in in_force(load_operators(), devices=("cuda", "cpu"))
        if not operator.auditor_only and "compiled" not in operator.when
    )
    assert everywhere.isdisjoint(reported)


def test_rules_of_entries() -> None:
    rules = {operator.name: operator.rule for operator in in_force(load_operators(), torch_version="2.13")}
    assert rules["avg-pool3d-backward"] == "DET301"
    assert rules["cumprod"] == "DET301"
    assert rules["interpolate-bilinear-backward"] == "DET302"
    assert rules["uninitialized"] == "DET303"
    assert rules["sort-unstable"] == "DET304"
    assert rules["median-indices"] == "DET301"
    assert rules["index-copy-duplicates"] == "DET305"
    assert rules["torch-scatter-sum"] == "DET306"
    assert rules["torchvision-roi-align-backward"] == "DET306"
    assert rules["nccl-all-reduce"] == "DET302"


def test_warn_only_cures_no_attention() -> None:
    attention = matching(load_operators(), ["attention-backward"])
    mine = {operator.name: operator.with_warn_only for operator in attention}
    assert mine["flash-attention-backward"] == "unaffected"
    assert mine["efficient-attention-backward"] == "unaffected"


def test_aten_names_are_indexed() -> None:
    found = by_aten_name(in_force(load_operators(), torch_version="2.13", devices=("cuda",)))
    assert [operator.name for operator in found["aten::grid_sampler_2d_backward"]] == ["grid-sample-backward"]
    assert [operator.name for operator in found["aten::median.dim"]] == ["median-indices"]
    assert "aten::median" not in found


def test_in_force_filters_devices_and_passes() -> None:
    operators = load_operators()
    assert all("mps" in operator.devices for operator in in_force(operators, devices=("mps",)))
    assert all("backward" in operator.passes for operator in in_force(operators, passes=("backward",)))
    assert in_force(operators, devices=()) == ()
    assert in_force(operators, torch_version="2.13.1+cu126") == in_force(operators, torch_version="2.13")


def test_ten_is_newer_than_nine() -> None:
    assert parse_version("2.10") > parse_version("2.9")
    with pytest.raises(UsageError, match="torch version 'nightly'"):
        parse_version("nightly")


def test_every_url_is_secure_and_every_fix_is_one_line() -> None:
    for operator in load_operators():
        assert "\n" not in operator.instead + operator.note + operator.auditor_only
        assert not operator.instead.endswith(".")
        assert not any(source.startswith("http:") for source in operator.source)


VALID = """
signatures = ["torch.median(input, dim=None)"]
[[operator]]
name = "median"
python = ["torch.median"]
devices = ["cuda"]
pass = ["forward"]
when = { dim = { given = true } }
with-flag = "error"
cause = "tie-order"
instead = "sort"
evidence = "docs"
source = ["documentation"]
"""
ENTRY = VALID.partition("[[operator]]")[2]

BROKEN = [
    ("missing", "evidence = ", "#", "operator 'median'.evidence: missing"),
    ("unknown-key", "devices = ", "device = ", "operator 'median'.devices: missing"),
    ("extra-key", 'name = "median"', 'name = "median"\nsinse = "2.1"', "sinse: unknown key; did you mean 'since'"),
    ("wrong-type", 'devices = ["cuda"]', 'devices = "cuda"', "operator 'median'.devices: expected list, got str"),
    ("empty", 'devices = ["cuda"]', "devices = []", "devices: expected a list of at least one string"),
    ("unknown-device", '["cuda"]', '["cudda"]', "devices: 'cudda' is not one of cpu, cuda, mps; did you mean 'cuda'"),
    ("unknown-flag", '"error"', '"errors"', "with-flag: 'errors' is not one of deterministic, error, unaffected"),
    ("unknown-cause", '"tie-order"', '"ties"', "cause: 'ties' is not one of"),
    ("condition", "dim = {", "dims = {", "when.dims: neither a parameter nor a condition; did you mean 'dim'"),
    ("predicate", "given = true", "giben = true", "when.dim.giben: unknown condition; did you mean 'given'"),
    ("no-signature", '["torch.median"]', '["torch.medain"]', "python: 'torch.medain' has no signature; did you mean"),
    ("unused-signature", 'dim=None)"]', 'dim=None)", "torch.mode"]', "signatures: no operator names 'torch.mode'"),
    ("aten", 'name = "median"', 'name = "median"\naten = ["median"]', "aten: 'median' is not 'aten::name'"),
    ("version", 'name = "median"', 'name = "median"\nuntil = "2"', "until: '2' is not a release such as"),
    ("no-name", 'python = ["torch.median"]', "", "neither aten nor python names an operator"),
    ("twice", VALID, VALID + "[[operator]]" + ENTRY, "two entries of that name hold in one release"),
    ("elsewhere", "[[operator]]", '[also-under]\ntorch = "tensor"\n[[operator]]', "also-under.torch: expected list"),
    ("not-toml", "[[operator]]", "[[operator]", "not valid TOML"),
]


def test_the_valid_table_is_valid(tmp_path: Path) -> None:
    (operator,) = _read(tmp_path, VALID)
    assert operator.python[0].parameters[1].default == "None"


def test_one_hazard_may_change_with_the_release(tmp_path: Path) -> None:
    later = VALID + "[[operator]]" + ENTRY.replace('"error"', '"deterministic"\nsince = "2.3"')
    operators = _read(tmp_path, later.replace('"error"', '"error"\nuntil = "2.3"', 1))
    (change,) = changes(operators, "2.2", "2.3", devices=DEVICES, passes=("forward",))
    assert (change.kind, change.name) == ("changed", "median")
    assert change.before is not None
    assert change.after is not None
    assert (change.before.with_flag, change.after.with_flag) == ("error", "deterministic")
    assert changes(operators, "2.3", "2.4", devices=DEVICES, passes=("forward",)) == ()
    assert changes(operators, "2.2", "2.3", devices=DEVICES, passes=("backward",)) == ()


@pytest.mark.parametrize(("old", "new", "message"), [pytest.param(*row[1:], id=row[0]) for row in BROKEN])
def test_a_broken_table_is_refused_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in VALID
    with pytest.raises(RuleError) as caught:
        _read(tmp_path, VALID.replace(old, new, 1))
    assert str(caught.value).startswith(str(tmp_path / "operators.toml"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def _read(folder: Path, text: str) -> tuple[Operator, ...]:
    path = folder / "operators.toml"
    path.write_text(text, encoding="utf-8")
    return load_operators(path)


def _ops(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    detlint.main(["ops", *arguments], prog_name="detlint", standalone_mode=False)
    return capsys.readouterr().out


def test_ops_lists_one_line_an_entry(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _ops(capsys, "--torch", "2.13", "--device", "cuda", "--pass", "backward").splitlines()
    assert len(lines) == 1 + len(
        in_force(load_operators(), torch_version="2.13", devices=("cuda",), passes=("backward",))
    )
    assert lines[1].split() == ["avg-pool3d-backward", "cuda", "backward", "raises", "atomic-add"]


def test_ops_json_is_a_list_of_the_table_s_own_entries(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(_ops(capsys, "--json", "--torch", "2.13"))
    assert len(rows) == len(in_force(load_operators(), torch_version="2.13"))
    assert rows[0]["name"] == "avg-pool3d-backward"
    assert rows[0]["with-flag"] == "error"


def test_ops_says_everything_about_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    page = _ops(capsys, "grid_sampler_3d_backward", "--device", "cuda")
    assert "grid-sample-backward\n" in page
    assert "raises under torch.use_deterministic_algorithms(True)" in page
    with pytest.raises(UsageError, match=r"kthvalu3: no operator of that name; did you mean 'kthvalue'"):
        _ops(capsys, "kthvalu3")


def test_ops_takes_the_names_that_reports_print(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ops(capsys, "aten.index_add_.default") == _ops(capsys, "aten::index_add_")
    assert _ops(capsys, "aten.scatter_reduce.two") == _ops(capsys, "aten::scatter_reduce.two")
    with pytest.raises(UsageError, match=r"^aten\.relu\.default: no operator of that name"):
        _ops(capsys, "aten.relu.default")


def test_ops_diff_says_what_an_upgrade_changes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _ops(capsys, "--diff", "2.3", "2.13").splitlines()
    cumsum = next(line for line in lines if line.startswith("cumsum "))
    assert re.fullmatch(r"cumsum +raises +on request +torch\.use_deterministic_algorithms\(True\)", cumsum)
    rows = json.loads(_ops(capsys, "--diff", "2.3", "2.13", "--json"))
    (row,) = [row for row in rows if row["name"] == "cublas-workspace"]
    assert (row["change"], row["after"]) == ("gone", None)


def test_no_second_list_of_operators() -> None:
    """Which operators can differ is said in the table only: no module holds a list of five or more of them."""
    named = {name.partition("::")[2].partition(".")[0] for name in by_aten_name(load_operators())}
    for path in sorted((ROOT / "detlint").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Set | ast.List | ast.Tuple):
                words = {item.value for item in node.elts if isinstance(item, ast.Constant)}
                listed = {str(word).rpartition(".")[2].rpartition("::")[2] for word in words} & named
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                assert len(listed) < 5, f"{where} lists operators: {sorted(listed)}"


def test_the_table_agrees_with_the_installed_torch() -> None:
    pytest.importorskip("torch")
    script = ROOT / "benchmarks" / "check_operators.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 problems" in done.stdout


def test_the_table_is_where_the_wheel_takes_it_from() -> None:
    assert (RULES_FOLDER / "operators.toml").is_file()
