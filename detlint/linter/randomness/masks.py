"""Masks that are drawn at random and multiplied into what a function is given: dropout, written by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.analysis.context import Context
from detlint.linter.source.names import BindingKind, FunctionNode, parameters, unpacked
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk
from detlint.randomness import load_sources

_PRODUCTS = frozenset({"mul", "mul_", "multiply", "multiply_", "masked_fill", "masked_fill_", "where"})
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "less", "greater", "add", "add_", "sub", "sub_"})
# What says how much to drop, by its name: no tensor that something is dropped of.
_RATE = re.compile(r"^p$|(^|_)(p|prob|probability|rate|ratio|keep|drop|dropout|scale)(?=_|$)|drop|prob", re.IGNORECASE)
# What a tensor is asked for its form, not for its values.
_FORM = frozenset({"shape", "size", "device", "dtype", "dim", "new", "new_empty", "new_ones", "new_zeros", "new_full"})
_STEPS = 24


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A draw that decides what of an input is dropped, and the expressions that say how much of it."""

    draw: ast.Call
    rates: tuple[ast.expr, ...]


def masks(function: FunctionNode, ctx: Context) -> Iterator[Mask]:
    """Yield the masks that a function draws and multiplies into its input."""
    for part in walk(function):
        if isinstance(part, ast.Call) and ctx.function(part) is function and _draws(part, ctx):
            way = _Way(function, ctx)
            if way.leads_to_product(part):
                given = way.rates if _compares(part) else [*way.rates, *arguments_of(part)]
                yield Mask(part, tuple(given))


def _draws(call: ast.Call, ctx: Context) -> bool:
    """`torch.rand(…)`, `mask.bernoulli_(keep)`: only tensors have methods of these names that end in `_`."""
    table = load_sources().draws
    name = identifier(call.func)
    method = isinstance(call.func, ast.Attribute) and name.endswith("_")
    names = ctx.callees(call) or ((f"torch.Tensor.{name}",) if method else ())
    found = [draw for draw in map(table.get, names) if draw is not None]
    return any(
        draw.library == "torch" and not any(keyword.arg in draw.generator for keyword in call.keywords)
        for draw in found
    )


def _compares(draw: ast.Call) -> bool:
    """Do uniform numbers become a mask by what they are compared with? A Bernoulli draw is given the rate itself."""
    return "bernoulli" not in identifier(draw.func)


class _Way:
    """Follows a draw to where it is multiplied into an input; collects on the way what it is compared with."""

    def __init__(self, function: FunctionNode, ctx: Context) -> None:
        self._ctx = ctx
        self._inputs = {
            argument.arg
            for argument, _ in parameters(function.args)
            if argument.arg != "self" and not _is_rate(argument.arg)
        }
        self.rates: list[ast.expr] = []
        self._seen: set[ast.AST] = set()

    def leads_to_product(self, node: ast.expr) -> bool:
        """Does the value of an expression end in a product with an input, or blank out parts of one?"""
        if node in self._seen or len(self._seen) > _STEPS:
            return False
        self._seen.add(node)
        parent = self._ctx.parent(node)
        if isinstance(parent, ast.keyword):
            parent = self._ctx.parent(parent)
        if isinstance(parent, ast.Attribute):
            return self._through_method(parent)
        if isinstance(parent, ast.BinOp):
            return self._through_arithmetic(parent, parent.right if parent.left is node else parent.left)
        if isinstance(parent, ast.Compare):
            self.rates += [side for side in (parent.left, *parent.comparators) if side is not node]
            return self.leads_to_product(parent)
        if isinstance(parent, ast.Call):
            return self._through_call(node, parent)
        if isinstance(parent, ast.AugAssign):
            return isinstance(parent.op, ast.Mult) and self._is_input(parent.target)
        if isinstance(parent, ast.Subscript):
            return self.leads_to_product(parent) if parent.value is node else self._blanks(parent)
        if isinstance(parent, (ast.UnaryOp, ast.IfExp)):
            return self.leads_to_product(parent)
        if isinstance(parent, ast.Expr):
            return self._through_memory(node)
        binding = self._ctx.binding(node)
        uses = self._ctx.flow(node).uses(binding) if binding is not None else ()
        return any(self.leads_to_product(use) for use in uses)

    def _through_method(self, attribute: ast.Attribute) -> bool:
        """`mask.mul(x)`, `torch.rand(8).lt(keep)`, `mask.float()`, `mask.T`."""
        call = self._ctx.parent(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute:
            return self.leads_to_product(attribute)
        if attribute.attr in _PRODUCTS and any(map(self._is_input, arguments_of(call))):
            return True
        if attribute.attr in _COMPARISONS:
            self.rates += call.args
        return self.leads_to_product(call)

    def _through_arithmetic(self, operation: ast.BinOp, other: ast.expr) -> bool:
        if isinstance(operation.op, ast.Mult) and self._is_input(other):
            return True
        if isinstance(operation.op, (ast.Add, ast.Sub, ast.Mult)):
            self.rates.append(other)
        return self.leads_to_product(operation)

    def _through_call(self, node: ast.expr, call: ast.Call) -> bool:
        """`torch.floor(mask)`, `x.mul(mask)`, `torch.where(mask, x, 0)`."""
        others = [argument for argument in arguments_of(call) if argument is not node]
        if identifier(call.func) in _PRODUCTS:
            receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            return any(map(self._is_input, [*receiver, *others]))
        names = self._ctx.callees(call)
        through = bool(names) and all(name.startswith("torch.") for name in names)
        return through and self.leads_to_product(call)

    def _through_memory(self, call: ast.expr) -> bool:
        """`mask.bernoulli_(keep)` writes what `mask` holds from then on."""
        base = call
        while isinstance(base, (ast.Call, ast.Attribute)):
            base = base.func if isinstance(base, ast.Call) else base.value
        if not isinstance(base, ast.Name) or not identifier(getattr(call, "func", None)).endswith("_"):
            return False
        bindings = self._ctx.module.definitions(base)
        return any(self.leads_to_product(use) for binding in bindings for use in self._ctx.flow(base).uses(binding))

    def _blanks(self, place: ast.Subscript) -> bool:
        """`x[mask] = 0`."""
        return isinstance(place.ctx, ast.Store) and self._is_input(place.value)

    def _is_input(self, node: ast.expr, depth: int = 3) -> bool:
        """Does an expression read a parameter that is no rate, itself or through variables?"""
        for name in walk(node):
            if not isinstance(name, ast.Name) or getattr(self._ctx.parent(name), "attr", "") in _FORM:
                continue
            if name.id in self._inputs:
                return True
            bindings = self._ctx.module.definitions(name) if depth and not _is_rate(name.id) else ()
            values = [binding.value for binding in bindings if binding.value not in self._seen]
            if any(value is not None and self._is_input(value, depth - 1) for value in values):
                return True
        return False


def _is_rate(name: str) -> bool:
    return _RATE.search(name) is not None


def rate_leaves(rate: ast.expr, ctx: Context, depth: int = 4) -> Iterator[ast.expr]:
    """Yield the numbers behind a rate: constants, attributes of `self`, and parameters that are named after one."""
    if isinstance(rate, ast.Constant) or is_own(rate):
        yield rate
    elif isinstance(rate, ast.Name):
        for binding in ctx.module.definitions(rate) if depth else ():
            value = unpacked(binding)
            if binding.kind is BindingKind.PARAMETER:
                if _is_rate(rate.id):
                    yield rate
            elif value is not None:
                yield from rate_leaves(value, ctx, depth - 1)
    elif isinstance(rate, ast.BinOp):
        yield from rate_leaves(rate.left, ctx, depth)
        yield from rate_leaves(rate.right, ctx, depth)
    elif isinstance(rate, ast.Call):
        for argument in arguments_of(rate):
            yield from rate_leaves(argument, ctx, depth)
