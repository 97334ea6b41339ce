"""Which files are programs, what their import closure is, and what of it can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from detlint.config import Config, ConfigResolver
from detlint.linter.analysis.program import Program, program_of
from detlint.linter.analysis.project import Project
from detlint.linter.engine import lint_paths

from .conftest import MakeModule

PROGRAMS = {
    "main guard": ("def main(): pass\nif __name__ == '__main__':\n    main()\n", True),
    "bare call": ("import train\ntrain.run()\n", True),
    "loop that works": ("for epoch in range(3):\n    step(epoch)\n", True),
    "click command": ("import click\n@click.command()\ndef main(): pass\n", True),
    "hydra main": ("import hydra\n@hydra.main(config_path='.')\ndef main(cfg): pass\n", True),
    "sacred": ("from sacred import Experiment\nex = Experiment('x')\n@ex.automain\ndef run(): pass\n", True),
    "command of a group": ("from other import cli\n@cli.command()\ndef run(): pass\n", True),
    "method called command": ("from other import chat\n@chat.command\ndef run(): pass\n", False),
    "definitions only": ("import torch\nX = torch.rand(3)\ndef f(): return X\n", False),
    "set-up only": (
        "import warnings, logging\nwarnings.filterwarnings('ignore')\nlogging.basicConfig()\n",
        False,
    ),
    "command line read in part": (
        "from argparse import ArgumentParser\ndef main():\n    opt, rest = ArgumentParser().parse_known_args()\n"
        "    fit(opt.name, rest)\n",
        True,
    ),
    "training whose result has a name": (
        "def tune(model, x):\n    model(x).backward()\n    return model\nbest = tune(MODEL, X)\n",
        True,
    ),
    "gradients of a method that nothing calls": (
        "class T:\n    def tune(self, x):\n        x.backward()\nbest = make(3)\n",
        False,
    ),
    "registration": ("from x import register\nregister('a', 1)\n", False),
    "empty": ("", False),
}


@pytest.mark.parametrize(("code", "expected"), PROGRAMS.values(), ids=PROGRAMS.keys())
def test_what_is_a_program(make_module: MakeModule, code: str, expected: bool) -> None:
    assert (program_of(make_module(code)) is not None) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def pretrain(model, x):\n    model(x).backward()\npretrain(MODEL, X)\n", True),
        ("for x in DATA:\n    MODEL(x).backward()\n", True),
        ("def _init_api():\n    pass\n_init_api()\n", False),
    ],
    ids=["a function that trains", "a loop that trains", "set-up"],
)
def test_what_is_a_program_in_a_package(make_module: MakeModule, code: str, expected: bool) -> None:
    main = make_module("", {"lab/__init__.py": "", "lab/job.py": code})
    module = main.project.find("lab.job", main)
    assert module is not None
    assert (program_of(module) is not None) is expected


@pytest.mark.parametrize(
    ("folder", "pattern", "expected"),
    [
        ("", "main.py", True),
        ("", "/jobs/**", False),
        ("", "/*.py", True),
        ("..", "main.py", True),
        ("..", "/main.py", False),
        ("elsewhere", "main.py", False),
    ],
)
def test_entry_points_are_patterns_below_their_configuration(
    make_module: MakeModule, tmp_path: Path, folder: str, pattern: str, expected: bool
) -> None:
    module = make_module("def f(): pass\n")
    config = Config(root=(tmp_path / folder).resolve(), entry_points=(pattern,))
    assert (program_of(module, config) is not None) is expected


def test_entry_points_of_a_configuration_below_the_root_of_the_project(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    files = ("sub/run.py", "sub/jobs/x.py", "sub/other.py", "run.py")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(
            "import torch\n\ndef draw():\n    return torch.rand(3)\n\nx = draw()\n\ndef moved(y):\n    return x + y\n"
        )
    (tmp_path / "sub" / "detlint.toml").write_text('entry-points = ["run.py", "/jobs/**"]\n')
    result = lint_paths([str(tmp_path)], resolver=ConfigResolver(), jobs=1)
    found = {Path(f.location.path).relative_to(tmp_path).as_posix() for f in result.findings if f.code == "DET101"}
    assert found == {"sub/run.py", "sub/jobs/x.py"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project.scripts]\nrun = 'main:run'\n"),
        ("pyproject.toml", "[tool.poetry.scripts]\nrun = 'main:run'\n"),
        ("pyproject.toml", "[project.entry-points.console_scripts]\nrun = 'main:run'\n"),
        ("pyproject.toml", "[project.gui-scripts]\nrun = 'main:run'\n"),
        ("setup.cfg", "[options.entry_points]\nconsole_scripts =\n    run = main:run\n"),
        ("setup.py", "from setuptools import setup\nsetup(entry_points={'console_scripts': ['run=main:run']})\n"),
        ("setup.py", "setup(entry_points='[console_scripts]\\nrun = main:run')\n"),
    ],
)
@pytest.mark.parametrize("script", ["main", "other"])
def test_console_scripts_make_programs(tmp_path: Path, name: str, text: str, script: str) -> None:
    (tmp_path / name).write_text(text.replace("main:", f"{script}:"))
    (tmp_path / "main.py").write_text("def run(): pass\n")
    assert (program_of(Project().at(tmp_path / "main.py")) is not None) is (script == "main")


@pytest.mark.parametrize(("start", "expected"), [("from main import run\nrun()\n", True), ("import main\n", False)])
def test_what_the_package_runs_is_a_program(tmp_path: Path, start: str, expected: bool) -> None:
    files = {"__init__.py": "", "__main__.py": start.replace("main", "lab.main"), "main.py": "def run(): pass\n"}
    (tmp_path / "lab").mkdir()
    for name, text in {"../pyproject.toml": "", **files}.items():
        (tmp_path / "lab" / name).write_text(text)
    assert (program_of(Project().at(tmp_path / "lab" / "main.py")) is not None) is expected


def seeds(program: Program) -> list[str]:
    return [f"{site.module.name}:{site.node.lineno}" for site in program.calls({"torch.manual_seed"})]


def test_closure_follows_imports_through_packages(make_module: MakeModule) -> None:
    files = {
        "lib/__init__.py": "from .deep import helper\n",
        "lib/deep.py": "from . import deeper\ndef helper(): deeper.seed()\n",
        "lib/deeper.py": "import torch\ndef seed():\n    torch.manual_seed(0)\n",
        "lib/unrelated.py": "import torch\ntorch.manual_seed(1)\n",
    }
    module = make_module("from lib import helper\nhelper()\n", files)
    program = program_of(module)
    assert program is not None
    assert [m.name for m in program.modules] == ["main", "lib", "lib.deep", "lib.deeper"]
    assert seeds(program) == ["lib.deeper:3"]


def test_library_code_is_not_followed_through_all_of_its_library(make_module: MakeModule) -> None:
    files = {"near.py": "import far\n", "far.py": "import torch\n"}
    module = make_module("import near\n", files)
    assert [each.name for each in Program(module, is_library=True).modules] == ["main", "near"]
    assert [each.name for each in Program(module).modules] == ["main", "near", "far"]


def test_a_sibling_wins_over_a_module_of_the_same_name_elsewhere(make_module: MakeModule) -> None:
    files = {
        "utils.py": "import torch\ntorch.manual_seed(0)\n",
        "sub/utils.py": "x = 1\n",
        "sub/run.py": "import utils\nutils.go()\n",
    }
    module = make_module("import sub.run\nsub.run.go()\n", files)
    program = program_of(module)
    assert program is not None
    assert [m.name for m in program.modules] == ["main", "sub.run", "sub.utils"]


def test_a_module_beside_is_not_what_a_package_imports_as_torch(make_module: MakeModule) -> None:
    files = {
        "lib/__init__.py": "",
        "lib/torch.py": "def seed(): pass\n",
        "lib/seeds.py": "import torch\nfrom . import torch as own\ntorch.manual_seed(0)\n",
    }
    program = program_of(make_module("import lib.seeds\nprint(1)\n", files))
    assert program is not None
    assert {m.name for m in program.modules} == {"main", "lib", "lib.seeds", "lib.torch"}
    assert seeds(program) == ["lib.seeds:3"]


def test_folders_without_init_belong_to_the_package_around_them(tmp_path: Path) -> None:
    for folder in (tmp_path / "lib" / "deep" / "er", tmp_path / "lone"):
        folder.mkdir(parents=True)
    (tmp_path / "lib" / "__init__.py").write_text("")
    project = Project()
    assert project.layout.root(tmp_path / "lib" / "deep" / "er") == tmp_path
    assert project.layout.root(tmp_path / "lone") == tmp_path / "lone"


def test_a_lone_script_imports_what_stands_above_it(tmp_path: Path) -> None:
    script = tmp_path / "examples" / "pretrain"
    for folder in (script, tmp_path / "lib"):
        folder.mkdir(parents=True)
    for name in ("lib/__init__.py", "torch.py", "examples/pretrain/near.py", "near.py"):
        (tmp_path / name).write_text("")
    layout = Project().layout
    found, places = layout.places("lib", str(script))
    assert found
    assert places[-1] == tmp_path / "lib" / "__init__.py"
    assert tmp_path / "examples" / "lib" / "__init__.py" in places
    assert layout.places("near", str(script))[1][-1] == script / "near.py"
    assert not layout.places("torch", str(script))[0]
    (script / ".git").mkdir()
    assert not Project().layout.places("lib", str(script))[0]


def test_a_package_within_a_package_belongs_to_the_outer_one(tmp_path: Path) -> None:
    inner = tmp_path / "lib" / "models" / "net"
    inner.mkdir(parents=True)
    for folder in (tmp_path / "lib", inner):
        (folder / "__init__.py").write_text("")
    (inner / "layers.py").write_text("import torch\n")
    layout = Project().layout
    assert layout.root(inner) == tmp_path
    assert layout.places("lib.models.net.layers", str(inner))[0]


RUNS = {
    "called helper": ("import torch\ndef seed():\n    torch.manual_seed(0)\nseed()\n", ["main:3"]),
    "helper never used": ("import torch\ndef seed():\n    torch.manual_seed(0)\nprint(1)\n", []),
    "helper that only calls itself": (
        "import torch\ndef seed():\n    torch.manual_seed(0)\n    seed()\nprint(1)\n",
        [],
    ),
    "helper passed on": ("import torch\ndef seed():\n    torch.manual_seed(0)\nprint(seed)\n", ["main:3"]),
    "under the guard": ("import torch\nif __name__ == '__main__':\n    torch.manual_seed(0)\n", ["main:3"]),
    "method": (
        "import torch\nclass T:\n    def seed(self):\n        torch.manual_seed(0)\nT().seed()\n",
        ["main:4"],
    ),
    "method that nobody names": (
        "import torch\nclass T:\n    def seed(self):\n        torch.manual_seed(0)\nT()\nseed = 1\nprint(seed)\n",
        [],
    ),
    "method of a class of the file, named in another method": (
        "import torch\nclass T:\n    def __init__(self):\n        self.seed()\n"
        "    def seed(self):\n        torch.manual_seed(0)\nprint(T())\n",
        ["main:6"],
    ),
    "method of a class of which code out of sight may call any": (
        "import torch\nfrom framework import Callback\nclass T(Callback):\n    def on_start(self):\n"
        "        torch.manual_seed(0)\nprint(T())\n",
        ["main:5"],
    ),
    "method picked by a computed name": (
        "import torch\nclass T:\n    def __call__(self, stage):\n        getattr(self, f'on_{stage}')()\n"
        "    def on_start(self):\n        torch.manual_seed(0)\nprint(T()('start'))\n",
        ["main:6"],
    ),
    "alias": ("from torch import manual_seed as ms\nms(0)\n", ["main:2"]),
    "variable": ("import torch\nfix = torch.manual_seed\nfix(0)\n", ["main:3"]),
}


@pytest.mark.parametrize(("code", "expected"), RUNS.values(), ids=RUNS.keys())
def test_what_can_run(make_module: MakeModule, code: str, expected: list[str]) -> None:
    program = program_of(make_module(code))
    assert program is not None
    assert seeds(program) == expected


def test_main_guard_of_an_imported_module_does_not_run(make_module: MakeModule) -> None:
    files = {"lib.py": "import torch\nif __name__ == '__main__':\n    torch.manual_seed(0)\n"}
    program = program_of(make_module("import lib\nlib.go()\n", files))
    assert program is not None
    assert seeds(program) == []


WRITES = {
    "assignment": "import torch\ntorch.backends.cudnn.benchmark = True\nprint()\n",
    "alias": "from torch.backends import cudnn\ncudnn.benchmark = True\nprint()\n",
    "renamed": "import torch.backends.cudnn as c\nc.benchmark = True\nprint()\n",
    "setattr": "import torch\nsetattr(torch.backends.cudnn, 'benchmark', True)\nprint()\n",
}


@pytest.mark.parametrize("code", WRITES.values(), ids=WRITES.keys())
def test_writes_to_flags(make_module: MakeModule, code: str) -> None:
    program = program_of(make_module(code))
    assert program is not None
    (write,) = program.writes({"torch.backends.cudnn.benchmark"})
    assert (write.node.lineno, getattr(write.value, "value", None)) == (2, True)
