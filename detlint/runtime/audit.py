"""Runs the model as often as its probes need, and writes down what was found."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch

from detlint.errors import AuditError, DetlintError, first_few, one_line
from detlint.findings import Finding, Severity
from detlint.rulebook import load_rules
from detlint.runtime.capture import Capture, LazyCapture, capture
from detlint.runtime.catalogue import Catalogue
from detlint.runtime.comparison import Comparer
from detlint.runtime.environment import read_environment
from detlint.runtime.events import Phase
from detlint.runtime.failures import model_raised
from detlint.runtime.flags import read_flags
from detlint.runtime.frames import MODEL_FAILURES, raised_at
from detlint.runtime.generators import checked_seed, seed_generators
from detlint.runtime.graph import annotate
from detlint.runtime.guard import Guard
from detlint.runtime.lab import Lab
from detlint.runtime.locations import location_of
from detlint.runtime.options import DEFAULT_PROBES, Options, Tiling, check_batch_dim, check_loss, chosen
from detlint.runtime.passes import Case, Runner, imagine
from detlint.runtime.probes import PROBES
from detlint.runtime.probes.registry import Comparison, Experiment, Inspection
from detlint.runtime.reference import Reference, compute_reference
from detlint.runtime.report import AuditReport, Cause, ProbeResult, Verdict
from detlint.runtime.sample import as_sample, require_values
from detlint.runtime.targets import modules_of, moved_to, name_of, named_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from detlint.runtime.events import OpEvent, SourceLine, Trace
    from detlint.runtime.passes import Pass

_Result = TypeVar("_Result")

_NOT_EXECUTED: Final = ": pass execute=False"
_NO_VALUES: Final = f"; it has weights without values, on the meta device{_NOT_EXECUTED}"
_VARIES: Final = "the model varies from run to run by itself: see repeat"
_RAISED: Final = "the model raised when it ran again: see repeat"
_TRACED: Final = ("aten.", "prims.", "prim.", "profiler.")
"""Operators of torch's own that hide no others."""


def audit(
    model: Callable[..., object],
    sample: object,
    *,
    probes: Sequence[str] | str = DEFAULT_PROBES,
    runs: int = 3,
    backward: bool = False,
    loss: Callable[[Any], torch.Tensor] | None = None,
    device: str | None = None,
    targets: Sequence[str] | str = ("cpu", "cuda"),
    seed: int = 0,
    reference: bool = True,
    allow: str = "rounding",
    strict: bool = False,
    tiling: Tiling | None = None,
    batch_dim: int | None = None,
    compile_modes: Sequence[str] | str = ("default",),
    compile_backend: str | Callable[..., Any] = "inductor",
    execute: bool = True,
    progress: Callable[[int, int, str], None] | None = None,
) -> AuditReport:
    """Which operators run, which of them can differ, which of them did, and where does it begin?

    Args:
        model: a module, or any function over tensors.
        sample: a tensor, a tuple of arguments, a dict of keyword arguments, or a `Sample`.
        probes: names of the questions to ask, or one of them, or "all".
        runs: how often `repeat` runs the model.
        backward: run the backward pass too, from `loss(output)`; without `loss`, from the output's own `loss`
            or the sum of all squares.
        device: where to run; a copy of the model is moved there.
        targets: devices whose hazards are reported: "cpu", "cuda", "mps".
        seed: what every generator is seeded with before each run.
        reference: judge differences against a float64 run; otherwise by an error bound.
        allow: "rounding" or "bitwise": what probes other than `repeat` may show before the audit fails.
        strict: fail for hazards too, not only for what did differ, and where a probe asked for by name is skipped.
        tiling: how `tiling` cuts the image; None works it out from the traced model.
        batch_dim: the dimension of the sample's tensors that counts samples; None finds it.
        compile_modes: modes of torch.compile that `compile` tries.
        compile_backend: the backend it compares with eager execution: a name, or a function as torch.compile takes.
        execute: False traces with fake tensors: hazards only, for models too big to run.
        progress: called with (probes done, probes, name of the next one).

    Raises:
        AuditError: the model cannot be audited with this sample.
        UsageError: an argument makes no sense.
    """
    names = _probe_names(probes)
    options = Options(
        runs, tiling, batch_dim, compile_modes, compile_backend, targets, allow, strict, reference, execute
    )
    check_loss(loss, backward)
    seed = checked_seed(seed, "seed")
    start = time.perf_counter()
    model, inputs = moved_to(model, as_sample(sample), device)
    check_batch_dim(batch_dim, inputs.tensors())
    case = Case(model, modules_of(model), inputs, backward=backward, loss=loss, seed=seed)
    guard, training = Guard(case.modules, case.model), case.in_train_mode()
    with guard:
        catalogue = Catalogue.load(
            options.targets,
            read_flags(),
            torch_version=torch.__version__,
            workspace=os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""),
        )
        session = _Session(case, Runner(guard), options, catalogue, progress or _silent)
        trace, results = session.run(names) if execute else session.imagine(names)
        hazards = catalogue.findings(trace.events)
        results = {name: _with_finding(result, catalogue, training) for name, result in results.items()}
        found = tuple(finding for result in results.values() for finding in result.findings)
    diverged = next((r.first_divergence for r in results.values() if r.first_divergence is not None), None)
    captured = LazyCapture(None, Capture(None, "", "nothing was executed"))
    if execute:
        captured = LazyCapture(partial(_annotated, case, trace, hazards, diverged))
    return AuditReport(
        events=trace.events,
        findings=tuple(sorted((*found, *hazards), key=lambda finding: finding.sort_key)),
        probes=results,
        environment=read_environment(),
        named=() if probes == "all" or probes is DEFAULT_PROBES else names,
        captured=captured,
        blind_spots=(*_blind_spots(case, trace, results), *session.blind_spots, *guard.problems),
        allow=allow,
        strict=strict,
        seconds=time.perf_counter() - start,
        model=name_of(model),
    )


def _annotated(case: Case, trace: Trace, hazards: Sequence[Finding], diverged: OpEvent | None) -> Capture:
    """Capture the model as it was audited, and write on its graph what is known."""
    sample = case.sample.copied()
    with Guard(case.modules, case.model), torch.inference_mode(False), torch.set_grad_enabled(case.backward):
        seed_generators(case.seed)
        captured = capture(case.model, sample.args, sample.kwargs)
    if captured.graph is not None:
        annotate(captured.graph, trace.events, hazards, diverged)
    return captured


class _Session:
    """The runs of one audit, under one guard."""

    def __init__(
        self,
        case: Case,
        runner: Runner,
        options: Options,
        catalogue: Catalogue,
        progress: Callable[[int, int, str], None],
    ) -> None:
        self._case = case
        self._progress = progress
        self._reference: Reference | None = None
        self._lab = Lab(runner, case, options, self._exact, partial(_suspects, catalogue))
        self.blind_spots: tuple[str, ...] = ()

    def run(self, names: Sequence[str]) -> tuple[Trace, dict[str, ProbeResult]]:
        """Run the model once, then every probe; `repeat` comes first, since others build on it."""
        self._progress(0, len(names), "first run")
        require_values(self._case.sample.tensors(), _NOT_EXECUTED)
        base = self._first(self._lab.base, hint=_NO_VALUES if "meta" in self._case.devices() else "")
        require_values(base.output.tensors, _NOT_EXECUTED)
        results: dict[str, ProbeResult] = {}
        for done, name in enumerate(names):
            self._progress(done, len(names), name)
            begin = time.perf_counter()
            result = self._probe(name, base, results.get("repeat"))
            results[name] = replace(result, seconds=time.perf_counter() - begin)
        self._progress(len(names), len(names), "done")
        self.blind_spots = tuple(f"output {name} was not looked into" for name in base.output.opaque)
        empty = [name for name, tensor in base.output.tensors.items() if not tensor.numel()]
        if empty:
            self.blind_spots += (f"no element to compare in {first_few(empty)}",)
        history = results.get("history")
        if base.changed and (history is None or history.verdict in (Verdict.SKIPPED, Verdict.ERROR)):
            self.blind_spots += (
                f"the model changed {first_few(base.changed)} while it ran; that was put back before every run, "
                "so a result that depends on it looks the same each time",
            )
        if self._reference is not None and self._reference.reason:
            self.blind_spots += (f"judged by an error bound, not in float64: {self._reference.reason}",)
        return base.trace, results

    def imagine(self, names: Sequence[str]) -> tuple[Trace, dict[str, ProbeResult]]:
        """Trace with fake tensors and judge the trace alone, as far as probes can: no memory, no values."""
        trace = self._first(lambda: imagine(self._case))
        self.blind_spots = ("nothing was executed: operators were traced with fake tensors",)
        if trace.supposed:
            self.blind_spots += (
                f"values were not known at {', '.join(trace.supposed)}: "
                "checks were taken to pass, masks to select everything",
            )
        inspections = {name: probe for name, probe in PROBES.items() if isinstance(probe, Inspection)}
        found = {
            name: probe.inspect(self._case, trace)
            for name, probe in inspections.items()
            if probe.skip_reason(self._case) is None
        }
        skipped = ProbeResult("", Verdict.SKIPPED, reason="nothing was executed")
        results = {name: replace(skipped, name=name) for name in names}
        return trace, {**results, **{name: replace(skipped, name=name, findings=found[name]) for name in found}}

    def _first(self, run: Callable[[], _Result], hint: str = "") -> _Result:
        try:
            return run()
        except DetlintError:
            raise
        except MODEL_FAILURES as error:
            raise AuditError(f"{model_raised(error, self._case)}{hint}") from error

    def _probe(self, name: str, base: Pass, repeat: ProbeResult | None) -> ProbeResult:
        probe = PROBES[name]
        reason = probe.skip_reason(self._case)
        varies = repeat is not None and repeat.verdict not in (Verdict.BITWISE, Verdict.SKIPPED)
        raised = repeat is not None and repeat.verdict is Verdict.ERROR
        unsteady = _RAISED if raised else _VARIES
        if reason is None and varies and not isinstance(probe, Inspection):
            reason = unsteady
        if reason is not None:
            return ProbeResult(name, Verdict.SKIPPED, reason=reason)
        try:
            result = ProbeResult(name, Verdict.SKIPPED, reason=unsteady)
            if isinstance(probe, Experiment) and not varies:
                result = replace(probe.conduct(self._lab), name=name)
            elif isinstance(probe, Comparison) and not varies:
                result = Comparer(self._lab).compare(name, probe)
            if isinstance(probe, Inspection):
                result = replace(
                    result, findings=probe.inspect(self._case, base.trace, None if raised else self._again)
                )
            return result
        except MODEL_FAILURES as error:  # one failing probe must not lose the others
            return ProbeResult(name, Verdict.ERROR, reason=one_line(error) + raised_at(error))

    def _again(self, case: Case) -> Trace:
        return self._lab.runner.run(case).trace

    def _exact(self) -> Reference:
        """Compute the float64 reference when the first difference needs it."""
        if self._reference is None:
            if not self._lab.options.reference:
                self._reference = Reference({}, "reference=False")
            elif any(event.rng is not None for event in self._lab.base().trace.events):
                self._reference = Reference({}, "the model draws random numbers, which are others in float64")
            else:
                try:
                    self._reference = self._steady(compute_reference(self._case))
                except MODEL_FAILURES as error:  # models may refuse float64 in any way
                    self._reference = Reference({}, f"the model raised {one_line(error)}{raised_at(error)} in float64")
        return self._reference

    def _steady(self, reference: Reference) -> Reference:
        """Distrust a reference that another float64 run does not confirm: it draws numbers of its own."""
        again = compute_reference(self._case)
        _, verdict = self._lab.compare(reference.tensors, again.tensors, exact={})
        if verdict.rank <= Verdict.ROUNDING.rank:
            return reference
        return Reference({}, "the model gives other values in each float64 run")


def _suspects(catalogue: Catalogue, trace: Trace) -> tuple[OpEvent, ...]:
    """Return the operators that can differ on the very device they ran on, one of each call."""
    found: dict[tuple[str, str, SourceLine | None], OpEvent] = {}
    for hazard in catalogue.hazards(trace.events):
        event = hazard.event
        if not hazard.predicted and not hazard.derivative:
            found.setdefault((event.op, event.module, event.source), event)
    return tuple(found.values())


def _silent(done: int, of: int, name: str) -> None:
    """Report no progress."""


def _probe_names(probes: Sequence[str] | str) -> tuple[str, ...]:
    """Return the wanted probes, `repeat` first."""
    wanted = tuple(PROBES) if probes == "all" else chosen("probes", "probe", probes, PROBES)
    return tuple(sorted(dict.fromkeys(wanted), key=lambda name: name != "repeat"))


def _with_finding(result: ProbeResult, catalogue: Catalogue, training: bool) -> ProbeResult:
    """Make the divergence of a probe a finding, unless the probe itself has found what is behind it.

    `training`: a module of the model is in train mode.
    """
    apart = result.divergence
    event = None if apart is None else apart.event or apart.other  # the plain run may be at its end there
    if event is None or result.verdict is Verdict.BITWISE or result.findings:
        return result
    repeats = result.name == "repeat" or result.kind is Cause.RUN_TO_RUN  # compiled code can vary by itself
    varies = result.kind is Cause.RUN_TO_RUN  # else it is what the operator was given that varies
    known = [hazard.operator.instead for hazard in catalogue.hazards([event])] if varies else []
    rule = load_rules()["DET701" if repeats else "DET702"]
    remedy = result.remedy or (known[0] if known else _REMEDIES[result.kind])
    if result.kind is Cause.RANDOMNESS and training:
        remedy = f"call model.eval(), or {remedy}"
    finding = replace(
        rule.finding(location_of(event), remedy=remedy, cause=result.cause),
        severity=Severity.INFO if result.verdict is Verdict.ROUNDING and not repeats else rule.severity,
        passes=("forward" if event.phase is not Phase.BACKWARD else "backward",),
        op=event.op,
        module=event.module,
    )
    return replace(result, findings=(*result.findings, finding))


_REMEDIES: Final = {
    Cause.RUN_TO_RUN: "use detlint.deterministic(), or another operator",
    Cause.RANDOMNESS: "draw from a generator that is seeded before each run",
    Cause.UNINITIALIZED: "write to memory from torch.empty before it is read, or use torch.zeros",
    Cause.STATE: "pass what changes between runs as an argument",
    Cause.SHAPE: "keep the shape fixed where results are compared",
    Cause.PERTURBATION: "keep this setting fixed where results are compared bit by bit",
    Cause.UNKNOWN: "look for what is not the same in each run: state outside the model, the clock, files, threads",
}


def _blind_spots(case: Case, trace: Trace, results: dict[str, ProbeResult]) -> tuple[str, ...]:
    """What this audit could not see."""
    spots = []
    if trace.threads:
        spots.append(f"threads were started ({trace.threads}): their operators were not traced")
    spots += [
        f"numbers were drawn from {generator} by something the tracer does not see" for generator in trace.unseen_draws
    ]
    ran = {call.path for call in trace.modules}
    never = [
        path for path, module in named_modules(case.modules) if path and path not in ran and not any(module.children())
    ]
    if never:
        spots.append(f"never called: {first_few(never)}")
    if trace.strangers:
        spots.append(
            "modules ran that the model does not hold, so nothing they changed was put back: "
            f"{first_few(trace.strangers)}"
        )
    custom = sorted({event.name for event in trace.events if not event.op.startswith(_TRACED)})
    if custom:
        spots.append(f"what happens inside these operators was not traced: {', '.join(custom)}")
    skipped: dict[str, list[str]] = {}
    for result in results.values():
        if result.verdict is Verdict.SKIPPED:
            skipped.setdefault(result.reason, []).append(result.name)
    spots += [
        f"probe{'s' * (len(names) > 1)} {', '.join(names)} skipped: {reason}" for reason, names in skipped.items()
    ]
    spots += [f"{result.name}: {result.unasked}" for result in results.values() if result.unasked]
    others = [name for name in PROBES if name not in results]
    if others:
        spots.append(f"probes not asked for: {', '.join(others)}")
    return tuple(spots)
