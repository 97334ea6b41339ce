"""Conditions over a hand-written view of one call: yes, no or unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from detlint.conditions import ARGUMENT_PREDICATES, FACTS, UNKNOWN, Truth, check_condition, holds
from detlint.errors import RuleError

YES, NO, MAYBE = Truth.YES, Truth.NO, Truth.UNKNOWN


@dataclass
class Call:
    """A call written down as a table: parameter -> what is known about its argument."""

    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, bool] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name == "input" or name in self.known

    def _get(self, name: str, key: str, default: Any = None) -> Any:
        return self.known.get(name, {}).get(key, default)

    def literal(self, name: str) -> object:
        return self._get(name, "literal", UNKNOWN)

    def given(self, name: str) -> Truth:
        return Truth.of(self._get(name, "given"))

    def tensor(self, name: str) -> Truth:
        return Truth.of(self._get(name, "tensor"))

    def distinct(self, name: str) -> Truth:
        return Truth.of(self._get(name, "distinct"))

    def dtype(self, name: str) -> str | None:
        return self._get(name, "dtype")

    def ndim(self, name: str) -> int | None:
        return self._get(name, "ndim")

    def numel(self, name: str) -> int | None:
        return self._get(name, "numel")

    def length(self, name: str) -> int | None:
        return self._get(name, "length")

    def layout(self, name: str) -> str | None:
        return self._get(name, "layout")

    def same(self, name: str, other: str) -> bool:
        return self._get(name, "same_as") == other

    def fact(self, name: str) -> Truth:
        return Truth.of(self.facts.get(name))


def call(**known: dict[str, Any]) -> Call:
    return Call(known)


BILINEAR = {"literal": "bilinear"}
NOBODY_KNOWS: dict[str, Any] = {}

CASES = [
    # what the condition says, the call, the answer
    ("empty", {}, call(), YES),
    ("literal", {"mode": "bilinear"}, call(mode=BILINEAR), YES),
    ("other-literal", {"mode": "nearest"}, call(mode=BILINEAR), NO),
    ("one-of", {"mode": ["nearest", "bilinear"]}, call(mode=BILINEAR), YES),
    ("unknown-literal", {"mode": "bilinear"}, call(mode=NOBODY_KNOWS), MAYBE),
    ("absent-parameter", {"mode": "bilinear"}, call(size=NOBODY_KNOWS), YES),
    ("true-is-not-one", {"output_size": 1}, call(output_size={"literal": True}), NO),
    ("none-is-not-false", {"stable": False}, call(stable={"literal": None}), NO),
    ("tuple", {"output_size": [1, [1, 1]]}, call(output_size={"literal": (1, 1)}), YES),
    ("other-tuple", {"output_size": [1, [1, 1]]}, call(output_size={"literal": (7, 7)}), NO),
    ("both", {"mode": "bilinear", "antialias": False}, call(mode=BILINEAR, antialias={"literal": True}), NO),
    ("unknown-half", {"mode": "bilinear", "antialias": False}, call(mode=BILINEAR, antialias={}), MAYBE),
    ("no-beats-unknown", {"mode": "nearest", "antialias": False}, call(mode=BILINEAR, antialias={}), NO),
    ("not", {"not": {"output_size": 1}}, call(output_size={"literal": 7}), YES),
    ("not-unknown", {"not": {"output_size": 1}}, call(output_size={}), MAYBE),
    ("not-absent", {"not": {"output_size": 1}}, call(), YES),
    ("any", {"any": [{"mode": "nearest"}, {"mode": "bilinear"}]}, call(mode=BILINEAR), YES),
    ("any-none", {"any": [{"mode": "nearest"}, {"mode": "area"}]}, call(mode=BILINEAR), NO),
    ("any-unknown", {"any": [{"mode": "nearest"}, {"size": 3}]}, call(mode=BILINEAR, size={}), MAYBE),
    ("any-absent", {"any": [{"size": 3}, {"scale": 3}]}, call(mode=BILINEAR), YES),
    ("any-one-absent", {"any": [{"size": 3}, {"mode": "area"}]}, call(mode=BILINEAR), NO),
    ("unless-unknown", {"unless": [{"index": {"distinct": True}}]}, call(index={}), YES),
    ("unless-known", {"unless": [{"index": {"distinct": True}}]}, call(index={"distinct": True}), NO),
    ("unless-known-not", {"unless": [{"index": {"distinct": True}}]}, call(index={"distinct": False}), YES),
    ("unless-absent", {"unless": [{"index": {"distinct": True}}]}, call(), YES),
    ("given", {"weights": {"given": True}}, call(weights={"given": True}), YES),
    ("left-out", {"weights": {"given": True}}, call(weights={"given": False}), NO),
    ("given-unknown", {"weights": {"given": True}}, call(weights={}), MAYBE),
    ("tensor", {"src": {"tensor": True}}, call(src={"tensor": False}), NO),
    ("kind", {"input": {"dtype": "floating"}}, call(input={"dtype": "bfloat16"}), YES),
    ("other-kind", {"input": {"dtype": "floating"}}, call(input={"dtype": "int64"}), NO),
    ("only-kind-known", {"input": {"dtype": "float32"}}, call(input={"dtype": "floating"}), MAYBE),
    ("kind-excludes", {"input": {"dtype": "float32"}}, call(input={"dtype": "integral"}), NO),
    ("kind-of-kind", {"input": {"dtype": ["floating", "complex"]}}, call(input={"dtype": "complex"}), YES),
    ("dtype-unknown", {"input": {"dtype": "floating"}}, call(), MAYBE),
    ("ndim", {"input": {"ndim": 1}}, call(input={"ndim": 1}), YES),
    ("ndim-one-of", {"input": {"ndim": [2, 3]}}, call(input={"ndim": 4}), NO),
    ("ndim-from", {"input": {"ndim": {"min": 3}}}, call(input={"ndim": 4}), YES),
    ("ndim-below", {"input": {"ndim": {"min": 3}}}, call(input={"ndim": 2}), NO),
    ("ndim-between", {"input": {"ndim": {"min": 2, "max": 3}}}, call(input={"ndim": 4}), NO),
    ("ndim-unknown", {"input": {"ndim": {"min": 3}}}, call(), MAYBE),
    ("numel", {"values": {"numel": {"min": 32768}}}, call(values={"numel": 100}), NO),
    ("length", {"pad": {"length": [2, 6]}}, call(pad={"length": 4}), NO),
    ("layout", {"input": {"layout": "sparse"}}, call(input={"layout": "sparse"}), YES),
    ("within", {"size": {"within": "step"}}, call(size={"literal": 2}, step={"literal": (2, 3)}), YES),
    ("within-not", {"size": {"within": "step"}}, call(size={"literal": (1, 3)}, step={"literal": 2}), NO),
    ("within-left-out", {"size": {"within": "step"}}, call(size={}, step={"literal": None}), YES),
    ("within-same", {"size": {"within": "step"}}, call(size={"same_as": "step"}, step={}), YES),
    ("within-unknown", {"size": {"within": "step"}}, call(size={"literal": 2}, step={}), MAYBE),
    ("ones", {"size": {"ones": True}}, call(size={"literal": (None, 1)}), YES),
    ("ones-not", {"size": {"ones": True}}, call(size={"literal": (None, 7)}), NO),
    ("ones-unknown", {"size": {"ones": True}}, call(size={}), MAYBE),
    ("at-most", {"scale": {"at-most": 0.5}}, call(scale={"literal": (0.5, 0.25)}), YES),
    ("at-most-not", {"scale": {"at-most": 0.5}}, call(scale={"literal": (0.5, 0.75)}), NO),
    ("at-most-none", {"scale": {"at-most": 0.5}}, call(scale={"literal": None}), NO),
    ("at-most-unknown", {"scale": {"at-most": 0.5}}, call(scale={}), MAYBE),
    (
        "predicates-together",
        {"src": {"tensor": True, "dtype": "floating"}},
        call(src={"tensor": True}),
        MAYBE,
    ),
    ("fact", {"compiled": True}, Call(facts={"compiled": True}), YES),
    ("fact-not", {"compiled": False}, Call(facts={"compiled": True}), NO),
    ("fact-unknown", {"compiled": True}, Call(), MAYBE),
]


@pytest.mark.parametrize(("when", "arguments", "answer"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_answers(when: dict[str, Any], arguments: Call, answer: Truth) -> None:
    check_condition(Path("table.toml"), "when", when, {*_names(when), *arguments.known})
    assert holds(when, arguments) is answer


def _names(when: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for key, value in when.items():
        if key == "not":
            found |= _names(value)
        elif key in ("any", "unless"):
            found |= {name for choice in value for name in _names(choice)}
        elif key not in FACTS:
            found.add(key)
    return found


def test_every_predicate_has_a_case() -> None:
    used = {name for _, when, _, _ in CASES for value in when.values() if isinstance(value, dict) for name in value}
    inside_unless = {"distinct"}
    assert set(ARGUMENT_PREDICATES) - {"is"} <= used | inside_unless


BROKEN = [
    ("not-a-table", ["mode"], "when: expected a table"),
    (
        "unknown-parameter",
        {"mod": "bilinear"},
        "when.mod: neither a parameter nor a condition; did you mean 'mode'?",
    ),
    (
        "unknown-predicate",
        {"mode": {"dtypes": "floating"}},
        "when.mode.dtypes: unknown condition; did you mean 'dtype'",
    ),
    (
        "unknown-dtype",
        {"mode": {"dtype": "floatin"}},
        "when.mode.dtype: 'floatin' is not known; did you mean 'floating'",
    ),
    ("flag", {"mode": {"given": "yes"}}, "when.mode.given: expected true or false"),
    ("fact", {"compiled": 1}, "when.compiled: expected true or false"),
    ("range", {"mode": {"ndim": {"minimum": 3}}}, "when.mode.ndim: expected a number"),
    ("empty-range", {"mode": {"ndim": {}}}, "when.mode.ndim: expected a number"),
    ("range-of-text", {"mode": {"numel": ["3"]}}, "when.mode.numel: expected a number"),
    ("any-table", {"any": {"mode": 1}}, "when.any: expected a list of conditions"),
    (
        "inside-any",
        {"any": [{"mode": 1}, {"mde": 1}]},
        "when.any[2].mde: neither a parameter nor a condition",
    ),
    ("inside-not", {"not": {"mde": 1}}, "when.not.mde: neither a parameter nor a condition"),
]


@pytest.mark.parametrize(("when", "message"), [pytest.param(*row[1:], id=row[0]) for row in BROKEN])
def test_errors_name_file_key_and_reason(when: Any, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        check_condition(Path("table.toml"), "when", when, ["mode", "input"])
    assert str(caught.value).startswith("table.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truth_has_no_boolean_value() -> None:
    with pytest.raises(TypeError, match="three values"):
        bool(Truth.UNKNOWN)
    assert (~Truth.YES, ~Truth.NO, ~Truth.UNKNOWN) == (NO, YES, MAYBE)
