"""Rule files are complete and true, and a broken one is one clear error that names file, key and reason."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from detlint.errors import RuleError
from detlint.linter.analysis.registry import checks
from detlint.rulebook import Rule, Trigger, load_rules, parse_trigger, read_rule

RULES = load_rules()
# What these report is found by reading files and comments, not by a check; DET7 is the auditor's alone.
WITHOUT_CHECK = {"DET001", "DET002"}

VALID = """
code = "ABC123"
name = "a-hazard"
family = "own"
severity = "warning"
default = true
summary = "s"
message = "{call} m"
why = "w"
fix = "f"
triggers = ["torch.rand(size, *, generator=None)"]
[match]
when = { generator = { given = false } }
"""

BROKEN = {
    "not TOML": ("code = ", "not valid TOML"),
    "missing key": (VALID.replace('why = "w"\n', ""), "why: missing"),
    "unknown key": ('sumary = "s"\n' + VALID, "sumary: unknown key; did you mean 'summary'"),
    "wrong type": (VALID.replace("default = true", 'default = "yes"'), "default: expected bool, got str"),
    "bad severity": (VALID.replace('"warning"', '"fatal"'), "severity: 'fatal' is not one of error, warning, info"),
    "bad code": (VALID.replace("ABC123", "abc"), "code: 'abc'"),
    "bad name": (VALID.replace("a-hazard", "A Hazard"), "name: 'A Hazard' is not kebab-case"),
    "bad trigger": (VALID.replace("torch.rand(", "torch rand("), "triggers: 'torch rand("),
    "trigger that is no text": (
        VALID.replace('["torch.rand(', '[1, "torch.rand('),
        "triggers: expected a list of strings",
    ),
    "bad default": (VALID.replace("generator=None", "generator="), "triggers: 'torch.rand("),
    "bad parameter": (VALID.replace("size,", "a size,"), "triggers: 'torch.rand("),
    "no triggers": (VALID.replace("triggers", "references"), "triggers: missing"),
    "bad reference": ("references = [3]\n" + VALID, "references: expected a list of strings"),
    "bad pass": ('passes = ["sideways"]\n' + VALID, "passes: 'sideways' is not one of forward, backward"),
    "bad device": ("devices = [3]\n" + VALID, "devices: 3 is not one of cpu, cuda, mps"),
    "condition that is no table": (
        VALID.replace("{ generator = { given = false } }", "3"),
        "match.when: expected a table",
    ),
    "condition on no parameter": (VALID.replace("{ generator", "{ genrator"), "genrator: neither a parameter nor a"),
    "unknown placeholder": (VALID.replace("{call}", "{thing}"), "message: only {call} is filled in"),
    "broken placeholder": (VALID.replace("{call}", "{1,2"), "message: only {call} is filled in"),
    "unknown match key": (VALID.replace("when =", "if ="), "match: unknown key 'if'"),
    "example without lines": (VALID + '[[bad]]\ntitle = "t"\ncode = "x"\n', "bad[1].lines: missing"),
    "unknown example key": (VALID + '[[good]]\ntitle = "t"\ncode = "x"\nline = [1]\n', "good[1].line: unknown key"),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_rule_file(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(RuleError) as error:
        read_rule(path)
    message = str(error.value)
    assert str(path) in message
    assert reason in message
    assert "\n" not in message


def test_valid_rule_file_and_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(VALID)
    assert load_rules((path,))["ABC123"].triggers[0].parameters[1].keyword_only
    (tmp_path / "again.toml").write_text(VALID)
    with pytest.raises(RuleError, match="already taken by"):
        load_rules((tmp_path,))
    (tmp_path / "silent.toml").write_text(VALID.replace("ABC123", "ABC124").partition("[match]")[0])
    with pytest.raises(RuleError, match=r"silent\.toml: match: missing"):
        load_rules((tmp_path / "silent.toml",))
    (tmp_path / "linked.toml").symlink_to("nowhere")
    (tmp_path / "again.toml").unlink()
    (tmp_path / "silent.toml").unlink()
    with pytest.raises(RuleError, match=r"linked\.toml: cannot be read"):
        load_rules((tmp_path,))
    with pytest.raises(RuleError, match="neither a file nor a folder"):
        load_rules((tmp_path / "missing",))


def test_a_rule_of_the_users_own_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(VALID)
    assert load_rules((path,))["ABC123"] is load_rules((path,))["ABC123"]
    path.write_text(VALID.replace("{call} m", "other words"))
    assert load_rules((path,))["ABC123"].message == "other words"


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_rule_is_complete(rule: Rule) -> None:
    assert rule.path.name == f"{rule.code}-{rule.name}.toml"
    assert "\n" not in rule.summary
    assert rule.summary == rule.summary.strip().rstrip(".")
    assert all(re.match(r"https://", reference) for reference in rule.references)
    if rule.code.startswith("DET7"):
        return
    assert len(rule.bad) >= 3
    assert len(rule.good) >= 3
    titles = [example.title for example in (*rule.bad, *rule.good)]
    assert len(set(titles)) == len(titles)
    has_check = rule.code in checks() or rule.code in WITHOUT_CHECK
    assert (rule.match is not None) + has_check == 1


def test_every_check_has_a_rule() -> None:
    assert set(checks()) <= set(RULES)


def test_names_are_unique() -> None:
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def test_parsing_a_trigger() -> None:
    trigger = parse_trigger(Path("x"), "a.b(x, y=(1, 2), *, z=None)")
    assert (trigger.name, trigger.last) == ("a.b", "b")
    assert [(p.name, p.default, p.keyword_only) for p in trigger.parameters] == [
        ("x", None, False),
        ("y", "(1, 2)", False),
        ("z", "None", True),
    ]


def _object(name: str) -> object | None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


# Real in releases before the installed one, or methods of what a function returns.
NOT_TO_BE_FOUND = {"torch.set_deterministic", "torch.multiprocessing.Pool.imap_unordered"}
TRIGGERS = {
    trigger.name: trigger
    for rule in RULES.values()
    for trigger in rule.triggers
    if trigger.name.startswith("torch.") and trigger.parameters and trigger.name not in NOT_TO_BE_FOUND
}


@pytest.mark.parametrize("trigger", TRIGGERS.values(), ids=TRIGGERS.keys())
def test_trigger_agrees_with_the_installed_torch(trigger: Trigger) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    found = _object(trigger.name)
    assert found is not None, f"torch has no {trigger.name}"
    try:
        signature = inspect.signature(found)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return  # built in C: no signature to compare with
    known = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in known):
        return
    positional = [parameter.name for parameter in known if parameter.kind is not parameter.KEYWORD_ONLY]
    for place, parameter in enumerate(p for p in trigger.parameters if not p.keyword_only):
        assert positional[place] == parameter.name
    defaults = {parameter.name: parameter.default for parameter in known}
    for parameter in trigger.parameters:
        assert parameter.name in defaults
        if parameter.default in ("True", "False"):
            assert repr(defaults[parameter.name]) == parameter.default
