"""`detlint audit` and `detlint env` as commands: exit codes, formats, one clear line for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from detlint.cli import main
from detlint.runtime.options import DEFAULT_PROBES, OTHER_PROBES
from detlint.runtime.probes import PROBES

MODELS = """
import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x, index):
        return torch.zeros(64).index_put_((index,), x, accumulate=True)


def race():
    return Pool()


def pairs():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(400_000, generator=generator), torch.randint(0, 64, (400_000,), generator=generator)


def linear():
    return nn.Linear(4, 4).eval()


class Holder:
    model = linear()


def rows():
    return torch.ones(2, 4)


def dropping():
    return nn.Sequential(nn.Dropout(0.5))


class Quits(nn.Module):
    def forward(self, x):
        raise SystemExit(0)


class Prints(nn.Module):
    def forward(self, x):
        print("hello from the model")
        return x * 2


def quits():
    raise SystemExit(0)


def raises():
    raise ValueError("no weights\\nat all")


class Fails(nn.Module):
    def forward(self, x):
        raise KeyError("x")


def needs(argument):
    return argument


FIVE = 5
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "models.py").write_text(MODELS)
    (folder / "broken.py").write_text("import nothing_of_this_name\n")
    (folder / "exits.py").write_text("raise SystemExit(3)\n")
    return folder


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def detlint(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command line in this process, in the folder of the project."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("models", "broken", "exits"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*args: str) -> Done:
        with pytest.raises(SystemExit) as exit:
            main(list(args))
        out, err = capsys.readouterr()
        return Done(int(exit.value.code or 0), out, err)

    return run


Run = Callable[..., Done]


def test_a_race_is_found_and_the_exit_code_says_so(detlint: Run, project: Path) -> None:
    done = detlint("audit", "models:race", "--sample", "models:pairs", "--runs", "20", "--format", "json")
    report = json.loads(done.stdout)
    if report["ok"]:
        pytest.skip("the threads of this machine never overlapped: there was no race to see")
    assert done.returncode == 1
    assert done.stderr == ""
    event = report["probes"]["repeat"]["divergence"]["event"]
    assert event["op"] == "aten.index_put_.default"
    assert (event["source"]["path"], event["source"]["line"]) == (str(project / "models.py"), 8)


def test_a_clean_model_exits_with_0(detlint: Run) -> None:
    done = detlint("audit", "models:linear", "--sample", "models:rows")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("PASSED Linear: ")


def test_what_the_model_prints_is_not_in_the_report(detlint: Run) -> None:
    done = detlint("audit", "models:Prints", "--sample", "models:rows", "--probe", "repeat", "--format", "json")
    assert json.loads(done.stdout)["model"] == "Prints"
    assert "hello from the model" in done.stderr


def test_findings_of_no_line_are_at_the_factory_in_formats_for_source(detlint: Run, project: Path) -> None:
    args = ("audit", "models:dropping", "--sample", "models:rows", "--probe", "mode", "--format")
    line = (project / "models.py").read_text().split("\n").index("def dropping():") + 1
    assert f"file=models.py,line={line}," in detlint(*args, "github").stdout
    places = [issue["location"] for issue in json.loads(detlint(*args, "gitlab").stdout)]
    assert {(place["path"], place["lines"]["begin"]) for place in places} == {("models.py", line)}


def test_a_value_behind_dots_is_taken_as_it_is(detlint: Run) -> None:
    assert detlint("audit", "models:Holder.model", "--sample", "models:rows").returncode == 0


def test_hazards_fail_only_when_asked_to(detlint: Run) -> None:
    args = ("audit", "models:race", "--sample", "models:pairs", "--no-execute")
    assert detlint(*args).returncode == 0
    assert detlint(*args, "--strict").returncode == 1


@pytest.mark.parametrize("style", ["text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit"])
def test_every_format_names_the_hazard(detlint: Run, style: str, tmp_path: Path) -> None:
    file = tmp_path / "report"
    args = ("audit", "models:race", "--sample", "models:pairs", "--no-execute", "--format", style)
    done = detlint(*args, "--output", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = file.read_text()
    assert "DET302" in text
    assert "models.py" in text


def test_html_is_written_beside_the_report(detlint: Run, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = detlint("audit", "models:linear", "--sample", "models:rows", "--probe", "repeat", "--html", str(page))
    assert done.returncode == 0
    assert "<!doctype html>" in page.read_text()


def test_a_script_shows_the_race_again(detlint: Run, tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    args = ("audit", "models:race", "--sample", "models:pairs", "--probe", "repeat", "--runs", "20")
    done = detlint(*args, "--repro", str(script))
    if done.returncode == 0:
        pytest.skip("the threads of this machine never overlapped: there was no race to see")
    assert subprocess.run([sys.executable, str(script)], check=False, capture_output=True).returncode == 1


def test_no_script_where_nothing_differs(detlint: Run, tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    done = detlint("audit", "models:linear", "--sample", "models:rows", "--probe", "repeat", "--repro", str(script))
    assert done.returncode == 0
    assert done.stderr == "detlint: no script was written: nothing differs, so there is nothing to show again\n"
    assert not script.exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--tiling", "0", "1", "1"), "Tiling(min_input_size=0)"),
        (("--compile-mode", "max-autotun"), "did you mean 'max-autotune'"),
        (("--probe", "tilling"), "did you mean 'tiling'"),
    ],
)
def test_bad_options_of_probes_are_one_line(detlint: Run, args: tuple[str, ...], message: str) -> None:
    done = detlint("audit", "models:linear", "--sample", "models:rows", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_graph_is_drawn(detlint: Run, tmp_path: Path) -> None:
    pytest.importorskip("pydot")
    drawing = tmp_path / "graph.dot"
    done = detlint("audit", "models:linear", "--sample", "models:rows", "--probe", "repeat", "--graph", str(drawing))
    assert (done.returncode, done.stderr) == (0, "")
    assert drawing.read_text().startswith("digraph")


def test_what_cannot_be_written_is_told_before_the_model_runs(detlint: Run) -> None:
    done = detlint("audit", "models:Fails", "--sample", "models:rows", "--html", "/nope/x.html")
    assert (done.returncode, done.stderr) == (
        2,
        "detlint: /nope/x.html: cannot be written: No such file or directory\n",
    )


def test_help_names_every_probe(detlint: Run) -> None:
    assert {*DEFAULT_PROBES, *OTHER_PROBES} == set(PROBES)
    told = " ".join(detlint("audit", "--help").stdout.split())
    assert f"{', '.join(DEFAULT_PROBES)}, which are asked if none is named; {', '.join(OTHER_PROBES)}." in told


def test_without_a_graph_the_reason_is_given(detlint: Run, tmp_path: Path) -> None:
    args = ("audit", "models:linear", "--sample", "models:rows", "--no-execute", "--graph", str(tmp_path / "g.dot"))
    done = detlint(*args)
    assert done.returncode == 2
    assert "there is no graph to draw: nothing was executed" in done.stderr


MISTAKES = {
    "no colon": (("models", "models:rows"), "MODULE:FACTORY 'models': expected MODULE:FACTORY"),
    "no module": (("nowhere:x", "models:rows"), "MODULE:FACTORY: no module 'nowhere'"),
    "file as module": (("src/models.py:linear", "models:rows"), "on the path; did you mean 'src.models'?"),
    "no attribute": (("models:liner", "models:rows"), "models has no 'liner'; did you mean 'linear'?"),
    "no sample of that name": (("models:linear", "models:row"), "--sample: models has no 'row'"),
    "module that cannot be imported": (
        ("broken:x", "models:rows"),
        "broken could not be imported: ModuleNotFoundError",
    ),
    "model that exits": (("models:Quits", "models:rows"), "the model raised SystemExit: 0"),
    "factory that exits": (("models:quits", "models:rows"), "'models:quits': raised SystemExit: 0"),
    "module that exits": (("exits:x", "models:rows"), "exits could not be imported: SystemExit: 3"),
    "factory that raises": (("models:raises", "models:rows"), "raised ValueError: no weights at "),
    "factory with a parameter": (("models:needs", "models:rows"), "raised TypeError: needs() missing 1 required"),
    "no model": (("models:FIVE", "models:rows"), "model: expected a module or a function, got int"),
    "no sample": (("models:linear", "models:FIVE"), "sample: expected a tensor"),
    "model that raises": (("models:Fails", "models:rows"), "the model raised KeyError: 'x' at "),
    "wrong sample": (("models:linear", "models:pairs"), "the model raised TypeError: "),
    "unknown probe": (("models:linear", "models:rows", "--probe", "reapet"), "did you mean 'repeat'?"),
    "nothing like a probe": (
        ("models:linear", "models:rows", "--probe", "zzz"),
        "unknown probe 'zzz': expected some of ",
    ),
    "no folder for the report": (("models:race", "models:rows", "--html", "/nope/x.html"), "/nope/x.html: cannot be"),
    "no folder for the script": (("models:race", "models:rows", "--repro", "/nope/x.py"), "/nope/x.py: cannot be"),
    "drawing of another kind": (("models:race", "models:rows", "--graph", "x.png"), "a graph is drawn as .svg or .dot"),
    "unknown device": (("models:linear", "models:rows", "--device", "banana"), "device='banana': "),
    "two ways to choose": (("models:linear", "models:rows", "--probe", "mode", "--all-probes"), "only one of them"),
}


@pytest.mark.parametrize(("args", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_and_exit_code_2(detlint: Run, args: tuple[str, ...], message: str) -> None:
    model, sample, *rest = args
    done = detlint("audit", model, "--sample", sample, *rest)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_without_torch_one_line_says_what_to_install(project: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    for args in (["env"], ["audit", "models:linear", "--sample", "models:rows"]):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom detlint.cli import main\nmain({args!r})",
            ],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "pip install 'detlint[torch]'" in done.stderr


def test_env_as_text_and_json(detlint: Run) -> None:
    text = detlint("env")
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.startswith("versions\n")
    table = json.loads(detlint("env", "--json").stdout)
    assert table["version"] == 1
    assert "cudnn_benchmark" in table["flags"]
