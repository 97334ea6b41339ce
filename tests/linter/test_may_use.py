"""Which files may use a definition of another one, and what is not parsed because of that."""

from __future__ import annotations

import pytest

from detlint.linter.analysis.may_use import calls_among, may_use
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.program import Program, program_of
from detlint.linter.randomness.seeding import seeding_of
from detlint.linter.source.names import FUNCTIONS, FunctionNode

from .conftest import MakeModule

OWNER = """
import torch
def run(seed):
    torch.manual_seed(seed)
def sweep(seed):
    torch.manual_seed(seed)
class Trainer:
    def __init__(self, seed):
        torch.manual_seed(seed)
    def start(self, seed):
        torch.manual_seed(seed)
"""
USES = {
    "imported": ("from lib.owner import run\nrun(0)\n", "run", True),
    "imported under another name": ("from lib.owner import run as go\nrun = go\nrun(0)\n", "run", True),
    "attribute of the module": ("from lib import owner\nowner.run(0)\n", "run", True),
    "attribute of a package above": ("import lib\nlib.owner.run(0)\n", "run", True),
    "through another module": ("from lib import other\nother.run(0)\n", "run", True),
    "everything imported": ("from lib.owner import *\nrun(0)\n", "run", True),
    "method of the same name": ("import subprocess\nsubprocess.run('ls')\n", "run", False),
    "variable of the same name": ("from lib import owner\ndef go(run):\n    return run\n", "run", False),
    "method": ("def go(trainer):\n    trainer.start(0)\n", "start", True),
    "name of a method alone": ("def go(start):\n    return start\n", "start", False),
    "class that is made": ("from lib.owner import Trainer\nTrainer(0)\n", "__init__", True),
    "class that inherits": (
        "from lib.owner import Trainer as T\nclass Mine(T):\n    def __init__(self):\n        super().__init__(1)\n",
        "__init__",
        True,
    ),
    "another class": ("class Mine(dict):\n    def __init__(self):\n        super().__init__()\n", "__init__", False),
}


def function_of(owner: Module, name: str) -> FunctionNode:
    return next(node for kind in FUNCTIONS for node in owner.index.of_type(kind) if node.name == name)


@pytest.mark.parametrize(("code", "name", "expected"), USES.values(), ids=USES.keys())
def test_which_files_may_use_a_function(make_module: MakeModule, code: str, name: str, expected: bool) -> None:
    files = {"lib/__init__.py": "", "lib/owner.py": OWNER, "lib/other.py": "from .owner import run\n", "user.py": code}
    program = Program(make_module("import user\nfrom lib import owner, other\n", files))
    owner, user = (next(each for each in program.modules if each.name == name) for name in ("lib.owner", "user"))
    assert may_use(user, owner, function_of(owner, name)) is expected


def test_a_call_is_found_wherever_it_is_meant(make_module: MakeModule) -> None:
    files = {"lib/__init__.py": "", "lib/owner.py": OWNER, "user.py": "from lib.owner import run\nrun(3)\n"}
    module = make_module("import user\nimport lib.owner\nlib.owner.run(4)\nprint(user)\n", files)
    program = Program(module)
    owner = next(each for each in program.modules if each.name == "lib.owner")
    found = [(user.name, call.lineno) for user, call in calls_among(program.modules, owner, function_of(owner, "run"))]
    assert found == [("main", 3), ("user", 2)]


def test_files_that_only_hold_the_names_are_not_parsed(make_module: MakeModule) -> None:
    """A program may import thousands of files: to know what it seeds takes the trees of few."""
    bystander = "import subprocess\nsubprocess.sweep(1)\nclass Job:\n    def go(self):\n        setattr(self, 'a', 1)\n"
    many = {f"lib/part{number}.py": bystander for number in range(12)}
    everything = "".join(f"from . import part{number}\n" for number in range(12))
    files = {**many, "lib/__init__.py": everything, "lib/owner.py": OWNER}
    module = make_module("import lib\nfrom lib.owner import run\nrun(0)\n", files)
    program = program_of(module)
    assert program is not None
    seeding = seeding_of(program)
    assert [seed.node.lineno for seed in seeding.of("torch")] == [4]
    assert not seeding.mentions_determinism
    assert {each.name for each in program.modules if "tree" in vars(each)} == {"main", "lib.owner"}
