"""Runs the examples of a rule file, for detlint's own tests and for those of people who write rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from detlint.config import ConfigResolver
from detlint.findings import Finding
from detlint.linter.engine import lint_paths
from detlint.linter.fixing import fix_paths
from detlint.linter.jobs import Options
from detlint.rulebook import Example, Rule
from detlint.settings import parse_settings


@dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """What an example gave: the lines of the rule's own findings, everything else that spoke, the code after fixing."""

    lines: tuple[int, ...]
    others: tuple[Finding, ...]
    fixed: str | None


def run_example(rule: Rule, example: Example, folder: Path) -> ExampleOutcome:
    """Lint an example under the default rules and `rule`, as a project of its own in the empty `folder`."""
    for name, text in {**(example.files or {}), example.filename: example.code}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    settings: Mapping[str, object] = {"extend-select": [rule.code], **(example.settings or {})}
    resolver = ConfigResolver(isolated=True, overrides=parse_settings(f"{rule.path}: settings", dict(settings)))
    result = lint_paths([str(folder / example.filename)], resolver=resolver, jobs=1, options=Options(debug=True))
    if result.problems:
        raise AssertionError("; ".join(result.problems))
    fixes = fix_paths([str(folder / example.filename)], resolver=resolver, unsafe=True).files
    own = tuple(finding.location.line for finding in result.findings if finding.code == rule.code)
    others = tuple(finding for finding in result.findings if finding.code != rule.code)
    return ExampleOutcome(own, others, fixes[0].after.decode(fixes[0].encoding) if fixes else None)


def complaint(example: Example, outcome: ExampleOutcome) -> str:
    """Return what is wrong with an outcome, with the code numbered, or an empty string."""
    unexpected = [finding for finding in outcome.others if finding.code not in example.also]
    if outcome.lines == example.lines and not unexpected:
        wrong_fix = example.fixed is not None and outcome.fixed != example.fixed
        return f"{example.title}: fixed to\n{outcome.fixed}" if wrong_fix else ""
    numbered = "\n".join(f"{number:4} {line}" for number, line in enumerate(example.code.splitlines(), start=1))
    spoke = "\n".join(f"{finding.location} {finding.code} {finding.message}" for finding in unexpected)
    return (
        f"{example.title}\n{numbered}\nexpected lines {list(example.lines)}, reported {list(outcome.lines)}\n"
        f"other findings:\n{spoke or '(none)'}"
    )
