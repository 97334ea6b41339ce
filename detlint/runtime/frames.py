"""Which line of the user's program is running?"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import Final

import torch

from detlint.runtime.events import SourceLine

_PACKAGE: Final = str(Path(__file__).parents[1]) + "/"
_LIBRARIES: Final = (str(Path(torch.__file__).parent) + "/", _PACKAGE, "<")
_PATHS: Final = sysconfig.get_paths()
_STANDARD: Final = _PATHS["stdlib"] + "/"
_INSTALLED: Final = (_PATHS["purelib"] + "/", _PATHS["platlib"] + "/")
"""Packages of others lie below the standard library in places, and are the user's program."""
_BOTTOM: Final = (str(Path(__file__).with_name("passes.py")), str(Path(torch.autograd.graph.__file__)))
"""What starts a pass and what starts the autograd engine: the frames below them called for it, no more."""


MODEL_FAILURES: Final = (Exception, SystemExit)
"""What a user's program may raise at us: one that calls `sys.exit` must not end ours with its exit code."""


@cache
def is_library_file(name: str) -> bool:
    """Does a file, by the name that code has for it, belong to torch, detlint or Python, or is there no file?"""
    # "<" opens the names of code without a file: "<frozen importlib>", "<string>" of generated methods
    if name.startswith(_LIBRARIES):
        return not name.startswith("<ipython")
    return name.startswith(_STANDARD) and not name.startswith(_INSTALLED)


def raised_at(error: BaseException) -> str:
    """Return the place in the user's program that an exception comes from, as " at file:line"; empty if none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [f" at {file}:{line}" for file, line in frames if not is_library_file(file)]
    return own[-1] if own else ""


def user_line() -> SourceLine | None:
    """Return the innermost running line outside torch and detlint, None where the model has no such line."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_library_file(code.co_filename):
            return SourceLine(code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name))
        if code.co_filename in _BOTTOM:
            return None
        frame = frame.f_back  # type: ignore[assignment]
    return None
