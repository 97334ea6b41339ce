"""Where seeds come from, what seeds count, and what of a program runs."""

from __future__ import annotations

import ast

import pytest

from detlint.config import ConfigResolver
from detlint.linter.analysis.origins import origins
from detlint.linter.analysis.program import Program
from detlint.linter.engine import lint_paths
from detlint.linter.randomness.seeding import seeding_of
from tests.linter.conftest import MakeModule

HELPERS = {
    "tools.py": """
import random
import torch

def fix(number):
    torch.manual_seed(number)
    random.seed(number)
"""
}


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("import time\nx = int(time.time())\n", "time.time()"),
        ("import time\ny = time.time()\nx = int(y * 1000) % 7\n", "time.time()"),
        ("from datetime import datetime\nnow = datetime.now()\nx = now.microsecond\n", "datetime.now()"),
        ("import time\nargs = object()\nargs.seed = int(time.time())\nx = args.seed\n", "time.time()"),
        ("import time\ndef pick():\n    return int(time.time())\nx = pick()\n", "time.time()"),
        ("import time\nx = 1\nx += int(time.time())\n", "time.time()"),
        ("import time\nx = str(time.time()).replace('.', '')\n", "time.time()"),
    ],
    ids=["call", "variable", "attribute", "stored", "function", "augmented", "method"],
)
def test_what_takes_part_in_a_value(make_module: MakeModule, code: str, source: str) -> None:
    module = make_module(code)
    assigned = [*module.index.of_type(ast.Assign), *module.index.of_type(ast.AugAssign)]
    value = assigned[-1].value
    assert source in [ast.unparse(origin.node) for origin in origins(module, value, (module,))]


@pytest.mark.parametrize(
    "code",
    [
        "import time\nfrom lab import Run\nrun = Run(time.time())\nx = run.seed\n",
        "import time\nstart = time.time()\nx = 3\n",
        "import time\nx = [3, 4][time.time() > 0]\n",
        "import time\nx = lambda: time.time()\n",
    ],
    ids=["stored in an object", "beside it", "index", "lambda"],
)
def test_what_takes_no_part_in_a_value(make_module: MakeModule, code: str) -> None:
    module = make_module(code)
    value = module.index.of_type(ast.Assign)[-1].value
    assert "time.time()" not in [ast.unparse(origin.node) for origin in origins(module, value, (module,))]


@pytest.mark.parametrize(
    ("code", "seeded"),
    [
        ("import torch\ntorch.manual_seed(0)\n", "torch"),
        ("from tools import fix\nfix(0)\n", "random torch"),
        ("from tools import fix\nprint(fix)\n", "random torch"),
        ("from tools import random\nprint(random)\n", ""),
        ("import tools\nclock = object()\nclock.fix(0)\n", ""),
        ("import tools\ntools.fix(0)\n", "random torch"),
        ("import torch\ndef seed():\n    torch.manual_seed(0)\nprint(1)\n", ""),
        ("from elsewhere import set_seed\nset_seed(1)\n", "numpy random torch"),
        ("import gym\nenv = gym.make('A')\nenv.seed(0)\n", ""),
        ("import tensorflow as tf\ntf.random.set_seed(0)\n", ""),
        ("import torch\ng = torch.Generator()\ng.manual_seed(0)\n", ""),
    ],
    ids=[
        "own",
        "helper",
        "handed on",
        "helper unused",
        "a method of the same name",
        "through its module",
        "never called",
        "unread",
        "environment",
        "tensorflow",
        "generator",
    ],
)
def test_what_a_program_seeds(make_module: MakeModule, code: str, seeded: str) -> None:
    seeding = seeding_of(Program(make_module(code, HELPERS)))
    assert sorted({library for seed in seeding.seeds for library in seed.libraries}) == seeded.split()


@pytest.mark.parametrize(
    ("code", "shared"),
    [
        ("import torch\ntorch.manual_seed(7)\n", True),
        ("import torch\nimport torch.distributed as dist\ntorch.manual_seed(7 + dist.get_rank())\n", False),
        ("import os, torch\nrank = int(os.environ['RANK'])\ntorch.manual_seed(rank)\n", False),
        ("from tools import fix\nLOCAL_RANK = 1\nfix(3 + LOCAL_RANK)\n", False),
        ("from accelerate.utils import set_seed\nset_seed(3, device_specific=True)\n", False),
        ("import torch\ntorch.cuda.manual_seed_all(7)\n", False),
    ],
    ids=["constant", "rank", "environment", "helper", "device specific", "devices only"],
)
def test_a_seed_that_all_processes_share(make_module: MakeModule, code: str, shared: bool) -> None:
    assert seeding_of(Program(make_module(code, HELPERS))).shared("torch") is shared


@pytest.mark.parametrize(
    ("code", "spoken"),
    [
        ("import torch\ntorch.use_deterministic_algorithms(True)\n", True),
        ("import torch\ntorch.use_deterministic_algorithms(False)\n", True),
        ("import sys, torch\ntorch.use_deterministic_algorithms('-d' in sys.argv)\n", True),
        ("import torch\ntorch.backends.cudnn.deterministic = True\n", True),
        ("import torch\ntorch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, False\n", True),
        ("from transformers import set_seed\nset_seed(1)\n", False),
        ("from transformers import set_seed\nset_seed(1, deterministic=True)\n", True),
        ("from elsewhere import set_seed\nset_seed(1)\n", True),
        ("import torch\ntorch.manual_seed(1)\n", False),
    ],
    ids=["on", "off", "option", "cudnn", "cudnn off", "seed", "seed and more", "unread", "torch"],
)
def test_speaking_of_determinism(make_module: MakeModule, code: str, spoken: bool) -> None:
    assert seeding_of(Program(make_module(code))).mentions_determinism is spoken


SPLIT = """
from torch.utils.data import random_split

class Data:
    def parts(self, examples):
        return random_split(examples, [8, 2])
"""
SEEDS = "import torch\ntorch.manual_seed(0)\n"
SEEDED = "from load import load\nimport torch\ntorch.manual_seed(0)\nload('a')\n"
USER = "from main import Data\n\ndef load(path):\n    return Data().parts(path)\n"


@pytest.mark.parametrize(
    ("files", "code", "found"),
    [
        (
            {"train.py": "from load import load\nimport torch\ntorch.manual_seed(0)\nload('a')\n", "load.py": USER},
            SPLIT,
            0,
        ),
        ({"train.py": "from load import load\nload('a')\n", "load.py": USER}, SPLIT, 1),
        # Nobody is known to run the split: whoever does may well come by what seeds elsewhere.
        ({"other.py": SEEDS, "load.py": USER}, SPLIT, 0),
        ({"tools.py": HELPERS["tools.py"].replace("fix", "fix_seed")}, SPLIT, 0),
        ({"train.py": "from load import load\nload('a')\n", "load.py": USER, "other.py": SEEDS}, SPLIT, 1),
        ({"other.py": SEEDS, "load.py": USER}, SPLIT.replace("examples):", "examples, seed=None):"), 1),
        ({"tools.py": "import torch\ntorch.manual_seed(1)\n"}, "import tools\n" + SPLIT, 0),
        (
            {"tools.py": HELPERS["tools.py"].replace("fix", "fix_seed")},
            SPLIT + "\n    def __init__(self, seed):\n        fix_seed(seed)\n\nfrom tools import fix_seed\n",
            0,
        ),
    ],
    ids=[
        "program two files up",
        "unseeded",
        "elsewhere",
        "helper elsewhere",
        "elsewhere, and run by a program",
        "elsewhere, and a seed at hand",
        "seeded by import",
        "called here",
    ],
)
def test_a_library_split_is_seeded_by_what_leads_to_it(
    make_module: MakeModule, files: dict[str, str], code: str, found: int
) -> None:
    path = make_module(code, files).source.path
    result = lint_paths([str(path)], resolver=ConfigResolver(isolated=True), jobs=1)
    assert [finding.code for finding in result.findings] == ["DET105"] * found


LOADER = """
from torch.utils.data import DataLoader

class Images:
    def loader(self, images, shuffle=True):
        return DataLoader(images, shuffle=shuffle)

DATASETS = {"images": Images}
"""
PROGRAM = (
    "from main import DATASETS\n\nif __name__ == '__main__':\n"
    "    for image in DATASETS['images']().loader([1, 2]):\n        print(image)\n"
)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"train.py": PROGRAM}, 1),
        ({"train.py": "import torch\ntorch.manual_seed(3)\n" + PROGRAM}, 0),
        ({"train.py": PROGRAM, "other.py": "from lightning import seed_everything\n"}, 1),
        ({"train.py": PROGRAM.replace("DATASETS", "OTHERS")}, 0),
        ({"tests/train.py": PROGRAM}, 0),
        ({}, 0),
    ],
    ids=["unseeded", "seeded", "another script seeds", "not used", "test", "no program"],
)
def test_a_library_loader_is_reported_where_programs_use_it_that_never_seed(
    make_module: MakeModule, files: dict[str, str], found: int
) -> None:
    path = make_module(LOADER, files).source.path
    result = lint_paths([str(path)], resolver=ConfigResolver(isolated=True), jobs=1)
    assert [finding.code for finding in result.findings] == ["DET106"] * found


@pytest.mark.parametrize(("other", "found"), [("", 1), ("from lightning import seed_everything\n", 0)])
def test_a_loader_of_a_package_is_reported_where_the_project_never_seeds(
    make_module: MakeModule, other: str, found: int
) -> None:
    files = {"data/__init__.py": "", "data/images.py": LOADER, "other.py": other}
    root = make_module(PROGRAM.replace("from main", "from data.images"), files).source.path.parent
    result = lint_paths([str(root / "data")], resolver=ConfigResolver(isolated=True), jobs=1)
    assert [finding.code for finding in result.findings] == ["DET106"] * found
