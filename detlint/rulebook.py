"""The only reader of the rule files: they become `Rule`s, validated once at load."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from detlint.conditions import check_condition
from detlint.errors import RuleError
from detlint.findings import Finding, Location, Severity
from detlint.tables import DEVICES, PASSES, RULES_FOLDER, entries, one_of, read_table, word_list

RULES_URL = "https://github.com/detlint/detlint/blob/main/rules"

_REQUIRED: dict[str, type] = {
    "code": str,
    "name": str,
    "family": str,
    "severity": str,
    "default": bool,
    "summary": str,
    "message": str,
    "why": str,
    "fix": str,
}
_OPTIONAL: dict[str, type] = {
    "references": list,
    "triggers": list,
    "match": dict,
    "bad": list,
    "good": list,
    "later": list,
    "passes": list,
    "devices": list,
}
_EXAMPLE_KEYS: dict[str, type] = {
    "title": str,
    "code": str,
    "lines": list,
    "also": list,
    "fixed": str,
    "filename": str,
    "files": dict,
    "settings": dict,
}
_TRIGGER = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?:\((?P<parameters>.*)\))?$")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a trigger; `default` is Python source, or None where the call must give it."""

    name: str
    default: str | None
    keyword_only: bool

    @property
    def is_valid(self) -> bool:
        """Whether the name is a name, and the default an expression."""
        named = self.name.lstrip("*").isidentifier() or self.name == "/"
        return named and (self.default is None or _is_expression(self.default))


@dataclass(frozen=True, slots=True)
class Trigger:
    """A qualified name that wakes a rule, with its parameters where the rule file states them."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def last(self) -> str:
        """The identifier that must stand in the source for this trigger to be there."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Example:
    """A program under a rule. `lines` are where findings of the rule stand (empty for good ones).

    `also` names other rules allowed to speak, `fixed` is the code after its safe and unsafe fixes. `files` are further
    files of the same project (path → text),
    `filename` is the example's own path in it and `settings` its configuration.
    """

    title: str
    code: str
    lines: tuple[int, ...] = ()
    also: tuple[str, ...] = ()
    fixed: str | None = None
    filename: str = "example.py"
    files: Mapping[str, str] | None = None
    settings: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """What a declarative rule reports: calls of its triggers whose arguments satisfy every condition of `when`."""

    when: Mapping[str, object]


@dataclass(frozen=True)
class Rule:
    """One rule file: metadata, explanation, triggers and examples."""

    code: str
    name: str
    family: str
    severity: Severity
    default: bool
    summary: str
    message: str
    why: str
    fix: str
    path: Path
    references: tuple[str, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    match: Match | None = None
    passes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    bad: tuple[Example, ...] = ()
    good: tuple[Example, ...] = ()
    later: tuple[Example, ...] = ()

    @cached_property
    def triggers_by_name(self) -> Mapping[str, Trigger]:
        """The triggers by their qualified names."""
        return {trigger.name: trigger for trigger in self.triggers}

    @cached_property
    def calls(self) -> frozenset[str]:
        """The identifiers that a call must hold to be one of a trigger."""
        return frozenset(trigger.last for trigger in self.triggers)

    @property
    def url(self) -> str:
        """Address of the rule's file; empty for rules of the user's own."""
        return f"{RULES_URL}/{self.path.name}" if self.path.parent == RULES_FOLDER else ""

    def finding(self, location: Location, *, remedy: str = "", **placeholders: object) -> Finding:
        """Return a finding of this rule; `placeholders` fill its message, `remedy` stands in for its `fix`."""
        return Finding(
            code=self.code,
            name=self.name,
            severity=self.severity,
            message=self.message.format(**placeholders),
            location=location,
            remedy=remedy or self.fix.partition("\n")[0],
            passes=self.passes,
            devices=self.devices,
            url=self.url,
        )


def load_rules(extra: Sequence[Path] = ()) -> dict[str, Rule]:
    """Return every built-in rule, then those under `extra` (files or folders), by code in sorted order.

    Raises:
        RuleError: a file is broken or a code or name stands twice; names file, key and reason.
    """
    rules = dict(_builtin_rules())
    names = {rule.name: rule for rule in rules.values()}
    for path in _rule_files(extra):
        rule = _own_rule(path, _stamp(path))
        for clash in (rules.get(rule.code), names.get(rule.name)):
            if clash is not None:
                raise RuleError(f"{path}: {rule.code} ({rule.name}) is already taken by {clash.path.name}")
        rules[rule.code] = rule
        names[rule.name] = rule
    return dict(sorted(rules.items()))


@lru_cache(maxsize=1)
def _builtin_rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for path in sorted(RULES_FOLDER.glob("DET*.toml")):
        rule = read_rule(path)
        if rule.code in rules:
            raise RuleError(f"{path}: code {rule.code} is already taken by {rules[rule.code].path.name}")
        rules[rule.code] = rule
    return rules


@lru_cache(maxsize=256)  # asked for again with each linted file
def _own_rule(path: Path, stamp: tuple[int, int, int]) -> Rule:
    """Return the rule that a file of the user's own holds in the state that `stamp` tells."""
    rule = read_rule(path)
    if rule.match is None:
        raise RuleError(f"{path}: match: missing; it says which calls of the triggers are reported")
    return rule


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:  # reading it tells the user
        return 0, 0, 0
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size


def _rule_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.toml"))
        elif path.is_file():
            yield path
        else:
            raise RuleError(f"{path}: rule-paths names neither a file nor a folder")


def read_rule(path: Path) -> Rule:
    """Read and validate one rule file.

    Raises:
        RuleError: naming file, key and reason.
    """
    table = read_table(path, _REQUIRED, _OPTIONAL)
    code, name = table["code"], table["name"]
    if not re.fullmatch(r"[A-Z]{2,}\d{3}", code):
        raise RuleError(f"{path}: code: {code!r} is not capital letters followed by three digits")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise RuleError(f"{path}: name: {name!r} is not kebab-case")
    severity = one_of(path, "severity", table["severity"], [level.value for level in Severity])
    triggers = tuple(parse_trigger(path, text) for text in word_list(path, table, "triggers"))
    return Rule(
        code=code,
        name=name,
        family=table["family"],
        severity=Severity(severity),
        default=table["default"],
        summary=table["summary"],
        message=table["message"],
        why=table["why"].strip(),
        fix=table["fix"].strip(),
        path=path,
        references=word_list(path, table, "references"),
        triggers=triggers,
        match=_match(path, table, triggers) if "match" in table else None,
        passes=tuple(one_of(path, "passes", word, PASSES) for word in table.get("passes", ())),
        devices=tuple(one_of(path, "devices", word, DEVICES) for word in table.get("devices", ())),
        bad=tuple(_examples(path, "bad", table)),
        good=tuple(_examples(path, "good", table)),
        later=tuple(_examples(path, "later", table)),
    )


def _match(path: Path, table: Mapping[str, Any], triggers: Sequence[Trigger]) -> Match:
    match = table["match"]
    if set(match) - {"when"}:
        raise RuleError(f"{path}: match: unknown key {sorted(set(match) - {'when'})[0]!r}; allowed: when")
    if not triggers:
        raise RuleError(f"{path}: triggers: missing; [match] chooses among their calls")
    when = match.get("when", {})
    check_condition(path, "match.when", when, {"input", *(p.name for trigger in triggers for p in trigger.parameters)})
    try:
        table["message"].format(call="torch.rand")
    except (LookupError, ValueError, AttributeError):
        raise RuleError(f"{path}: message: only {{call}} is filled in; write other braces twice") from None
    return Match(when)


def _examples(path: Path, key: str, table: Mapping[str, Any]) -> Iterator[Example]:
    for where, entry in entries(path, table, key, {"title": str, "code": str}, _EXAMPLE_KEYS):
        if key != "good" and not entry.get("lines"):
            raise RuleError(f"{path}: {where}.lines: missing; name the lines that must be reported")
        yield Example(
            title=entry["title"],
            code=entry["code"],
            lines=tuple(entry.get("lines", ())),
            also=tuple(entry.get("also", ())),
            fixed=entry.get("fixed"),
            filename=entry.get("filename", "example.py"),
            files=entry.get("files"),
            settings=entry.get("settings"),
        )


def parse_trigger(path: Path, text: str) -> Trigger:
    """Parse `pkg.name(a, b=1, *, c=None)`; parameters may be left out.

    Raises:
        RuleError: the text is no such signature.
    """
    found = _TRIGGER.match(text)
    parameters = tuple(_parameters(found["parameters"] or "")) if found is not None else ()
    if found is None or not all(parameter.is_valid for parameter in parameters):
        raise RuleError(f"{path}: triggers: {text!r} is not 'package.name(parameter, parameter=default, …)'")
    return Trigger(found["name"], parameters)


def _parameters(text: str) -> Iterator[Parameter]:
    keyword_only = False
    for part in _split(text):
        if part == "*":
            keyword_only = True
            continue
        name, separator, default = part.partition("=")
        yield Parameter(name.strip(), default.strip() if separator else None, keyword_only)


@lru_cache(maxsize=256)
def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()
