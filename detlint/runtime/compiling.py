"""torch.compile as a probe uses it: with empty caches before and after, and failures told in one line."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from detlint.runtime.capture import quiet
from detlint.runtime.process import kept_process
from detlint.runtime.targets import named_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Backend = str | Callable[..., Any]

_Function = TypeVar("_Function", bound="Callable[..., object]")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A way to call torch.compile. `settings` of Inductor, by name, hold while it compiles."""

    backend: Backend = "inductor"
    mode: str = "default"
    settings: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.backend != "inductor":
            name = self.backend if isinstance(self.backend, str) else getattr(self.backend, "__name__", "…")
            return f"torch.compile(backend={name!r})"
        return f"torch.compile(mode={self.mode!r})"

    @property
    def is_inductor(self) -> bool:
        """Does Inductor generate the code?"""
        return self.backend == "inductor"

    @contextmanager
    def applied(self, function: _Function) -> Iterator[_Function]:
        """Compile a function for the time of a block; it happens at the first call.

        torch.compile's caches in memory are emptied before and after: they hold few entries for each function,
        and what does not fit is silently run eagerly. What was compiled before is compiled again at its next call.
        """
        from torch import _dynamo

        _dynamo.reset()
        with ExitStack() as stack:
            stack.callback(_dynamo.reset)
            stack.enter_context(kept_process())
            stack.enter_context(quiet())
            if self.settings:
                stack.enter_context(settings(self.settings))
            mode = {} if self.mode == "default" else {"mode": self.mode}
            yield cast("_Function", torch.compile(function, backend=self.backend, **mode))  # type: ignore[call-overload]


@contextmanager
def settings(values: Mapping[str, object]) -> Iterator[None]:
    """Change Inductor's settings for the time of a block; those that this release does not have are left out.

    AOTAutograd's cache on disk asks for few of them only, so it is left out too.
    """
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor

    known = _settings()
    with ExitStack() as stack:
        stack.enter_context(inductor.patch({name: value for name, value in values.items() if name in known}))
        if hasattr(functorch, "enable_autograd_cache"):
            stack.enter_context(functorch.patch(enable_autograd_cache=False))
        yield


def has_settings(names: Iterable[str]) -> bool:
    """Does this release of Inductor have all of these settings?"""
    return set(names) <= _settings().keys()


def plain_settings() -> dict[str, object]:
    """Return those settings of Inductor, as they are now, that JSON can write."""
    return {name: value for name, value in _settings().items() if isinstance(value, (bool, int, float, str))}


def _settings() -> dict[str, object]:
    from torch._inductor import config

    read = getattr(config, "get_config_copy", None) or config.to_dict  # the older name
    return dict(read())


def compiled_already(model: object, modules: Sequence[torch.nn.Module]) -> str | None:
    """Name what torch.compile was applied to before: there, nothing eager is left to compare with."""
    if hasattr(model, "_torchdynamo_orig_callable") and not hasattr(model, "_torchdynamo_disable"):
        return "the model"
    for path, module in named_modules(modules):
        if "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None:
            return path or "the model"
    return None
