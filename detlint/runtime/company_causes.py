"""Says at which operator a sample comes to depend on its company, and tests why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from detlint.runtime.batching import sample_windows
from detlint.runtime.divergence import against, aligned
from detlint.runtime.report import Cause, Divergence, Explanation, Verdict
from detlint.runtime.windows import Alone, first_departure, watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detlint.runtime.company import Bench, Trial
    from detlint.runtime.lab import Lab
    from detlint.runtime.sample import Sample
    from detlint.runtime.windows import Departure, Side, Window


def explain(lab: Lab, bench: Bench, trial: Trial, start: int, verdict: Verdict) -> Explanation:
    """Name the operator at which the sample at `start` first departs, run it alone, and test what makes it agree.

    `verdict` is that of the trial.
    """
    beyond = verdict is Verdict.BEYOND_ROUNDING
    one, two = _sides(lab, bench, trial, start)
    departure = first_departure(one, two, beyond_rounding=True) if beyond else None
    departure = departure or first_departure(one, two)
    why = _reason(lab, one, two, departure, trial, "values" if beyond else "bits")
    if not beyond or not lab.case.in_train_mode():
        return why
    verdict = bench.evaluating().compare(trial).verdict
    if verdict is Verdict.BEYOND_ROUNDING:
        return replace(why, evidence=(*why.evidence, "after model.eval(): beyond rounding still"))
    evidence = (*why.evidence, f"after model.eval(): {verdict.value}")
    return replace(why, cause=f"{why.cause}; not so after model.eval()", remedy="call model.eval()", evidence=evidence)


def _sides(lab: Lab, bench: Bench, trial: Trial, start: int) -> tuple[Side, Side]:
    """Run both sides of a trial and look at one sample in every operator."""
    alone = watch(lab.runner, bench.case_of(bench.sample_alone(start)))

    def in_batch(sample: Sample, size: int, place: int) -> Side:
        case = bench.case_of(sample)
        plain = sample is lab.case.sample and not lab.case.backward
        trace = (lab.base() if plain else lab.runner.run(case)).trace
        partners = {left: alone.trace.events[right] for left, right in aligned(trace.events, alone.trace.events)}

        def locate(index: int, output: int, shape: tuple[int, ...]) -> Sequence[Window]:
            partner = partners.get(index)
            if partner is None or output >= len(partner.outputs):
                return ()
            return sample_windows(shape, partner.outputs[output].shape, size, place, bench.count)

        return watch(lab.runner, case, locate)

    changed = in_batch(trial.sample, trial.size, trial.places[start])
    if trial.alone:
        return changed, alone
    return in_batch(bench.batching.batch, bench.batching.size, start), changed


def _reason(lab: Lab, one: Side, two: Side, departure: Departure | None, trial: Trial, what: str) -> Explanation:
    """Put down what a departure means; its operators are run alone where there is one on each side."""
    if departure is None:
        cause = f"the output is another {trial.phrase}, though every operator that was traced gave the same"
        return Explanation(Cause.SHAPE, cause)
    first, second = departure.first, departure.second
    if departure.forks or first is None or second is None:
        cause = f"other operators run {trial.phrase}: {against(first, second)}"
        after = (
            (f"the first operator after that to give a sample other {what}: {departure.then}",)
            if departure.then
            else ()
        )
        return Explanation(Cause.SHAPE, cause, Divergence(first, second, sequence_forks=True), evidence=after)
    if departure.given:
        cause = f"{first.op} gives a sample another number {trial.phrase}, and the result depends on it"
        return Explanation(Cause.SHAPE, cause, Divergence(first, second))
    if first.rng is not None:
        cause = f"{first.op} draws random numbers for the whole batch: a sample gets others {trial.phrase}"
        return Explanation(Cause.RANDOMNESS, cause, Divergence(first, second))
    cause = f"{first.op} gives a sample other {what} {trial.phrase}"
    if departure.unfollowed is not None:
        since = departure.unfollowed
        cause += f", of what {since.op} and the operators after it gave, through which samples cannot be followed"
    alone = Alone(lab.runner, one, two, departure)
    divergence = alone.divergence()
    evidence = divergence.told
    repro = alone.repro(cause) if divergence.confirmed else None
    if trial.mixes:
        cause += ": samples depend on each other there"
        return Explanation(
            Cause.SHAPE, cause, divergence, f"see that {first.op} takes each sample by itself", evidence, repro
        )
    found, tests = alone.tested(divergence, ("the batch", "the sample"))
    return Explanation(Cause.SHAPE, found.after(cause), divergence, found.remedy, (*evidence, *tests), repro)
