"""Two records compared, for people: the verdict, where they depart, what could explain it, what was not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detlint.errors import first_few
from detlint.reports.terminal import printable, styled

_RESULTS_SHOWN = 5
_NEWS = {
    "bitwise": "the same bits",
    "rounding": "equal up to rounding",
    "beyond-rounding": "different beyond rounding",
}


class ComparisonText:
    """Renders one document of `comparison_json`."""

    def __init__(self, comparison: Mapping[str, Any], *, color: bool = False) -> None:
        self._comparison = comparison
        self._color = color

    def render(self) -> str:
        """Return the sections that have something to say, a blank line between them."""
        first, beyond = self._comparison["first"], self._comparison["first_beyond"]
        sections = (
            self._verdict(),
            self._departure("first departure", first),
            self._departure("first departure beyond rounding", beyond if beyond != first else None),
            self._results(),
            self._explanations(),
            self._other_settings(),
            self._blind_spots(),
        )
        return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"

    def _verdict(self) -> Iterator[str]:
        comparison = self._comparison
        word = self._styled("PASSED", "bold") if comparison["ok"] else self._styled("FAILED", "bold red")
        names = " against ".join(map(printable, comparison["names"]))
        so_far = ", as far as both go" if comparison["missing"] else ""
        yield f"{word} {names}: {_NEWS[comparison['verdict']]}{so_far}"
        yield from (f"  {printable(line)}" for line in comparison["missing"])
        models = [printable(name) for name in dict.fromkeys(comparison["models"])]
        if any(comparison["steps"]):
            yield f"  {' against '.join(models)}, {_both(comparison['steps'])} training steps"
            return
        line = f"  {' against '.join(models)}, {_both(comparison['operators'])} operators"
        departures = comparison["departures"]
        if departures:
            alone = sum(item["same_inputs"] for item in departures)
            line += f", {len(departures)} depart, {alone} of them from the same inputs"
        yield line

    def _departure(self, title: str, departure: Mapping[str, Any] | None) -> Iterator[str]:
        if departure is None:
            return
        yield f"{self._styled(title, 'bold')} ({_verdict(departure)})"
        if "step" in departure:
            yield f"  step {departure['step']}: {_named(departure)}"
        else:
            yield from self._operator(departure)

    def _operator(self, departure: Mapping[str, Any]) -> Iterator[str]:
        event = departure["event"] or departure["other"]
        where = f" in {event['module']} ({event['module_type']})" if event["module"] else ""
        yield f"  {self._styled(event['op'], 'bold')}{printable(where)}, {event['phase']}"
        if event["source"] is not None:
            source = event["source"]
            yield f"  {printable(source['path'])}:{source['line']} in {printable(source['function'])}"
        if departure["stretch"] is not None:
            first, second = (_operators(departure["stretch"][side]) for side in ("first", "second"))
            yield f"  here the first record runs {first}, the second {second}"
        yield f"  its inputs {'agree' if departure['same_inputs'] else 'differ already'}"
        if departure["gap"] is not None:
            yield f"  {_gap(departure['gap'])}"

    def _results(self) -> Iterator[str]:
        results = self._comparison["results"]
        if not results or any(self._comparison["steps"]):
            return
        yield self._styled("results", "bold")
        for tensor in results[:_RESULTS_SHOWN]:
            yield f"  {_verdict(tensor)}: {_named(tensor)}"
        if len(results) > _RESULTS_SHOWN:
            yield f"  and {len(results) - _RESULTS_SHOWN} more; all of them in the JSON report"

    def _explanations(self) -> Iterator[str]:
        explanations = self._comparison["explanations"]
        if explanations:
            yield self._styled("could explain it", "bold") + ", the first one most of all (nothing of it was tried)"
            for item in explanations:
                values = _values(item)
                yield f"  {printable(item['subject'])}{values}: {printable(item['says'])}"
        elif self._comparison["verdict"] != "bitwise":
            yield self._styled("could explain it", "bold")
            yield "  nothing in the records; `detlint audit --probe repeat` tells whether each machine repeats itself"

    def _other_settings(self) -> Iterator[str]:
        others = self._comparison["other_settings"]
        if others:
            reach = ", but is not known to reach what departs" if self._comparison["first"] else ""
            yield self._styled("differs" if not reach else "differs too", "bold") + reach
            yield from (f"  {printable(item['subject'])}{_values(item)}" for item in others)

    def _blind_spots(self) -> Iterator[str]:
        if self._comparison["blind_spots"]:
            yield self._styled("not seen", "bold")
            yield from (f"  {printable(line)}" for line in self._comparison["blind_spots"])

    def _styled(self, text: str, style: str) -> str:
        return styled(text, style, color=self._color)


def _both(counts: Sequence[int]) -> str:
    return str(counts[0]) if counts[0] == counts[1] else f"{counts[0]} against {counts[1]}"


def _operators(events: Sequence[Mapping[str, Any]]) -> str:
    return first_few([event["op"] for event in events]) or "nothing"


def _verdict(tensor: Mapping[str, Any]) -> str:
    return str(tensor["gap"]["verdict"]) if tensor["gap"] else "beyond-rounding"


def _named(tensor: Mapping[str, Any]) -> str:
    name = printable(tensor["name"])
    return f"{name}: {_gap(tensor['gap'])}" if tensor["gap"] else f"{name}: in one record only"


def _gap(gap: Mapping[str, Any]) -> str:
    values = gap["values"]
    kept = ""
    if values is not None:
        kept = f"{values['differing']} of {values['numel']} kept values differ, max ulp {values['max_ulp']}; "
    if gap["note"]:
        return f"{kept}{printable(gap['note'])}"
    relative = f"{float(gap['relative']):.2g} of the greatest value"
    return (
        f"{kept}max abs at least {float(gap['at_least']):.3g}, {relative} (rounding: up to {float(gap['allowed']):.2g})"
    )


def _values(item: Mapping[str, Any]) -> str:
    return f" {printable(item['first'])} against {printable(item['second'])}" if item["first"] != item["second"] else ""
