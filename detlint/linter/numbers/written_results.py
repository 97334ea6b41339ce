"""Numbers that a computation gave once and somebody wrote down: nobody chooses 0.9694293737411499.

Chosen are numbers of few digits, of few binary digits, fractions and roots of them, and what a file gives elsewhere.
"""

from __future__ import annotations

import ast
import math
import struct
from collections.abc import Iterator
from fractions import Fraction

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.written_here import each_here, made_here, whole_here
from detlint.linter.source.nodes import identifier, walk
from detlint.linter.tables.rounding import rounding_table

_DIGITS = 7
# Of several numbers in one tensor fewer digits tell: nobody chooses [0.5122, 0.3636] either.
_DIGITS_OF_SEVERAL = 4
_SEVERAL = 2
_DYADIC = 2.0**16
# A number with so many digits more than its square has before the point can be told from roots of fractions.
_DIGITS_OF_ROOTS = 3
# Times, sizes and identifiers are larger than what losses and scores come to.
_LARGEST = 1e5
_MOST_DIGITS = 15
_CONSTANTS = (math.pi, math.e, math.tau, math.log(2), math.log(10))
# The digits that float32 keeps of a number written with fewer: 0.1 comes back as 0.10000000149011612.
_OF_FLOAT32 = 6
_SINGLE = struct.Struct("f")
_STEPS = 12
_LITERALS = frozenset({"torch.tensor", "torch.as_tensor", "torch.Tensor", "torch.FloatTensor"})
_HANDING_ON = ("sorted", "float", "list")


def is_written_result(module: Module, node: ast.expr) -> bool:
    """`0.9694293737411499`, `[0.9422258138656616]`, `torch.tensor([0.5122, 0.3636])`, also under a name or viewed.

    Of a name that several branches bind, all that it may be.
    """
    made = each_here(module, node)
    if len(made) > 1:
        return all(each is not None and is_written_result(module, each) for each in made)
    node = _written(module, node)
    names = module.inference.callees(node) if isinstance(node, ast.Call) and node.args else ()
    rounded = not _LITERALS.isdisjoint(names)  # to float32, whatever digits were copied
    held = node.args[0] if isinstance(node, ast.Call) and (rounded or "numpy.array" in names) else node
    numbers = list(_numbers(held))
    several = [number for number in numbers if held is not node and _is_long(number.value, _DIGITS_OF_SEVERAL)]
    if sum(_stands_alone(module, number) for number in several) >= _SEVERAL:
        return True
    return any(
        _is_long(number.value, _DIGITS) and (rounded or _is_of_float32(number.value)) and _stands_alone(module, number)
        for number in numbers
    )


def is_written_out(module: Module, node: ast.expr) -> bool:
    """`(0.7, 0.15, 0.15)`, also under a name: nothing but numbers."""
    return not any(isinstance(part, (ast.Name, ast.Call, ast.Attribute)) for part in walk(written_as(module, node)))


def is_given_by_call(module: Module, node: ast.expr) -> bool:
    """`net(x)[0].score`: a call worked it out, and did not read it from a file, hold it or round it to some digits."""
    table = rounding_table()
    for _ in range(_STEPS):
        if isinstance(node, ast.Name):
            found = [made_here(module, each) or whole_here(module, each) for each in module.definitions(node)]
            inner = found[0] if len(found) == 1 else None
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            inner = node.value
        elif isinstance(node, ast.Call):
            name = identifier(node.func)
            if name in _HANDING_ON and node.args:
                inner = node.args[0]
            elif name in table.keeping and isinstance(node.func, ast.Attribute):
                inner = node.func.value
            else:
                return not name[:1].isupper() and table.reading.isdisjoint(name.lower().split("_"))
        else:
            return False
        if inner is None:
            return False
        node = inner
    return False


def written_as(module: Module, node: ast.expr) -> ast.expr:
    """Return what a name stands for, and any other expression as it is."""
    made = each_here(module, node)
    return made[0] if len(made) == 1 and made[0] is not None else node


def _written(module: Module, node: ast.expr) -> ast.expr:
    """Return what a name stands for, and what `expected.repeat(4, 1)` is a view of."""
    for _ in range(_STEPS):
        inner = written_as(module, node)
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            views = inner.func.attr in rounding_table().keeping and not module.inference.resolve(inner.func.value)
            inner = inner.func.value if views else inner
        if inner is node:
            break
        node = inner
    return node


def _numbers(node: ast.expr) -> Iterator[ast.Constant]:
    """Yield the floats of an expression that holds nothing but numbers."""
    if isinstance(node, (ast.Constant, ast.UnaryOp, ast.List, ast.Tuple)):
        parts = list(walk(node))
        if not any(isinstance(part, (ast.Name, ast.Call)) for part in parts):
            yield from (part for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, float))


def _is_long(number: object, digits: int) -> bool:
    """Return whether a number has more digits than anybody chooses, and is no fraction or root of small numbers."""
    if not isinstance(number, float) or not 0 < abs(number) < _LARGEST or _digits(number) < digits:
        return False
    if (number * _DYADIC).is_integer():
        return False
    if any(_is_near(number, constant) for constant in _CONSTANTS) or _is_short_in_float32(number):
        return False
    written = _digits(number)
    if number * number < 10.0 ** (written - _DIGITS_OF_ROOTS) and _is_near(
        number, math.sqrt(_fraction(number**2, written))
    ):
        return False
    return not _is_near(number, _fraction(number, written))


def _digits(number: float) -> int:
    """Return how many digits a number is written with."""
    mantissa = repr(abs(number)).partition("e")[0]
    return len(mantissa.replace(".", "").strip("0"))


def _is_near(number: float, exact: float) -> bool:
    """Return whether a number is an exact one as far as its digits go."""
    return math.isclose(abs(number), abs(exact), rel_tol=10.0 ** (1 - min(_digits(number), _MOST_DIGITS)))


def _fraction(number: float, digits: int) -> float:
    """`0.6666666666666666` is 2 / 3: return the nearest fraction that so many digits can tell from others."""
    return float(Fraction(number).limit_denominator(10 ** (digits // 4)))


def _is_of_float32(number: object) -> bool:
    """`0.9694293737411499` is a number that float32 holds: layers give such ones, and arithmetic of Python does not."""
    return isinstance(number, float) and _digits(number) > _DIGITS and _in_float32(number) == number


def _is_short_in_float32(number: float) -> bool:
    """`0.10000000149011612` is what float32 makes of 0.1."""
    return _in_float32(float(f"{number:.{_OF_FLOAT32}g}")) == number


def _in_float32(number: float) -> float:
    return float(_SINGLE.unpack(_SINGLE.pack(number))[0])


def _stands_alone(module: Module, number: ast.Constant) -> bool:
    """Return whether a file gives a number in no other statement, so that the program cannot hand it on.

    One that a helper returns stands there and in the place of its call.
    """
    statement = module.index.statement(number)
    alike = [each for each in module.index.of_type(ast.Constant) if _is_same_float(each, number)]
    moved = not any(each is number for each in alike)
    places = {module.index.statement(each) for each in alike if not _is_expected(module, each)} - {statement}
    return len(places) <= moved


def _is_same_float(one: ast.Constant, other: ast.Constant) -> bool:
    return isinstance(one.value, float) and one.value == other.value


def _is_expected(module: Module, number: ast.Constant) -> bool:
    """Return whether a number stands in an assert: it is not given to anything."""
    statement = module.index.statement(number)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return identifier(statement.value.func).startswith("assert")
    return isinstance(statement, ast.Assert)
