"""Pinned packages of the index: downloaded with pip, unpacked as far as detlint reads them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

READ = {".py", ".pyi", ".ipynb", ".toml", ".cfg"}  # what detlint reads; leaves compiled libraries in the archive


@dataclass(frozen=True)
class Archive:
    """A wheel or source archive by its name on the index."""

    package: str
    version: str
    name: str

    def tree(self, cache: Path) -> Path:
        """Return the folder under the cache that holds it, after download and unpacking.

        Raises:
            subprocess.CalledProcessError: pip cannot download it here.
        """
        tree = cache / f"{self.name}.tree"
        if not tree.is_dir():
            archive = cache / self.name
            if not archive.is_file():
                self._download(cache)
            _unpack(archive, tree)
        return tree

    def _download(self, folder: Path) -> None:
        """Download the archive of that very name with pip, whatever Python and system it is meant for.

        A source archive is not to be had if its build script fails here.
        """
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python"]
        command += ["--dest", str(folder)]
        if self.name.endswith(".whl"):
            python, abi, platforms = self.name.removesuffix(".whl").split("-")[-3:]
            implementation, version = python[:2], python[2:].partition(".")[0]
            command += ["--only-binary", ":all:", "--abi", abi]
            if abi != "none":
                command += ["--implementation", implementation, "--python-version", version]
            elif version not in ("2", "3"):
                command += ["--python-version", version]
            command += [part for platform in platforms.split(".") for part in ("--platform", platform)]
        else:
            command += ["--no-binary", self.package]  # not `:all:`: the tools that build it may come as wheels
        subprocess.run([*command, f"{self.package}=={self.version}"], check=True)


def is_read(name: str) -> bool:
    """Return whether a file of an archive is unpacked: it stays inside and is of a kind that detlint reads."""
    path = PurePosixPath(name)
    inside = not path.is_absolute() and ".." not in path.parts
    return inside and (path.suffix in READ or path.name == "entry_points.txt")


def _unpack(archive: Path, tree: Path) -> None:
    """Write what detlint reads of an archive to a folder that appears only when it is complete."""
    part = Path(tempfile.mkdtemp(dir=tree.parent))  # of its own: another run may unpack the same archive
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(part, [name for name in wheel.namelist() if is_read(name)])
    else:
        with tarfile.open(archive) as source:
            source.extractall(part, [member for member in source if member.isfile() and is_read(member.name)])
    try:
        part.rename(tree)
    except OSError:
        if not tree.is_dir():
            raise
        shutil.rmtree(part)
