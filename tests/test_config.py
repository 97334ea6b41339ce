"""Where settings come from, what they may say, and which rules they switch on."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from detlint.config import DEFAULT_EXCLUDE, Config, ConfigResolver, enabled_rules
from detlint.errors import ConfigError
from detlint.findings import Severity
from detlint.rulebook import Rule
from detlint.settings import Settings, read_settings

EVERYTHING = """
select = ["DET2", "unseeded-rng"]
extend-select = ["DET304"]
ignore = ["DET205"]
exclude = ["old"]
extend-exclude = ["new/*.py"]
force-exclude = true
respect-gitignore = false
severity = "warning"
fail-on = "error"
devices = ["cuda"]
passes = ["forward"]
torch-version = "2.3"
entry-points = ["tools/*.py"]
rule-paths = ["own"]
per-file-ignores = { "tests/**" = ["ALL"], "*.ipynb" = ["DET101"] }
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file, head", [("detlint.toml", ""), ("pyproject.toml", "[tool.detlint]")])
def test_every_key_is_read(tmp_path: Path, file: str, head: str) -> None:
    write(tmp_path / file, f"{head}\n{EVERYTHING}")
    config = ConfigResolver().for_file(tmp_path / "package" / "module.py")
    assert config == Config(
        root=tmp_path,
        source=tmp_path / file,
        layers=config.layers,
        per_file_ignores=(("tests/**", ("ALL",)), ("*.ipynb", ("DET101",))),
        exclude=("old", "new/*.py"),
        force_exclude=True,
        respect_gitignore=False,
        severity=Severity.WARNING,
        fail_on=Severity.ERROR,
        devices=("cuda",),
        passes=("forward",),
        torch_version="2.3",
        entry_points=("tools/*.py",),
        rule_paths=(tmp_path / "own",),
    )
    assert config.layers[0].select == ("DET2", "unseeded-rng")
    assert config.layers[0].extend_select == ("DET304",)
    assert config.layers[0].ignore == ("DET205",)


BROKEN = {
    "unknown key": ('extend_select = ["DET2"]', "unknown key 'extend_select'; did you mean 'extend-select'"),
    "misspelt key": ('exlude = ["a"]', "unknown key 'exlude'; did you mean 'exclude'"),
    "string for list": ('select = "DET2"', "select: expected a list of strings, got 'DET2'"),
    "numbers in list": ("ignore = [201]", "ignore: expected a list of strings, got [201]"),
    "string for flag": ('force-exclude = "yes"', "force-exclude: expected true or false, got 'yes'"),
    "number for flag": ("respect-gitignore = 1", "respect-gitignore: expected true or false, got 1"),
    "unknown severity": ('severity = "high"', "severity: 'high' is not one of error, warning, info"),
    "severity of another type": ("fail-on = 1", "fail-on: 1 is not one of error, warning, info"),
    "severity in a list": ('fail-on = ["error"]', "fail-on: ['error'] is not one of error, warning, info"),
    "unknown device": ('devices = ["cudaa"]', "devices: 'cudaa' is not one of cpu, cuda, mps; did you mean 'cuda'?"),
    "another name of a device": (
        'devices = ["gpu"]',
        "devices: 'gpu' is not one of cpu, cuda, mps; did you mean 'cuda'?",
    ),
    "no device": ("devices = []", "devices: empty; name one or more of cpu, cuda, mps"),
    "no pass": ("passes = []", "passes: empty; name one or more of forward, backward"),
    "half a severity": (
        'severity = "warn"',
        "severity: 'warn' is not one of error, warning, info; did you mean 'warning'?",
    ),
    "a heading too much": (
        "[tool.detlint]",
        "unknown key 'tool'; the keys stand at the top here, without [tool.detlint]",
    ),
    "braces": ('exclude = ["*.{py,pyi}"]', "exclude: '*.{py,pyi}' matches nothing"),
    "half a range": ('extend-exclude = ["[a"]', "extend-exclude: '[a' is not a pattern as in .gitignore"),
    "half a range of files": ('per-file-ignores = {"[" = ["DET2"]}', "per-file-ignores: '[' is not a pattern"),
    "an old release": ('torch-version = "1.0"', "torch-version: '1.0' is older than 1.8"),
    "unknown pass": ('passes = ["back"]', "passes: 'back' is not one of forward, backward"),
    "version as number": ("torch-version = 2.3", 'torch-version: 2.3 is not a release such as "2.13"'),
    "version with sign": ('torch-version = ">=2.3"', "torch-version: '>=2.3' is not a release such as"),
    "ignores as list": ('per-file-ignores = ["DET2"]', "per-file-ignores: expected a table of pattern = [rules]"),
    "ignores of strings": ('per-file-ignores = {"a.py" = "DET2"}', "per-file-ignores.a.py: expected a list of strings"),
    "not TOML": ("select = [", "not valid TOML"),
}


@pytest.mark.parametrize("text, message", BROKEN.values(), ids=BROKEN)
def test_what_makes_no_sense_is_one_line_with_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path / "detlint.toml", text)
    with pytest.raises(ConfigError) as raised:
        read_settings(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "detlint.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_settings(file)


@pytest.mark.parametrize("text", ["tool = 3", "[tool]\ndetlint = 3", "[[tool.detlint]]\nselect = []"])
def test_a_table_of_another_type(tmp_path: Path, text: str) -> None:
    file = write(tmp_path / "pyproject.toml", text)
    if text == "tool = 3":
        assert read_settings(file) is None
    else:
        with pytest.raises(ConfigError, match="expected a table"):
            read_settings(file)


def test_every_key_and_every_default_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    assert {key.replace("-", "_") for key in documented} == {field.name for field in fields(Settings)} - {"origin"}
    excluded = page.partition("Excluded by default: ")[2].partition(", and every")[0]
    assert tuple(re.findall(r"`([^`]+)`", excluded)) == DEFAULT_EXCLUDE


# --- finding ---------------------------------------------------------------------------------------------------------


def test_the_nearest_file_that_speaks_of_detlint_wins(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.detlint]\nseverity = "error"')
    write(tmp_path / "a" / "pyproject.toml", "[tool.other]")
    write(tmp_path / "a" / "b" / "detlint.toml", "")
    resolver = ConfigResolver()
    assert resolver.for_file(tmp_path / "m.py").severity is Severity.ERROR
    assert resolver.for_file(tmp_path / "a" / "m.py").root == tmp_path
    assert resolver.for_file(tmp_path / "a" / "b" / "c" / "m.py").root == tmp_path / "a" / "b"


def test_of_two_in_one_folder_detlint_toml_wins(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.detlint]\nseverity = "error"')
    write(tmp_path / "detlint.toml", 'severity = "warning"')
    assert ConfigResolver().for_file(tmp_path / "m.py").severity is Severity.WARNING


def test_a_folder_is_looked_up_once(tmp_path: Path) -> None:
    file = write(tmp_path / "detlint.toml", 'severity = "warning"')
    resolver = ConfigResolver()
    first = resolver.for_file(tmp_path / "a" / "m.py")
    file.unlink()
    assert resolver.for_file(tmp_path / "a" / "n.py") is first
    assert resolver.for_file(tmp_path / "m.py") is first


def test_a_folder_may_lie_deeper_than_calls_may_nest(tmp_path: Path) -> None:
    write(tmp_path / "detlint.toml", "ignore = ['DET6']\n")
    resolver = ConfigResolver()
    deep = tmp_path.joinpath(*["a"] * 1500)
    assert resolver.for_folder(deep) is resolver.for_folder(deep.parent) is resolver.for_folder(tmp_path)


def test_without_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = ConfigResolver(isolated=True).for_file(tmp_path / "m.py")
    assert (config.root, config.source, config.exclude) == (Path.cwd(), None, DEFAULT_EXCLUDE)


def test_a_named_file_holds_everywhere_and_isolated_reads_none(tmp_path: Path) -> None:
    write(tmp_path / "detlint.toml", 'severity = "warning"')
    named = write(tmp_path / "conf" / "mine.toml", 'severity = "error"')
    assert ConfigResolver(file=named).for_file(tmp_path / "m.py").severity is Severity.ERROR
    assert ConfigResolver(isolated=True).for_file(tmp_path / "m.py").severity is Severity.INFO


@pytest.mark.parametrize(
    "name, text, message",
    [("none.toml", None, "no such configuration file"), ("pyproject.toml", "[tool.x]", r"holds no \[tool.detlint\]")],
)
def test_a_named_file_must_be_one(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        write(tmp_path / name, text)
    with pytest.raises(ConfigError, match=message):
        ConfigResolver(file=tmp_path / name)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    write(tmp_path / "detlint.toml", 'severity = "warning"\ntorch-version = "2.3"\nextend-exclude = ["a"]')
    overrides = Settings(severity=Severity.ERROR, extend_exclude=("b",))
    config = ConfigResolver(overrides=overrides).for_file(tmp_path / "m.py")
    assert (config.severity, config.torch_version) == (Severity.ERROR, "2.3")
    assert config.exclude == (*DEFAULT_EXCLUDE, "a", "b")


# --- selecting -------------------------------------------------------------------------------------------------------


def rule(code: str, name: str, *, default: bool = True) -> Rule:
    return Rule(
        code, name, "family", Severity.WARNING, default, "summary", "message", "why", "fix", Path(f"{code}.toml")
    )


RULES = {
    entry.code: entry
    for entry in (
        rule("DET001", "syntax-error"),
        rule("DET101", "unseeded-rng"),
        rule("DET201", "missing-eval"),
        rule("DET206", "sampling-at-inference", default=False),
        rule("DET304", "unstable-order", default=False),
    )
}
DEFAULT = "001 101 201"

# what the file says, what the command line says, the codes in force
SELECTIONS: dict[str, tuple[Settings, Settings, str]] = {
    "nothing said": (Settings(), Settings(), DEFAULT),
    "one code": (Settings(select=("DET304",)), Settings(), "001 304"),
    "a name": (Settings(select=("unstable-order",)), Settings(), "001 304"),
    "a family": (Settings(select=("DET2",)), Settings(), "001 201 206"),
    "a longer prefix": (Settings(select=("DET20",)), Settings(), "001 201 206"),
    "everything": (Settings(select=("ALL",)), Settings(), "001 101 201 206 304"),
    "nothing selected": (Settings(select=()), Settings(), "001"),
    "added to the default": (Settings(extend_select=("DET304",)), Settings(), "001 101 201 304"),
    "ignore a code": (Settings(ignore=("DET101",)), Settings(), "001 201"),
    "ignore by name": (Settings(ignore=("unseeded-rng",)), Settings(), "001 201"),
    "ignore everything": (Settings(ignore=("ALL",)), Settings(), ""),
    "syntax errors ignored by code": (Settings(ignore=("DET001",)), Settings(), "101 201"),
    "code beats family": (Settings(select=("DET201",), ignore=("DET2",)), Settings(), "001 201"),
    "family minus code": (Settings(select=("DET2",), ignore=("DET201",)), Settings(), "001 206"),
    "added code beats ignored family": (
        Settings(extend_select=("DET206",), ignore=("DET2",)),
        Settings(),
        "001 101 206",
    ),
    "equals: ignore wins": (Settings(select=("DET2",), ignore=("DET2",)), Settings(), "001"),
    "flag replaces selection": (Settings(select=("DET3",)), Settings(select=("DET101",)), "001 101"),
    "flag selects what the file ignores": (Settings(ignore=("DET201",)), Settings(select=("DET2",)), "001 201 206"),
    "flag ignores what the file selects": (Settings(select=("DET201",)), Settings(ignore=("DET2",)), "001"),
    "flag adds to the file": (Settings(select=("DET3",)), Settings(extend_select=("DET101",)), "001 101 304"),
    "flag adds what the file ignores": (
        Settings(ignore=("DET304",)),
        Settings(extend_select=("DET3",)),
        f"{DEFAULT} 304",
    ),
    "flag ignores part of the default": (Settings(), Settings(ignore=("DET2",)), "001 101"),
}


@pytest.mark.parametrize("file, flags, expected", SELECTIONS.values(), ids=SELECTIONS)
def test_which_rules_are_in_force(tmp_path: Path, file: Settings, flags: Settings, expected: str) -> None:
    config = Config(root=tmp_path, layers=(file, flags))
    assert enabled_rules(config, RULES, tmp_path / "m.py") == tuple(f"DET{code}" for code in expected.split())


PER_FILE = {
    "folder": ("tests/**", "tests/a/test_m.py", True),
    "folder by name": ("tests/", "tests/test_m.py", True),
    "file name anywhere": ("conf.py", "docs/conf.py", True),
    "suffix": ("*.ipynb", "a/b.ipynb", True),
    "anchored": ("/conf.py", "docs/conf.py", False),
    "another folder": ("tests/**", "src/m.py", False),
}


@pytest.mark.parametrize("pattern, path, silenced", PER_FILE.values(), ids=PER_FILE)
def test_rules_can_be_silenced_for_some_files(tmp_path: Path, pattern: str, path: str, silenced: bool) -> None:
    config = Config(root=tmp_path, per_file_ignores=((pattern, ("DET2", "unseeded-rng")),))
    expected = ("DET001",) if silenced else ("DET001", "DET101", "DET201")
    assert enabled_rules(config, RULES, tmp_path / path) == expected


@pytest.mark.parametrize(
    ("written", "read"), [("./a.py", "/a.py"), (".//sub/", "/sub/"), ("./", "./"), ("{{x}}", "{{x}}")]
)
def test_a_dot_at_the_start_of_a_pattern_is_the_root(tmp_path: Path, written: str, read: str) -> None:
    path = write(tmp_path / "detlint.toml", f'exclude = ["{written}"]\nper-file-ignores = {{ "{written}" = ["DET2"] }}')
    settings = read_settings(path)
    assert settings is not None
    assert (settings.exclude, settings.per_file_ignores) == ((read,), ((read, ("DET2",)),))


def test_a_release_may_be_what_torch_says_of_itself(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path / "detlint.toml", 'torch-version = "2.6.0+cu121"'))
    assert settings is not None
    assert settings.torch_version == "2.6.0"


def test_files_outside_the_root_have_no_ignores_of_their_own(tmp_path: Path) -> None:
    config = Config(root=tmp_path / "project", per_file_ignores=(("*.py", ("ALL",)),))
    assert "DET201" in enabled_rules(config, RULES, tmp_path / "m.py")


@pytest.mark.parametrize(
    "layer, message",
    [
        (Settings(select=("DET210",)), "--select: unknown rule 'DET210'; did you mean 'DET20"),
        (Settings(ignore=("mising-eval",)), "--ignore: unknown rule 'mising-eval'; did you mean 'missing-eval'?"),
        (Settings(extend_select=("DET9",)), "--extend-select: unknown rule 'DET9'"),
        (Settings("a.toml", select=("det2o1",)), "a.toml: select: unknown rule 'det2o1'"),
        (Settings("a.toml", select=("",)), "a.toml: select: unknown rule ''"),
        (
            Settings("a.toml", per_file_ignores=(("t/*", ("E501",)),)),
            "a.toml: per-file-ignores.t/*: unknown rule 'E501'",
        ),
    ],
)
def test_an_unknown_rule_is_an_error_that_names_its_place(tmp_path: Path, layer: Settings, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        enabled_rules(Config(root=tmp_path, layers=(layer,)), RULES, tmp_path / "m.py")
    assert str(raised.value).startswith(message)
