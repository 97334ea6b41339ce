"""Where the modules of a project stand: its root, its packages, and the file that a dotted name may mean.

Only whether files exist is looked at, and an answer holds for the whole run, whichever file asks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from detlint.files import exists, holds_python, is_file
from detlint.linter.source.notebooks import NOTEBOOK

_OF_OTHERS = sys.stdlib_module_names | {"torch", "numpy"}
# Libraries whose names projects give to folders of their own, which then stand right beside what imports them.
_NAMED_ALIKE = _OF_OTHERS | {"datasets", "evaluate", "transformers", "tokenizers", "accelerate"}
# So many folders without an `__init__.py` may lie between a package and one inside it, or above a lone script.
_MOST_PLAIN = 3
_ROOT_MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", ".hg")
_ANY_PYTHON = "*.py"


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether there is something at `path`, or any Python file in a folder where its last part is `*.py`."""

    path: str
    there: bool

    def is_current(self) -> bool:
        """Whether it is still so."""
        path = Path(self.path)
        return (holds_python(path.parent) if path.name == _ANY_PYTHON else exists(path)) == self.there


class Layout:
    """Folders of projects, each looked at once."""

    def __init__(self) -> None:
        self._roots: dict[Path, Path] = {}
        self._package_roots: dict[Path, Path] = {}
        self._looked_at: dict[Path, tuple[Presence, ...]] = {}
        self._found: dict[tuple[str, str, bool], tuple[bool, tuple[Path, ...]]] = {}
        self._searched: dict[tuple[Path, str], tuple[bool, Sequence[Path]]] = {}

    def root(self, folder: Path) -> Path:
        """Return the folder that the project around `folder` begins at.

        That is the nearest one above that holds a version-control folder or packaging metadata; without any, the
        folder that holds the outermost package, of which folders without an `__init__.py` of their own are part too;
        without a package, the outermost folder of scripts that stand one in the other.
        """
        if folder not in self._roots:
            above = (folder, *folder.parents)
            marked = (place for place in above if self.is_marked(place))
            self._roots[folder] = next(marked, None) or self._around(folder) or self._beside(folder)
        return self._roots[folder]

    def _around(self, folder: Path) -> Path | None:
        """Return the folder that holds the outermost package around another; parts of one may hold packages again."""
        package = next((place for place in (folder, *folder.parents) if is_file(place / "__init__.py")), None)
        if package is None:
            return None
        base = self._package_root(package)
        near = (base, *base.parents)[:_MOST_PLAIN]
        return self._around(base) if any(is_file(place / "__init__.py") for place in near) else base

    @staticmethod
    def _beside(folder: Path) -> Path:
        return [folder, *takewhile(holds_python, folder.parents[:_MOST_PLAIN])][-1]

    def is_marked(self, folder: Path) -> bool:
        """Whether a folder holds version control or packaging metadata; `setup.py` of a package is a module of it."""
        found = [marker for marker in _ROOT_MARKERS if exists(folder / marker)]
        return bool(found) and not (found == ["setup.py"] and is_file(folder / "__init__.py"))

    def looked_at(self, folder: Path) -> tuple[Presence, ...]:
        """Return what decides where the project and the packages around a folder begin."""
        if folder not in self._looked_at:
            found: list[Presence] = []
            marked = False
            for place in (folder, *folder.parents):
                names = ("__init__.py",) if marked else ("__init__.py", *_ROOT_MARKERS)
                here = [Presence(str(place / name), exists(place / name)) for name in names]
                found += here
                marked = marked or self.is_marked(place)
                if marked and not here[0].there:
                    break
            if not marked:
                above = folder.parents[:_MOST_PLAIN]
                found += (Presence(str(place / _ANY_PYTHON), holds_python(place)) for place in above)
            self._looked_at[folder] = tuple(found)
        return self._looked_at[folder]

    def name(self, path: Path) -> str:
        """Return the dotted name of the module in the file `path`; a notebook stands behind modules of its name."""
        base = self._package_root(path.parent)
        if base == path.parent:
            # A script outside packages is named by its place, so that two train.py of one project stay apart.
            root = self.root(path.parent)
            base = root if path.is_relative_to(root) else base
        parts = list(path.relative_to(base).with_suffix("").parts)
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        if path.suffix == NOTEBOOK and (is_file(path.with_suffix(".py")) or exists(path.with_suffix(""))):
            parts[-1] += "_notebook"
        return ".".join(parts)

    def places(self, name: str, folder: str, above: bool = False) -> tuple[bool, tuple[Path, ...]]:
        """Return whether there is a module that files of a folder mean by `name`, and the paths tried, its own last.

        It may stand in any folder `above`, up to the project's, for a file that adds to `sys.path`.
        """
        key = (name, folder, above)
        if key not in self._found:
            self._found[key] = self._search(name, Path(folder), above)
        return self._found[key]

    def _search(self, name: str, folder: Path, above: bool) -> tuple[bool, tuple[Path, ...]]:
        if not name:
            return False, ()
        root = self.root(folder)
        base = self._package_root(folder)
        first = name.partition(".")[0]
        # A namespace package has no `__init__.py`: an import spells its folder out.
        spaces = [place.parent for place in (base, *base.parents)[:_MOST_PLAIN] if place.name == first]
        places = dict.fromkeys((base, folder, root, root / "src", *spaces))
        if above and first not in _NAMED_ALIKE:
            places.update(dict.fromkeys(place for place in folder.parents if place.is_relative_to(root)))
        if root == folder and first not in _OF_OTHERS and not self.is_marked(root):
            # A lone script of a project that nothing marks is run from a folder above, where its packages stand.
            places.update(dict.fromkeys(folder.parents[:_MOST_PLAIN]))
        if first in _OF_OTHERS and is_file(folder / "__init__.py"):
            del places[folder]  # a package's own torch.py is not what its modules import as torch
        tried: list[Path] = []
        for place in places:
            found, paths = self._search_in(place, name)
            tried += paths
            if found:
                return True, tuple(tried)
        return False, tuple(tried)

    def _search_in(self, place: Path, name: str) -> tuple[bool, Sequence[Path]]:
        """Search one place: most are asked for the same modules by the files of many folders."""
        key = (place, name)
        if key not in self._searched:
            base = place.joinpath(*name.split("."))
            paths = (base / "__init__.py", base.with_suffix(".py"))
            exists = [is_file(path) for path in paths]
            self._searched[key] = any(exists), paths[:1] if exists[0] else paths
        return self._searched[key]

    def _package_root(self, folder: Path) -> Path:
        """Return the folder that holds the outermost package around `folder` (itself, outside any package)."""
        if folder not in self._package_roots:
            inside = is_file(folder / "__init__.py") and folder.parent != folder
            self._package_roots[folder] = self._package_root(folder.parent) if inside else folder
        return self._package_roots[folder]
