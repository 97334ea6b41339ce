"""A call in source, seen as the neutral `Arguments` that the conditions of the tables ask about."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from detlint.conditions import UNKNOWN, Truth, holds
from detlint.linter.analysis.context import MISSING, Argument, Call, Context, default_expression
from detlint.linter.analysis.defaults import default_of, default_value
from detlint.linter.analysis.given_back import given_back
from detlint.linter.analysis.guards import ruled_out, settled
from detlint.linter.analysis.lengths import length
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.passed import literals_of
from detlint.linter.analysis.stands_for import stands_for
from detlint.linter.analysis.values import Kind, Value, load_types
from detlint.linter.analysis.words import MAX_CALLS, words_of
from detlint.linter.indices.dimensions import dimensions, names_pixels
from detlint.linter.indices.distinct_indices import (
    are_distinct,
    is_one_of_columns,
    is_permutation,
    names_rows_once,
)
from detlint.linter.indices.one_choice import belongs_to_one_choice
from detlint.linter.indices.own_size import scale_of
from detlint.linter.indices.passed_tensors import callers_pass_tensor, is_surely_tensor
from detlint.linter.indices.positions import holds_positions
from detlint.linter.indices.row_choices import chooses_in_rows
from detlint.linter.indices.single_elements import SingleElements, is_one_number, is_taken_away, names_choice
from detlint.linter.indices.spread_options import dictionaries, is_set_later, put_in, written
from detlint.linter.programs.kernels import KERNEL_LANGUAGES, computes_floats
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

# What may be one word here and another there.
_NAMING = (ast.Name, ast.Attribute, ast.IfExp, ast.Subscript)
# By what an image is resized where its `size` is not given.
_SCALE = "scale_factor"
# Names, helpers and callers that an index is followed back through, fewer with each.
_MAX_STEPS = 4
_VIEWS = frozenset({"contiguous", "flatten", "reshape", "view"})
_FAMILIES = {"float": "floating", "int": "integral", "complex": "complex", "bool": "bool"}


class SourceArguments:
    """The arguments of one call as far as its source tells them.

    An argument that is one of several words, as branches set it, is the one that comes at place `branch`.
    """

    def __init__(self, call: Call, ctx: Context, branch: int = 0) -> None:
        self._call = call
        self._ctx = ctx
        self._branch = branch
        self._names = tuple(parameter.name for parameter in call.trigger.parameters)

    def has(self, name: str) -> bool:
        return name == "input" or name in self._names

    def literal(self, name: str) -> object:
        if name == _SCALE and self._scale():
            return self._scale()
        argument = self._argument(name)
        if argument.value is None:
            return self._passed_on(name) if argument.hidden else UNKNOWN
        known = settled(argument.value, self._ctx)
        if known is not None:
            return known.value
        excluded = ruled_out(argument.value, self._ctx)
        words = words_of(argument.value, self._ctx, MAX_CALLS if _is_word(name, self._call) else 0)
        if len(words) > 1:
            left = [word for word in words if word not in excluded]
            return left[self._branch % len(left)] if left else UNKNOWN
        value = self._known(argument.value, words)
        return UNKNOWN if value in excluded else value

    def _scale(self) -> list[float]:
        """Return the factors that `size=(h // 2, w // 2)` stands for, where those are sizes of the input."""
        size = self._call.argument("size")
        return scale_of(self._input().value, size.value, self._ctx) if size.given else []

    def _known(self, node: ast.expr, words: list[str]) -> object:
        """Return what an argument is wherever the call is made, else what it is unless a caller says otherwise."""
        value = self._ctx.constant(node)
        if value is not MISSING:
            return value
        if words:
            return words[0]
        value = self._by_default(node)
        if value is not MISSING:
            return value
        option = default_value(node, self._ctx) if isinstance(node, (ast.Attribute, ast.Subscript)) else MISSING
        if option is not MISSING:
            return option
        passed = literals_of(node, self._ctx)
        if passed and passed.count(passed[0]) == len(passed):
            return passed[0]
        return written(only_value(self._ctx.module, node) or node)

    def _passed_on(self, name: str) -> object:
        """Return what an argument behind `**` is unless a caller says otherwise.

        That can be told of the function's own `**kwargs`, and of options that it wrote out before.
        """
        default = next((p.default for p in self._call.trigger.parameters if p.name == name), None)
        function = self._ctx.function(self._call.node)
        handed_on = function.args.kwarg.arg if function is not None and function.args.kwarg is not None else ""
        if default is None or any(isinstance(argument, ast.Starred) for argument in self._call.node.args):
            return UNKNOWN
        for hiding in [k.value for k in self._call.node.keywords if k.arg is None]:
            if function is not None and getattr(hiding, "id", None) == handed_on:
                instead = put_in(function, handed_on, name)
                if instead is not None:
                    return self._told(instead, self._ctx.module)
                continue
            options = self._options(hiding)
            if options is None or is_set_later(hiding, name, self._ctx):
                return UNKNOWN
            if name in options:
                value = self._ctx.constant(options[name])
                return UNKNOWN if value is MISSING else value
        return written(default_expression(default))

    def _options(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """Return what the dictionary behind `**` says by name, or the one of this branch; None of no such thing."""
        found = dictionaries(node, self._ctx)
        return found[self._branch % len(found)] if found else None

    def _by_default(self, node: ast.expr) -> object:
        """Return what the argument is unless a caller says otherwise: `size=1`; with `size=None`, `size or (1, 1)`."""
        values = self._ctx.values(node)
        defaults = [default_of(value) for value in values]
        if not any(defaults):
            return MISSING
        made = [(default or value.node, value.module) for default, value in zip(defaults, values, strict=True)]
        told = [
            self._told(part, module)
            for part, module in made
            if not (isinstance(part, ast.Constant) and part.value is None)
        ]
        return told[0] if told and all(one is not UNKNOWN and one == told[0] for one in told) else MISSING

    def _told(self, node: ast.AST | None, module: Module | None) -> object:
        """Return the literal that an expression of a file is, written there or under a name."""
        known = written(node)
        if known is not UNKNOWN or module is None or not isinstance(node, ast.expr):
            return known
        value = self._ctx.elsewhere(module).constant(node)
        return UNKNOWN if value is MISSING else value

    def given(self, name: str) -> Truth:
        argument = self._argument(name)
        if argument.hidden:
            return Truth.UNKNOWN
        if argument.value is None:
            return Truth.NO
        value = self._ctx.constant(argument.value)
        if value is MISSING:
            unsure = [v for v in self._ctx.values(argument.value) if v.kind in (Kind.UNKNOWN, Kind.NONE)]
            computed = _is_computed(argument.value) or (unsure and all(_is_computed(v.node) for v in unsure))
            return Truth.YES if computed or not unsure else Truth.UNKNOWN
        return Truth.of(value is not None)

    def tensor(self, name: str) -> Truth:
        argument = self._argument(name)
        return Truth.UNKNOWN if argument.value is None else self._is_tensor(argument.value)

    def _is_tensor(self, node: ast.expr) -> Truth:
        """Arithmetic surely gives a tensor where one side is surely one: not where both may be plain numbers."""
        if not isinstance(node, ast.BinOp):
            # `x = self.lift(x) if deep else None`: whoever computes with it knows that it is there.
            sure = is_surely_tensor(node, self._ctx) or callers_pass_tensor(node, self._ctx)
            return Truth.YES if sure else self._ctx.is_kind(node, Kind.TENSOR)
        sides = {self._is_tensor(node.left), self._is_tensor(node.right)}
        return next((truth for truth in (Truth.YES, Truth.UNKNOWN) if truth in sides), Truth.NO)

    def dtype(self, name: str) -> str | None:
        found = {value.dtype for value in self._tensors(name)}
        dtype = found.pop() if len(found) == 1 else None
        if dtype is None and self._call.name.startswith(KERNEL_LANGUAGES):
            value = self._argument(name).value
            return "floating" if value is not None and computes_floats(value, self._ctx) else None
        if dtype is None and _names_positions(self._argument(name).value):
            return "integral"
        return None if dtype is None else _FAMILIES.get(dtype, dtype)

    def ndim(self, name: str) -> int | None:
        argument = self._argument(name)
        if argument.value is None:
            return None
        known = self._from_shape(name, len) or dimensions(argument.value, self._ctx)
        if known is not None or name != "input" or not self.has("target"):
            return known
        return self._from_target(self._argument("target").value)

    def _from_target(self, target: ast.expr | None) -> int | None:
        """A loss over classes gets one dimension more than its target of class numbers."""
        if target is None:
            return None
        known = dimensions(target, self._ctx)
        if known is not None:
            return known + 1
        return 4 if names_pixels(target, self._ctx) else None

    def numel(self, name: str) -> int | None:
        def product(shape: list[int]) -> int:
            count = 1
            for size in shape:
                count *= size
            return count

        return self._from_shape(name, product)

    def length(self, name: str) -> int | None:
        argument = self._argument(name)
        known = length(argument.value, self._ctx) if argument.value is not None else None
        if known is not None:
            return known
        value = self.literal(name)
        return len(value) if isinstance(value, (tuple, list)) else None

    def layout(self, name: str) -> str | None:
        """Only a tensor made by a sparse constructor is known to be sparse."""
        for value in self._tensors(name):
            if isinstance(value.node, ast.Call) and value.module is not None:
                names = value.module.inference.resolve(value.node.func)
                if any(".sparse_" in called or called.endswith(".to_sparse") for called in names):
                    return "sparse"
        return None

    def distinct(self, name: str) -> Truth:
        argument = self._argument(name)
        if argument.value is not None and self._names_once(argument.value, self._ctx, _MAX_STEPS):
            return Truth.YES
        values = self._tensors(name)
        if not values or (argument.value is not None and is_one_of_columns(argument.value, self._ctx)):
            return Truth.UNKNOWN
        if all(value.dtype == "bool" or are_distinct(value, self._ctx) for value in values):
            return Truth.YES
        return Truth.UNKNOWN

    def _names_once(self, index: ast.expr, ctx: Context, steps: int) -> bool:
        """Does an index name each place once, going by how it is made: here, by a helper, or by each caller?"""
        if (
            self._one_per_row(index, ctx)
            or is_one_number(index, ctx)
            or holds_positions(index, ctx)
            or belongs_to_one_choice(index, ctx)
            or is_permutation(index, ctx)
            or names_rows_once(index, ctx)
            or chooses_in_rows(index, self._call.name, self.literal("dim"), ctx)
        ):
            return True
        before = stands_for(index, ctx) if steps else []
        return bool(before) and all(
            not each.place and self._names_once(each.node, each.ctx, steps // 2) for each in before
        )

    def _one_per_row(self, index: ast.expr, ctx: Context) -> bool:
        """`x.gather(1, label.unsqueeze(1))`: the dimension of the index that runs along `dim` has one element."""
        dim = self._argument("dim").value
        if dim is None:
            return False
        if is_taken_away(self._call.node, dim, self._ctx):
            return True
        asked = self._call.name.endswith(".gather") and self.literal("dim") in (1, 2, -1)
        return SingleElements(dim, self._ctx.constant(dim), ctx).of(index) or (asked and names_choice(index))

    def same(self, name: str, other: str) -> bool:
        both = [self._argument(each).value for each in (name, other)]
        return all(isinstance(node, ast.Name) for node in both) and len({ast.dump(n) for n in both if n}) == 1

    def fact(self, name: str) -> Truth:
        if name != "values_only":
            return Truth.UNKNOWN
        places = given_back(self._call.node, self._ctx)
        return Truth.of(bool(places) and all(self._values_only(*place) for place in places))

    def _values_only(self, node: ast.expr, ctx: Context) -> bool:
        """`x.median(0).values`, `x.median(0)[0]`, `values, _ = x.median(0)`."""
        parent = ctx.parent(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr == "values"
        if isinstance(parent, ast.Subscript):
            return ctx.constant(parent.slice) == 0
        target = parent.targets[0] if isinstance(parent, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(target.elts[1], ast.Name):
            return False
        indices = target.elts[1].id
        return indices.startswith("_") or indices not in ctx.module.index.names_used

    def _argument(self, name: str) -> Argument:
        if name == "input" and "input" not in self._names:
            return self._input()
        return self._call.argument(name)

    def _input(self) -> Argument:
        function = self._call.node.func
        if self._call.is_method and isinstance(function, ast.Attribute):
            return Argument(function.value)
        last = self._call.name.rpartition(".")[2]
        if last[:1].isupper() or not self._names:
            return Argument(None, hidden=True)  # a module's constructor: what it is called with is not here
        return self._call.argument(self._names[0])

    def _tensors(self, name: str) -> tuple[Value, ...]:
        argument = self._argument(name)
        if argument.value is None:
            return ()
        return tuple(value for value in self._ctx.values(argument.value) if value.kind is Kind.TENSOR)

    def _from_shape(self, name: str, measure: Callable[[list[int]], int]) -> int | None:
        """Measure the literal shape of a tensor that a factory such as `torch.zeros(2, 3)` makes."""
        values = self._tensors(name)
        if len(values) != 1 or not isinstance(values[0].node, ast.Call) or values[0].module is None:
            return None
        made = values[0].node
        factories = {f"torch.{factory}" for factory in ("zeros", "ones", "empty", "rand", "randn")}
        if not factories.intersection(values[0].module.inference.resolve(made.func)):
            return None
        sizes = made.args[0].elts if made.args and isinstance(made.args[0], (ast.Tuple, ast.List)) else made.args
        shape = [size.value for size in sizes if isinstance(size, ast.Constant) and isinstance(size.value, int)]
        return measure(shape) if sizes and len(shape) == len(sizes) else None


class LayerArguments(SourceArguments):
    """A layer's constructor together with one call of the layer, which gives it its `input` and `target`."""

    def __init__(self, constructor: Call, use: ast.Call, ctx: Context, branch: int = 0) -> None:
        super().__init__(constructor, ctx, branch)
        self._use = use

    def has(self, name: str) -> bool:
        return super().has(name) or (name == "target" and len(self._use.args) > 1)

    def _argument(self, name: str) -> Argument:
        place = ("input", "target").index(name) if name in ("input", "target") else -1
        if 0 <= place < len(self._use.args):
            return Argument(self._use.args[place])
        return super()._argument(name)


def branches(call: Call, names: Iterable[str], ctx: Context) -> range:
    """Return the places of the words that one of the named arguments of a call is one of."""
    named = [(name, call.argument(name).value) for name in names]
    words = [
        words_of(value, ctx, MAX_CALLS if _is_word(name, call) else 0)
        for name, value in named
        if isinstance(value, _NAMING)
    ]
    behind = [dictionaries(keyword.value, ctx) for keyword in call.node.keywords if keyword.arg is None]
    return range(max([1, *map(len, words), *map(len, behind)]))


def _is_word(name: str, call: Call) -> bool:
    """Does the called function take a word there, as it does by default?"""
    default = next((parameter.default for parameter in call.trigger.parameters if parameter.name == name), None)
    return default is not None and isinstance(written(default_expression(default)), str)


def _is_computed(node: ast.AST | None) -> bool:
    """`scores.flatten()`, `scores * 2`, `scores[:, 0]`, `scores[mask]`: whatever tensor it is, it is not None."""
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Constant)
    method = node.func if isinstance(node, ast.Call) else None
    if isinstance(method, ast.Attribute):
        return f"torch.Tensor.{method.attr}" in load_types().tensors
    return isinstance(node, ast.BinOp)


def matches(call: Call, ctx: Context) -> bool:
    """Return whether a call satisfies the `[match]` of a declarative rule."""
    rule_match = ctx.rule.match
    return rule_match is not None and holds(rule_match.when, SourceArguments(call, ctx)) is Truth.YES


def _names_positions(node: ast.expr | None) -> bool:
    """`expert_ids`, `self.index`, `expert_ids[order].view(-1)`: whole numbers by their name."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and identifier(node.func) in _VIEWS):
        view = node.func if isinstance(node, ast.Call) else node
        node = view.value if isinstance(view, (ast.Attribute, ast.Subscript)) else None
    return gradient_table().positions.search(identifier(node)) is not None
