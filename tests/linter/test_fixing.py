"""Fixing a file changes what the finding is about and not one byte more."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from detlint.config import ConfigResolver
from detlint.errors import UsageError
from detlint.linter.analysis import repairs
from detlint.linter.checks import mode
from detlint.linter.fixing import fix_stdin
from detlint.linter.source.sources import SourceFile, source_from_bytes
from detlint.rulebook import load_rules
from tests.linter.fixes import DROPOUT, FIXED, LISTING, MENDED, fix, fixes


def mixed(text: str) -> bytes:
    """Give every other line another ending."""
    lines = text.encode().split(b"\n")
    return b"".join(line + (b"\r\n" if number % 2 else b"\n") for number, line in enumerate(lines[:-1])) + lines[-1]


BYTES = {
    "line feeds": (LISTING.encode(), FIXED.encode()),
    "carriage return and line feed": (LISTING.replace("\n", "\r\n").encode(), FIXED.replace("\n", "\r\n").encode()),
    "carriage returns": (LISTING.replace("\n", "\r").encode(), FIXED.replace("\n", "\r").encode()),
    "mixed": (mixed(LISTING), mixed(FIXED)),
    "no final line end": (LISTING.rstrip("\n").encode(), FIXED.rstrip("\n").encode()),
    "byte order mark": (b"\xef\xbb\xbf" + LISTING.encode(), b"\xef\xbb\xbf" + FIXED.encode()),
    "Latin-1": (
        f"# coding: latin-1\n# é\n{LISTING}".encode("latin-1"),
        f"# coding: latin-1\n# é\n{FIXED}".encode("latin-1"),
    ),
    "form feed": (b"\x0c\n" + LISTING.encode(), b"\x0c\n" + FIXED.encode()),
    "tabs": (LISTING.replace("    ", "\t").encode(), FIXED.replace("    ", "\t").encode()),
    "blanks at line ends": (LISTING.replace("\n", "  \n").encode(), FIXED.replace("\n", "  \n").encode()),
    "lines added": (DROPOUT.encode(), MENDED.encode()),
    "lines added, CRLF": (DROPOUT.replace("\n", "\r\n").encode(), MENDED.replace("\n", "\r\n").encode()),
    "characters before it": (
        LISTING.replace("return ", "x = 'ä€𝄞'; return ").encode(),
        FIXED.replace("return ", "x = 'ä€𝄞'; return ").encode(),
    ),
}


@pytest.mark.parametrize(("before", "after"), BYTES.values(), ids=BYTES.keys())
def test_all_other_bytes_stay(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(before)
    assert fix(path) == after
    assert fixes(path) == []
    (piped,) = fix_stdin(before, "x.py", resolver=ConfigResolver(isolated=True), unsafe=True).files
    assert piped.after == after


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o664], ids=oct)
def test_permissions_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "x.py"
    path.write_text(LISTING)
    path.chmod(mode)
    assert fix(path) == FIXED.encode()
    assert path.stat().st_mode & 0o777 == mode


def test_links_are_written_through(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "x.py", tmp_path / "x.py"
    real.parent.mkdir()
    real.write_text(LISTING)
    link.symlink_to(real)
    assert fix(link) == FIXED.encode()
    assert link.is_symlink()
    assert real.read_text() == FIXED


def test_what_an_editor_saved_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(LISTING)
    (fixed,) = fixes(path)
    path.write_text(LISTING + "# saved by an editor\n")
    with pytest.raises(UsageError, match="changed meanwhile"):
        fixed.write()
    assert path.read_text() == LISTING + "# saved by an editor\n"
    path.unlink()
    with pytest.raises(UsageError, match="changed meanwhile"):
        fixed.write()
    assert not path.exists()


UNTOUCHED = {
    "only unsafe fixes": (LISTING, False),
    "always on, and written so": (DROPOUT.replace("0.1,", "0.1, training=True,"), False),
    "silenced": (LISTING.replace("(root))\n", "(root))  # detlint: ignore[DET601]\n"), True),
    "another sorted": ("from mine import sorted\n" + LISTING, True),
    "does not parse": (LISTING + "def\n", True),
    "an iterator is wanted": ("from pathlib import Path\n\ndef first(r):\n    return next(Path(r).glob('*'))\n", True),
    "entries cannot be compared": ("import os\n\ndef files(r):\n    return [e.name for e in os.scandir(r)]\n", True),
    "tensors cannot be compared": ("import torch\n\ndef f():\n    return list({torch.ones(1), torch.ones(2)})\n", True),
    "arguments by position": (
        "# detlint: disable[DET304]\nimport torch\n\ndef f(x: torch.Tensor):\n    return torch.sort(x, 0)\n",
        True,
    ),
    "the remedy is more than an argument": (
        """
import torch
import torch.nn.functional as F

def step(x, optimizer):
    y = F.interpolate(x, size=8, mode="bilinear", antialias=True)
    y.sum().backward()
    optimizer.step()
    return F.adaptive_max_pool2d(x, 3)
""",
        True,
    ),
    "several targets": ("import torch\nfrom torch.backends import cudnn\n\nx = cudnn.benchmark = True\n", True),
    "training would go on in eval mode": (
        """
import torch
import torch.nn.functional as F

def fit(model, optimizer, loader, val_loader):
    model.train()
    for epoch in range(3):
        for x, y in loader:
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            print([model(x) for x, y in val_loader])
""",
        True,
    ),
}


@pytest.mark.parametrize(("code", "unsafe"), UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_left_alone(tmp_path: Path, code: str, unsafe: bool) -> None:
    path = tmp_path / "x.py"
    path.write_text(code)
    assert fix(path, unsafe=unsafe) == code.encode()


def test_nothing_goes_between_if_and_elif_and_other_fixes_are_made(tmp_path: Path) -> None:
    code = """
import torch
import torchvision

torch.backends.cudnn.benchmark = True

def predict(x, quick):
    net = torchvision.models.resnet18()
    net.load_state_dict(torch.load("a.pt"))
    with torch.no_grad():
        if quick:
            return 0
        elif net(x).sum() > 0:
            return 1
        return 2
"""
    path = tmp_path / "x.py"
    path.write_text(code)
    assert fix(path) == code.replace("benchmark = True", "benchmark = False").encode()


def test_a_fix_that_does_not_parse_keeps_no_other_from_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mode, "insert_before", lambda statement, line: repairs.insert_before(statement, "("))
    code = """
import torch
import torchvision

torch.backends.cudnn.benchmark = True

def predict(x):
    net = torchvision.models.resnet18()
    net.load_state_dict(torch.load("a.pt"))
    with torch.no_grad():
        return net(x)
"""
    path = tmp_path / "x.py"
    path.write_text(code)
    assert fix(path) == code.replace("benchmark = True", "benchmark = False").encode()


def test_fixes_inside_fixes_take_another_round(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("import os\n\ndef f(r):\n    return list(set(list(os.listdir(r)))), list({x for x in 'ab'})\n")
    (fixed,) = fixes(path)
    assert b"sorted(set(" in fixed.after
    fixed.write()
    assert fixes(path) == []


def test_diff_says_what_would_change_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(LISTING)
    (fixed,) = fixes(path)
    assert [line for line in fixed.diff().splitlines() if line[:1] in "+-"][2:] == [
        "-    return list(os.listdir(root))",
        "+    return sorted(os.listdir(root))",
    ]
    assert path.read_text() == LISTING


def test_fixed_files_are_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(BYTES["mixed"][0])
    again = source_from_bytes(fix(path), path, "x.py")
    assert isinstance(again, SourceFile)
    assert again.text == FIXED


def test_what_one_fix_brings_to_light_is_fixed_too(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "import torch\nfrom torchvision import models\n\nnet = models.resnet50(weights='DEFAULT')\n\n"
        "@torch.no_grad()\ndef embed(x):\n    return net(x)\n\n@torch.no_grad()\ndef rank(x):\n    return net(x) + 1\n"
    )
    assert fix(path).count(b"net.eval()") >= 1
    assert fixes(path) == []


TRAINING = """
import torch

def evaluate(net, loader):
    net.eval()
    with torch.no_grad():
        return [net(x) for x in loader]

def fit(net, optimizer, loader, held_out):
    net.train()
    for epoch in range(9):
        for x in loader:
            net(x).sum().backward()
            optimizer.step()
        evaluate(net, held_out)

def fit_steps(net, optimizer, loader, held_out):
    net.train()
    for step, x in enumerate(loader):
        net(x).sum().backward()
        optimizer.step()
        if step % 9 == 0:
            evaluate(net, held_out)
"""


def test_train_mode_comes_back_where_batches_begin_or_before_the_step(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(TRAINING)
    epochs = "        for x in loader:\n"
    steps = "    for step, x in enumerate(loader):\n"
    mended = TRAINING.replace(epochs, "        net.train()\n" + epochs).replace(steps, steps + "        net.train()\n")
    assert fix(path).decode() == mended
    assert fixes(path) == []


# --- many files at once -------------------------------------------------------------------------------------------

EXAMPLES = [example for rule in load_rules().values() for example in (*rule.bad, *rule.good)]


def test_every_example_that_parsed_still_parses_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    """What benchmarks/fix_trees.py checks on real trees."""
    paths = []
    for number, example in enumerate(EXAMPLES):
        path = tmp_path / f"p{number}" / f"example{Path(example.filename).suffix}"
        path.parent.mkdir()
        path.write_text(example.code, encoding="utf-8", newline="")
        paths.append(path)
    first = fixes(*paths)
    assert len(first) > 60
    for fixed in first:
        assert fixed.before == fixed.path.read_bytes() != fixed.after
        if fixed.path.suffix == ".py":
            ast.parse(fixed.after)
        fixed.write()
    assert fixes(*paths) == []
