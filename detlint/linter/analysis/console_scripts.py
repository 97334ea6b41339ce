"""Which modules does a project's packaging metadata name as console scripts?"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import tomli

from detlint.linter.source.parsing import parse

# Where a project names its console scripts.
METADATA = ("pyproject.toml", "setup.cfg", "setup.py")
_TABLES = (
    ("project", "scripts"),
    ("project", "gui-scripts"),
    ("project", "entry-points", "console_scripts"),
    ("tool", "poetry", "scripts"),
    ("tool", "flit", "scripts"),
)
_SCRIPT = re.compile(r"^\s*[\w.-]+\s*=\s*([A-Za-z_][\w.]*):[A-Za-z_]\w*", re.MULTILINE)


def script_modules(root: Path) -> frozenset[str]:
    """Return the modules that the project's packaging metadata names as console scripts."""
    found: set[str] = set()
    for name in METADATA:
        try:
            text = (root / name).read_text("utf-8")
            found.update(_READERS[name](text))
        except (OSError, ValueError, configparser.Error):
            continue
    return frozenset(found)


def _scripts_of_pyproject(text: str) -> Iterator[str]:
    document = tomli.loads(text)
    for keys in _TABLES:
        table: object = document
        for key in keys:
            table = table.get(key) if isinstance(table, dict) else None
        targets = table.values() if isinstance(table, dict) else ()
        yield from (target.partition(":")[0] for target in targets if isinstance(target, str))


def _scripts_of_setup_cfg(text: str) -> Iterator[str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    yield from _SCRIPT.findall(parser.get("options.entry_points", "console_scripts", fallback=""))


def _scripts_of_setup(text: str) -> Iterator[str]:
    tree = parse(text) if "console_scripts" in text else None
    if isinstance(tree, ast.Module):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _SCRIPT.findall(node.value)


_READERS = dict(zip(METADATA, (_scripts_of_pyproject, _scripts_of_setup_cfg, _scripts_of_setup), strict=True))
