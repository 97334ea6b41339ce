"""One run of the model under the tracer. The tracer takes this file for the bottom of the user's stack."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from detlint.errors import AuditError
from detlint.runtime.digests import THREADS, Digester
from detlint.runtime.fakes import fake_tensors, with_declared_draws
from detlint.runtime.generators import read_generators, seed_generators
from detlint.runtime.known import KnownValues
from detlint.runtime.memory import Memory
from detlint.runtime.randomness import moved
from detlint.runtime.sample import Output, Sample, read_output
from detlint.runtime.settings import kept_settings
from detlint.runtime.targets import named_parameters
from detlint.runtime.tracer import Tracer
from detlint.runtime.trees import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from detlint.runtime.events import Digest, Trace
    from detlint.runtime.guard import Guard
    from detlint.runtime.tracer import Watcher


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One way to run the model; a probe makes another one of it.

    `modules` are the model, or the modules that a function holds. `canonical` asks for digests that do not
    depend on strides, for runs that are compared in different layouts. `earlier` is the sample of a call that is
    made before, on the same state: the run begins on what that left in the model.
    """

    model: Callable[..., object]
    modules: tuple[torch.nn.Module, ...]
    sample: Sample
    grad: bool = False
    backward: bool = False
    loss: Callable[[Any], torch.Tensor] | None = None
    seed: int = 0
    canonical: bool = False
    earlier: Sample | None = None

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield parameters, buffers and the tensors of the sample."""
        for root in self.modules:
            yield from root.parameters()
            yield from root.buffers()
        yield from self.sample.tensors().values()

    def devices(self) -> tuple[str, ...]:
        """Return the kinds of device that these tensors lie on."""
        return tuple(dict.fromkeys(tensor.device.type for tensor in self.tensors()))

    def in_train_mode(self) -> bool:
        """Is any of the modules?"""
        return any(module.training for root in self.modules for module in root.modules())

    def evaluate(self) -> None:
        """Call `eval()` on the modules; the guard puts that back after the next run."""
        for root in self.modules:
            root.eval()


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """What one run left: its trace, outputs, and the digests of outputs and gradients by name.

    `gradients` holds only those tensors that `keep_gradients` asked for. `unfilled` tells of outputs that lie in
    memory which was not written as a whole, and which event allocated it. `changed` names attributes that the
    model changed while it ran, `written` the tensors of the sample that it wrote to.
    """

    trace: Trace
    output: Output
    digests: Mapping[str, Digest | None]
    gradients: Mapping[str, torch.Tensor]
    unfilled: Mapping[str, int]
    changed: tuple[str, ...]
    written: tuple[str, ...]


class Runner:
    """Runs cases under one guard; digests of parameters are kept from run to run."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._memories: dict[bool, Memory] = {}

    def run(self, case: Case, *, watcher: Watcher | None = None, keep_gradients: Sequence[str] = ()) -> Pass:
        """Seed, run and digest; leaves the model as it was. What the model raises passes through.

        Raises:
            AuditError: the output cannot be compared.
        """
        memory = Memory(canonical=case.canonical)  # what an earlier call wrote counts for no other run
        if case.earlier is None:
            memory = self._memories.setdefault(case.canonical, memory)
        memory.keep_only(tensor for root in case.modules for tensor in (*root.parameters(), *root.buffers()))
        tracer = Tracer(case.modules, memory=memory, on_write=self._guard.about_to_write, watcher=watcher)
        with self._begun(case) as sample:
            start, versions = read_generators(), _versions(sample)
            with _counted_threads() as threads:
                output, gradients = _execute(case, sample, tracer)
            return Pass(
                trace=replace(tracer.trace(), threads=len(threads), generators=moved(start)),
                output=output.copied(),
                digests=_digests({**output.tensors, **gradients}),
                gradients={name: gradients[name] for name in keep_gradients if name in gradients},
                unfilled={
                    name: event
                    for name, tensor in output.tensors.items()
                    if (event := memory.read(tensor, memory.block(tensor)).unfilled) is not None
                },
                changed=self._guard.changed(),
                written=tuple(name for name, version in _versions(sample).items() if version != versions[name]),
            )

    def run_untraced(self, case: Case) -> dict[str, torch.Tensor]:
        """Seed and run without the tracer, as compiled models must; return outputs and gradients by name.

        Leaves the model as it was. What the model raises passes through.

        Raises:
            AuditError: the output cannot be compared.
        """
        with self._begun(case) as sample:
            output, gradients = _execute(case, sample, nullcontext())
            return {**output.copied().tensors, **gradients}

    @contextmanager
    def _begun(self, case: Case) -> Iterator[Sample]:
        """Make the earlier call if there is one, seed, and hand out a copy of the sample; put all back after.

        An earlier call with the sample of the case gets the same tensors, as a second call with one batch does.
        """
        sample = case.sample.copied()
        self._guard.rewind_streams()  # operators that were run alone may have drawn from them
        with kept_settings():
            try:
                if case.earlier is not None:
                    seed_generators(case.seed)
                    before = Tracer(case.modules, on_write=self._guard.about_to_write)
                    _execute(case, sample if case.earlier is case.sample else case.earlier.copied(), before)
                seed_generators(case.seed)
                yield sample
            finally:
                self._guard.rewind()


def _versions(sample: Sample) -> dict[str, int]:
    """Return how often each tensor was written to in place; tensors of inference mode do not count that."""
    return {name: tensor._version for name, tensor in sample.tensors().items() if not tensor.is_inference()}


def imagine(case: Case) -> Trace:
    """Trace the case on fake tensors: nothing of the model is computed or written to.

    Raises:
        AuditError: the output cannot be compared, or the model asks for values that only a real run has.
    """
    known = KnownValues()
    with fake_tensors(case.modules, (case.sample.args, dict(case.sample.kwargs)), known) as (args, kwargs):
        tracer = Tracer(case.modules)
        _execute(case, Sample(args, kwargs), tracer)
    trace = tracer.trace()
    return replace(trace, events=with_declared_draws(trace.events), supposed=known.expectations)


def _execute(
    case: Case, sample: Sample, tracer: AbstractContextManager[object]
) -> tuple[Output, dict[str, torch.Tensor]]:
    trained: dict[str, torch.Tensor] = dict(named_parameters(case.modules))
    if case.backward:
        for tensor in trained.values():
            tensor.grad = None
    with torch.inference_mode(False), torch.set_grad_enabled(case.grad or case.backward), tracer:
        result = case.model(*sample.args, **sample.kwargs)
        output = read_output(result)
        if not case.backward:
            return output, {}
        _loss(case, result).backward()  # type: ignore[no-untyped-call]
    trained.update({f"input {name}": tensor for name, tensor in sample.tensors().items()})
    return output, {f"gradient of {k}": v.grad for k, v in trained.items() if v.grad is not None}


def _loss(case: Case, result: object) -> torch.Tensor:
    loss = default_loss(result) if case.loss is None else case.loss(result)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise AuditError("loss: it must return a tensor with one element")
    if not loss.requires_grad:
        raise AuditError(
            "backward=True, but the loss depends on nothing that requires gradients: "
            "pass loss=…, or a model with trainable parameters"
        )
    return loss


def default_loss(result: object) -> torch.Tensor:
    """Take the output's own `loss`, as models of transformers have, or else the sum of all squares."""
    own = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    terms = [
        leaf.abs().square().sum(dtype=torch.promote_types(leaf.abs().dtype, torch.float32))
        for _, leaf in leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    return torch.stack([term.to(terms[0]) for term in terms]).sum() if terms else torch.zeros(())


def _digests(tensors: Mapping[str, torch.Tensor]) -> dict[str, Digest | None]:
    digester = Digester(canonical=True)
    digests = {name: digester.digest(tensor) for name, tensor in tensors.items()}
    tickets = digester.fetch()
    return {name: None if item is None else tickets.get(item, item) for name, item in digests.items()}


@contextmanager
def _counted_threads() -> Iterator[list[str]]:
    """Collect the names of threads that Python code starts: a dispatch mode does not see what they do."""
    started: list[str] = []
    start = threading.Thread.start

    def counted(self: threading.Thread) -> None:
        if not self.name.startswith(THREADS):
            started.append(self.name)
        start(self)

    threading.Thread.start = counted  # type: ignore[method-assign]
    try:
        yield started
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
