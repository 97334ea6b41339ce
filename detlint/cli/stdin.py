"""Source that comes on stdin: linted, fixed and quoted as if it stood in a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from detlint.config import ConfigResolver
from detlint.linter.engine import lint_stdin
from detlint.linter.jobs import Options
from detlint.linter.result import LintResult
from detlint.linter.source.discovery import is_wanted
from detlint.linter.source.notebooks import is_notebook
from detlint.linter.source.quoting import stdin_line, stdin_lines
from detlint.reports.run_info import FileLine, SourceLines

if TYPE_CHECKING:
    from detlint.linter.fixing import Fixes, Wanted

_NAME = "stdin.py"
_NOTEBOOK_NAME = "stdin.ipynb"


@dataclass(frozen=True, slots=True)
class Stdin:
    """The source, and the name of the file that it stands for, which need not exist.

    Where that file would be passed over (it is no Python, or excluded), so is the source.
    """

    name: str
    data: bytes
    resolver: ConfigResolver

    @classmethod
    def read(cls, name: str | None, resolver: ConfigResolver) -> Stdin:
        """Read all of stdin; `name` is that of `--stdin-filename`. A notebook is told from a module without it too."""
        data = sys.stdin.buffer.read()
        return cls(name or (_NOTEBOOK_NAME if is_notebook(data) else _NAME), data, resolver)

    def lint(self, options: Options) -> LintResult:
        """Lint the source."""
        if not self._is_wanted():
            return LintResult((), (), files=0, seconds=0.0)
        return lint_stdin(self.data, self.name, resolver=self.resolver, options=options)

    def fix(self, *, unsafe: bool, wanted: Wanted) -> Fixes:
        """Return what fixing does to the source."""
        from detlint.linter.fixing import Fixes, fix_stdin  # most runs only lint

        if not self._is_wanted():
            return Fixes((), (), ())
        return fix_stdin(self.data, self.name, resolver=self.resolver, unsafe=unsafe, wanted=wanted)

    def lines(self) -> SourceLines:
        """Return what gives reports the lines that they quote."""
        return stdin_lines(self.data, self.name)

    def line(self) -> FileLine:
        """Return what tells reports on which line of a notebook's JSON a line of a cell stands."""
        return stdin_line(self.data, self.name)

    def _is_wanted(self) -> bool:
        return is_wanted(Path(self.name).absolute(), self.resolver)
