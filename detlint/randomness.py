"""What draws random numbers and what seeds them: the only reader of `rules/sources.toml`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from detlint.errors import RuleError
from detlint.rulebook import Trigger, parse_trigger
from detlint.tables import RULES_FOLDER, check_keys, entries, one_of, read_table, word_lists

LIBRARIES = ("torch", "numpy", "random")
MODES = ("eval", "train")
_HELPERS = ("verbs", "about", "wide", "never", "elsewhere")
_INDIFFERENT = ("calls", "attributes", "words", "functions", "naming", "ciphers", "preparing")
_SEED_PARAMETERS = ("seed", "random_state", "manual_seed", "random_seed")

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")

RecordT = TypeVar("RecordT")


class NameTable(Generic[RecordT]):
    """Records by qualified name; a name may be a pattern with `*`."""

    def __init__(self, entries: Iterable[tuple[str, RecordT]]) -> None:
        self._exact: dict[str, RecordT] = {}
        self._patterns: list[tuple[str, RecordT]] = []
        for name, record in entries:
            if "*" in name:
                self._patterns.append((name, record))
            else:
                self._exact[name] = record

    def get(self, name: str) -> RecordT | None:
        """Return the record of a qualified name; exact names go before patterns, and those in the file's order."""
        found = self._exact.get(name)
        if found is not None:
            return found
        return next((record for pattern, record in self._patterns if fnmatchcase(name, pattern)), None)

    @cached_property
    def lasts(self) -> frozenset[str]:
        """The identifiers one of which must stand in the source for any of the names to be there."""
        names = [*self._exact, *(pattern for pattern, _ in self._patterns)]
        return frozenset(name.rpartition(".")[2] for name in names)


@dataclass(frozen=True, slots=True)
class Draw:
    """A call that draws from the global generator of `library`, unless it passes one of the parameters `generator`."""

    library: str
    generator: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seeder:
    """A call that seeds the global generators of `libraries`.

    `deterministic` is "always" where the call also asks for deterministic algorithms, the name of the parameter that
    says so, or empty. `implicit` ones do something else and seed along the way.
    """

    call: Trigger
    libraries: tuple[str, ...]
    deterministic: str = ""
    implicit: bool = False

    @property
    def seed(self) -> str | None:
        """The parameter that takes the seed; None where the call makes one up."""
        names = [parameter.name for parameter in self.call.parameters]
        return next((name for name in names if name in _SEED_PARAMETERS), names[0] if names else None)


@dataclass(frozen=True, slots=True)
class Helpers:
    """Functions of unread code that are taken to seed everything because their name says so (see the file)."""

    verbs: frozenset[str]
    about: frozenset[str]
    wide: frozenset[str]
    never: frozenset[str]
    elsewhere: frozenset[str]

    def fits(self, identifier: str, *, wide: bool = False) -> bool:
        """Return whether a function of this name seeds, or a method of an unknown object (`wide`)."""
        words = [word.lower() for word in _WORD.findall(identifier)]
        return (
            bool(words)
            and words[0] in self.verbs
            and not self.about.isdisjoint(words)
            and self.never.isdisjoint(words)
            and not (wide and self.wide.isdisjoint(words))
        )

    def covers(self, name: str) -> bool:
        """Return whether the function of this qualified name, from another package, seeds."""
        package, _, rest = name.partition(".")
        return bool(rest) and package not in self.elsewhere and self.fits(name.rpartition(".")[2])


@dataclass(frozen=True, slots=True)
class Indifferent:
    """Uses of a value that no other value would change: calls, attributes of tensors, words in a variable's name."""

    calls: frozenset[str]
    attributes: frozenset[str]
    words: frozenset[str]
    functions: frozenset[str]
    naming: frozenset[str]
    ciphers: frozenset[str]
    preparing: frozenset[str]

    def measures(self, identifier: str) -> bool:
        """Return whether a function of this name measures or traces a model: the numbers it is fed are all one."""
        return not self.functions.isdisjoint(word.lower() for word in _WORD.findall(identifier))

    def names(self, identifier: str) -> bool:
        """Return whether a variable of this name holds a place, a pause or a stand-in, not data."""
        return not self.words.isdisjoint(word.lower() for word in _WORD.findall(identifier))

    def hides(self, name: str) -> bool:
        """Return whether a function of this qualified name makes keys and digests: `hashlib.sha256`."""
        return name.partition(".")[0] in self.ciphers

    def draws_nothing(self, imported: str) -> bool:
        """Return whether what a file imports draws nothing unless it is told to: `json`, `transformers.AutoTokenizer`.

        That is the standard library without `random`, and what reads and prepares data.
        """
        package = imported.partition(".")[0]
        standard = package in sys.stdlib_module_names and package != "random"
        return standard or any(imported == name or imported.startswith(f"{name}.") for name in self.preparing)

    def makes_up_name(self, function: str) -> bool:
        """Return whether a function of this name draws the letters or words of a name: `get_random_string`."""
        return function.lower().endswith(tuple(self.naming))


@dataclass(frozen=True, slots=True)
class SmokeTest:
    """What a main guard calls that only tries something out, and what it does not (see the file)."""

    entries: re.Pattern[str]
    starts: tuple[str, ...]
    packages: tuple[str, ...]
    works: tuple[str, ...]
    methods: tuple[str, ...]
    runners: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A call that asks for deterministic algorithms, or stops doing so, through `parameter`."""

    call: Trigger
    parameter: str


@dataclass(frozen=True, slots=True)
class OwnGenerator:
    """A constructor of a generator of one's own: the parameters that seed it and the methods that do so later."""

    call: Trigger
    seed: tuple[str, ...]
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """`rules/sources.toml`. `unrepeatable` says of a name where its value comes from.

    `factories` make models in a mode, `switches` put the model that they are given in one, and so do the methods of
    `trainers`, which are made with a model, in `trainer_methods`.
    """

    draws: NameTable[Draw]
    seeders: NameTable[Seeder]
    helpers: Helpers
    requests: NameTable[Request]
    request_assignments: frozenset[str]
    generators: NameTable[OwnGenerator]
    indifferent: Indifferent
    smoke_test: SmokeTest
    unrepeatable: NameTable[str]
    factories: NameTable[str]
    switches: NameTable[str]
    trainers: frozenset[str]
    trainer_methods: NameTable[str]


@cache
def load_sources(path: Path = RULES_FOLDER / "sources.toml") -> Sources:
    """Return a table, read and validated once.

    Raises:
        RuleError: naming file, key and reason.
    """
    lists = dict.fromkeys(("draw", "seeder", "generator", "factory", "switch"), list)
    tables = dict.fromkeys(("helpers", "indifferent", "request", "smoke_test", "trainer", "unrepeatable"), dict)
    table = read_table(path, {**lists, **tables})
    request = word_lists(path, table, "request", ["calls", "assignments"])
    trainer = word_lists(path, table, "trainer", ["classes", *MODES])
    return Sources(
        draws=NameTable(_draws(path, table)),
        seeders=NameTable((*_seeders(path, table), *_seeding_trainers(path, trainer["classes"]))),
        helpers=Helpers(*map(frozenset, word_lists(path, table, "helpers", _HELPERS).values())),
        requests=NameTable(_requests(path, request["calls"])),
        request_assignments=frozenset(request["assignments"]),
        generators=NameTable(_generators(path, table)),
        indifferent=Indifferent(*map(frozenset, word_lists(path, table, "indifferent", _INDIFFERENT).values())),
        smoke_test=_smoke_test(path, table["smoke_test"]),
        unrepeatable=NameTable((name, words) for words, names in table["unrepeatable"].items() for name in names),
        factories=NameTable(_modes(path, table, "factory")),
        switches=NameTable(_modes(path, table, "switch")),
        trainers=frozenset(trainer["classes"]),
        trainer_methods=NameTable(
            (f"{owner}.{method}", mode) for owner in trainer["classes"] for mode in MODES for method in trainer[mode]
        ),
    )


def _draws(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[str, Draw]]:
    for where, entry in entries(path, table, "draw", {"library": str, "generator": list, "names": dict}):
        library = one_of(path, f"{where}.library", entry["library"], LIBRARIES)
        draw = Draw(library, tuple(entry["generator"]))
        for owner, names in entry["names"].items():
            yield from ((f"{owner}.{name}", draw) for name in names)


def _seeders(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[str, Seeder]]:
    optional = {"deterministic": str, "implicit": bool}
    for where, entry in entries(path, table, "seeder", {"calls": list, "seeds": list}, optional):
        libraries = tuple(one_of(path, f"{where}.seeds", library, LIBRARIES) for library in entry["seeds"])
        for text in entry["calls"]:
            call = parse_trigger(path, text)
            yield call.name, Seeder(call, libraries, entry.get("deterministic", ""), entry.get("implicit", False))


def _seeding_trainers(path: Path, classes: Iterable[str]) -> Iterator[tuple[str, Seeder]]:
    for name in classes:
        yield name, Seeder(parse_trigger(path, f"{name}(model, args)"), LIBRARIES, implicit=True)


def _smoke_test(path: Path, table: Mapping[str, Any]) -> SmokeTest:
    lists = ("starts", "packages", "works", "methods", "runners", "writes")
    check_keys(path, table, {"entries": str, **dict.fromkeys(lists, list)}, where="smoke_test")
    try:
        entries = re.compile(table["entries"])
    except re.error as error:
        raise RuleError(f"{path}: smoke_test.entries: {table['entries']!r}: {error}") from None
    return SmokeTest(entries, *(tuple(table[key]) for key in lists))


def _requests(path: Path, calls: Iterable[str]) -> Iterator[tuple[str, Request]]:
    for text in calls:
        call = parse_trigger(path, text)
        names = [parameter.name for parameter in call.parameters]
        if not names:
            raise RuleError(f"{path}: request.calls: {text!r} names no parameter")
        yield call.name, Request(call, "deterministic" if "deterministic" in names else names[0])


def _generators(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[str, OwnGenerator]]:
    for _, entry in entries(path, table, "generator", {"calls": list, "methods": list}, {"seed": list}):
        for text in entry["calls"]:
            call = parse_trigger(path, text)
            yield call.name, OwnGenerator(call, tuple(entry.get("seed", ())), tuple(entry["methods"]))


def _modes(path: Path, table: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    for where, entry in entries(path, table, kind, {"mode": str, "names": list}):
        mode = one_of(path, f"{where}.mode", entry["mode"], MODES)
        yield from ((name, mode) for name in entry["names"])
