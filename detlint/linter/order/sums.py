"""Does a loop add up tensors that it reads? The sum of floats depends on the order in which they are added."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from detlint.linter.analysis.made import given_to
from detlint.linter.analysis.program import calls_named
from detlint.linter.analysis.values import Kind
from detlint.linter.numbers.computed import is_computed
from detlint.linter.order.draws import LoopDraws
from detlint.linter.order.loop import bindings_of
from detlint.linter.order.places import OrderPlaces
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier, names_in, stored_names

_AVERAGES = ("mean", "std", "var")
_OF_FLOATS = frozenset({"grad", "norm"})  # of whatever tensor
_JOINING = frozenset(f"torch.{name}" for name in ("stack", "cat", "concat", "concatenate", "vstack", "hstack"))
_KEY_AND_START = 2  # what `get` is given
_MEASURES = frozenset({"len", "int", "numel", "nelement", "size", "shape", "dim", "ndim", "item", "keys"})


class LoopSums(LoopDraws):
    """Answers about what a body adds up. `reads_tensors` says that the elements are tensors that were read."""

    reads_tensors = False

    @cached_property
    def _tensors(self) -> frozenset[str]:
        """The names in the body that hold tensors read for an element, or models that got them."""
        found = set(self._elements) if self.reads_tensors else set()
        size = -1
        while len(found) != size:
            size = len(found)
            for target, value in self._made:
                if value is not None and (names_in(value) & found or self._reads(value)):
                    found |= stored_names(target) - names_in(value)
            for node in self._nodes:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    filled = node.func.value
                    fills = node.func.attr == "load_state_dict" and isinstance(filled, ast.Name)
                    if fills and any(names_in(given) & found or self._reads(given) for given in node.args):
                        found |= names_in(filled)
        return frozenset(found)

    def _reads(self, node: ast.AST) -> bool:
        return any(self._mentions(call, self._elements) for call in reading_calls(self._places, node))

    def _has_tensor(self, value: ast.expr) -> bool:
        """Return whether tensors that were read are part of a value, and not only their sizes."""
        found = bool(names_in(value) & self._tensors) or self._reads(value)
        return found and not is_measure(value)

    def _is_added_up_inexactly(self, value: ast.expr) -> bool:
        """Is it a tensor that was read, or of an order of this run alone any float?"""
        return self._has_tensor(value) or (self.each_run and gives_floats(self._places, value))

    def _adds_up(self, node: ast.AST) -> bool:
        """`total[key] += state[key]`, `total = total + state`, `average.add_(weight * state)`."""
        if isinstance(node, ast.AugAssign):
            adds = isinstance(node.op, (ast.Add, ast.Sub)) and self._has_floats(node.value, node.target)
            return adds and self._accumulates(node.target)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
            sides = [ast.unparse(node.value.left), ast.unparse(node.value.right)]
            target = node.targets[0]
            before = _entry_before(node.value, target)
            if before is not None:
                started = self.each_run and gives_floats(self._places, before) and self._has_element(node.value)
                return (started or self._has_floats(node.value, target)) and self._accumulates(target)
            adds = ast.unparse(target) in sides and self._has_floats(node.value, target)
            return adds and self._accumulates(target)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            total = node.func.value
            adds = node.func.attr in self._places.table.methods["accumulating"]
            floats = (self._has_floats(value, total, of_tensor=True) for value in node.args)
            return adds and any(floats) and self._accumulates(total)
        return False

    def _has_floats(self, value: ast.expr, total: ast.expr, *, of_tensor: bool = False) -> bool:
        """Return whether what is added are tensors that were read; of an order of this run alone any floats.

        `of_tensor` says that only a tensor can be added to like that.
        """
        if self._has_tensor(value):
            return True
        if not self.each_run or not self._has_element(value) or not self._is_shared(total):
            return False
        if self._places.is_duration(identifier(total)) or self._places.is_duration(identifier(value)):
            return False
        if of_tensor:
            return True
        floats = any(gives_floats(self._places, each) for each in (value, total)) or self._starts_as_float(total)
        return floats and (not isinstance(total, ast.Name) or self._is_taken_up(total))

    def _starts_as_float(self, total: ast.expr) -> bool:
        """`total = 0.0`, `total = torch.zeros(size)`, `totals = defaultdict(float)` of `totals[key]`."""
        start = total.value if isinstance(total, ast.Subscript) else total
        bindings = self._index.bindings_of(start) if isinstance(start, ast.Name) else ()
        made = [given_to(binding) for binding in bindings if binding.kind is BindingKind.ASSIGN]
        if start is not total:
            return any(isinstance(value, ast.Call) and self._makes_floats(value) for value in made)
        return any(value is not None and (gives_floats(self._places, value) or self._is_zeros(value)) for value in made)

    def _makes_floats(self, factory: ast.Call) -> bool:
        """`defaultdict(float)`, whose entries start with 0.0."""
        makers = {name for maker in factory.args[:1] for name in self._places.inference.resolve(maker)}
        return "collections.defaultdict" in self._places.inference.callees(factory) and "builtins.float" in makers

    def _is_zeros(self, value: ast.expr) -> bool:
        """`numpy.zeros(size)`, where no other type is asked for."""
        if not isinstance(value, ast.Call) or len(value.args) != 1 or value.keywords:
            return False
        return "numpy.zeros" in self._places.inference.callees(value)

    def _accumulates(self, target: ast.expr) -> bool:
        """Return whether a sum stands outside the body, or is a part of what does: `for key, total in sums.items()`."""
        base = target
        while isinstance(base, ast.Subscript):
            base = base.value
        # `if average is None: average = state` makes it an element, too, but it lives on.
        if self._is_outside(target) or (isinstance(base, ast.Name) and self._starts_outside(base)):
            return True
        return isinstance(target, ast.Name) and any(
            target.id in stored_names(part) and value is not None and not self._has_element(value)
            for loop in self._nodes
            if isinstance(loop, (ast.For, ast.AsyncFor))
            for part, value in bindings_of(loop)
        )


def _entry_before(total: ast.BinOp, target: ast.expr) -> ast.expr | None:
    """Return what an entry starts with: `0.0` of `totals[key] = totals.get(key, 0.0) + value`."""
    for side in (total.left, total.right):
        if isinstance(side, ast.Call) and isinstance(target, ast.Subscript) and len(side.args) == _KEY_AND_START:
            asked = f"{ast.unparse(target.value)}.get({ast.unparse(target.slice)}, {ast.unparse(side.args[1])})"
            if ast.unparse(side) == asked:
                return side.args[1]
    return None


def reading_calls(places: OrderPlaces, node: ast.AST) -> Iterable[ast.Call]:
    """Return the calls in an expression that read tensors, also through a function of the project that does so."""
    return [call for call in ast.walk(node) if isinstance(call, ast.Call) and _reads_tensors(places, call)]


def _reads_tensors(places: OrderPlaces, call: ast.Call) -> bool:
    reading = places.table.functions["reading"]
    names = places.inference.callees(call)
    if reading.intersection(names):
        return True
    for name in names:
        definition = places.module.project.definition(name)
        if definition is not None and isinstance(definition[1], FUNCTIONS):
            module, function = definition
            return any(
                function in module.index.ancestors(inner) and reading.intersection(module.inference.callees(inner))
                for inner in calls_named(module, frozenset(known.rpartition(".")[2] for known in reading))
            )
    return False


def gives_floats(places: OrderPlaces, value: ast.expr) -> bool:
    """Return whether an expression is known to be a float, or an array or tensor of such."""
    names = _names_of_parts(value)
    if not _OF_FLOATS.isdisjoint(names):
        return not isinstance(value, ast.Compare) and (_MEASURES - {"item"}).isdisjoint(names)
    values = [each for each in places.inference.values(value) if each.kind is not Kind.NONE]
    known = bool(values) and all(
        each.is_floating or (each.kind is Kind.TENSOR and not each.is_integral) for each in values
    )
    averaged = isinstance(value, ast.Call) and identifier(value.func) in _AVERAGES
    return known or averaged or is_computed(places.module, value)


def averages_tensor(places: OrderPlaces, node: ast.expr, reduction: str) -> bool:
    """`torch.stack(answers).mean(0)`: torch takes the mean of floats alone."""
    made = [value.node for value in places.inference.values(node)] if reduction in _AVERAGES else []
    calls = [call for call in made if isinstance(call, ast.Call)]
    return bool(calls) and all(not _JOINING.isdisjoint(places.inference.callees(call)) for call in calls)


def is_measure(value: ast.expr) -> bool:
    """`state["step"]`, `len(state)`, `tensor.numel()`: a number that comes with a tensor."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return isinstance(value.slice.value, str)
    return not _MEASURES.isdisjoint(_names_of_parts(value))


def _names_of_parts(value: ast.expr) -> set[str]:
    return {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(value)}
