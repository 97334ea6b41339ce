"""`detlint rules` and `detlint explain`: what detlint knows, as the rule files say it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from detlint.config import ConfigResolver, enabled_rules
from detlint.errors import UsageError, did_you_mean
from detlint.reports.rule_page import markdown, show_in_terminal
from detlint.reports.terminal import printable
from detlint.rulebook import Rule, load_rules
from detlint.settings import Settings

_EXAMPLES = 3


@click.command()
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--config", type=click.Path(path_type=Path), help="Use this file and look for no other.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def rules(style: str, config: Path | None, isolated: bool) -> None:
    """List the rules; a star marks those in force in the current folder."""
    here = ConfigResolver(file=config, isolated=isolated, overrides=Settings()).for_folder(Path.cwd())
    known = load_rules(here.rule_paths)
    enabled = enabled_rules(here, known, Path.cwd())
    if style == "json":
        rows = [{**_as_object(rule), "enabled": rule.code in enabled} for rule in known.values()]
        click.echo(json.dumps(rows, indent=2))
        return
    width = max((len(rule.name) for rule in known.values()), default=0)
    for rule in known.values():
        mark = "*" if rule.code in enabled else " "
        click.echo(printable(f"{rule.code} {mark} {rule.name:<{width}}  {rule.severity.value:<7}  {rule.summary}"))


@click.command()
@click.argument("wanted", metavar="RULE...", nargs=-1, required=True)
@click.option("--all-examples", is_flag=True, help="Show every example, not only the first ones.")
@click.option("--config", type=click.Path(path_type=Path), help="Use this file and look for no other.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
def explain(wanted: tuple[str, ...], all_examples: bool, config: Path | None, isolated: bool) -> None:
    """Say what a rule reports, why it matters and what to do. RULE is a code or a name."""
    examples = None if all_examples else _EXAMPLES
    here = ConfigResolver(file=config, isolated=isolated).for_folder(Path.cwd())
    known = load_rules(here.rule_paths)
    pages = [_page(_find(word, known), examples) for word in wanted]
    for page in pages:
        if sys.stdout.isatty():
            show_in_terminal(page)
        else:
            click.echo("\n".join(printable(line) for line in page.splitlines()))


def _page(rule: Rule, examples: int | None) -> str:
    """Return the page of a rule; one that is cut says where the rest is."""
    page = markdown(rule, examples=examples)
    if examples is None or max(len(rule.bad), len(rule.good)) <= examples:
        return page
    total = len(rule.bad) + len(rule.good)
    return f"{page}\nAll {total} examples: `detlint explain {rule.code} --all-examples`\n"


def _find(word: str, known: dict[str, Rule]) -> Rule:
    for rule in known.values():
        if word.upper() == rule.code or word.lower() == rule.name:
            return rule
    names = [*known, *(rule.name for rule in known.values())]
    family = [code for code in known if code.startswith(word.upper())]
    raise UsageError(f"{word}: no such rule{did_you_mean(word.upper(), family) or did_you_mean(word, names)}")


def _as_object(rule: Rule) -> dict[str, object]:
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity.value,
        "default": rule.default,
        "summary": rule.summary,
        "url": rule.url,
    }
