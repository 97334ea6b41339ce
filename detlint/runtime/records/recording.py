"""Records one pass of a model, or the steps of a training loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from detlint.errors import AuditError, DetlintError, RecordError, UsageError
from detlint.runtime.digests import Digester, combine, is_plain
from detlint.runtime.environment import read_environment
from detlint.runtime.failures import model_raised
from detlint.runtime.frames import MODEL_FAILURES
from detlint.runtime.generators import checked_seed, read_generators
from detlint.runtime.guard import Guard
from detlint.runtime.options import check_loss
from detlint.runtime.overloads import tensors_of
from detlint.runtime.passes import Case, Runner
from detlint.runtime.records.archive import write_record
from detlint.runtime.records.record import Record, Step
from detlint.runtime.records.summary import Summary, summarize, summarize_all
from detlint.runtime.sample import as_sample, require_values
from detlint.runtime.targets import modules_of, moved_to, name_of, named_parameters, named_tensors
from detlint.runtime.trees import tensors_by_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from detlint.runtime.events import Digest, TensorMeta, Trace


def record(
    model: Callable[..., object],
    sample: object,
    path: Path | str | None = None,
    *,
    backward: bool = False,
    loss: Callable[[Any], torch.Tensor] | None = None,
    device: str | None = None,
    seed: int = 0,
) -> Record:
    """Run the model once and keep what a comparison with another machine needs; the model is left as it was.

    Args:
        model: a module, or any function over tensors.
        sample: a tensor, a tuple of arguments, a dict of keyword arguments, or a `Sample`.
        path: where to write the record, as one file.
        backward: run the backward pass too, from `loss(output)`; without `loss`, from the output's own `loss`
            or the sum of all squares.
        device: where to run; a copy of the model is moved there.
        seed: what every generator is seeded with before the run.

    Raises:
        AuditError: the model cannot be run with this sample.
        UsageError: the file cannot be written, or an argument makes no sense.
    """
    check_loss(loss, backward)
    seed = checked_seed(seed, "seed")
    model, inputs = moved_to(model, as_sample(sample), device)
    case = Case(model, modules_of(model), inputs, backward=backward, loss=loss, seed=seed)
    with Guard(case.modules, case.model) as guard:
        found = _run(case, Runner(guard))
    if path is not None:
        write_record(Path(path), found)
    return found


def _run(case: Case, runner: Runner) -> Record:
    given, read = dict(named_tensors(case.modules)), case.sample.tensors()
    require_values({**given, **read})
    weights, inputs = summarize_all(given, measured=False), summarize_all(read)
    summaries = _Summaries()
    parameters = [name for name, _ in named_parameters(case.modules)]
    wanted = [f"gradient of {name}" for name in (*parameters, *(f"input {name}" for name in inputs))]
    try:
        run = runner.run(case, watcher=summaries, keep_gradients=wanted)
    except DetlintError:
        raise
    except MODEL_FAILURES as error:  # a model may fail in any way
        raise AuditError(model_raised(error, case)) from error
    return Record(
        model=name_of(case.model),
        environment=read_environment().to_dict(),
        seed=case.seed,
        backward=case.backward,
        weights=weights,
        inputs=inputs,
        outputs=summarize_all(run.output.tensors),
        gradients=summarize_all(run.gradients),
        trace=run.trace,
        results=summaries.of(run.trace),
    )


class _Summaries:
    """A `Watcher` that summarizes what each operator wrote; views show what is summarized already."""

    def __init__(self) -> None:
        self._given: list[torch.Tensor] = []
        self._results: list[list[Summary | None]] = []
        self._digester = Digester(canonical=True)

    def before(self, index: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._given = tensors_of((args, kwargs))

    def after(self, index: int, outputs: Sequence[torch.Tensor]) -> None:
        memory = {tensor.untyped_storage()._cdata for tensor in self._given if is_plain(tensor)}
        written = {id(tensor) for tensor in self._given}
        self._results.append(
            [
                None
                if id(tensor) not in written and is_plain(tensor) and tensor.untyped_storage()._cdata in memory
                else summarize(tensor, self._digest(tensor), device_digest=tensor.device.type != "cpu")
                for tensor in outputs
            ]
        )
        self._given = []

    def _digest(self, tensor: torch.Tensor) -> Digest | None:
        """Digest what the tracer does not digest in logical order."""
        return None if is_plain(tensor) and tensor.is_contiguous() else self._digester.digest(tensor)

    def of(self, trace: Trace) -> tuple[tuple[Summary | None, ...], ...]:
        """Return the summaries of the outputs of each event, with the digests that its trace holds."""
        tickets = self._digester.fetch()

        def settled(summary: Summary | None, meta: TensorMeta) -> Summary | None:
            if summary is None or meta.unfilled is not None:
                return None
            if summary.digest is None:
                return replace(summary, digest=meta.digest)
            return replace(summary, digest=tickets.get(summary.digest, summary.digest))

        return tuple(
            tuple(settled(summary, meta) for summary, meta in zip(found, event.outputs, strict=True))
            for event, found in zip(trace.events, self._results, strict=True)
        )


class Recorder:
    """Records the steps of a training loop, and writes them to `path` when the `with` block ends.

    `step` reads tensors and changes nothing: no seed, no mode, no setting. What was recorded before an exception is
    written too. The weights that a `model` begins with are recorded if it is given here.

    >>> with Recorder("run.detlint", model) as recorder:
    ...     for batch in loader:
    ...         loss = model(batch).sum()
    ...         loss.backward()
    ...         optimizer.step()
    ...         recorder.step(model, loss=loss, inputs=batch)
    ...         optimizer.zero_grad()
    """

    def __init__(self, path: Path | str, model: torch.nn.Module | None = None) -> None:
        self._path = Path(path)
        self._model = ""
        self._begun = False
        self._environment: dict[str, object] = {}
        self._weights = {} if model is None else summarize_all(dict(named_tensors([_checked(model)])), measured=False)
        self._steps: list[Step] = []

    def __enter__(self) -> Self:
        self._begun = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._steps:
            write_record(self._path, self.record())
        elif kind is None:
            raise RecordError(f"{self._path}: no step was recorded, so nothing was written")

    def step(self, model: torch.nn.Module, *, loss: torch.Tensor | None = None, inputs: object = None) -> None:
        """Keep inputs, loss, gradients and parameters as they are now, as the next step.

        Call it after `optimizer.step()` and before `optimizer.zero_grad()`: then the parameters are those that the
        gradients led to. Buffers (running statistics) count as parameters.

        Args:
            model: what is being trained.
            loss: of this step, any shape.
            inputs: the batch: a tensor or any nest of tensors, so that a batch in another order is told from other
                arithmetic.

        Raises:
            UsageError: the model is no module, or the loss no tensor; or there is no `with` block, at whose end the
                steps would be written.
        """
        if not self._begun:
            raise UsageError("Recorder.step: write `with Recorder(…) as recorder:`, as the file is written at its end")
        _checked(model)
        if loss is not None and not isinstance(loss, torch.Tensor):
            raise UsageError(f"Recorder.step: expected a tensor as loss, got {type(loss).__name__}")
        if not self._steps:
            self._model, self._environment = type(model).__name__, read_environment().to_dict()
        parameters = dict(model.named_parameters())
        gradients = {f"gradient of {k}": v.grad for k, v in reversed(parameters.items()) if v.grad is not None}
        batch = tensors_by_path(inputs, "input")
        with torch.no_grad():
            self._steps.append(
                Step(
                    number=len(self._steps),
                    inputs=summarize_all(batch),
                    computed=summarize_all({} if loss is None else {"loss": loss}),
                    gradients=summarize_all(gradients),
                    parameters=summarize_all(dict(named_tensors([model]))),
                    generators=_generators(),
                )
            )

    def record(self) -> Record:
        """Return what was recorded so far."""
        return Record(
            model=self._model,
            environment=self._environment or read_environment().to_dict(),
            weights=self._weights,
            steps=tuple(self._steps),
        )


def _checked(model: torch.nn.Module) -> torch.nn.Module:
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"Recorder: expected a module, got {type(model).__name__}")
    return model


def _generators() -> dict[str, str]:
    """Digests of the states of the global generators, by name."""
    states = read_generators()
    tensors = {"cpu": states.cpu, **{f"cuda:{place}": state for place, state in enumerate(states.cuda or ())}}
    if states.mps is not None:
        tensors["mps"] = states.mps
    digester = Digester()
    digests = {name: digester.digest(state.cpu()) or 0 for name, state in tensors.items()}
    numpy = [part.tolist() if hasattr(part, "tolist") else part for part in states.numpy or ()]
    digests |= {"numpy": combine(numpy), "random": combine(states.python)}
    return {name: f"{digest:032x}" for name, digest in digests.items()}
