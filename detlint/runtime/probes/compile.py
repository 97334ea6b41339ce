"""Does the result depend on whether torch.compile made the program?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from detlint.errors import one_line
from detlint.runtime.compiling import Compiler, compiled_already
from detlint.runtime.flags import Flags, using
from detlint.runtime.fresh_process import NotAgain, fresh_runs
from detlint.runtime.inductor import Rewrite, blame_rewrites, draws, watched_kernels
from detlint.runtime.measure import differences
from detlint.runtime.origins import origin
from detlint.runtime.pieces import RERUNS, Search, captured, reruns
from detlint.runtime.probes.registry import probe
from detlint.runtime.reference import judge
from detlint.runtime.report import Cause, Difference, Divergence, Explanation, ProbeResult, Verdict
from detlint.runtime.repro import Call, Repro
from detlint.runtime.switches import SWITCHES, Blame, Switch, blame

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from detlint.runtime.events import OpEvent
    from detlint.runtime.lab import Lab
    from detlint.runtime.passes import Case
    from detlint.runtime.pieces import Departure

    Tensors = Mapping[str, torch.Tensor]

_DETERMINISTIC: Final = Switch(
    "nondeterministic algorithms",
    ("cpu", "cuda"),
    Flags(deterministic_mode=2, fill_uninitialized_memory=False),
    "torch.use_deterministic_algorithms(True)",
)
"""For what varies from run to run; fresh memory stays unfilled, so that a fill is not taken for a cure."""
_FRESH: Final = 2
"""Processes in which a mode that chooses kernels by timing compiles anew."""
_DECOMPOSED: Final = "aot_eager_decomp_partition"
_LAYERS: Final = {
    "eager": "the graphs that Dynamo traces, run as they are",
    "aot_eager": "the graphs of AOTAutograd, run by eager kernels",
    _DECOMPOSED: "decomposed into the simpler operators that Inductor wants, run by eager kernels",
}
"""The backends that stop before code is generated, and what gives their results."""


@probe("compile")
class Compile:
    """Eager against compiled, each mode; then which layer of the compiler, which operators, and what it takes."""

    def skip_reason(self, case: Case) -> str | None:
        """There must be an eager program to compare with."""
        part = compiled_already(case.model, case.modules)
        return None if part is None else f"{part} is compiled already: pass the model that torch.compile was given"

    def conduct(self, lab: Lab) -> ProbeResult:
        """Compile in every mode, run each program several times, and explain the worst."""
        return _Study(lab).result()


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """What one way to compile gave: its worst run against the eager one, and whether its runs agree."""

    compiler: Compiler
    outputs: Tensors
    differences: tuple[Difference, ...]
    verdict: Verdict
    varies: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Reason:
    """Why compiled code gives other bits, and what was tested to say so."""

    cause: str
    kind: Cause = Cause.PERTURBATION
    divergence: Divergence | None = None
    blame: Blame = field(default_factory=Blame)
    evidence: tuple[str, ...] = ()
    repro: Repro | None = None


class _Study:
    """The runs and searches of one audit."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._case = lab.case
        self._eager = self._run(lab.case)

    def result(self) -> ProbeResult:
        options = self._lab.options
        if differences(self._eager, self._run(self._case)):
            return _skipped("the model varies from run to run before it is compiled")
        try:
            pieces, _ = captured(self._lab.runner, self._case, aten=False)
        except Exception as error:  # Dynamo gives up with exceptions of many kinds
            return _skipped(f"torch.compile cannot trace the model: {one_line(error)}")
        if not pieces:
            return _skipped("torch.compile finds nothing in the model that it can compile")
        graphs = {piece.module for piece in pieces}
        count = sum(node.op.startswith("call_") for graph in graphs for node in graph.graph.nodes)
        evidence = [f"torch.compile sees {_counted(len(graphs), 'graph')} with {_counted(count, 'operation')}"]
        sides, hurdles = [], []
        for compiler in (Compiler(options.compile_backend, mode) for mode in options.compile_modes):
            try:
                sides.append(self._side(compiler))
            except Exception as error:  # so do backends
                hurdles.append(f"{compiler}: the model cannot be compiled: {one_line(error)}")
        if not sides:
            return _skipped("; ".join(hurdles))
        evidence += [*(_told(side) for side in sides), *hurdles]
        worst = max(sides, key=lambda side: (side.verdict.rank, side.varies))
        result = ProbeResult("compile", worst.verdict, runs=1 + len(sides) * options.runs)
        if worst.verdict is not Verdict.BITWISE:
            result = self._explained(result, worst)
        result = replace(result, evidence=(*evidence, *result.evidence))
        for side in sides:
            if side.compiler.is_inductor and side.compiler.mode.startswith("max-autotune"):
                result = self._afresh(result, side)
        return result

    def _side(self, compiler: Compiler) -> _Side:
        worst: tuple[Tensors, tuple[Difference, ...], Verdict] | None = None
        first: Tensors = {}
        varies = False
        with compiler.applied(self._case.model) as compiled:
            for number in range(self._lab.options.runs):
                run = self._run(replace(self._case, model=compiled))
                if number and not differences(first, run):
                    continue
                measured, verdict = self._lab.compare(self._eager, run)
                varies, first = bool(number), first or run
                if worst is None or verdict.rank >= worst[2].rank:
                    worst = run, measured, verdict
        assert worst is not None
        return _Side(compiler, *worst, varies)

    def _explained(self, result: ProbeResult, side: _Side) -> ProbeResult:
        remedy = ""
        try:
            why = self._variation(side) if side.varies else self._departure(side)
            evidence = [*why.evidence, *why.blame.evidence]
            for cure in why.blame.cures[:1]:
                left = self._left(side, cure)
                cured = left.rank < side.verdict.rank
                told = "rounding only" if cured and left is Verdict.ROUNDING else _bits(left is not Verdict.BITWISE)
                evidence.append(f"the whole model without {cure.name}: {told}")
                remedy = cure.how if cured else ""
        except Exception as error:  # parts of a graph can be refused where the whole is not
            kind = Cause.RUN_TO_RUN if side.varies else Cause.UNKNOWN
            why = _Reason(f"under {side.compiler} the model gives other bits", kind)
            evidence = [f"where that begins was not found: {one_line(error)}"]
        verdict = result.verdict if why.kind is not Cause.RANDOMNESS else Verdict.BEYOND_ROUNDING
        result = replace(result, verdict=verdict, change=str(side.compiler), outputs=side.differences)
        cause = why.blame.after(why.cause)
        return result.explained(Explanation(why.kind, cause, why.divergence, remedy, tuple(evidence), why.repro))

    def _departure(self, side: _Side) -> _Reason:
        """Say where a compiled program departs that gives the same bits each time."""
        names = [name for name in _LAYERS if side.compiler.is_inductor or name != _DECOMPOSED]
        layers = {name: self._layer(name) for name in names}
        evidence = tuple(
            f"{Compiler(name)}: {_bits(verdict is not Verdict.BITWISE)}" for name, verdict in layers.items()
        )
        for name in ("eager", "aot_eager"):
            if layers[name] is not Verdict.BITWISE and layers[name].rank >= side.verdict.rank:
                return replace(self._other_program(name), evidence=evidence)
        beyond = side.verdict is Verdict.BEYOND_ROUNDING
        found = self._search(side, aten=True, beyond=True) if beyond else None  # what rounds hides what breaks
        found = found or self._search(side, aten=True) or self._search(side, aten=False)  # may know torch's functions
        if found is None:
            cause = f"under {side.compiler} the model gives other bits; none of its graphs alone does"
            return _Reason(cause, Cause.UNKNOWN, evidence=evidence)
        why = self._blamed(side, *found)
        return replace(why, evidence=(*evidence, *why.evidence))

    def _blamed(self, side: _Side, search: Search, departure: Departure) -> _Reason:
        """Test what makes the smallest part depart."""
        event = self._origin(departure)
        op, compiler = event.op, side.compiler
        divergence = _divergence(event, departure, 2)
        cause, evidence, found = f"{op} gives other bits under {compiler}", [], Blame()
        group = ", ".join(dict.fromkeys(str(node.target) for node in departure.group))
        if not departure.group:
            evidence.append(f"it takes the graph from its beginning up to {op}")
        elif departure.alone:
            evidence.append(f"{op} compiled alone: other bits")
        else:
            before = f"{len(departure.group) - 1} of the operators before it"
            cause += f" together with {before}"
            evidence.append(f"{op} compiled alone: the same bits; with {before}, of {group}: other bits")
        if departure.group:
            with watched_kernels() as kernels:
                search.departs(departure, compiler)
            if kernels:
                evidence.append(f"kernels: {', '.join(kernels)}")
            if compiler.is_inductor:
                if search.departs(departure, Compiler(_DECOMPOSED)):
                    cause += ", and so do the simpler operators that it is decomposed into, run by eager kernels"
                found = blame_rewrites(
                    lambda other: search.departs(departure, other), compiler, departure.group, event.device
                )
            found += blame(lambda: search.departs(departure, compiler), event)
        kind = Cause.RANDOMNESS if draws(departure.group or (departure.node,)) else Cause.PERTURBATION
        repro = None
        if departure.group:
            module, inputs = search.part(departure)
            repro = Repro(cause, Call(module, inputs, {}), Call(module, inputs, {}, compiler=compiler))
        return _Reason(cause, kind, divergence, found, tuple(evidence), repro)

    def _variation(self, side: _Side) -> _Reason:
        """Say what varies in a compiled program that gives other bits each time."""
        found = self._search(side, aten=True)
        if found is None:
            cause = f"under {side.compiler} the model gives other bits from run to run; none of its graphs alone does"
            return _Reason(cause, Cause.RUN_TO_RUN)
        search, departure = found
        event = self._origin(departure)
        cause = f"{event.op} under {side.compiler} gives other bits from run to run"
        divergence = _divergence(event, departure, RERUNS)
        tested, repro = Blame(), None
        if departure.group:
            repro = Repro(cause, Call(*search.part(departure), {}, compiler=side.compiler))
            tested = blame(
                lambda: search.departs(departure, side.compiler), event, switches=(_DETERMINISTIC, *SWITCHES)
            )
        return _Reason(cause, Cause.RUN_TO_RUN, divergence, tested, repro=repro)

    def _search(self, side: _Side, *, aten: bool, beyond: bool = False) -> tuple[Search, Departure] | None:
        """Find the first graph that departs when it is compiled, and in it the smallest part that does.

        With `beyond`, what the sums of the model can lose is passed over.
        """
        pieces, _ = captured(self._lab.runner, self._case, aten=aten)
        rounds = self._is_rounding if beyond else None
        for piece in pieces:
            search = Search(piece, self._case.seed, reruns if side.varies else None, rounds)
            departure = search.smallest(side.compiler)
            if departure is not None:
                return search, departure
        return None

    def _is_rounding(self, one: torch.Tensor, two: torch.Tensor) -> bool:
        return judge(one, two, None, self._lab.base().trace.events) is Verdict.ROUNDING

    def _other_program(self, layer: str) -> _Reason:
        """Say which eager operator the graphs lack, where they give other bits before anything is compiled."""
        pieces, _ = captured(self._lab.runner, self._case, aten=True)
        names = {str(node.target) for piece in pieces for node in piece.module.graph.nodes}
        cause = f"the difference is there before code is generated, in {_LAYERS[layer]}"
        for event in self._lab.base().trace.events:
            if not any(event.name.rstrip("_") in name for name in names):
                found = blame(lambda: self._layer(layer) is not Verdict.BITWISE, event)
                cause = f"torch.compile traces another program: {event.op} runs in eager mode only"
                return _Reason(cause, divergence=Divergence(event, None, sequence_forks=True), blame=found)
        return _Reason(cause)

    def _afresh(self, result: ProbeResult, side: _Side) -> ProbeResult:
        """Compile anew in other processes: a mode that chooses by timing can choose otherwise there."""
        mode = side.compiler.mode
        try:
            runs = list(fresh_runs(self._case, mode, _FRESH))
        except NotAgain as error:
            return replace(
                result, evidence=(*result.evidence, f"{side.compiler} was not tried in another process: {error}")
            )
        one, two = (run.outputs for run in runs)
        here = {name: tensor.cpu() for name, tensor in side.outputs.items() if name in one}
        differs = bool(differences(one, two))
        kernels = sorted(set(runs[0].kernels) ^ set(runs[1].kernels))
        evidence = [
            *result.evidence,
            f"{side.compiler} in {_FRESH} new processes, caches empty: {_bits(differs)}",
            f"{side.compiler} in this process and a new one: {_bits(bool(differences(here, one)))}",
            f"kernels that only one of them calls: {', '.join(kernels)}" if kernels else "they call the same kernels",
        ]
        if not differs:
            return replace(result, evidence=tuple(evidence))
        exact = {name: tensor.cpu() for name, tensor in self._lab.exact().items()}
        _, verdict = self._lab.compare(one, two, exact=exact)
        cause = f"{side.compiler} in the next process gives other bits"
        cause += ": it chooses other kernels, by timing" if kernels else ", although it calls the same kernels"
        worst = max(result.verdict, verdict, key=lambda verdict: verdict.rank)
        return replace(result, verdict=worst, cause=cause, kind=Cause.RUN_TO_RUN, evidence=tuple(evidence))

    def _origin(self, departure: Departure) -> OpEvent:
        return origin(departure.node, self._lab.base().trace.events, self._case.modules, departure.piece.phase)

    def _layer(self, backend: str) -> Verdict:
        """How far does the model depart through this backend, with the settings in force?"""
        eager = self._run(self._case)
        with Compiler(backend).applied(self._case.model) as compiled:
            _, verdict = self._lab.compare(eager, self._run(replace(self._case, model=compiled)))
        return verdict

    def _left(self, side: _Side, cure: Switch) -> Verdict:
        """How far does the whole model still depart where a cure for its operator is in force?"""
        if isinstance(cure, Rewrite):
            return self._whole(side, replace(side.compiler, settings=cure.settings))
        with using(cure.off):
            return self._whole(side, side.compiler)

    def _whole(self, side: _Side, compiler: Compiler) -> Verdict:
        eager = {} if side.varies else self._run(self._case)
        with compiler.applied(self._case.model) as compiled:
            case = replace(self._case, model=compiled)
            first = self._run(case)
            if side.varies:
                varies = any(differences(first, self._run(case)) for _ in range(RERUNS))
                return side.verdict if varies else Verdict.BITWISE
        return self._lab.compare(eager, first, exact={})[1]

    def _run(self, case: Case) -> dict[str, torch.Tensor]:
        return self._lab.runner.run_untraced(case)


def _divergence(event: OpEvent, departure: Departure, runs: int) -> Divergence:
    return Divergence(event, event, confirmed=departure.alone, reruns=runs, at_operator=departure.difference)


def _skipped(reason: str) -> ProbeResult:
    return ProbeResult("compile", Verdict.SKIPPED, reason=reason)


def _told(side: _Side) -> str:
    if side.varies:
        return f"{side.compiler}: other bits from run to run"
    if side.verdict is Verdict.BITWISE:
        return f"{side.compiler}: the same bits as eager"
    return f"{side.compiler}: other bits than eager, the same in each run"


def _bits(other: bool) -> str:
    return "other bits" if other else "the same bits"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
