"""The outlines of the files that programs import, and which of these files read or import a name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from detlint.linter.analysis.outline import Outline


class Outlines:
    """Keeps outlines by path: programs import thousands of files, of which few read the name that is asked for."""

    def __init__(self) -> None:
        self._outlines: dict[Path, Outline] = {}
        self._reading: defaultdict[str, set[Path]] = defaultdict(set)
        self._importing: defaultdict[str, set[Path]] = defaultdict(set)

    def __contains__(self, path: Path) -> bool:
        return path in self._outlines

    def __getitem__(self, path: Path) -> Outline:
        return self._outlines[path]

    def add(self, path: Path, outline: Outline) -> None:
        """Keep the outline of a file."""
        self._outlines[path] = outline
        for names in (outline.reads, *(part.reads for part in outline.parts())):
            for name in names:
                self._reading[name].add(path)
        for imported in outline.imports:
            self._importing[imported.rpartition(".")[2]].add(path)

    def drop(self, path: Path) -> None:
        """Forget a file whose text is another now."""
        if self._outlines.pop(path, None) is not None:
            for paths in (*self._reading.values(), *self._importing.values()):
                paths.discard(path)

    def may_read(self, path: Path, name: str) -> bool:
        """Return whether anything in a file that was added reads a name, as a variable or as an attribute."""
        return path in self._reading.get(name, ())

    def imports(self, path: Path, name: str) -> bool:
        """Return whether a file that was added imports something of this name, whatever it calls it."""
        return path in self._importing.get(name, ())
