"""Where a project begins."""

from __future__ import annotations

from pathlib import Path

from detlint.linter.source.layout import Layout


def _make(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def test_setup_py_marks_the_root_of_a_project(tmp_path: Path) -> None:
    _make(tmp_path / "project", "setup.py")
    _make(tmp_path / "project" / "net", "__init__.py")
    assert Layout().root(tmp_path / "project" / "net") == tmp_path / "project"


def test_a_module_called_setup_is_part_of_its_package(tmp_path: Path) -> None:
    _make(tmp_path / "net", "__init__.py")
    _make(tmp_path / "net" / "utils", "__init__.py", "setup.py")
    assert Layout().root(tmp_path / "net" / "utils") == tmp_path


def test_scripts_that_nothing_marks_begin_at_the_outermost_folder_of_them(tmp_path: Path) -> None:
    _make(tmp_path / "work" / "seg", "train.py")
    _make(tmp_path / "work" / "seg" / "utils", "seeds.py")
    _make(tmp_path / "work" / "seg" / "data" / "tools", "convert.py")
    assert Layout().root(tmp_path / "work" / "seg" / "utils") == tmp_path / "work" / "seg"
    assert Layout().root(tmp_path / "work" / "seg" / "data" / "tools") == tmp_path / "work" / "seg" / "data" / "tools"


def test_a_notebook_has_another_name_than_the_module_beside_it(tmp_path: Path) -> None:
    _make(tmp_path / "work", "setup.py", "train.py", "train.ipynb", "show.ipynb")
    _make(tmp_path / "work" / "net", "__init__.py")
    (tmp_path / "work" / "net.ipynb").touch()
    names = [Layout().name(tmp_path / "work" / name) for name in ("train.py", "train.ipynb", "show.ipynb", "net.ipynb")]
    assert names == ["train", "train_notebook", "show", "net_notebook"]
