"""Who may import whom, and what stays unloaded until it is needed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detlint.rulebook import load_rules

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "detlint"

# room → the rooms it may import. Arrows point downwards only; linter, runtime and reports never meet.
GROUND = {"errors", "version"}
TABLES = {"tables", "rulebook", "operators", "dispatch", "influences", "randomness", "layers", "sums", "upgrades"}
KNOWLEDGE = {*GROUND, *TABLES, "findings", "conditions"}
ROOMS = {
    "errors": set(),
    "version": set(),
    "findings": set(),
    "files": {"errors"},
    "conditions": {"errors"},
    "tables": {"errors"},
    "rulebook": {"errors", "conditions", "findings", "tables"},
    "config": {"errors", "files", "findings", "requirements", "rulebook", "settings", "tables"},
    "settings": {"errors", "findings", "operators", "tables"},
    "requirements": {"files", "operators"},
    "operators": {"errors", "conditions", "rulebook", "tables"},
    "dispatch": {"conditions", "operators", "tables"},
    "randomness": {"errors", "rulebook", "tables"},
    "influences": {"errors", "operators", "tables"},
    "layers": {"randomness", "rulebook", "tables"},
    "sums": {"errors", "tables"},
    "upgrades": {"errors", "operators"},
    "linter": {*KNOWLEDGE, "config", "files", "settings"},
    "runtime": {*KNOWLEDGE, "files"},
    "reports": {*KNOWLEDGE},
    "api": {*KNOWLEDGE, "files", "runtime", "reports"},
    "records": {*KNOWLEDGE, "runtime", "reports"},
    "cli": {*KNOWLEDGE, "__init__", "api", "records", "config", "files", "linter", "runtime", "reports", "settings"},
    "__init__": {*KNOWLEDGE, "api", "records", "config", "linter", "runtime", "reports"},
    "__main__": {"cli"},
}
# Packages of the linter, from the ground up: each imports those of rows above it only; modules beside them import all.
LINTER = (
    {"source"},
    {"tables"},
    {"analysis"},
    {"programs"},
    {"gradients", "indices", "modes"},
    {"memory"},
    {"randomness"},
    {"numbers"},
    {"order"},
    {"checks"},
)
# package from outside → the rooms that may import it
OUTSIDE = {
    "click": {"cli"},
    "libcst": {"linter"},
    "packaging": {"requirements"},
    "numpy": {"runtime"},
    "onnx": {"runtime"},
    "onnxruntime": {"runtime"},
    "onnxscript": {"runtime"},
    "pathspec": {"linter", "settings"},
    "rich": {"reports"},
    "safetensors": {"runtime"},
    "tomli": {"linter", "requirements", "settings", "tables"},
    "torch": {"runtime"},
    "typing_extensions": {"runtime"},
    "xxhash": {"runtime"},
}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """Yield every module that a file imports, wherever in it, with its line."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import"
            yield node.module or "", node.lineno


def test_imports_follow_the_table() -> None:
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        here = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts))
        for module, line in imports(file):
            top = module.partition(".")[0]
            if top == "detlint":
                there = room_of(module)
                fine = there == here or there in ROOMS.get(here, set())
            else:
                fine = top in sys.stdlib_module_names or here in OUTSIDE.get(top, set())
            if not fine:
                wrong.append(f"{file.relative_to(ROOT)}:{line}: {here} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_packages_of_the_linter_import_downwards() -> None:
    rows = {package: row for row, packages in enumerate(LINTER) for package in packages}
    assert set(rows) == {path.parent.name for path in (PACKAGE / "linter").glob("*/__init__.py")}
    wrong = []
    for package, row in rows.items():
        for file in sorted((PACKAGE / "linter" / package).rglob("*.py")):
            below = [part for module, _ in imports(file) if (part := module.removeprefix("detlint.linter.")) != module]
            targets = {part.partition(".")[0] for part in below} - {package}
            wrong += [f"{file.relative_to(ROOT)} imports {name}" for name in targets if rows.get(name, row) >= row]
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_circles_and_names_only_rooms_that_exist() -> None:
    exist = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert set(ROOMS) <= exist
    done: set[str] = set()
    while len(done) < len(ROOMS):
        ready = {room for room, below in ROOMS.items() if room not in done and below <= done}
        assert ready, f"these import each other: {sorted(set(ROOMS) - done)}"
        done |= ready


def loaded(code: str) -> set[str]:
    """Return the top-level modules a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


COMMAND = "import sys\nfrom detlint.cli import main\ntry:\n    main({args!r})\nexcept SystemExit:\n    pass"
HEAVY = {"torch", "numpy", "libcst", "rich", "transformers"}


def test_importing_detlint_loads_next_to_nothing() -> None:
    assert not loaded("import detlint") & {*HEAVY, "click", "pathspec", "tomli"}


@pytest.mark.parametrize("args", [["--version"], ["--help"]], ids=" ".join)
def test_small_commands_load_nothing_heavy(args: list[str]) -> None:
    assert not loaded(COMMAND.format(args=args)) & HEAVY


def test_linting_a_clean_file_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("import torch\n")
    assert not loaded(COMMAND.format(args=["--isolated", str(tmp_path)])) & HEAVY


def test_the_linter_as_a_function_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("import torch\n")
    assert not loaded(f"import detlint\nassert detlint.lint({str(tmp_path)!r}, isolated=True).files == 1") & HEAVY


def test_linting_never_imports_torch(tmp_path: Path) -> None:
    """A `torch` that raises when imported stands first on the path while every example of every rule is linted."""
    hostile, examples = tmp_path / "hostile", tmp_path / "examples"
    hostile.mkdir()
    examples.mkdir()
    for name in ("torch", "numpy"):
        (hostile / f"{name}.py").write_text(f"raise RuntimeError('{name} was imported')\n")
    for rule in load_rules().values():
        for number, example in enumerate((*rule.bad, *rule.good)):
            (examples / f"{rule.code}_{number}.py").write_text(example.code, encoding="utf-8", errors="replace")
    environment = {**os.environ, "PYTHONPATH": str(hostile)}
    for args in (["--isolated", "--no-cache", "--select", "ALL", "."], ["rules"], ["explain", "DET202"]):
        done = subprocess.run(
            [sys.executable, "-m", "detlint", *args],
            cwd=examples,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1), done.stderr
        assert done.stderr == ""
        assert done.stdout
