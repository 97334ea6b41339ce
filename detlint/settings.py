"""What one source says of how to lint: `[tool.detlint]` of a pyproject.toml, a detlint.toml, or the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli

from detlint.errors import ConfigError, did_you_mean
from detlint.findings import Severity
from detlint.operators import OLDEST, parse_version
from detlint.tables import DEVICES, PASSES

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# What people call the devices.
_OTHER_NAMES = {"gpu": "cuda", "rocm": "cuda", "hip": "cuda", "metal": "mps"}
_ALTERNATIVES = re.compile(r"(?<!\\)\{[^{}]*,[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Settings:
    """What one source says: a file, or the command line (`origin` is empty). None: it does not say."""

    origin: str = ""
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] | None = None
    force_exclude: bool | None = None
    respect_gitignore: bool | None = None
    severity: Severity | None = None
    fail_on: Severity | None = None
    devices: tuple[str, ...] | None = None
    passes: tuple[str, ...] | None = None
    torch_version: str | None = None
    entry_points: tuple[str, ...] | None = None
    rule_paths: tuple[str, ...] | None = None

    def where(self, key: str) -> str:
        """Name `key` as its author wrote it: `--select`, or `pyproject.toml: select`."""
        return f"{self.origin}: {key}" if self.origin else f"--{key}"


@lru_cache(maxsize=256)
def compile_patterns(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    """Compile patterns with the meaning that .gitignore gives them."""
    from pathspec import GitIgnoreSpec  # kept out of `detlint --version`

    return GitIgnoreSpec.from_lines(patterns)


def read_settings(file: Path) -> Settings | None:
    """Return what `file` says, or None for a pyproject.toml with no `[tool.detlint]`.

    Raises:
        ConfigError: naming file, key and the nearest known name or the allowed values.
    """
    try:
        document = tomli.loads(file.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    if file.name != "pyproject.toml":
        if "tool" in document:
            raise ConfigError(f"{file}: unknown key 'tool'; the keys stand at the top here, without [tool.detlint]")
        return parse_settings(f"{file}", document)
    tool = document.get("tool", {})
    table = tool.get("detlint") if isinstance(tool, dict) else None
    return None if table is None else parse_settings(f"{file}: tool.detlint", table)


def parse_settings(origin: str, table: object) -> Settings:
    """Return what the table of a configuration file says; `origin` stands in front of every error.

    Raises:
        ConfigError: an unknown key or a value of the wrong kind.
    """
    if not isinstance(table, dict):
        raise ConfigError(f"{origin}: expected a table, got {table!r}")
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _READERS:
            raise ConfigError(f"{origin}: unknown key {key!r}{did_you_mean(key, _READERS)}")
        values[key.replace("-", "_")] = _READERS[key](f"{origin}: {key}", value)
    return Settings(origin=origin, **values)


def _strings(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{where}: expected a list of strings, got {value!r}")
    return tuple(value)


def _patterns(where: str, value: object) -> tuple[str, ...]:
    return tuple(read_pattern(where, text) for text in _strings(where, value))


def read_pattern(where: str, text: str) -> str:
    """Check a pattern; `./a.py`, as shells complete it, is `/a.py` in .gitignore's syntax."""
    if _ALTERNATIVES.search(text):
        raise ConfigError(f"{where}: {text!r} matches nothing: braces mean themselves; write one pattern for each")
    pattern = f"/{text[2:].lstrip('/')}" if text.startswith("./") and text.strip("./") else text
    try:
        matches_nothing = "[" in text and any(each.regex is None for each in compile_patterns((pattern,)).patterns)
    except (ValueError, re.error):
        matches_nothing = True
    if matches_nothing:
        raise ConfigError(f"{where}: {text!r} is not a pattern as in .gitignore")
    return pattern


def _flag(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: expected true or false, got {value!r}")
    return value


def _severity(where: str, value: object) -> Severity:
    levels = [level.value for level in Severity]
    if value not in levels:
        nearest = did_you_mean(value, levels) if isinstance(value, str) else ""
        raise ConfigError(f"{where}: {value!r} is not one of {', '.join(levels)}{nearest}")
    return Severity(value)


def _some_of(allowed: tuple[str, ...]) -> Callable[[str, object], tuple[str, ...]]:
    def read(where: str, value: object) -> tuple[str, ...]:
        items = _strings(where, value)
        if not items:
            raise ConfigError(f"{where}: empty; name one or more of {', '.join(allowed)}")
        for item in items:
            if item not in allowed:
                nearest = did_you_mean(_OTHER_NAMES.get(item, item), allowed)
                raise ConfigError(f"{where}: {item!r} is not one of {', '.join(allowed)}{nearest}")
        return tuple(item for item in allowed if item in items)

    return read


def read_torch_version(where: str, value: object) -> str:
    """Return a torch release as users write it, "2.3" or "2.3.1", also with what `torch.__version__` adds: "+cu121"."""
    release = re.fullmatch(r"(\d+\.\d+(?:\.\d+)?)(?:\+[\w.]+)?", value) if isinstance(value, str) else None
    if release is None:
        raise ConfigError(f'{where}: {value!r} is not a release such as "2.13" or "2.3.1"')
    if parse_version(release[1]) < parse_version(OLDEST):
        raise ConfigError(f"{where}: {value!r} is older than {OLDEST}, the first release that detlint knows")
    return release[1]


def _ignores(where: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a table of pattern = [rules], got {value!r}")
    return tuple(
        (read_pattern(where, pattern), _strings(f"{where}.{pattern}", codes)) for pattern, codes in value.items()
    )


_READERS: dict[str, Callable[[str, object], object]] = {
    "select": _strings,
    "extend-select": _strings,
    "ignore": _strings,
    "per-file-ignores": _ignores,
    "exclude": _patterns,
    "extend-exclude": _patterns,
    "force-exclude": _flag,
    "respect-gitignore": _flag,
    "severity": _severity,
    "fail-on": _severity,
    "devices": _some_of(DEVICES),
    "passes": _some_of(PASSES),
    "torch-version": read_torch_version,
    "entry-points": _patterns,
    "rule-paths": _strings,
}
