"""What a file is for: does its main guard only try it out, is it a test?"""

from __future__ import annotations

from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_paths
from detlint.linter.programs.smoke import is_smoke_test
from tests.linter.conftest import MakeModule

HEAD = """
import numpy as np
import torch
from torch import nn

class Memory(nn.Module):
    def forward(self, x):
        return self.write(x)

    def write(self, x):
        return x + torch.rand(3)

    def step(self, x):
        return self.write(x)

class Index:
    def fit(self, points):
        self.points = points

def keep(model):
    torch.save(model, "model.pt")

if __name__ == "__main__":
"""
TRAINED = "    net = Memory()\n    net(torch.rand(3)).sum().backward()\n    print(net)\n"


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        (TRAINED, True),
        (TRAINED + "    torch.save(net, 'net.pt')\n", False),
        (
            "    points = np.random.rand(9, 2)\n    index = Index()\n    index.fit(points)\n    print(index.points)\n",
            True,
        ),
        ("    index = Index()\n    index.fit(np.load('points.npy'))\n    print(index.points)\n", False),
        ("    net = Memory()\n    assert net(torch.rand(3)).shape == (3,)\n    net.step(torch.rand(3))\n", True),
        ("    keep(Memory())\n", False),
    ],
    ids=["shown", "trained and saved", "fitted to draws", "fitted to data", "a method called write", "saved"],
)
def test_a_main_guard_in_a_package_that_only_tries_the_file_out(
    make_module: MakeModule, guard: str, expected: bool
) -> None:
    assert is_smoke_test(make_module(HEAD + guard, {"__init__.py": ""})) is expected


NETWORK = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout()

    def forward(self, x):
        return self.drop(x)
"""

# What a function is called says nothing where the file is started with a checkpoint on the command line.
EVALUATION = f"""{NETWORK}
import argparse

def test_one_epoch(model, loader):
    return [model(x) for x, _ in loader]

def main():
    path = argparse.ArgumentParser().parse_args().path
    model = Net()
    model.load_state_dict(torch.load(path))
    print(test_one_epoch(model, load()))

if __name__ == "__main__":
    main()
"""

# A test runner would not know what to hand over.
HANDED_OVER = f"""{NETWORK}

def test(model, loader):
    return [model(x) for x, _ in loader]

def model_test(loader):
    model = Net()
    model.load_state_dict(torch.load("net.pt"))
    print(test(model, loader))

model_test(load())
"""


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("test_net.py", "import torch\nx = torch.rand(3)\nprint(x)\n", ["DET101"]),
        ("test_net.py", "import torch\ndef test_it():\n    print(torch.rand(3))\ntest_it()\n", ["DET101"]),
        ("tests/net.py", "import torch\nx = torch.rand(3)\nprint(x)\n", ["DET101"]),
        ("tests/net.py", "import pytest, torch\ndef test_it():\n    print(torch.rand(3))\npytest.main()\n", []),
        ("tests/net.py", "import torch\ndef test_it():\n    print(torch.rand(3))\n", []),
        ("test_net.py", EVALUATION, ["DET201"]),
        ("test_net.py", HANDED_OVER, ["DET201"]),
        ("test_net.py", HANDED_OVER.replace("(model, loader)", "()"), []),
        ("tests/net.py", EVALUATION, []),
    ],
    ids=[
        "script",
        "test",
        "folder",
        "runner",
        "no program",
        "command line",
        "handed over",
        "handed nothing",
        "in tests",
    ],
)
def test_a_script_named_like_a_test(tmp_path: Path, name: str, code: str, found: list[str]) -> None:
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    result = lint_paths([str(path)], resolver=ConfigResolver(isolated=True), jobs=1)
    assert [finding.code for finding in result.findings] == found


@pytest.mark.parametrize(("folder", "found"), [("examples", ["DET101"]), ("layers", [])])
def test_an_example_inside_a_package_that_trains(tmp_path: Path, folder: str, found: list[str]) -> None:
    """It is a program, and the seeds inside the library that it shows are not its own."""
    (tmp_path / "pyproject.toml").touch()
    path = tmp_path / "spikes" / folder / "memory.py"
    path.parent.mkdir(parents=True)
    for package in (path.parent, path.parent.parent):
        (package / "__init__.py").touch()
    sampler = "import torch\nclass Sampler:\n    def reset(self):\n        torch.manual_seed(0)\n"
    (tmp_path / "spikes" / "sampler.py").write_text(sampler)
    path.write_text("from spikes.sampler import Sampler\nSAMPLER = Sampler\n" + HEAD + TRAINED)
    result = lint_paths([str(path)], resolver=ConfigResolver(isolated=True), jobs=1)
    assert [finding.code for finding in result.findings] == found
