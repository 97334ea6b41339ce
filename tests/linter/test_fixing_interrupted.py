"""Fixing that is killed at any point leaves each file as it was or fixed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from detlint.linter.fixing import FixedFile
from tests.linter.fixes import FIXED, LISTING


@pytest.mark.skipif(sys.platform == "win32", reason="kills with a signal")
def test_a_run_killed_at_any_point_leaves_each_file_old_or_new(tmp_path: Path) -> None:
    """The files are written in a process that is killed 50 times, at random points of many rounds of writing."""
    fixed = [FixedFile(tmp_path / f"{n}.py", f"{n}.py", "utf-8", old, new, ()) for n, (old, new) in enumerate(_BIG)]
    for each in fixed:
        each.path.write_bytes(each.before)
    script = (
        "import sys\nfrom pathlib import Path\nfrom detlint.files import write_atomically\n"
        "contents = [Path(name).read_bytes() for name in sys.argv[2:]]\nprint(flush=True)\n"
        "while True:\n"
        "    for number in range(4):\n"
        "        for content in contents[2 * number: 2 * number + 2]:\n"
        "            write_atomically(Path(sys.argv[1]) / f'{number}.py', content)\n"
    )
    sources = []
    for each in fixed:
        for suffix, content in (("old", each.before), ("new", each.after)):
            source = tmp_path / f"{each.display}.{suffix}"
            source.write_bytes(content)
            sources.append(str(source))
    chance = random.Random(0)
    seen: set[bytes] = set()
    for _ in range(50):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), *sources], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for each in fixed:
            content = each.path.read_bytes()
            assert content in (each.before, each.after)
            seen.add(content)
    assert len(seen) > len(fixed), "the process was never killed while it wrote"


_BIG = [(f"# {n}\n{LISTING}".encode() * 2000, f"# {n}\n{FIXED}".encode() * 2000) for n in range(4)]


def test_a_killed_fix_run_leaves_files_that_parse(tmp_path: Path) -> None:
    """The whole command, killed a few times at random points, and finished at last."""
    for number in range(8):
        (tmp_path / f"{number}.py").write_text(LISTING)
    command = [sys.executable, "-m", "detlint", "check", "--isolated", "--fix", "--unsafe-fixes", "--jobs", "1", "."]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    chance = random.Random(0)
    for _ in range(5):
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.2, 1.0))
        process.kill()
        process.wait()
        assert {path.read_text() for path in tmp_path.glob("[0-9].py")} <= {LISTING, FIXED}
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert {path.read_text() for path in tmp_path.glob("[0-9].py")} == {FIXED}
