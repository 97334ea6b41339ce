"""`detlint explain`, `detlint rules`, and the help of the command itself."""

from __future__ import annotations

from detlint.reports.terminal import printable
from detlint.rulebook import load_rules
from tests.cli.shell import DROPOUT, Shell


def test_every_rule_can_be_explained(shell: Shell) -> None:
    for rule in load_rules().values():
        by_code, by_name = (shell("explain", word, "--all-examples") for word in (rule.code, rule.name))
        assert (by_code.code, by_code.err) == (0, "")
        assert by_code.out == by_name.out == shell("explain", rule.code.lower(), "--all-examples").out
        for part in (rule.code, rule.name, *rule.why.split(), *rule.fix.split(), *rule.references):
            assert part in by_code.out
        for example in (*rule.bad, *rule.good):
            assert all(line in by_code.out for line in map(printable, example.code.splitlines()))


def test_a_page_shows_the_first_examples_and_says_how_many_more_there_are(shell: Shell) -> None:
    rule = load_rules()["DET202"]
    page = shell("explain", "DET202").out
    assert page.count("```python") == 6
    assert page.endswith(f"\nAll {len(rule.bad) + len(rule.good)} examples: `detlint explain DET202 --all-examples`\n")


def test_rules_are_listed(project: Shell) -> None:
    rules = load_rules()
    lines = project("rules").out.splitlines()
    assert [line.split()[0] for line in lines] == list(rules)
    table = project("rules", "--format", "json").json()
    assert [row["code"] for row in table if row["enabled"]] == [code for code, rule in rules.items() if rule.default]  # type: ignore[attr-defined]


def test_the_list_follows_the_configuration(project: Shell) -> None:
    project.write("detlint.toml", 'select = ["DET202"]')
    starred = [line.split()[0] for line in project("rules").out.splitlines() if line.split()[1] == "*"]
    assert starred == ["DET001", "DET202"]


OWN_RULE = """
code = "OWN001"
name = "house-rule"
family = "house"
severity = "error"
default = true
summary = "a call that this house forbids"
message = "{call} is forbidden here"
why = "Because."
fix = "Leave it."
triggers = ["torch.nn.functional.dropout(input, p=0.5, training=True, inplace=False)"]
match = { when = { training = true } }
"""


def test_rules_of_the_project_itself(project: Shell) -> None:
    project.write("detlint.toml", 'rule-paths = ["rules"]\nselect = ["OWN"]')
    project.write("rules/own.toml", OWN_RULE)
    assert "bad.py:4:12: OWN001 house-rule: " in project("--format", "concise").out
    assert project("--ignore", "house-rule").code == 0
    assert "# OWN001 house-rule" in project("explain", "OWN001").out
    project.write("rules/own.toml", OWN_RULE.replace("severity", "severty"))
    broken = project()
    assert (broken.code, broken.out) == (2, "")
    assert "own.toml: severity: missing" in broken.err


def test_help_and_version(shell: Shell) -> None:
    for args in (["--help"], ["-h"], ["check", "--help"], ["explain", "-h"]):
        outcome = shell(*args)
        assert outcome.code == 0
        assert "Usage: detlint" in outcome.out
    assert shell("--version").out == shell("-V").out
    assert shell("--version").out.startswith("detlint ")


def test_a_path_named_as_a_command_needs_a_slash(shell: Shell) -> None:
    shell.write("rules", "#!/usr/bin/env python\n" + DROPOUT)
    assert "DET202 " in shell("rules").out
    assert shell("./rules").code == 1
    assert shell("check", "rules").code == 1
