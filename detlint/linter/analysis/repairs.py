"""How a check says what would repair its finding: small changes to expressions and statements, made by libcst.

A check describes a repair; it becomes a `Fix` with edits only where somebody asked for fixes, so that linting alone
never loads libcst.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detlint.findings import Applicability, Fix
from detlint.linter.source.parsing import parse_expression

if TYPE_CHECKING:
    import libcst

    from detlint.linter.source.sources import SourceFile, Span


@dataclass(frozen=True, slots=True)
class Change:
    """New text for a span of the source, in terms of `ast`; `text` gives None where it cannot be worked out."""

    span: Span
    text: Callable[[SourceFile], str | None]


@dataclass(frozen=True, slots=True)
class Repair:
    """What would repair a finding, and how far that may be trusted."""

    description: str
    applicability: Applicability
    changes: tuple[Change, ...]

    def fix(self, source: SourceFile) -> Fix | None:
        """Work the changes out against the source; None where one of them cannot be."""
        edits = []
        for change in self.changes:
            text = change.text(source)
            if text is None:
                return None
            edits.append(source.edit(source.location(change.span), text))
        return Fix(self.description, self.applicability, tuple(edits))


def safe(description: str, *changes: Change) -> Repair:
    """A repair that changes only what the finding is about."""
    return Repair(description, Applicability.SAFE, changes)


def unsafe(description: str, *changes: Change) -> Repair:
    """A repair that may change the order of data, speed or training results."""
    return Repair(description, Applicability.UNSAFE, changes)


def replace(node: ast.expr, text: str) -> Change:
    """Put `text` in the place of an expression."""
    return Change(_span(node), lambda source: text if _segment(node, source) else None)


def wrap(node: ast.expr, function: str) -> Change:
    """Pass an expression to `function`: `x` becomes `function(x)`."""

    def text(source: SourceFile) -> str | None:
        segment = _segment(node, source)
        return f"{function}({segment})" if segment else None

    return Change(_span(node), text)


def set_argument(call: ast.Call, name: str, value: str, *, position: int | None = None) -> Change:
    """Make `call` pass `value` for the parameter `name`, in place of what it passes for it or at the end.

    `position` is where the parameter may stand without its name; spaces, comments and a final comma are kept.
    """

    def text(source: SourceFile) -> str | None:
        if any(keyword.arg is None for keyword in call.keywords):
            return None  # it may be passed there, and nothing can be passed twice
        import libcst

        segment = _segment(call, source)
        try:
            expression = libcst.parse_expression(segment)
        except libcst.ParserSyntaxError:
            return None
        if not isinstance(expression, libcst.Call):
            return None
        changed = expression.with_changes(args=_arguments(expression, name, value, position))
        return libcst.Module([]).code_for_node(changed)

    return Change(_span(call), text)


def _arguments(call: libcst.Call, name: str, value: str, position: int | None) -> list[libcst.Arg]:
    import libcst

    arguments = list(call.args)
    new_value = libcst.parse_expression(value)
    for place, argument in enumerate(arguments):
        named = argument.keyword is not None and argument.keyword.value == name
        if named or (place == position and argument.keyword is None and not argument.star):
            arguments[place] = argument.with_changes(value=new_value)
            return arguments
    no_space = libcst.SimpleWhitespace("")
    equal = libcst.AssignEqual(whitespace_before=no_space, whitespace_after=no_space)
    added = libcst.Arg(value=new_value, keyword=libcst.Name(name), equal=equal)
    if not arguments:
        return [added]
    last = arguments[-1]
    if isinstance(last.comma, libcst.Comma):
        # A final comma, with what stands behind it (a comment, the way to the closing bracket).
        before = call.whitespace_before_args if len(arguments) == 1 else _space_after(arguments[-2])
        closing = last.comma.whitespace_after
        if isinstance(closing, libcst.ParenthesizedWhitespace) and isinstance(before, libcst.ParenthesizedWhitespace):
            separator = last.comma.with_changes(whitespace_after=closing.with_changes(last_line=before.last_line))
            plain_end = libcst.TrailingWhitespace()
            added = added.with_changes(
                comma=last.comma.with_changes(whitespace_after=closing.with_changes(first_line=plain_end))
            )
        else:
            separator = last.comma.with_changes(whitespace_after=libcst.SimpleWhitespace(" "))
            added = added.with_changes(comma=last.comma)
    else:
        before = _space_after(arguments[-2]) if len(arguments) > 1 else libcst.SimpleWhitespace(" ")
        separator = libcst.Comma(whitespace_after=before)
        added = added.with_changes(whitespace_after_arg=last.whitespace_after_arg)
        last = last.with_changes(whitespace_after_arg=no_space)
    arguments[-1] = last.with_changes(comma=separator)
    return [*arguments, added]


def _space_after(argument: libcst.Arg) -> libcst.BaseParenthesizableWhitespace:
    import libcst

    if isinstance(argument.comma, libcst.Comma):
        space = argument.comma.whitespace_after
        if isinstance(space, libcst.ParenthesizedWhitespace):
            return space.with_changes(first_line=libcst.TrailingWhitespace(), empty_lines=[])
        return space
    return libcst.SimpleWhitespace(" ")


def operand(node: ast.expr) -> str:
    """Return the text of an expression that may stand within another one: `(a if b else c)`."""
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, (ast.IfExp, ast.Lambda, ast.NamedExpr)) else text


def insert_before(statement: ast.stmt, line: str) -> Change:
    """Put a statement on a line of its own before `statement`, as deep as that one stands."""
    start = _first_line(statement)

    def text(source: SourceFile) -> str | None:
        written = source.lines[start - 1].encode("utf-8")
        before, rest = written[: statement.col_offset].decode("utf-8"), written[statement.col_offset :]
        if before.strip() or rest.startswith(b"elif"):
            return None  # after a `;`, on a header's own line, or between `if` and `elif`
        return f"{before}{line}\n"

    return Change((start, 0, start, 0), text)


def _first_line(statement: ast.stmt) -> int:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
    return statement.lineno


def _span(node: ast.expr) -> Span:
    return (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


def _segment(node: ast.expr, source: SourceFile) -> str:
    """Return the text of an expression, or nothing where the place that `ast` gives is wrong, as in f-strings."""
    first, column, last, end_column = _span(node)
    lines = [line.encode("utf-8", "surrogatepass") for line in source.lines[first - 1 : last]]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    segment = b"\n".join(lines).decode("utf-8", "replace")
    read = parse_expression(f"({segment}\n)")
    return segment if read is not None and ast.unparse(read) == ast.unparse(node) else ""
