"""Which release of torch does a project ask for? Read from its own metadata; nothing of it is run or installed."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from pathlib import Path

import tomli

from detlint.files import exists
from detlint.operators import CONFIRMED, NEWEST, OLDEST, parse_version

_LISTS = ("requirements.txt", "requirements.in")
_TOP = (".git", ".hg")
_PATCHES = 10
_LAST_OF_1 = 13


def newest_torch(folder: Path) -> str | None:
    """Return the newest release of torch, as "2.3", that the metadata in a folder allows; None where it names no torch.

    That is OLDEST where only still older ones are allowed; one later than CONFIRMED where only such are.
    """
    wanted = (text for text in _requirements(folder) if "torch" in text.lower())
    allowed = [release for text in wanted for release in _newest_allowed(text)]
    return min(allowed, key=parse_version, default=None)


def is_top(folder: Path) -> bool:
    """Return whether nothing above a folder belongs to its project."""
    return folder.parent == folder or any(exists(folder / name) for name in _TOP)


def _requirements(place: Path) -> Iterator[str]:
    """Yield the requirements that stand in a folder; files that cannot be read or parsed ask for nothing."""
    project = _table(_table(_document(place / "pyproject.toml"), "project"), "dependencies")
    yield from (text for text in project if isinstance(text, str))
    for name in _LISTS:
        yield from (line.partition("#")[0].strip() for line in _text(place / name).splitlines())


def _table(document: object, key: str) -> list[object] | dict[str, object]:
    found = document.get(key) if isinstance(document, dict) else None
    return found if isinstance(found, (list, dict)) else {}


def _document(file: Path) -> object:
    try:
        return tomli.loads(_text(file))
    except tomli.TOMLDecodeError:
        return {}


def _text(file: Path) -> str:
    """Return what a file says; Windows writes UTF-16 where the output of `pip freeze` is redirected."""
    try:
        raw = file.read_bytes()
        return raw.decode("utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _newest_allowed(text: str) -> Iterator[str]:
    """Yield the newest release of torch that a requirement such as `torch>=2.0,<2.4` allows."""
    from packaging.requirements import InvalidRequirement, Requirement  # kept out of `detlint --version`
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return
    if canonicalize_name(wanted.name) != "torch":
        return
    # `==2.1.0+cu118` is met by 2.1.0 of that build only.
    public = SpecifierSet(",".join(str(each).partition("+")[0] for each in wanted.specifier))
    releases = tuple(_releases())
    confirmed = releases.index(CONFIRMED)
    for release in (*releases[confirmed:], *releases[:confirmed]):
        if any(public.contains(f"{release}.{patch}") for patch in range(_PATCHES)):
            yield release
            return
    named = (Version(each.version.removesuffix(".*")) for each in public)
    yield NEWEST if max(named) > Version(NEWEST) else OLDEST


def _releases() -> Iterator[str]:
    """Yield the releases that detlint knows, the newest first: 2.15, …, 2.0, 1.13, …, 1.8."""
    (oldest_major, oldest), (newest_major, newest) = (parse_version(text)[:2] for text in (OLDEST, NEWEST))
    yield from (f"{newest_major}.{minor}" for minor in range(newest, -1, -1))
    yield from (f"{oldest_major}.{minor}" for minor in range(_LAST_OF_1, oldest - 1, -1))
