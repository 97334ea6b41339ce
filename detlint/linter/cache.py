"""Results of earlier runs, kept in `.detlint_cache/`.

An entry holds for a file as long as nothing it was worked out from has changed: its bytes, its settings, the rules,
detlint itself, every file of the project that was read, or looked for and not found, for facts about it, what was found
where all files of a project were searched for a name, and where projects and packages begin. The cache is JSON, never
pickle, since it lies in the folder of whoever's code is linted; one that is damaged, foreign or cannot be written is
ignored, and links in it are never followed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from detlint.errors import UsageError
from detlint.files import write_atomically
from detlint.findings import Applicability, Edit, Finding, Fix, Location, Related, Severity
from detlint.linter.jobs import FileResult, Job, Options
from detlint.linter.source.layout import Presence
from detlint.linter.source.mentions import Mentions, Search, mentions, python_files
from detlint.tables import RULES_FOLDER
from detlint.version import __version__

FOLDER = ".detlint_cache"
_FILE = "results.json"
_TICK = 20_000_000  # ns by which a file system's clock may be behind: one tick of the kernel's (4 ms Linux, 16 Windows)
_FEW = 32  # changed files that are looked into for every name that was ever searched for; of more, none is

AnyT = TypeVar("AnyT", bound=Hashable)


class Cache:
    """The results of earlier runs for one configuration root."""

    def __init__(self, root: Path, options: Options) -> None:
        self._folder = root / FOLDER
        self._options = options
        self._here = str(Path.cwd())
        self._began = time.time_ns() - _TICK
        self._digests: dict[str, str | None] = {}
        self._rules: dict[Sequence[Path], str] = {}
        self._entries = self._read()

    def get(self, job: Job) -> FileResult | None:
        """Return the result of an earlier run that still holds for `job`, or None."""
        entry = self._entries.get(str(job.path))
        try:
            if entry is None or entry["settings"] != self._settings(job):
                return None
            return FileResult(_findings(entry["findings"]), _findings(entry["suppressed"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            return None  # written by something else

    def add(self, done: Iterable[tuple[Job, FileResult]]) -> None:
        """Keep results for later runs; those that failed, or whose files changed meanwhile, are left out."""
        fresh: dict[str, Any] = {}
        unchanged: dict[Path, bool] = {}
        for job, result in done:
            searches = [fact for fact in result.facts if isinstance(fact, Search)]
            files = [job.path, *(fact for fact in result.facts if isinstance(fact, Path))]
            places = dict.fromkeys([*files, *(search.folder for search in searches)])
            unchanged.update({place: self._unchanged(place) for place in places if place not in unchanged})
            if result.problem is None and all(unchanged[place] for place in places):
                fresh[str(job.path)] = {
                    "settings": self._settings(job),
                    "facts": [str(path) for path in files],
                    "searches": searches,
                    "presences": [fact for fact in result.facts if isinstance(fact, Presence)],
                    "findings": [asdict(finding) for finding in result.findings],
                    "suppressed": [asdict(finding) for finding in result.suppressed],
                }
        if fresh:
            self._write(fresh)

    def _read(self) -> dict[str, Any]:
        if _leads_elsewhere(self._folder):
            return {}
        try:
            document = json.loads((self._folder / _FILE).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        try:
            if document["detlint"] != _detlint_digest():
                return {}
            # Each path stands once, with the digest that all entries were worked out from.
            digests = dict(document["files"])
            paths = list(digests)
            good = {number for number, path in enumerate(paths) if self._digest(path) == digests[path]}
            changed = {
                folder: self._changed(Path(folder), {paths[number]: digests[paths[number]] for number in numbers})
                for folder, numbers in document["folders"].items()
            }
            searches = [
                Search(name, Path(folder), at_most, None if found is None else tuple(Path(paths[n]) for n in found))
                for name, folder, at_most, found in document["searches"]
            ]
            now = Mentions()  # one for all, so that each folder is walked once
            holding = {n for n, search in enumerate(searches) if _still_holds(search, changed[str(search.folder)], now)}
            presences = [Presence(path, there) for path, there in document["presences"]]
            standing = {n for n, presence in enumerate(presences) if presence.is_current()}
            return {
                path: {
                    **entry,
                    "facts": [paths[number] for number in entry["facts"]],
                    "searches": [searches[number] for number in entry["searches"]],
                    "presences": [presences[number] for number in entry["presences"]],
                }
                for path, entry in document["entries"].items()
                if good.issuperset(entry["facts"])
                and holding.issuperset(entry["searches"])
                and standing.issuperset(entry["presences"])
            }
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return {}  # damaged

    def _write(self, fresh: Mapping[str, Any]) -> None:
        if self._folder.is_symlink():
            return
        # Another run may have written meanwhile: what it found for unchanged files is kept.
        entries = {**self._read(), **fresh}
        files = _Numbers[str]()
        searches = _Numbers[Search]()
        presences = _Numbers[Presence]()
        for entry in entries.values():
            entry["facts"] = [files[path] for path in entry["facts"]]
            entry["searches"] = [searches[search] for search in entry["searches"]]
            entry["presences"] = [presences[presence] for presence in entry["presences"]]
        document = {
            "detlint": _detlint_digest(),
            "entries": entries,
            "searches": [
                (s.name, str(s.folder), s.at_most, None if s.found is None else [files[str(path)] for path in s.found])
                for s in searches
            ],
            "presences": [(presence.path, presence.there) for presence in presences],
            "folders": {
                str(folder): [files[str(path)] for path in python_files(folder)]
                for folder in {search.folder for search in searches}
            },
            "files": [(path, self._digest(path)) for path in files],  # last, now that all have their numbers
        }
        with suppress(OSError, UsageError):
            self._folder.mkdir(exist_ok=True)
            with suppress(FileExistsError), (self._folder / ".gitignore").open("x", encoding="utf-8") as stream:
                stream.write("*\n")
            content = json.dumps(document, separators=(",", ":")).encode()
            write_atomically(self._folder / _FILE, content, through_links=False)

    def _changed(self, folder: Path, known: Mapping[str, str | None]) -> list[Path]:
        """Return the Python files of a folder that came, went or changed since their digests were `known`."""
        paths = dict.fromkeys([*known, *(str(path) for path in python_files(folder))])
        return [Path(path) for path in paths if path not in known or self._digest(path) != known[path]]

    def _settings(self, job: Job) -> str:
        rules = job.config.rule_paths
        if rules not in self._rules:
            self._rules[rules] = _rules_digest(rules)
        shown = (job.display, self._here, self._options.with_fixes)  # related places are relative to the folder too
        settings = (*shown, repr(job.config), _own_rules_digest(), self._rules[rules])
        return hashlib.blake2b(repr(settings).encode(), digest_size=16).hexdigest()

    def _digest(self, path: str) -> str | None:
        """Return the digest of a file's content, or None where there is no such file; each is read once."""
        if path not in self._digests:
            try:
                with open(path, "rb") as stream:  # noqa: PTH123 - for thousands of names, most of no file: no Path
                    content = stream.read()
            except OSError:
                self._digests[path] = None
            else:
                self._digests[path] = hashlib.blake2b(content, digest_size=16).hexdigest()
        return self._digests[path]

    def _unchanged(self, place: Path) -> bool:
        """Return whether a file is sure to be as it was when this run read it, and a folder with all of its files."""
        try:
            files = python_files(place) if place.is_dir() else (place,)
            return all(_changed_at(file) < self._began for file in files)
        except OSError:
            return True


def _changed_at(file: Path) -> int:
    """Return when a file was written to, or an older one put in its place."""
    status = file.stat()
    return max(status.st_mtime_ns, status.st_ctime_ns)


def clean(root: Path) -> bool:
    """Remove the cache of a configuration root; return whether there was one."""
    folder = root / FOLDER
    if folder.is_symlink() or not folder.is_dir():
        return False
    found = False
    for path in (folder / _FILE, folder / ".gitignore", *folder.glob(f".{_FILE}.*")):  # half-written ones too
        with suppress(FileNotFoundError):
            path.unlink()
            found = True
    with suppress(OSError):
        folder.rmdir()
    return found


def _leads_elsewhere(folder: Path) -> bool:
    """Whether the cache, or its folder, is a link: a repository may bring it along, and it may lead anywhere."""
    return folder.is_symlink() or (folder / _FILE).is_symlink()


class _Numbers(dict[AnyT, int]):
    """Numbers things in the order in which they are first asked for."""

    def __missing__(self, item: AnyT) -> int:
        number = self[item] = len(self)
        return number


def _still_holds(search: Search, changed: Collection[Path], now: Mentions) -> bool:
    """Would the search find today what it found, as far as the changed files can tell?"""
    if len(changed) > _FEW:
        return False
    if search.found is None:
        return not changed or now.of(search.name, search.folder, search.at_most).found is None
    return all(mentions(path, search.name) == (path in search.found) for path in changed)


@lru_cache(maxsize=1)
def _detlint_digest() -> str:
    """Identify this detlint: version, Python, and its own files, so that a checkout that is worked on counts as new."""
    package = Path(__file__).resolve().parent
    own = sorted([*package.rglob("*.py"), *package.parent.glob("*.py")])
    stamps = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in own]
    identity = repr((__version__, sys.version_info[:3], stamps))
    return hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=1)
def _own_rules_digest() -> str:
    """Identify detlint's own rules, which a process reads once."""
    return _rules_digest((RULES_FOLDER,))


def _rules_digest(rule_paths: Sequence[Path]) -> str:
    found = hashlib.blake2b(digest_size=16)
    files = [path for folder in rule_paths for path in sorted(folder.glob("*.toml"))]
    for path in [*files, *(path for path in rule_paths if path.is_file())]:
        found.update(path.read_bytes())
    return found.hexdigest()


def _findings(entries: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    return tuple(_finding(entry) for entry in entries)


def _finding(entry: Mapping[str, Any]) -> Finding:
    fix = entry["fix"]
    related = (Related(Location(**item["location"]), item["message"]) for item in entry["related"])
    return Finding(
        **{
            **entry,
            "severity": Severity(entry["severity"]),
            "location": Location(**entry["location"]),
            "passes": tuple(entry["passes"]),
            "devices": tuple(entry["devices"]),
            "related": tuple(related),
            "fix": None if fix is None else _fix(fix),
        }
    )


def _fix(entry: Mapping[str, Any]) -> Fix:
    edits = (Edit(Location(**edit["location"]), edit["text"]) for edit in entry["edits"])
    return Fix(entry["description"], Applicability(entry["applicability"]), tuple(edits))
