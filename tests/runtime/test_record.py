"""A record holds what was computed, reads back as it was, and refuses what is no record."""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

import detlint
from detlint.errors import AuditError, RecordError, UsageError
from detlint.runtime.records.archive import read_record, write_record
from detlint.runtime.records.record import Record
from detlint.runtime.records.summary import VALUES
from tests.runtime.schemas import validator


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def image() -> torch.Tensor:
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.detlint"


# ---- recording a pass ------------------------------------------------------------------------------------------------


def test_a_record_holds_what_ran(net: Net, image: torch.Tensor) -> None:
    record = detlint.record(net, image, backward=True)
    assert record.model == "Net"
    assert set(record.weights) == {*dict(net.named_parameters()), *dict(net.named_buffers())}
    assert list(record.inputs) == ["args[0]"]
    assert list(record.outputs) == ["output"]
    assert set(record.gradients) == {f"gradient of {name}" for name, _ in net.named_parameters()}
    assert record.outputs["output"].values is not None
    assert torch.equal(record.outputs["output"].values, net(image).detach().flatten())
    operators = [event.op for event in record.trace.events]
    assert "aten.convolution.default" in operators
    assert "aten.convolution_backward.default" in operators
    assert record.environment["torch"] == torch.__version__
    assert len(record.results) == len(record.trace.events)


def test_views_are_not_kept_again(net: Net, image: torch.Tensor) -> None:
    record = detlint.record(net, image)
    kept = {
        event.op: [item is not None for item in results]
        for event, results in zip(record.trace.events, record.results, strict=True)
    }
    assert kept["aten.t.default"] == [False]
    assert kept["aten.addmm.default"] == [True]


def test_what_is_written_in_place_is_kept() -> None:
    record = detlint.record(lambda x: x.clone().mul_(2), torch.ones(3))
    (results,) = (
        results
        for event, results in zip(record.trace.events, record.results, strict=True)
        if event.op == "aten.mul_.Tensor"
    )
    assert results[0] is not None
    assert results[0].values is not None
    assert results[0].values.tolist() == [2.0, 2.0, 2.0]


def test_recording_leaves_the_model_as_it_was(net: Net, image: torch.Tensor) -> None:
    net.train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state = torch.get_rng_state()
    detlint.record(net, image, backward=True, seed=5)
    assert net.training
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_what_has_no_values_is_not_recorded() -> None:
    with pytest.raises(AuditError, match="the meta device holds no values"):
        detlint.record(nn.Linear(8, 8), torch.ones(2, 8), device="meta")


def test_what_the_model_raises_is_one_line() -> None:
    with pytest.raises(AuditError, match="the model raised RuntimeError: mat1 and mat2"):
        detlint.record(nn.Linear(3, 4), torch.ones(2, 2))
    with pytest.raises(AuditError, match="expected a module or a function, got int"):
        detlint.record(3, torch.ones(1))  # type: ignore[arg-type]


# ---- the file --------------------------------------------------------------------------------------------------------


def test_a_record_reads_back_as_it_was(net: Net, image: torch.Tensor, path: Path) -> None:
    record = detlint.record(net, image, path, backward=True)
    again = read_record(path)
    assert again.trace == record.trace
    assert json.dumps(again.encode()[0]) == json.dumps(record.encode()[0])
    values, others = record.encode()[1], again.encode()[1]
    assert values.keys() == others.keys()
    assert all(torch.equal(values[name], others[name]) for name in values)
    assert detlint.compare(record, path).verdict == "bitwise"


def test_the_same_run_gives_the_same_bytes(net: Net, image: torch.Tensor, tmp_path: Path) -> None:
    for name in ("one", "two"):
        detlint.record(net, image, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_file_holds_json_and_safetensors(net: Net, image: torch.Tensor, path: Path) -> None:
    detlint.record(net, image, path, backward=True)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["record.json", "values.safetensors"]
        document = json.loads(archive.read("record.json"))
        values = load(archive.read("values.safetensors"))
    validator("record.json").validate(document)
    assert "outputs/output" in values
    assert max(tensor.numel() for tensor in values.values()) == VALUES


def test_values_are_bounded(net: Net, image: torch.Tensor, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detlint.runtime.records.record.VALUE_BYTES", 500)
    detlint.record(net, image, path)
    _, values = read_record(path).encode()
    assert sum(tensor.nbytes for name, tensor in values.items() if name.startswith("events/")) <= 500
    assert "outputs/output" in values
    assert any("holds digests and statistics only" in line for line in detlint.compare(path, path).blind_spots)


def write(path: Path, document: object, values: bytes = b"", name: str = "record.json") -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, document if isinstance(document, (str, bytes)) else json.dumps(document))
        archive.writestr("values.safetensors", values)


def test_what_is_no_record_is_refused_in_one_line(path: Path, net: Net, image: torch.Tensor) -> None:
    def refused(match: str) -> None:
        with pytest.raises(RecordError, match=match) as caught:
            read_record(path)
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(str(path))

    refused("cannot be read: No such file")
    path.write_bytes(b"")
    refused("not a record of detlint")
    path.write_bytes(bytes(range(256)) * 40)
    refused("not a record of detlint")
    write(path, {}, name="other.json")
    refused("does not hold record.json")
    write(path, {"format": "another"})
    refused("another format")
    write(path, [1])
    refused("another format")
    write(path, "{")
    refused("damaged")
    write(path, "[" * 200_000)
    refused("damaged")
    write(path, {"format": "detlint record", "version": 2, "tool": {"version": "9.0"}})
    refused("written by detlint 9.0 in version 2 of the format")
    write(path, {"format": "detlint record", "version": 1})
    refused("damaged")


def test_every_truncation_is_refused_in_one_line(path: Path, net: Net, image: torch.Tensor) -> None:
    detlint.record(net, image, path)
    whole = path.read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:size])
        with pytest.raises(RecordError):
            read_record(path)


def test_flipped_bytes_never_crash(path: Path, net: Net, image: torch.Tensor) -> None:
    detlint.record(net, image, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            read_record(path)
        except RecordError:
            continue


ENDLESS = {"minimum": 0.0, "maximum": 1.0, "mean": 0.5, "norm": 1.0, "nan": math.inf, "infinite": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"events": 3},
        {"weights": {"a": {}}},
        {"steps": [{}]},
        {"environment": None},
        {"environment": {"torch": "2.13.0"}},
        {"events": [{"event": {"op": "x"}, "results": []}]},
        {"inputs": {"x": {"shape": [1], "dtype": "float32", "device": "cpu", "digest": None, "statistics": ENDLESS}}},
        {"inputs": {"x": {"shape": ["a"], "dtype": 1, "device": 2, "digest": "zz", "statistics": None}}},
    ],
)
def test_documents_of_another_shape_are_damaged(path: Path, change: dict[str, object]) -> None:
    document, values = Record("m", detlint.read_environment().to_dict()).encode()
    write(path, {"format": "detlint record", "version": 1, **document, **change}, save(values))
    with pytest.raises(RecordError, match="damaged"):
        read_record(path)
    write(path, {"format": "detlint record", "version": 1, **document}, save(values))
    assert read_record(path).model == "m"


def test_a_part_that_unpacks_too_large_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(read_record.__globals__["_LIMITS"], "record.json", 1 << 20)
    write(path, b" " * (50 << 20))
    assert path.stat().st_size < 100_000
    with pytest.raises(RecordError, match="larger than the 1 MB"):
        read_record(path)


def test_nothing_is_unpickled(path: Path) -> None:
    stream = io.BytesIO()
    torch.save({"a": torch.ones(1)}, stream)
    path.write_bytes(stream.getvalue())  # a zip archive too
    with pytest.raises(RecordError, match="not a record"):
        read_record(path)


def test_a_folder_that_does_not_exist_is_a_clear_error(net: Net, image: torch.Tensor, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        detlint.record(net, image, tmp_path / "no" / "run.detlint")


def test_a_write_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("old")

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(UsageError, match="No space left"):
        write_record(path, Record("m", {}))
    assert path.read_text() == "old"
    assert [item.name for item in path.parent.iterdir()] == [path.name]


# ---- steps of training -----------------------------------------------------------------------------------------------


def test_a_recorder_keeps_each_step(net: Net, image: torch.Tensor, path: Path) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with detlint.Recorder(path) as recorder:
        for _ in range(3):
            loss = net(image).square().sum()
            loss.backward()
            optimizer.step()
            recorder.step(net, loss=loss, inputs={"image": image})
            optimizer.zero_grad()
    record = read_record(path)
    assert [step.number for step in record.steps] == [0, 1, 2]
    first = record.steps[0]
    assert list(first.inputs) == ["input.image"]
    assert list(first.computed) == ["loss"]
    assert list(first.gradients)[:2] == ["gradient of head.bias", "gradient of head.weight"]
    assert "norm.running_mean" in first.parameters
    assert first.computed["loss"].digest != record.steps[1].computed["loss"].digest
    assert set(first.generators) >= {"cpu", "numpy", "random"}


def test_a_recorder_writes_what_there_is_when_training_fails(net: Net, path: Path) -> None:
    def train() -> None:
        with detlint.Recorder(path) as recorder:
            recorder.step(net)
            raise KeyError("x")

    with pytest.raises(KeyError):
        train()
    assert len(read_record(path).steps) == 1


def test_a_recorder_changes_nothing(net: Net, image: torch.Tensor, path: Path) -> None:
    def losses(recorder: detlint.Recorder | None) -> list[float]:
        torch.manual_seed(3)
        model = Net()
        found = []
        for _ in range(3):
            loss = nn.functional.dropout(model(image), 0.5).sum()
            loss.backward()
            if recorder is not None:
                recorder.step(model, loss=loss, inputs=image)
            found.append(loss.item())
        return found

    with warnings.catch_warnings(), detlint.Recorder(path) as recorder:
        warnings.simplefilter("error")
        assert losses(recorder) == losses(None)


def test_a_recorder_wants_a_module(path: Path) -> None:
    with pytest.raises(UsageError, match="expected a module, got int"):
        detlint.Recorder(path, 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected a module, got int"), detlint.Recorder(path) as recorder:
        recorder.step(3)  # type: ignore[arg-type]


def test_a_recorder_wants_a_tensor_as_loss(net: Net, path: Path) -> None:
    with pytest.raises(UsageError, match="a tensor as loss, got float"), detlint.Recorder(path) as recorder:
        recorder.step(net, loss=1.0)  # type: ignore[arg-type]


def test_a_recorder_says_where_nothing_would_be_written(net: Net, path: Path) -> None:
    with pytest.raises(UsageError, match=r"write `with Recorder\(…\) as recorder:`"):
        detlint.Recorder(path).step(net)
    with pytest.raises(RecordError, match="no step was recorded"), detlint.Recorder(path):
        pass
    assert not path.exists()
