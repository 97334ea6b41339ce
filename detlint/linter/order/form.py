"""How an order is carried on its way: in what kind of thing, and through which calls."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from detlint.linter.source.names import FunctionNode

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module
    from detlint.linter.order.places import OrderPlaces


_MOST_BOXES = 3
MAX_CALLS = 3
"""How many calls an order is followed through."""

KEEPING_ORDER = (ast.Add, ast.Mod, ast.Mult, ast.Sub, ast.Div)
"""Operators of lists, texts and arrays after which each element stands where it stood."""

# Destinations.
NUMBERING = "the numbers given to names"
CHOICE = "the choice of one entry"
SUM = "a sum of floats"
CHECKSUM = "the checksum"
DRAWS = "the order of random draws"
NAMING = "the name of a file"
WRITING = "the text that is written"
COLUMNS = "the columns that a model is given"
PAIRING = "what stands at the same place of another list"
RANKS = "which values the ranks put together"


class Form(Enum):
    """What holds the order."""

    SEQUENCE = "sequence"
    NESTED = "nested"  # a container with the sequence inside
    MAPPING = "mapping"  # a dict filled in that order
    GRAPH = "graph"  # of networkx, with its nodes in that order
    TEXT = "text"
    WALK = "walk"  # the triples of os.walk
    SORTED_WALK = "sorted walk"  # the same with the folders in order, but not the names in each


KEYED = (Form.MAPPING, Form.GRAPH)
"""What is in these is looked up by name: among others, and as an attribute, their order is rarely anybody's."""


@dataclass(frozen=True, slots=True)
class Trail:
    """How the order is carried. After `subset` the order has decided what is in, so sorting comes too late;
    with `partial` the rest of it is left aside. With `place` it stands there in a tuple that is returned, or under
    that key of a record, `.names` of an attribute; `boxes` are the containers around the one that holds it, one less
    where nobody knows.

    With `tensors`, what is in that order are tensors that were read, or floats. What was `gathered` (files that were
    listed, results that came in) is there to be worked on: an unknown call that gets it and gives something back does
    so. With `each_run` the order is another in each run, not only on another machine: floats add up to other sums.
    What stands `behind` something else, as in `first + files`, has no say in what comes first.
    """

    form: Form = Form.SEQUENCE
    subset: bool = False
    partial: bool = False
    tensors: bool = False
    gathered: bool = False
    each_run: bool = False
    behind: bool = False
    place: int | str | None = None
    boxes: int = 0
    calls: int = 0
    entered: tuple[Entered, ...] = ()

    @property
    def is_nested(self) -> bool:
        """Does it stand in a container, the tuple that is returned left out?"""
        return self.form is Form.NESTED and (self.place is None or self.boxes > 0)


class GivenBack(str):
    """A destination: `what files() returns`, with the function and its module, whose callers can be asked.

    `places` are where the order stands in a tuple or a record that is returned; none where it is all that is, or who
    knows where. What is `nested` stands there inside a list or a dict, so that taking one of these is no choice.
    `trail` says how it is carried there, unless nobody can follow it to those who call. What is `kept` comes out of an
    attribute.
    """

    module: Module
    function: FunctionNode
    places: frozenset[int | str]
    nested: bool
    trail: Trail | None
    kept: bool

    def __new__(
        cls,
        module: Module,
        function: FunctionNode,
        text: str,
        places: frozenset[int | str] = frozenset(),
        *,
        nested: bool = False,
        trail: Trail | None = None,
        kept: bool = False,
    ) -> GivenBack:
        """Say in `text` that what `function` returns, or yields, keeps the order."""
        self = super().__new__(cls, text)
        self.kept = kept
        self.module, self.function, self.places, self.nested, self.trail = module, function, places, nested, trail
        return self

    def beside(self, other: GivenBack) -> GivenBack:
        """Both of two things that a function gives in one tuple."""
        known = self.function is other.function and self.places and other.places
        places = self.places | other.places if known else frozenset()
        return GivenBack(self.module, self.function, str(self), places, nested=self.nested and other.nested)

    def under(self, text: str) -> GivenBack:
        """The same, said otherwise: `self._files`, which a method returns."""
        places, nested, trail = self.places, self.nested, self.trail
        return GivenBack(self.module, self.function, text, places, nested=nested, trail=trail, kept=True)


class KeptIn(str):
    """A destination: `self.names`, with the module and what is assigned to, whose readers can be asked."""

    module: Module
    target: ast.Attribute
    trail: Trail

    def __new__(cls, module: Module, target: ast.Attribute, trail: Trail) -> KeptIn:
        """Say that an attribute of an object keeps the order, for whoever holds the object."""
        self = super().__new__(cls, f"self.{target.attr}")
        self.module, self.target, self.trail = module, target, replace(trail, calls=0, entered=())
        return self


class Filled(str):
    """A destination: `the caller's rows`, a parameter that a function fills, or an entry of it: `key`, `.attribute`."""

    module: Module
    function: FunctionNode | None
    parameter: str
    key: str
    trail: Trail

    def __new__(cls, module: Module, parameter: ast.Name, trail: Trail, key: str = "") -> Filled:
        """Say that what the caller has handed in keeps the order."""
        self = super().__new__(cls, f"the caller's `{parameter.id}`")
        self.module, self.function = module, module.index.function_at(parameter)
        self.parameter, self.key = parameter.id, key
        self.trail = replace(trail, calls=0, entered=())
        return self


KEPT = (GivenBack, KeptIn, Filled)
"""Destinations of which those can be asked who read what keeps the order."""


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """A call that the order went through as an argument: what the function returns comes out there."""

    tracer: OrderPlaces
    call: ast.Call
    function: FunctionNode


def as_sequence(trail: Trail) -> Trail:
    """What `list(…)` and its like make of a form; what `torch.cat([files])` gives may be one container less."""
    if trail.form is Form.NESTED:
        return replace(trail, boxes=-1)
    return replace(trail, form=Form.SEQUENCE) if trail.form in KEYED else trail


def boxed(trail: Trail) -> Trail:
    """What `[files]` makes of a trail."""
    more = trail.form is Form.NESTED and trail.boxes < _MOST_BOXES
    return replace(trail, form=Form.NESTED, boxes=trail.boxes + more)


def unboxed(trail: Trail) -> Trail:
    """What `plans[0]` makes of what is nested."""
    if trail.boxes > 0:
        return replace(trail, place=None, boxes=trail.boxes - 1)
    return replace(trail, form=Form.SEQUENCE, place=None)


def leave_rest(trail: Trail) -> Trail:
    """What `files[:100]` makes of a trail."""
    return replace(trail, subset=True, partial=True)


def counted_up(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return what is counted up by one, or by the length of something: names, and attributes such as `self.place`."""
    walked = tuple(nodes)
    lengths = {
        place_name(target)
        for node in walked
        if isinstance(node, ast.Assign) and is_count(node.value)
        for target in node.targets
    }
    sums = (added for node in walked for added in _sums(node))
    return frozenset(place_name(target) for target, value in sums if is_count(value, lengths)) - {""}


def place_name(node: ast.AST) -> str:
    """Return `place` of that variable and `self.place` of that attribute; of anything else an empty text."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _sums(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what is added to, and what is: `place += n`, `place = place + n`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        yield node.target, node.value
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        before = place_name(node.value.left)
        yield from ((target, node.value.right) for target in node.targets if place_name(target) == before)


def is_count(value: ast.expr, lengths: Collection[str] = ()) -> bool:
    """`1`, `len(part)`, `part.shape[0]`, `part.size(0)`, and `n` of `n = len(part)`."""
    if isinstance(value, ast.Subscript):
        return isinstance(value.value, ast.Attribute) and value.value.attr == "shape"
    if place_name(value) in lengths:
        return True
    called = value.func if isinstance(value, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr == "size" and isinstance(value, ast.Call):
        return len(value.args) == 1
    return (isinstance(called, ast.Name) and called.id == "len") or getattr(value, "value", None) == 1


def each_target(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """Yield what is assigned to, the parts of `images[i], sizes[i]` one by one."""
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from each_target(target.elts)
        else:
            yield target


def base_names(target: ast.expr) -> set[str]:
    """Return the names of the objects that an assignment to `data.x`, or to `data[x], data[y]`, changes."""
    found = set()
    for part in each_target([target]):
        base = part
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        if isinstance(base, ast.Name) and base is not part:
            found.add(base.id)
    return found


def entry_key(item: ast.Subscript | ast.Attribute) -> str | None:
    """Return `labels` of `info["labels"]`, `.labels` of `info.labels`."""
    if isinstance(item, ast.Attribute):
        return f".{item.attr}"
    key = item.slice
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
