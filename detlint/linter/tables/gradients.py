"""What the linter knows about gradients: `rules/gradients.toml`, validated once at load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from detlint.errors import RuleError
from detlint.tables import RULES_FOLDER, read_table, word_lists

_KEYS: Mapping[str, tuple[str, ...]] = {
    "functions": ("sources", "cuts", "of-first", "leaves", "unrecorded-decorators"),
    "methods": ("cuts", "of-receiver", "loading"),
    "attributes": ("cuts", "constants"),
    "words": (
        "data",
        "positions",
        "computed",
        "denoising",
        "features",
        "given",
        "results",
        "numbers",
        "permutations",
        "repeating",
        "tables",
        "choices",
        "bests",
        "caches",
        "data-modules",
        "inferring-modules",
        "inferring-roles",
        "command-modules",
    ),
    "names": (
        "data-classes",
        "inferring-classes",
        "inferring-objects",
        "data-functions",
        "inferring-texts",
        "refusing-texts",
        "derivatives",
        "reading-functions",
        "entry-methods",
        "image-makers",
        "weightless-layers",
        "whole-models",
        "published-models",
        "judging-classes",
        "losses",
        "image-channels",
    ),
}


@dataclass(frozen=True, slots=True)
class GradientTable:
    """Names of functions, methods and attributes by what they do to a gradient; patterns that find names of data."""

    source_functions: frozenset[str]
    cutting_functions: frozenset[str]
    of_first_functions: frozenset[str]
    leaf_functions: frozenset[str]
    unrecorded_decorators: frozenset[str]
    cutting_methods: frozenset[str]
    of_receiver_methods: frozenset[str]
    loading_methods: frozenset[str]
    cutting_attributes: frozenset[str]
    constants: re.Pattern[str]
    data: re.Pattern[str]
    positions: re.Pattern[str]
    computed: re.Pattern[str]
    denoising: re.Pattern[str]
    features: re.Pattern[str]
    given: re.Pattern[str]
    results: re.Pattern[str]
    numbers: re.Pattern[str]
    permutations: re.Pattern[str]
    repeating: re.Pattern[str]
    tables: re.Pattern[str]
    choices: re.Pattern[str]
    bests: re.Pattern[str]
    caches: re.Pattern[str]
    data_modules: re.Pattern[str]
    inferring_modules: re.Pattern[str]
    inferring_roles: re.Pattern[str]
    command_modules: re.Pattern[str]
    data_classes: re.Pattern[str]
    inferring_classes: re.Pattern[str]
    inferring_objects: re.Pattern[str]
    data_functions: re.Pattern[str]
    inferring_texts: re.Pattern[str]
    refusing_texts: re.Pattern[str]
    derivatives: re.Pattern[str]
    reading_functions: re.Pattern[str]
    entry_methods: re.Pattern[str]
    image_makers: re.Pattern[str]
    weightless_layers: re.Pattern[str]
    whole_models: re.Pattern[str]
    published_models: re.Pattern[str]
    judging_classes: re.Pattern[str]
    losses: re.Pattern[str]
    image_channels: re.Pattern[str]

    def names_data(self, name: str) -> bool:
        """Return whether a name says that it stands for data, not for what a model made of data."""
        return self.data.search(name) is not None and self.computed.search(name) is None


@cache
def gradient_table(path: Path = RULES_FOLDER / "gradients.toml") -> GradientTable:
    """Return a table, read and validated once.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    read = read_table(path, dict.fromkeys(_KEYS, dict))
    table = {section: word_lists(path, read, section, keys) for section, keys in _KEYS.items()}
    words, names = table["words"], table["names"]
    return GradientTable(
        source_functions=frozenset(table["functions"]["sources"]),
        cutting_functions=frozenset(table["functions"]["cuts"]),
        of_first_functions=frozenset(table["functions"]["of-first"]),
        leaf_functions=frozenset(table["functions"]["leaves"]),
        unrecorded_decorators=frozenset(table["functions"]["unrecorded-decorators"]),
        cutting_methods=frozenset(table["methods"]["cuts"]),
        of_receiver_methods=frozenset(table["methods"]["of-receiver"]),
        loading_methods=frozenset(table["methods"]["loading"]),
        cutting_attributes=frozenset(table["attributes"]["cuts"]),
        constants=_pattern(path, "attributes.constants", table["attributes"]["constants"], r"^({})$", flags=0),
        data=_pattern(path, "words.data", words["data"], r"(^|_)({})(_|\d|$)"),
        positions=_pattern(path, "words.positions", words["positions"], r"(^|_)({})(_\d|_[a-z])?$"),
        computed=_pattern(path, "words.computed", words["computed"], r"(?:^|(?<=_))({})"),
        denoising=_pattern(path, "words.denoising", words["denoising"], r"({})"),
        features=_pattern(path, "words.features", words["features"], r"(^|_)({})$"),
        given=_pattern(path, "words.given", words["given"], r"^({})$"),
        results=_pattern(path, "words.results", words["results"], r"^({})$"),
        numbers=_pattern(path, "words.numbers", words["numbers"], r"(^|_)({})$"),
        permutations=_pattern(path, "words.permutations", words["permutations"], r"(^|_)({})$"),
        repeating=_pattern(path, "words.repeating", words["repeating"], r"(^|_)({})(_|\d|$)"),
        tables=_pattern(path, "words.tables", words["tables"], r"(^|_)({})\d?$"),
        choices=_pattern(path, "words.choices", words["choices"], r"(^|_)({})$"),
        bests=_pattern(path, "words.bests", words["bests"], r"(^|_)({})$"),
        caches=_pattern(path, "words.caches", words["caches"], r"(^|_)({})$"),
        data_modules=_pattern(path, "words.data-modules", words["data-modules"], r"^({})$"),
        inferring_modules=_pattern(path, "words.inferring-modules", words["inferring-modules"], r"^({})$"),
        inferring_roles=_pattern(path, "words.inferring-roles", words["inferring-roles"], r"^({})$"),
        command_modules=_pattern(path, "words.command-modules", words["command-modules"], r"^({})$"),
        data_classes=_pattern(path, "names.data-classes", names["data-classes"], r"({})$", flags=0),
        inferring_classes=_pattern(path, "names.inferring-classes", names["inferring-classes"], r"({})$", flags=0),
        inferring_objects=_pattern(path, "names.inferring-objects", names["inferring-objects"], r"({})$", flags=0),
        data_functions=_pattern(path, "names.data-functions", names["data-functions"], r"^_*({})"),
        inferring_texts=_pattern(path, "names.inferring-texts", names["inferring-texts"], r"({})"),
        refusing_texts=_pattern(path, "names.refusing-texts", names["refusing-texts"], r"({})"),
        derivatives=_pattern(path, "names.derivatives", names["derivatives"], r"(^|_)({})(_|$)"),
        reading_functions=_pattern(path, "names.reading-functions", names["reading-functions"], r"^_*({})"),
        entry_methods=_pattern(path, "names.entry-methods", names["entry-methods"], r"^({})$", flags=0),
        image_makers=_pattern(path, "names.image-makers", names["image-makers"], r"^({})$", flags=0),
        weightless_layers=_pattern(path, "names.weightless-layers", names["weightless-layers"], r"^({})$", flags=0),
        whole_models=_pattern(path, "names.whole-models", names["whole-models"], r"\.({})$", flags=0),
        published_models=_pattern(path, "names.published-models", names["published-models"], r"(^|\.)({})$", flags=0),
        losses=_pattern(path, "names.losses", names["losses"], r"({})$", flags=0),
        judging_classes=_pattern(path, "names.judging-classes", names["judging-classes"], r"({})", flags=0),
        image_channels=_pattern(path, "names.image-channels", names["image-channels"], r"^({})$"),
    )


def _pattern(path: Path, where: str, parts: list[str], frame: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    try:
        return re.compile(frame.replace("{}", "|".join(parts)), flags)
    except re.error as error:
        raise RuleError(f"{path}: {where}: {error}") from None
