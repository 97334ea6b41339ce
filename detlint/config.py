"""What is linted and how: pyproject.toml, detlint.toml and the command line become one `Config`.

The nearest configuration above a file counts; files in between that do not mention detlint are passed over.
Reading it never imports or runs anything of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from detlint.errors import ConfigError, did_you_mean
from detlint.files import is_file
from detlint.findings import Severity
from detlint.requirements import is_top, newest_torch
from detlint.settings import Settings, compile_patterns, read_settings
from detlint.tables import PASSES

if TYPE_CHECKING:
    from detlint.rulebook import Rule

DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".nox",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "__pypackages__",
    "_build",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)
DEFAULT_DEVICES = ("cpu", "cuda")

# A file that cannot be read was not checked: it is reported whatever `select` says, unless ignored by name.
_ALWAYS_SELECTED = "DET001"
_PREFIX = re.compile(r"[A-Z]{2,}\d{0,3}")


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force for a folder. Patterns have the syntax of .gitignore and are relative to `root`.

    `root` is the folder of the configuration file, or the current one where there is none. `layers` hold
    what the file and then the command line say about selection; `enabled_rules` reads them.
    `severity` is the least that is shown and `fail_on` the least that makes the run fail.
    `torch_version` is the newest that the metadata of the project allows where no setting says it, None where that says
    nothing either: then it is CONFIRMED. `entry_points` are patterns of files to be seen as programs.
    """

    root: Path
    source: Path | None = None
    layers: tuple[Settings, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    force_exclude: bool = False
    respect_gitignore: bool = True
    severity: Severity = Severity.INFO
    fail_on: Severity = Severity.INFO
    devices: tuple[str, ...] = DEFAULT_DEVICES
    passes: tuple[str, ...] = PASSES
    torch_version: str | None = None
    entry_points: tuple[str, ...] = ()
    rule_paths: tuple[Path, ...] = ()


class ConfigResolver:
    """Which configuration holds for a file? Looks upwards for the nearest one, once a folder.

    `file` is used for everything instead of searching; `isolated` uses no file at all; `overrides` are
    the settings of the command line and win over those of a file.
    """

    def __init__(self, *, file: Path | None = None, isolated: bool = False, overrides: Settings | None = None) -> None:
        self._overrides = overrides or Settings()
        self._folders: dict[Path, Config] = {}
        self._releases: dict[Path, str | None] = {}
        self._fixed: Config | None = None
        if isolated:
            self._fixed = self._without_file()
        elif file is not None:
            self._fixed = self._from_file(file.resolve(), _require(file))

    def for_file(self, path: Path) -> Config:
        """Return the configuration of the folder that holds `path`."""
        return self.for_folder(path.absolute().parent)

    def for_folder(self, folder: Path) -> Config:
        """Return the configuration in force in `folder`.

        Raises:
            ConfigError: the file cannot be read or holds something detlint does not know.
        """
        if self._fixed is not None:
            return self._fixed
        folder = folder.absolute()
        config = self._nearest(folder)
        release = None if config.torch_version is not None else self._newest_torch(folder)
        return config if release is None else replace(config, torch_version=release)

    def _nearest(self, folder: Path) -> Config:
        passed: list[Path] = []
        found: Config | None = None
        for place in (folder, *folder.parents):
            passed.append(place)
            found = self._folders.get(place) or self._in(place)
            if found is not None:
                break
        found = found or self._without_file()
        self._folders.update(dict.fromkeys(passed, found))
        return found

    def _newest_torch(self, folder: Path) -> str | None:
        """Return the newest release of torch that the nearest metadata allows which names torch."""
        passed: list[Path] = []
        found: str | None = None
        for place in (folder, *folder.parents):
            passed.append(place)
            found = self._releases[place] if place in self._releases else newest_torch(place)
            if found is not None or place in self._releases or is_top(place):
                break
        self._releases.update(dict.fromkeys(passed, found))
        return found

    def _in(self, folder: Path) -> Config | None:
        """Return the configuration that stands in a folder itself."""
        for candidate in (folder / "detlint.toml", folder / "pyproject.toml"):
            settings = read_settings(candidate) if is_file(candidate) else None
            if settings is not None:
                return self._from_file(candidate, settings)
        return None

    def _from_file(self, file: Path, settings: Settings) -> Config:
        return _merge(file.parent, file, (settings, self._overrides))

    def _without_file(self) -> Config:
        return _merge(Path.cwd(), None, (self._overrides,))


def _require(file: Path) -> Settings:
    if not is_file(file):
        raise ConfigError(f"{file}: no such configuration file")
    settings = read_settings(file)
    if settings is None:
        raise ConfigError(f"{file}: holds no [tool.detlint] table")
    return settings


def _merge(root: Path, source: Path | None, layers: tuple[Settings, ...]) -> Config:
    said: dict[str, Any] = {}
    for layer in layers:
        for field in fields(Config):
            value = getattr(layer, field.name, None)
            if value is not None:
                said[field.name] = value
    extended = [pattern for layer in layers for pattern in layer.extend_exclude or ()]
    said["exclude"] = (*said.get("exclude", DEFAULT_EXCLUDE), *extended)
    said["rule_paths"] = tuple(root / path for path in said.get("rule_paths", ()))
    return Config(root=root, source=source, layers=layers, **said)


def enabled_rules(config: Config, rules: Mapping[str, Rule], path: Path) -> tuple[str, ...]:
    """Which rules speak about the file at `path`? Codes in sorted order.

    The most specific selector decides (a code or name, then the longer prefix, then ALL, then the default
    set); between equals `ignore` wins. What the command line says goes before what a file says, and
    `--select` replaces the file's selection altogether.

    Raises:
        ConfigError: a selector matches no rule; names where it stands and the nearest ones.
    """
    known = tuple(_Selectable(rule.code, rule.name, rule.default) for rule in rules.values())
    codes = _in_force(config.layers, known)
    silenced = _silenced_here(config, path)
    if not silenced:
        return codes
    return tuple(code for code in codes if not _specificity(rules[code], silenced))


class _Selectable(NamedTuple):
    """What selection wants to know of a rule; cheap to compare, so that answers can be kept."""

    code: str
    name: str
    default: bool


@lru_cache(maxsize=256)
def _in_force(layers: tuple[Settings, ...], known: tuple[_Selectable, ...]) -> tuple[str, ...]:
    for layer in layers:
        _check_selectors(layer, known)
    replacing = [number for number, layer in enumerate(layers) if layer.select is not None]
    layers = layers[replacing[-1] :] if replacing else layers
    return tuple(sorted(rule.code for rule in known if _is_enabled(rule, layers)))


def _is_enabled(rule: _Selectable, layers: tuple[Settings, ...]) -> bool:
    default = layers[0].select is None if layers else True
    wanted = (0, 0) if rule.code == _ALWAYS_SELECTED or (rule.default and default) else (-1, 0)
    ignored = (-1, 0)
    for number, layer in enumerate(layers):
        chosen = _specificity(rule, (*(layer.select or ()), *(layer.extend_select or ())))
        wanted = max(wanted, (number, chosen)) if chosen else wanted
        silenced = _specificity(rule, layer.ignore or ())
        ignored = max(ignored, (number, silenced)) if silenced else ignored
    return wanted > ignored


def _specificity(rule: Rule | _Selectable, selectors: tuple[str, ...]) -> int:
    """How exactly do `selectors` name the rule? 0: not at all."""
    return max((selector_rank(rule, selector) for selector in selectors), default=0)


def selector_rank(rule: Rule | _Selectable, selector: str) -> int:
    """How exactly does one selector name the rule, in lower or upper case?

    0: not at all; a code or name goes before any prefix.
    """
    if selector == "ALL":
        return 1
    code = selector.upper()
    if code == rule.code or selector.lower() == rule.name:
        return 1 + len(rule.code)
    return 1 + len(code) if _PREFIX.fullmatch(code) and rule.code.startswith(code) else 0


def _silenced_here(config: Config, path: Path) -> tuple[str, ...]:
    return tuple(
        selector
        for pattern, selectors in config.per_file_ignores
        if covers(config, (pattern,), path)
        for selector in selectors
    )


def covers(config: Config, patterns: tuple[str, ...], path: Path) -> bool:
    """Do patterns of a configuration mean the file at `path`? No files outside of its root."""
    absolute = path.absolute()
    if not patterns or not absolute.is_relative_to(config.root):
        return False
    return compile_patterns(patterns).match_file(absolute.relative_to(config.root).as_posix())


def _check_selectors(layer: Settings, known: tuple[_Selectable, ...]) -> None:
    for key, selectors in _selectors(layer):
        for selector in selectors:
            if selector != "ALL" and not any(selector_rank(rule, selector) for rule in known):
                names = [*(rule.code for rule in known), *(rule.name for rule in known), "ALL"]
                nearest = did_you_mean(selector, names)
                raise ConfigError(f"{layer.where(key)}: unknown rule {selector!r}{nearest}")


def _selectors(layer: Settings) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "select", layer.select or ()
    yield "extend-select", layer.extend_select or ()
    yield "ignore", layer.ignore or ()
    for pattern, selectors in layer.per_file_ignores or ():
        yield f"per-file-ignores.{pattern}", selectors
