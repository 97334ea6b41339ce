"""A rule's page in Markdown: `detlint explain`, the documentation and the help text in SARIF."""

from __future__ import annotations

from collections.abc import Iterator

from detlint.rulebook import Example, Rule


def markdown(rule: Rule, *, examples: int | None = None) -> str:
    """Return the page, with at most `examples` bad and good ones each (default: all)."""
    return "\n\n".join(_sections(rule, examples)) + "\n"


def show_in_terminal(page: str) -> None:
    """Print Markdown with headings, links and highlighted code."""
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(page))


def _sections(rule: Rule, examples: int | None) -> Iterator[str]:
    standing = "on by default" if rule.default else "off by default"
    yield f"# {rule.code} {rule.name}"
    yield f"Reports {rule.summary}. {rule.severity.value.capitalize()}, {standing}."
    yield f"## Why\n\n{rule.why}"
    yield f"## What to do\n\n{rule.fix}"
    if rule.bad:
        yield "## Reported"
        yield from (_example(example) for example in rule.bad[:examples])
    if rule.good:
        yield "## Fine"
        yield from (_example(example) for example in rule.good[:examples])
    if rule.references:
        yield "## References\n\n" + "\n".join(f"- <{address}>" for address in rule.references)


def _example(example: Example) -> str:
    others = [f"`{path}`:\n\n{_fenced(text)}" for path, text in sorted((example.files or {}).items())]
    heading = example.title[:1].upper() + example.title[1:]
    main = f"{heading}:\n\n{_fenced(_marked(example))}"
    return "\n\n".join([main, *others])


def _marked(example: Example) -> str:
    """Return the code with a comment on each line that is reported."""
    lines = example.code.rstrip().split("\n")
    return "\n".join(
        f"{line}  # reported" if number in example.lines else line for number, line in enumerate(lines, start=1)
    )


def _fenced(code: str) -> str:
    return f"```python\n{code.rstrip()}\n```"
