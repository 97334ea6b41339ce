"""The model as a torch.fx graph, by the first way that works."""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx, nn

from detlint.errors import one_line
from detlint.runtime.frames import MODEL_FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch.export import ExportedProgram


@dataclass(frozen=True, slots=True)
class Capture:
    """A captured graph and how it was had; where no way works, `graph` is None and `reason` says why."""

    graph: fx.GraphModule | None
    how: str
    reason: str


NOT_CAPTURED: Final = Capture(None, "", "")


class LazyCapture:
    """A capture that is made when somebody first looks at it: to export a model takes as long as many runs of it."""

    def __init__(self, make: Callable[[], Capture] | None, made: Capture = NOT_CAPTURED) -> None:
        self._make = make
        self._made = made

    def get(self) -> Capture:
        """Make the capture, or return the one that was made."""
        if self._make is not None:
            self._made, self._make = self._make(), None  # what made it holds the model
        return self._made

    @property
    def reason(self) -> str:
        """Why ways to capture failed, as far as any was tried."""
        return self._made.reason


def capture(model: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Capture:
    """Capture the model by the first way that works; only make_fx runs it on real tensors."""
    ways = {"torch.export": _export, "torch.fx.symbolic_trace": _symbolic, "make_fx": _make_fx}
    reasons: list[str] = []
    for how, way in ways.items():
        try:
            with quiet():
                return Capture(way(model, tuple(args), dict(kwargs)), how, "; ".join(reasons))
        except MODEL_FAILURES as error:  # each way gives up with exceptions of its own
            reasons.append(f"{how}: {one_line(error)}")
    return Capture(None, "", "; ".join(reasons))


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back the half-made graphs, tables and warnings that torch.export and torch.compile print."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def exported(model: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    """Export the model as a whole; raises what torch.export raises where it cannot."""
    return torch.export.export(_as_module(model), args, kwargs, strict=False)


def _export(model: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.GraphModule:
    return exported(model, args, kwargs).module()


def _symbolic(model: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.GraphModule:
    return fx.symbolic_trace(model)


def _make_fx(model: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.GraphModule:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph: fx.GraphModule = make_fx(lambda *values: model(*values, **kwargs))(*args)
    return graph


def _as_module(model: Callable[..., object]) -> nn.Module:
    return model if isinstance(model, nn.Module) else _Function(model)


class _Function(nn.Module):
    """A callable as a module, which is all that torch.export takes."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> object:
        return self._function(*args, **kwargs)
