"""The dispatch mode: one `OpEvent` for each operator that executes, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from detlint.runtime.callsites import CallSite, CallSites
from detlint.runtime.events import OpEvent, Phase, RngUse, TensorMeta, Trace
from detlint.runtime.frames import user_line
from detlint.runtime.memory import Memory
from detlint.runtime.modules import ModuleStack
from detlint.runtime.overloads import SCALARS, facts_of, plain_value, tensors_of
from detlint.runtime.randomness import watch_draws

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from detlint.runtime.events import Digest, Value


class Watcher(Protocol):
    """Sees the real tensors of each operator, before and after it runs."""

    def before(self, index: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called with the arguments before the operator runs."""

    def after(self, index: int, outputs: Sequence[torch.Tensor]) -> None:
        """Called with the tensors of the event's `outputs`, in the same order."""


class Tracer(TorchDispatchMode):
    """Records what executes while it is active, forward and backward; holds no tensor.

    `roots` are the modules whose submodules are named by their paths; `memory` carries digests of parameters
    from pass to pass; `on_write` is called with each tensor that is about to be written to.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        roots: Sequence[torch.nn.Module] = (),
        *,
        memory: Memory | None = None,
        on_write: Callable[[torch.Tensor], None] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._modules = ModuleStack(roots)
        self._memory = Memory() if memory is None else memory
        self._on_write = on_write
        self._watcher = watcher
        self._call_sites = CallSites()
        self._events: list[OpEvent] = []

    def __enter__(self) -> Self:
        self._modules.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._modules.__exit__(*error)

    def trace(self) -> Trace:
        """Return what was recorded; waits for devices whose digests are still being computed."""
        tickets = self._memory.settle()
        if tickets:
            self._events = [_with_digests(event, tickets) for event in self._events]
        return Trace(
            tuple(self._events),
            self._modules.calls(),
            strangers=tuple(self._modules.strangers),
            canonical=self._memory.canonical,
        )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, memory = kwargs or {}, self._memory
        index, facts = len(self._events), facts_of(func)
        given = facts.by_name(args, kwargs)
        inputs: dict[int, TensorMeta] = {}
        arguments = {name: self._read(value, inputs) for name, value in given.items()}
        mutated = facts.written_by(given)
        written = [tensor for name in mutated for tensor in tensors_of(given[name])]
        if self._on_write is not None:
            for tensor in written:
                self._on_write(tensor)
        sizes = [tensor.numel() for tensor in written]
        draws = watch_draws(given.values()) if facts.draws else None
        if self._watcher is not None:
            self._watcher.before(index, func, args, kwargs)

        result = func(*args, **kwargs)

        drawn = None if draws is None else draws.drawn()
        fresh = [tensor for tensor in tensors_of(result) if not any(tensor is other for other in written)]
        unfilled = facts.unfilled and (bool(fresh) or sizes != [tensor.numel() for tensor in written])
        outputs = (
            *(self._result(tensor, index, inputs, filled=not unfilled) for tensor in fresh),
            *(memory.write(tensor, memory.block(tensor), index, filled=not unfilled) for tensor in written),
        )
        if self._watcher is not None:
            self._watcher.after(index, [*fresh, *written])
        phase, site = self._place()
        self._events.append(
            OpEvent(
                index=index,
                op=facts.op,
                module=site.module,
                module_type=site.module_type,
                source=site.source,
                phase=phase,
                arguments=facts.completed(arguments),
                outputs=outputs,
                mutated=mutated,
                rng=None if drawn is None else RngUse(drawn[0], sum(meta.numel for meta in outputs), drawn[1]),
                uninitialized=unfilled,
            )
        )
        return result

    def _read(self, value: object, inputs: dict[int, TensorMeta]) -> Value:
        """Describe an argument; note its tensors in `inputs` by the block of memory that they lie in."""
        if type(value) in SCALARS:
            return cast("Value", value)
        if isinstance(value, torch.Tensor):
            block = self._memory.block(value)
            meta = self._memory.read(value, block)
            inputs.setdefault(id(block), meta)
            return meta
        if isinstance(value, (list, tuple)):
            return tuple([self._read(item, inputs) for item in value])
        return plain_value(value)

    def _result(self, tensor: torch.Tensor, index: int, inputs: dict[int, TensorMeta], *, filled: bool) -> TensorMeta:
        """Describe what an operator returned: a view of an argument, or something new."""
        block = self._memory.block(tensor)
        base = inputs.get(id(block))
        if block is None or base is None:
            return self._memory.write(tensor, block, index, filled=filled)
        return self._memory.view(tensor, block, base)

    def _place(self) -> tuple[Phase, CallSite]:
        """Say when and where the operator runs. Ops of backward stand where their forward was called."""
        modules = self._modules
        if torch._C._current_graph_task_id() == -1 or modules.entered_in_backward:
            site = CallSite(modules.path, modules.type, user_line())
            self._call_sites.note(site)
            return Phase.RECOMPUTE if modules.entered_in_backward else Phase.FORWARD, site
        site = self._call_sites.of_running_node() or CallSite(modules.path, modules.type, None)
        return Phase.BACKWARD, replace(site, source=user_line() or site.source)


def _with_digests(event: OpEvent, tickets: dict[Digest, Digest]) -> OpEvent:
    def settle(value: Value) -> Value:
        if isinstance(value, TensorMeta):
            return settled(value)
        return tuple(settle(item) for item in value) if isinstance(value, tuple) else value

    def settled(meta: TensorMeta) -> TensorMeta:
        digest = None if meta.digest is None else tickets.get(meta.digest, meta.digest)
        return meta if digest == meta.digest else replace(meta, digest=digest)

    arguments = {name: settle(value) for name, value in event.arguments.items()}
    return replace(event, arguments=arguments, outputs=tuple(settled(meta) for meta in event.outputs))
