"""What are the elements of a collection, as far as the order of a set of them goes?"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from enum import Enum

from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.parsing import parse_expression


class Sort(Enum):
    """What decides the order of a set of such elements."""

    NUMBERS = "numbers"  # their value, the same in every process
    HASHED = "hashed"  # a salt (text) or an address (objects)
    TENSORS = "tensors"  # an address as well; but made into a list they are numbers
    UNKNOWN = "unknown"


class Move(Enum):
    """A way into a container."""

    ITERATED = "iterated"  # the keys of a dict
    LOOKED_UP = "looked up"  # by a key or a place that nobody knows


Step = Move | int | str
"""How one comes from a container to what is in it: also at a place of a tuple, or by a key that is written out."""
Steps = tuple[Step, ...]
Named = Callable[[ast.expr, Steps], Sort]
"""What a type means whose name says nothing by itself."""


_MAPPINGS = ("dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict")
_WRAPPERS = ("Optional", "Union", "Annotated", "Final", "ClassVar", "Type", "type")
_TYPES = {
    **dict.fromkeys(("int", "float", "bool", "complex", "Number", "Integral", "Real"), Sort.NUMBERS),
    **dict.fromkeys(("int_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), Sort.NUMBERS),
    **dict.fromkeys(
        ("float_", "float16", "float32", "float64", "bool_", "integer", "floating", "number"), Sort.NUMBERS
    ),
    **dict.fromkeys(("str", "bytes", "Path", "Module"), Sort.HASHED),
    "Tensor": Sort.TENSORS,
}

# `words (list of str)` of one style, `words : list of str` of another, `:type words: list[str]` of a third.
_DOCUMENTED = (
    r"^\s*(?::(?:type|param)\s+)?{}\s*(?:\(|:)\s*"
    r"(?:typing\.)?(?:[Ll]ist|[Ss]et|[Ss]equence|[Ii]terable|[Tt]uple|Collection)s?(?:\s+of\s+|\[)(int|float|str)s?\b"
)
_ANNOTATED = r"^\s*(?::(?:type|param)\s+)?{}\s*(?:\(|:)\s*([\w.]+\[[\w.,\[\] |]+\])"


def together(sorts: Iterable[Sort]) -> Sort:
    """Return what a container holds that holds all of these: one thing that is hashed is enough to mix the order."""
    found = set(sorts)
    return next((sort for sort in (Sort.HASHED, Sort.NUMBERS, Sort.TENSORS) if sort in found), Sort.UNKNOWN)


def as_tuple(sorts: Iterable[Sort]) -> Sort:
    """Return how tuples of these are hashed: like numbers only if all are."""
    found = set(sorts)
    return Sort.HASHED if Sort.HASHED in found else agreed(found)


def agreed(sorts: Iterable[Sort]) -> Sort:
    """Return what all of these are, UNKNOWN where they differ."""
    found = set(sorts)
    return found.pop() if len(found) == 1 else Sort.UNKNOWN


def _either(sorts: Iterable[Sort], steps: Steps) -> Sort:
    """Return what `str | int` says: who writes it of elements expects texts."""
    found = set(sorts)
    return Sort.HASHED if found == {Sort.HASHED, Sort.NUMBERS} and not steps else agreed(found)


def _unknown(node: ast.expr, steps: Steps) -> Sort:
    return Sort.UNKNOWN


def annotated(node: ast.expr, steps: Steps, named: Named = _unknown) -> Sort:
    """Return what `dict[str, list[int]]` says about what `steps` lead to; `named` knows other types."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        quoted = parse_expression(node.value)
        return Sort.UNKNOWN if quoted is None else annotated(quoted, steps, named)
    if isinstance(node, ast.BinOp):
        parts = [part for part in (node.left, node.right) if _may_be(part, steps)]
        return _either((annotated(part, steps, named) for part in parts), steps)
    if not isinstance(node, ast.Subscript):
        last = _last_name(node)
        if steps:  # letters of a text are texts, parts of a tensor are tensors
            return _TYPES[last] if last in ("str", "Tensor") else named(node, steps)
        return _TYPES[last] if last in _TYPES else named(node, steps)
    last = _last_name(node.value)
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if last in _WRAPPERS:
        return _either((annotated(part, steps, named) for part in inner if _may_be(part, steps)), steps)
    if last in ("tuple", "Tuple"):
        return _annotated_tuple(inner, steps, named)
    if not steps:
        return Sort.UNKNOWN
    if last in _MAPPINGS and len(inner) == 2:
        return annotated(inner[0 if steps[0] is Move.ITERATED else 1], steps[1:], named)
    return annotated(inner[0], steps[1:], named)


def _may_be(node: ast.expr, steps: Steps) -> bool:
    """Is this part of `int | set[int] | None` one that something can be taken out of, if that is what is asked?"""
    none = isinstance(node, ast.Constant) and node.value is None
    return not none and not (steps and _TYPES.get(_last_name(node)) is Sort.NUMBERS)


def documented(name: str, definition: ast.AST, steps: Steps) -> Sort:
    """What a docstring says about what is in an argument or an attribute: `words (list of str): …`, `ids : List[int]`.

    A type that is written as in an annotation is read as one: `edges : list[tuple[int, int]]`.
    """
    if not steps or not isinstance(definition, (*FUNCTIONS, ast.ClassDef)):
        return Sort.UNKNOWN
    text = ast.get_docstring(definition, clean=False) or ""
    if name not in text:
        return Sort.UNKNOWN
    said = re.search(_DOCUMENTED.format(re.escape(name)), text, re.MULTILINE) if len(steps) == 1 else None
    if said is not None:
        return _TYPES.get(said.group(1), Sort.UNKNOWN)
    written = re.search(_ANNOTATED.format(re.escape(name)), text, re.MULTILINE)
    annotation = parse_expression(written.group(1)) if written is not None else None
    return annotated(annotation, steps) if annotation is not None else Sort.UNKNOWN


def _annotated_tuple(inner: list[ast.expr], steps: Steps, named: Named) -> Sort:
    parts = [part for part in inner if not (isinstance(part, ast.Constant) and part.value is ...)]
    if not steps:
        return as_tuple(annotated(part, (), named) for part in parts)
    place = steps[0]
    if isinstance(place, int) and len(parts) == len(inner):
        parts = parts[place : place + 1]
    return together(annotated(part, steps[1:], named) for part in parts)


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
