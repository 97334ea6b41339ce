"""What an audit found: plain records, rendered by `detlint.reports`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from detlint.errors import AuditError, UsageError, did_you_mean
from detlint.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.fx import GraphModule

    from detlint.runtime.capture import LazyCapture
    from detlint.runtime.environment import Environment
    from detlint.runtime.events import Digest, OpEvent
    from detlint.runtime.repro import Repro

QUANTILES = (50, 85, 90, 95, 99, 100)


class NotDeterministic(AssertionError):
    """Raised by `AuditReport.raise_if_failed` and `detlint.assert_deterministic`, with the report as `report`."""

    report: AuditReport


class Verdict(str, Enum):
    """How far apart the two sides of a probe were. `rank` orders them from best to worst."""

    BITWISE = "bitwise"
    SKIPPED = "skipped"
    ROUNDING = "rounding"
    BEYOND_ROUNDING = "beyond-rounding"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Verdict).index(self)


class Cause(str, Enum):
    """The four causes that must not be mixed up, and the honest rest."""

    RUN_TO_RUN = "run-to-run variation"
    SHAPE = "dependence on shape or batch"
    RANDOMNESS = "consumed randomness"
    UNINITIALIZED = "uninitialised memory"
    PERTURBATION = "dependence on the change that the probe made"
    STATE = "state carried over from an earlier run"
    UNKNOWN = "not told"


@dataclass(frozen=True, slots=True)
class Difference:
    """How much two tensors differ: figures over all elements, computed in float64.

    `differing` counts elements whose bits differ; `max_rel` is relative to the greater of both sides;
    `max_ulp` is in units of the tensor's own dtype; `percentiles` are those of the absolute difference at
    QUANTILES; `psnr` is in decibels of the first side's greatest magnitude, None where the values agree.
    `place` is the index of the greatest difference. NaN or infinity on one side only counts as infinite.
    """

    name: str
    numel: int
    differing: int
    max_abs: float
    max_rel: float
    max_ulp: int
    place: tuple[int, ...]
    percentiles: tuple[float, ...]
    psnr: float | None


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two passes first part.

    `event` is the operator of the first pass, `other` that of the second one (another operator where the
    sequences fork). `confirmed` is True where the operator alone, run again on its captured inputs, gives
    other bits; False where it does not; None where it could not be run again. `reruns` of those runs gave
    `distinct` results.
    """

    event: OpEvent | None
    other: OpEvent | None
    sequence_forks: bool = False
    confirmed: bool | None = None
    reruns: int = 0
    distinct: int = 0
    at_operator: Difference | None = None
    note: str = ""

    @property
    def told(self) -> tuple[str, ...]:
        """What came of running the operator alone, in one line; none where it was not."""
        if self.confirmed is None or self.event is None:
            return ()
        if self.distinct:
            results = f"{self.distinct} result{'s' * (self.distinct > 1)} in {self.reruns} runs"
            return (f"{self.event.op} alone, on the inputs of one run: {results}",)
        word = "other" if self.confirmed else "the same"
        return (f"{self.event.op} alone, on the inputs of both sides: {word} bits",)


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Why the two sides of a probe differ, in one sentence, and what was tested to say so; see `ProbeResult`."""

    kind: Cause
    cause: str
    divergence: Divergence | None = None
    remedy: str = ""
    evidence: tuple[str, ...] = ()
    repro: Repro | None = None


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one probe found.

    `reason` is why it was skipped or failed, `cause` one sentence on why bits differ, `evidence` lists
    the measurements that the cause rests on. `outputs` holds one entry for each output (and gradient) that
    differs. `change` names the variant that gave the worst verdict. `remedy` is what was tested to help;
    `repro` the operator that departs with its inputs, for `AuditReport.save_repro`; `unasked` what the probe did
    not ask, for the blind spots of the report.
    """

    name: str
    verdict: Verdict
    cause: str = ""
    kind: Cause = Cause.UNKNOWN
    remedy: str = ""
    change: str = ""
    runs: int = 0
    divergence: Divergence | None = None
    outputs: tuple[Difference, ...] = ()
    evidence: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    repro: Repro | None = field(default=None, repr=False, metadata={"rendered": False})
    unasked: str = field(default="", metadata={"rendered": False})

    def explained(self, why: Explanation) -> ProbeResult:
        """Return the result with an explanation; its evidence comes last."""
        return replace(
            self,
            cause=why.cause,
            kind=why.kind,
            divergence=why.divergence,
            remedy=why.remedy,
            evidence=(*self.evidence, *why.evidence),
            repro=why.repro,
        )

    @property
    def first_divergence(self) -> OpEvent | None:
        """The first operator whose output differs while its inputs agree."""
        return None if self.divergence is None else self.divergence.event

    @property
    def worst(self) -> Difference | None:
        """The output that differs most; where no output does, the operator of the first divergence."""
        if self.outputs:
            return max(self.outputs, key=lambda difference: difference.max_abs)
        return None if self.divergence is None else self.divergence.at_operator

    @property
    def max_abs(self) -> float:
        """Greatest absolute difference at the output."""
        return 0.0 if self.worst is None else self.worst.max_abs

    @property
    def max_rel(self) -> float:
        """Greatest relative difference at the output."""
        return 0.0 if self.worst is None else self.worst.max_rel

    @property
    def max_ulp(self) -> int:
        """Greatest difference at the output in units of the last place."""
        return 0 if self.worst is None else self.worst.max_ulp

    @property
    def psnr(self) -> float | None:
        """Peak signal-to-noise ratio in decibels; None where nothing differs."""
        return None if self.worst is None else self.worst.psnr

    @property
    def percentiles(self) -> Mapping[int, float]:
        """Percentile → absolute difference at the output."""
        values = self.worst.percentiles if self.worst else (0.0,) * len(QUANTILES)
        return dict(zip(QUANTILES, values, strict=True))


@dataclass(frozen=True, repr=False)
class AuditReport:
    """What executed, what can differ, what did differ, and where it began.

    `detlint.AuditReport` is this record together with its renderings. `named` are probes asked for by name.
    """

    events: tuple[OpEvent, ...]
    findings: tuple[Finding, ...]
    probes: Mapping[str, ProbeResult]
    environment: Environment | None
    named: tuple[str, ...] = field(metadata={"rendered": False})
    captured: LazyCapture = field(repr=False, metadata={"rendered": False})
    blind_spots: tuple[str, ...]
    allow: str = "rounding"
    strict: bool = False
    seconds: float = 0.0
    model: str = ""
    problems: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        """Keep to a line in tests that fail and in consoles: the events alone would be thousands."""
        verdicts = [f"{name} {probe.verdict.value}" for name, probe in self.probes.items()]
        word = "passed" if self.ok else "failed"
        return f"<{type(self).__name__}: {self.model} {word}: {', '.join(verdicts) or 'no probes'}>"

    @property
    def graph(self) -> GraphModule | None:
        """The model as an annotated graph, captured when it is first asked for; None where no way works."""
        return self.captured.get().graph

    @property
    def graph_reason(self) -> str:
        """Why the model could not be captured, or not at first."""
        return self.captured.get().reason

    @property
    def ok(self) -> bool:
        """Is nothing wrong? Rounding counts under `allow="bitwise"`, mere hazards and skipped probes under `strict`.

        Only probes that were asked for by name must not be skipped.
        """
        return not self.failures()

    def failures(self) -> tuple[str, ...]:
        """One line for each reason why the audit failed."""
        lines = []
        for probe in self.probes.values():
            varies = probe.name == "repeat" or probe.kind is Cause.RUN_TO_RUN
            allowed = Verdict.BITWISE if varies or self.allow == "bitwise" else Verdict.ROUNDING
            if probe.verdict is Verdict.ERROR:
                lines.append(f"{probe.name}: {probe.reason}")
            elif probe.verdict is not Verdict.SKIPPED and probe.verdict.rank > allowed.rank:
                lines.append(f"{probe.name}: {probe.verdict.value}: {probe.cause}")
            elif probe.name == "mode" and (left_on := [f for f in probe.findings if f.severity is not Severity.INFO]):
                lines.append(f"mode: {probe.cause or left_on[0].message}")
        if self.strict:
            skipped = [name for name in self.named if self.probes[name].verdict is Verdict.SKIPPED]
            lines += [f"{name}: asked for by name, but skipped: {self.probes[name].reason}" for name in skipped]
            told = {finding for probe in self.probes.values() for finding in probe.findings}
            lines += [f"{f.code} {f.location}: {f.message}" for f in self.findings if f not in told]
        return tuple(lines)

    def repro(self, probe: str | None = None) -> Repro:
        """Return the operator that departs, of one probe or of the first that has one.

        Raises:
            AuditError: no probe found an operator that shows a difference alone.
            UsageError: the probe was not asked for.
        """
        if probe is not None and probe not in self.probes:
            raise UsageError(f"save_repro: no probe {probe!r} in this report{did_you_mean(probe, self.probes)}")
        asked = self.probes.values() if probe is None else [self.probes[probe]]
        found = next((result.repro for result in asked if result.repro is not None), None)
        if found is None:
            differing = [result.name for result in asked if result.divergence is not None]
            why = (
                f"no single operator shows the difference of {', '.join(differing)}" if differing else "nothing differs"
            )
            raise AuditError(f"{why}, so there is nothing to show again")
        return found

    def to_dict(self) -> dict[str, Any]:
        """All of it but the graph module as JSON-ready values, digests in hexadecimal."""
        record = {name: plain(getattr(self, name)) for name in _rendered(self)}
        environment = None if self.environment is None else self.environment.to_dict()
        own = {"ok": self.ok, "failures": list(self.failures()), "graph_reason": self.captured.reason}
        return {**own, **record, "environment": environment}


def plain(value: object) -> object:
    """Turn records, enums, tuples and mappings into what `json` can write."""
    if isinstance(value, Enum):
        return cast("object", value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _field(name, getattr(value, name)) for name in _rendered(value)}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for them
    return value


def _rendered(record: Any) -> list[str]:
    return [item.name for item in fields(record) if item.metadata.get("rendered", True)]


def _field(name: str, value: object) -> object:
    if name == "digest" and isinstance(value, int):
        digest: Digest = value
        return f"{digest:032x}"
    return plain(value)
