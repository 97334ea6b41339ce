"""From `package.module:factory` on the command line to the model or the sample it names."""

from __future__ import annotations

import importlib
import inspect
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from detlint.errors import UsageError, did_you_mean, one_line
from detlint.findings import Location

if TYPE_CHECKING:
    from collections.abc import Callable


def build(option: str, text: str) -> object:
    """Import the module, take the attribute after the colon, and call it unless it is a value already.

    Values are tensors, tuples, dicts and anything else that cannot be called; a module of torch can be, and is taken as
    it is. The current folder is searched first.

    Raises:
        UsageError: one line that names `option`, what is wrong, and where.
    """
    name, colon, path = text.partition(":")
    if not colon or not name or not path:
        raise UsageError(f"{option} {text!r}: expected MODULE:FACTORY, such as package.module:make_model")
    value = _attribute(option, _import(option, name), path)
    if not _is_factory(value):
        return value
    from detlint.runtime.frames import MODEL_FAILURES

    try:
        return value()  # type: ignore[operator]
    except MODEL_FAILURES as error:
        raise UsageError(f"{option} {text!r}: raised {_raised(error)}") from error


def place_of(option: str, text: str) -> Location:
    """Return where the code of what `build` took stands; the top of the module where that cannot be told."""
    name, _, path = text.partition(":")
    module = _import(option, name)
    value = inspect.unwrap(cast("Callable[..., object]", _attribute(option, module, path)))
    file, line = str(getattr(module, "__file__", name)), 1
    if inspect.isfunction(value) or inspect.isclass(value):
        with suppress(OSError, TypeError):  # made without a file
            file, line = inspect.getfile(value), inspect.getsourcelines(value)[1]
    return Location(file, line, 1, line, 1)


def _import(option: str, name: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            hint = f"; did you mean {_dotted(name)!r}?" if _dotted(name) != name else ""
            raise UsageError(f"{option}: no module {error.name!r} in {here} or on the path{hint}") from None
        raise UsageError(f"{option}: {name} could not be imported: {_raised(error)}") from error
    except (Exception, SystemExit) as error:  # a module may fail in any way while it is imported
        raise UsageError(f"{option}: {name} could not be imported: {_raised(error)}") from error


def _dotted(name: str) -> str:
    """Return the module that was meant by the path of its file."""
    return name.removesuffix(".py").removeprefix("./").replace("/", ".")


def _attribute(option: str, module: object, path: str) -> object:
    value = module
    for name in path.split("."):
        if not hasattr(value, name):
            owner = getattr(value, "__name__", type(value).__name__)
            raise UsageError(f"{option}: {owner} has no {name!r}{did_you_mean(name, dir(value))}")
        value = getattr(value, name)
    return value


def _is_factory(value: object) -> bool:
    """Functions and classes are called; a model is a callable too, but is what was asked for."""
    import torch

    return callable(value) and not isinstance(value, torch.nn.Module)


def _raised(error: BaseException) -> str:
    from detlint.runtime.frames import raised_at  # imports torch, which most mistakes here do without

    return one_line(error) + raised_at(error)
