"""The `when` vocabulary of the tables: a condition holds, does not hold, or cannot be told.

A condition is a TOML table. Every entry of it must hold:

    mode = ["bilinear", "bicubic"]           the argument is one of these literals (a single value: that one)
    input = { dtype = "floating", ndim = 4 } every predicate of ARGUMENT_PREDICATES holds for the argument
    compiled = true                          a fact about the call, one of FACTS
    any = [ { … }, { … } ]                   at least one of these conditions holds
    not = { … }                              this condition does not hold
    unless = [ { … }, { … } ]                none of these conditions is known to hold

Linter and auditor answer the same questions through `Arguments`: one from source, one from real tensors.
A condition on a parameter that the called name does not have says nothing about it, so one entry can serve
`interpolate(mode=…)` and `UpsamplingBilinear2d`, or a public name and its aten operators.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from detlint.errors import RuleError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path


class Truth(Enum):
    """Answer of an analysis. A rule stays silent on UNKNOWN unless it says otherwise in writing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, answer: bool | None) -> Truth:
        """True is YES, False is NO, None is UNKNOWN."""
        if answer is None:
            return cls.UNKNOWN
        return cls.YES if answer else cls.NO

    def __bool__(self) -> bool:
        raise TypeError("a Truth has three values; compare it with Truth.YES or Truth.NO")

    def __invert__(self) -> Truth:
        return {Truth.YES: Truth.NO, Truth.NO: Truth.YES}.get(self, Truth.UNKNOWN)


class Unknown(Enum):
    """The type of UNKNOWN, which stands for a literal that cannot be told; None is a value like any other."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


class Arguments(Protocol):
    """What a condition may ask about one call. Every answer may be "cannot be told".

    `name` is a parameter of the public signature or of the aten schema. `input` always exists and is the
    tensor worked on: first parameter, receiver of a method, what a module is called with, `self` of an aten
    operator (`grad_output` where it has no `self`).
    """

    def has(self, name: str) -> bool:
        """Does the called name have this parameter at all?"""

    def literal(self, name: str) -> object:
        """Value of an argument that is a number, string, bool, None or tuple of them; the default where the
        call leaves it out; UNKNOWN otherwise, tensors included."""

    def given(self, name: str) -> Truth:
        """Is the argument passed, and something other than None?"""

    def tensor(self, name: str) -> Truth:
        """Is the argument a tensor (not a number)?"""

    def dtype(self, name: str) -> str | None:
        """A dtype ("float32"), or one of DTYPE_KINDS where only that is known, or None."""

    def ndim(self, name: str) -> int | None:
        """Number of dimensions of a tensor argument, or None."""

    def numel(self, name: str) -> int | None:
        """Number of elements of a tensor argument, or None."""

    def length(self, name: str) -> int | None:
        """Number of items of a tuple or list argument, or None."""

    def layout(self, name: str) -> str | None:
        """Is a tensor argument "strided" or "sparse" (any sparse layout)? None where that cannot be told."""

    def distinct(self, name: str) -> Truth:
        """Does an index argument name every place at most once (`arange`, `randperm`, `nonzero`, a mask)?"""

    def same(self, name: str, other: str) -> bool:
        """Are two arguments known to be equal, whatever they are?"""

    def fact(self, name: str) -> Truth:
        """One of FACTS."""


FACTS: Final[Mapping[str, str]] = {
    "compiled": "the code runs under torch.compile with the inductor backend",
    "values_only": "of what is returned only the values are used, not the indices",
}

_FLOATING = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_INTEGRAL = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
DTYPE_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "floating": _FLOATING,
    "complex": ("complex128", "complex64", "complex32"),
    "integral": _INTEGRAL,
    "bool": ("bool",),
    "quantized": ("quint8", "qint8", "qint32", "quint4x2", "quint2x4"),
}
_KIND_OF: Final = {name: kind for kind, names in DTYPE_KINDS.items() for name in names}


def holds(when: Mapping[str, object], arguments: Arguments) -> Truth:
    """Does the (validated) condition hold for this call? A condition that says nothing about it does."""
    answer = _conjunction(when, arguments)
    return Truth.YES if answer is None else answer


def _conjunction(when: Mapping[str, object], arguments: Arguments) -> Truth | None:
    """None where every entry is about parameters the called name does not have."""
    answers = [_entry(key, value, arguments) for key, value in when.items()]
    told = [answer for answer in answers if answer is not None]
    return _all(told) if told else None


def _entry(key: str, value: object, arguments: Arguments) -> Truth | None:
    if key == "any" and isinstance(value, list):
        choices = [_conjunction(choice, arguments) for choice in value]
        told = [answer for answer in choices if answer is not None]
        return ~_all(~answer for answer in told) if told else None
    if key == "not" and isinstance(value, dict):
        answer = _conjunction(value, arguments)
        return None if answer is None else ~answer
    if key == "unless" and isinstance(value, list):
        return Truth.of(all(_conjunction(choice, arguments) is not Truth.YES for choice in value))
    if key in FACTS:
        return _agrees(arguments.fact(key), value)
    if not arguments.has(key):
        return None
    if isinstance(value, dict):
        return _all(ARGUMENT_PREDICATES[name](arguments, key, expected) for name, expected in value.items())
    return _is(arguments, key, value)


def _all(answers: Iterable[Truth]) -> Truth:
    outcome = Truth.YES
    for answer in answers:
        if answer is Truth.NO:
            return Truth.NO
        if answer is Truth.UNKNOWN:
            outcome = Truth.UNKNOWN
    return outcome


def _agrees(answer: Truth, expected: object) -> Truth:
    return answer if expected else ~answer


def _choices(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is(arguments: Arguments, name: str, expected: object) -> Truth:
    actual = arguments.literal(name)
    if actual is UNKNOWN:
        return Truth.UNKNOWN
    if isinstance(actual, tuple):
        actual = list(actual)
    # True must not pass for 1. None has no spelling in TOML: write `given = false`.
    return Truth.of(any(actual == choice and type(actual) is type(choice) for choice in _choices(expected)))


def _dtype(arguments: Arguments, name: str, expected: object) -> Truth:
    actual = arguments.dtype(name)
    if actual is None:
        return Truth.UNKNOWN
    wanted = _choices(expected)
    if actual in wanted or _KIND_OF.get(actual) in wanted:
        return Truth.YES
    if actual in DTYPE_KINDS and any(choice in DTYPE_KINDS[actual] for choice in wanted):
        return Truth.UNKNOWN  # only the kind is known, and some dtypes of it are wanted
    return Truth.NO


def _range(actual: int | None, expected: object) -> Truth:
    if actual is None:
        return Truth.UNKNOWN
    if isinstance(expected, dict):
        return Truth.of(expected.get("min", actual) <= actual <= expected.get("max", actual))
    return Truth.of(actual in _choices(expected))


def _layout(arguments: Arguments, name: str, expected: object) -> Truth:
    actual = arguments.layout(name)
    return Truth.UNKNOWN if actual is None else Truth.of(actual in _choices(expected))


def _within(arguments: Arguments, name: str, other: object) -> Truth:
    """Is the argument in no dimension greater than another one, which is the same where it is left out?"""
    small, great = arguments.literal(name), arguments.literal(str(other))
    if great is None or great == () or arguments.same(name, str(other)):
        return Truth.YES
    if small is UNKNOWN or great is UNKNOWN:
        return Truth.UNKNOWN
    smalls = small if isinstance(small, (tuple, list)) else [small]
    greats = great if isinstance(great, (tuple, list)) else [great]
    length = max(len(smalls), len(greats))
    pairs = zip(_spread(smalls, length), _spread(greats, length), strict=False)
    return Truth.of(all(isinstance(a, int) and isinstance(b, int) and a <= b for a, b in pairs))


def _ones(arguments: Arguments, name: str, expected: object) -> Truth:
    """Is every size 1, or None, which leaves the dimension as it is?"""
    sizes = arguments.literal(name)
    if sizes is UNKNOWN:
        return Truth.UNKNOWN
    each = sizes if isinstance(sizes, (tuple, list)) else [sizes]
    return _agrees(Truth.of(all(size is None or (type(size) is int and size == 1) for size in each)), expected)


def _at_most(arguments: Arguments, name: str, bound: object) -> Truth:
    """Is the number, or each of several, at most the bound?"""
    numbers = arguments.literal(name)
    if numbers is UNKNOWN:
        return Truth.UNKNOWN
    each = numbers if isinstance(numbers, (tuple, list)) else [numbers]
    return Truth.of(all(isinstance(number, (int, float)) and number <= bound for number in each))  # type: ignore[operator]


def _spread(sizes: Sequence[object], length: int) -> Sequence[object]:
    """One size stands for all dimensions."""
    return list(sizes) * length if len(sizes) == 1 else sizes


ARGUMENT_PREDICATES: Final[Mapping[str, Callable[[Arguments, str, object], Truth]]] = {
    "is": _is,
    "given": lambda arguments, name, expected: _agrees(arguments.given(name), expected),
    "tensor": lambda arguments, name, expected: _agrees(arguments.tensor(name), expected),
    "distinct": lambda arguments, name, expected: _agrees(arguments.distinct(name), expected),
    "dtype": _dtype,
    "ndim": lambda arguments, name, expected: _range(arguments.ndim(name), expected),
    "numel": lambda arguments, name, expected: _range(arguments.numel(name), expected),
    "length": lambda arguments, name, expected: _range(arguments.length(name), expected),
    "layout": _layout,
    "within": _within,
    "ones": _ones,
    "at-most": _at_most,
}
_FLAGS: Final = frozenset({"given", "tensor", "distinct", "ones"})
_RANGES: Final = frozenset({"ndim", "numel", "length"})
_WORDS: Final[Mapping[str, Collection[str]]] = {
    "dtype": [*DTYPE_KINDS, *_KIND_OF],
    "layout": ["strided", "sparse"],
}


def check_condition(path: Path, where: str, when: object, parameters: Collection[str]) -> None:
    """Raise RuleError unless `when` is a condition over `parameters`; names file, key and nearest word."""
    if not isinstance(when, dict):
        raise RuleError(f"{path}: {where}: expected a table")
    for key, value in when.items():
        place = f"{where}.{key}"
        if key in ("any", "unless"):
            if not isinstance(value, list) or not value:
                raise RuleError(f"{path}: {place}: expected a list of conditions")
            for number, choice in enumerate(value, start=1):
                check_condition(path, f"{place}[{number}]", choice, parameters)
        elif key == "not":
            check_condition(path, place, value, parameters)
        elif key in FACTS:
            _check_flag(path, place, value)
        elif key not in parameters:
            near = did_you_mean(key, [*parameters, *FACTS, "any", "not", "unless"])
            raise RuleError(f"{path}: {place}: neither a parameter nor a condition{near}")
        elif isinstance(value, dict):
            _check_predicates(path, place, value, parameters)


def _check_predicates(path: Path, where: str, predicates: Mapping[str, object], parameters: Collection[str]) -> None:
    for name, expected in predicates.items():
        place = f"{where}.{name}"
        if name not in ARGUMENT_PREDICATES:
            known = ", ".join(ARGUMENT_PREDICATES)
            near = did_you_mean(name, ARGUMENT_PREDICATES)
            raise RuleError(f"{path}: {place}: unknown condition{near}; known: {known}")
        if name in _FLAGS:
            _check_flag(path, place, expected)
        if name in _RANGES:
            _check_range(path, place, expected)
        if name == "at-most" and type(expected) not in (int, float):
            raise RuleError(f"{path}: {place}: expected a number")
        if name == "within" and expected not in parameters:
            raise RuleError(f"{path}: {place}: not a parameter{did_you_mean(str(expected), parameters)}")
        for word in _choices(expected) if name in _WORDS else ():
            if word not in _WORDS[name]:
                near = did_you_mean(str(word), _WORDS[name])
                raise RuleError(f"{path}: {place}: {word!r} is not known{near}")


def _check_flag(path: Path, where: str, value: object) -> None:
    if not isinstance(value, bool):
        raise RuleError(f"{path}: {where}: expected true or false")


def _check_range(path: Path, where: str, value: object) -> None:
    numbers = list(value.values()) if isinstance(value, dict) else _choices(value)
    bounds_known = not isinstance(value, dict) or (value and set(value) <= {"min", "max"})
    if not bounds_known or not all(type(number) is int for number in numbers):
        raise RuleError(f"{path}: {where}: expected a number, a list of them, or {{ min = …, max = … }}")
