"""Is an expression made of small whole numbers by sums and products alone? Then every order of working it out is exact.

`torch.randint(-3, 3, (512, 512)).half()` and the products of such matrices: what float32 holds up to 2**24 is no more
rounded than integers are.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from detlint.linter.analysis.project import Module
from detlint.linter.analysis.returned import made_results
from detlint.linter.analysis.taken import elements_of, taken
from detlint.linter.analysis.written_here import whole_here
from detlint.linter.numbers.frames import Frame
from detlint.linter.numbers.tensor_writes import written_into
from detlint.linter.numbers.written_results import written_as
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier, unless_none, walk
from detlint.linter.tables.rounding import rounding_table

# Thousands of products of two numbers up to this one add up to less than 2**24.
_SMALL = 64
# Functions that draw whole numbers, and those of NumPy, which keeps 53 bits unless it is told otherwise.
_DRAWS = ("randint", "integers", "random_integers", "randint_like", "random_")
_DOUBLE = ("numpy.", "random.")
# What makes whole numbers of fractions, and draws whose values are no further from zero than their numbers say.
_MEANS = ("mean", "nanmean", "average")
# What counts.
_COUNTS = ("count", "count_nonzero", "len", "argmax", "argmin", "bincount", "one_hot", "nelement", "numel")
_TO_INTEGERS = ("round", "floor", "ceil", "trunc")
_NEAR_ZERO = ("rand", "randn", "uniform_", "rand_like", "randn_like")
_FILLED = frozenset({"zeros", "ones", "eye", "identity"})
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.MatMult)
_BUILTINS = frozenset({"builtins.sum", "builtins.max", "builtins.min", "builtins.abs", "builtins.float"})
_DEPTH = 24


def are_small_integers(frame: Frame, node: ast.expr) -> bool:
    """Return whether all numbers of an expression come of small whole ones, without a quotient or a root."""
    return _Search(frame).holds(node)


def is_exact_of_whole(frame: Frame, call: ast.Call) -> bool:
    """`np.mean(counts)`, an exact sum that is divided once, and the mask of zeros and infinities `torch.log(marks)`."""
    method = isinstance(call.func, ast.Attribute) and not frame.module.inference.resolve(call.func.value)
    given = call.func.value if method and isinstance(call.func, ast.Attribute) else next(iter(call.args), None)
    if given is None:
        return False
    if identifier(call.func) in _MEANS:
        return are_small_integers(frame, given)
    marks = written_as(frame.module, given) if identifier(call.func) == "log" else None
    written = marks.args[0] if isinstance(marks, ast.Call) and marks.args else None
    parts = list(walk(written)) if isinstance(written, (ast.List, ast.Tuple)) else []
    numbers = [part for part in parts if not isinstance(part, (ast.List, ast.Tuple))]
    return bool(numbers) and all(isinstance(each, ast.Constant) and each.value in (0, 1) for each in numbers)


@dataclass(frozen=True, slots=True)
class _Search:
    """Where an expression stands, how far it is still followed, and which functions are being looked at."""

    frame: Frame
    depth: int = _DEPTH
    under: tuple[FunctionNode, ...] = ()

    def holds(self, node: ast.expr | None) -> bool:
        node = unless_none(node)
        if node is None or not self.depth:
            return False
        inner = replace(self, depth=self.depth - 1)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, (int, float)) and _is_small(node.value)
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, (ast.USub, ast.Not, ast.Invert)) and inner.holds(node.operand)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _ARITHMETIC) and inner.holds(node.left) and inner.holds(node.right)
        if isinstance(node, ast.Compare):
            return True
        if isinstance(node, (ast.List, ast.Tuple)):
            return bool(node.elts) and all(map(inner.holds, node.elts))
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return inner.holds(node.elt)
        if isinstance(node, ast.Subscript):
            return inner.holds(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr in rounding_table().keeping and inner.holds(node.value)
        if isinstance(node, ast.Name):
            return inner._is_name_of_small(node)
        return isinstance(node, ast.Call) and inner._gives_small(node)

    def _is_name_of_small(self, name: ast.Name) -> bool:
        module = self.frame.module
        bindings = module.definitions(name)
        return (
            bool(bindings)
            and all(map(self._is_bound_to_small, bindings))
            and all(map(self.holds, written_into(module, name)))
        )

    def _is_bound_to_small(self, binding: Binding) -> bool:
        if binding.kind is BindingKind.AUGMENTED:
            statement = self.frame.module.index.statement(binding.node)
            exact = isinstance(statement, ast.AugAssign) and isinstance(statement.op, _ARITHMETIC)
            return exact and self.holds(binding.value)
        if binding.kind is BindingKind.ITERATION:
            elements = taken(self.frame.module, binding)
            return bool(elements) and all(map(self.holds, elements))
        meant = self.frame.meant_by(binding)
        if meant is not None:
            return replace(self, frame=meant.frame).holds(meant.node)
        if binding.kind is BindingKind.PARAMETER and isinstance(binding.node, ast.arg):
            return identifier(binding.node.annotation) in ("int", "bool")
        several = whole_here(self.frame.module, binding) if binding.kind is BindingKind.ASSIGN else None
        if len(binding.index) == 1 and isinstance(several, ast.Call):
            return self._returns_small(several, binding.index[0])
        return False

    def _gives_small(self, call: ast.Call) -> bool:
        module, table, name = self.frame.module, rounding_table(), identifier(call.func)
        names = module.inference.callees(call)
        method = isinstance(call.func, ast.Attribute) and not module.inference.resolve(call.func.value)
        receiver = [call.func.value] if method and isinstance(call.func, ast.Attribute) else []
        if name in _DRAWS:
            return _draws_small(module, call, names)
        if name in _COUNTS:
            return True
        if name == "arange":
            return all(number is None or _is_small(number) for number in map(_number, call.args))
        if name in _TO_INTEGERS:
            return any(map(_is_near_zero, receiver or call.args[:1]))
        if name.removeprefix("new_").removesuffix("_like") in _FILLED:
            return True
        if name in table.keeping and (receiver or not _is_of_project(module, names)):
            return all(map(self.holds, receiver or call.args[:1])) and bool(receiver or call.args)
        if name in table.summing or not _BUILTINS.isdisjoint(names):
            given = receiver + [part for part in call.args if not isinstance(part, ast.Constant)]
            parts = [part for each in given for part in elements_of(module, each)]
            return bool(parts) and all(map(self.holds, parts))
        if name in table.joining and call.args:
            return all(map(self.holds, elements_of(module, call.args[0])))
        if name == "where" and len(call.args) == 3:
            return all(map(self.holds, call.args[1:]))
        if name in ("tensor", "array", "asarray", "as_tensor") and call.args:
            return self.holds(call.args[0])
        return self._returns_small(call)

    def _returns_small(self, call: ast.Call, place: object = None) -> bool:
        """Does every `return` of a function of the project give such numbers? Where it calls itself, as the others."""
        module = self.frame.module
        found = [module.project.definition(name) for name in module.inference.callees(call)]
        owner, function = (found[0] if len(found) == 1 else None) or (None, None)
        if owner is None or not isinstance(function, FUNCTIONS):
            return False
        if function in self.under:
            return True
        inside = replace(self, frame=self.frame.within(owner, function, call), under=(*self.under, function))
        returned = [_at(value, place) for value in made_results(owner, function)]
        return bool(returned) and all(map(inside.holds, returned))


def _is_small(number: float) -> bool:
    return abs(number) <= _SMALL and float(number).is_integer()


def _is_of_project(module: Module, names: tuple[str, ...]) -> bool:
    return any(module.project.definition(name) is not None for name in names)


def _draws_small(module: Module, call: ast.Call, names: tuple[str, ...]) -> bool:
    """`torch.randint(-3, 3, size)`; of NumPy's also `rng.randint(0, n, size)`, whose floats have bits to spare."""
    bounds = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg in ("low", "high"))]
    numbers = [number for bound in bounds if (number := _number(bound)) is not None]
    double = bool(names) and all(name.startswith(_DOUBLE) for name in names)
    return all(map(_is_small, numbers)) and (bool(numbers) or double)


def _is_near_zero(node: ast.expr) -> bool:
    """`torch.empty(size).uniform_(-4.5, 3.5)`, `torch.randn(size)`."""
    if not isinstance(node, ast.Call) or identifier(node.func) not in _NEAR_ZERO:
        return False
    numbers = map(_number, node.args if identifier(node.func) == "uniform_" else ())
    return all(number is not None and abs(number) <= _SMALL for number in numbers)


def _number(node: ast.expr) -> float | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    value = number.value if isinstance(number, ast.Constant) else None
    return sign * value if isinstance(value, (int, float)) else None


def _at(value: ast.expr | None, place: object) -> ast.expr | None:
    """Return what stands at a place of what is given back, or all of it where no place is asked for."""
    if place is None or value is None:
        return value
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        return value.elt
    elements = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    return elements[place] if isinstance(place, int) and 0 <= place < len(elements) else None
