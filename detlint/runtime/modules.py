"""Which module is running? Followed by torch's global hooks alone.

A hook on a single module would make fused paths, such as that of `nn.TransformerEncoderLayer`, fall back to
other operators: the audit would be of another program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from detlint.runtime.events import ModuleCall
from detlint.runtime.targets import named_modules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self


class ModuleStack:
    """The modules running now, innermost last, and all that ran, in order of their first call."""

    def __init__(self, roots: Sequence[torch.nn.Module] = ()) -> None:
        self._paths = {id(module): path for path, module in named_modules(roots)}
        self._stack: list[tuple[int, ModuleCall, bool]] = []
        self._seen: dict[tuple[str, str, bool], ModuleCall] = {}
        self.strangers: dict[str, None] = {}
        """What ran, holds tensors, and is none of the roots' modules."""

    def __enter__(self) -> Self:
        self._handles = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._stack.clear()

    @property
    def path(self) -> str:
        """Path of the innermost running module; empty for the model itself and outside of it."""
        return self._stack[-1][1].path if self._stack else ""

    @property
    def type(self) -> str:
        """Class name of the innermost running module, or an empty string."""
        return self._stack[-1][1].type if self._stack else ""

    @property
    def entered_in_backward(self) -> bool:
        """Was the innermost module entered by the autograd engine, as checkpointing does?"""
        return bool(self._stack) and self._stack[-1][2]

    def calls(self) -> tuple[ModuleCall, ...]:
        """The modules that ran."""
        return tuple(self._seen.values())

    def _enter(self, module: torch.nn.Module, args: object) -> None:
        path = self._paths.get(id(module))
        kind = type(module).__name__
        if path is None:  # built during the pass, or the model is a function: named by its class
            path = f"{self.path}.<{kind}>".lstrip(".")
            if any(tensor is not None for held in (module._parameters, module._buffers) for tensor in held.values()):
                self.strangers[path] = None
        key = (path, kind, module.training)
        call = self._seen.get(key)
        if call is None:
            call = self._seen[key] = ModuleCall(*key)
        self._stack.append((id(module), call, torch._C._current_graph_task_id() != -1))

    def _leave(self, module: torch.nn.Module, args: object, output: object) -> None:
        # a module whose pre-hook did not run (a script module calling back) has no entry to take away
        stack, wanted = self._stack, id(module)
        if stack and stack[-1][0] == wanted:
            stack.pop()
        elif any(key == wanted for key, _, _ in stack):
            while stack.pop()[0] != wanted:
                pass
