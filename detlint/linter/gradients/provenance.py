"""Where does a tensor come from? What is made of data, counts and constants alone needs no gradient.

Followed backwards through variables, attributes, functions of the project and, for parameters, what all callers pass.
Anything that cannot be followed is taken to need a gradient.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of, given_by_callers
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.parameters import receiver_class
from detlint.linter.analysis.passed_fields import passed_for_field
from detlint.linter.analysis.program import in_package, is_guarded
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.gradients.callees import LOOK_UPS, computes, computes_anew, gives_positions, is_function
from detlint.linter.gradients.frozen import runs_frozen
from detlint.linter.gradients.model_inputs import is_judged, is_model_input
from detlint.linter.gradients.writes import (
    asks_for_gradient,
    is_added_unrecorded,
    is_fixed,
    makes_parameters,
    registers_buffer,
    written_into,
)
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import walk
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Arguments that ask for a gradient of what a function makes.
_RECORDING = ("requires_grad", "create_graph")
# Expressions that one question may lead to, and calls within calls that are looked into with what they pass.
_MAX_STEPS = 250
_MAX_CALLS = 3
# After so many calls that pass data, those that cannot be followed are taken to pass data too.
_ENOUGH_CALLS = 8
_CALL = re.compile(r"\.__call__$")
_PLAIN = frozenset({Kind.NUMBER, Kind.STRING, Kind.BOOL, Kind.NONE, Kind.ARRAY})
_CONTAINERS = ("builtins.dict.", "builtins.list.", "builtins.tuple.")


def is_data(node: ast.expr, ctx: Context) -> bool:
    """Is a tensor known to need no gradient: data, integers, constants, something cut off by detach?"""
    return _Question().is_data(node, ctx)


def without_gradient_dtype(values: tuple[Value, ...]) -> bool:
    """Return whether a tensor is known to hold integers or bools."""
    return bool(values) and all(value.kind is Kind.TENSOR and value.is_integral for value in values)


class _Question:
    """One walk backwards. An expression met again inside its own history adds nothing to it.

    In the body of a function that is called `given` are the parameters that the call passes data for.
    """

    def __init__(self, given: Container[ast.arg] = (), calls: int = _MAX_CALLS) -> None:
        self._answers: dict[ast.expr, bool] = {}
        self._given = given
        self._calls = calls

    def is_data(self, node: ast.expr, ctx: Context) -> bool:
        known = self._answers.get(node)
        if known is not None:
            return known
        if len(self._answers) >= _MAX_STEPS:
            return False
        self._answers[node] = True
        answer = self._answers[node] = self._answer(node, ctx)
        return answer

    def _all(self, nodes: list[ast.expr], ctx: Context) -> bool:
        return all(self.is_data(node, ctx) for node in nodes)

    def _answer(self, node: ast.expr, ctx: Context) -> bool:
        if isinstance(node, (ast.Compare, ast.Constant, ast.JoinedStr, ast.Slice)):
            return True
        if isinstance(node, (ast.Starred, ast.NamedExpr)):
            return self.is_data(node.value, ctx)
        if isinstance(node, ast.UnaryOp):
            return self.is_data(node.operand, ctx)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._all(node.elts, ctx)
        if isinstance(node, ast.BoolOp):
            return self._all(node.values, ctx)
        if isinstance(node, ast.BinOp):
            return self._all_or_numbers([node.left, node.right], ctx) or without_gradients(ctx.module, node)
        if isinstance(node, ast.IfExp):
            return self._all([node.body, node.orelse], ctx)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self.is_data(node.elt, ctx)
        if _is_plain(ctx.values(node)):
            return True
        if isinstance(node, ast.Subscript):
            return _is_data_key(node.slice, ctx) or self.is_data(node.value, ctx)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, ctx)
        if isinstance(node, ast.Call):
            return self._call(node, ctx)
        return isinstance(node, ast.Name) and self._name(node, ctx)

    # --- attributes -------------------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, ctx: Context) -> bool:
        table = gradient_table()
        if node.attr in table.cutting_attributes or table.names_data(node.attr):
            return True
        if any(map(table.constants.match, ctx.resolve(node))):
            return True
        uses = ctx.module.index.names_used.get(node.attr, ())
        if any(asks_for_gradient(use, ctx) for use in uses if isinstance(use, ast.Attribute)):
            return False
        owners = [value for value in ctx.values(node.value) if value.kind in (Kind.MODULE, Kind.INSTANCE)]
        infos = [ctx.inference.class_named(value.type) for value in owners]
        if not infos:
            return node.attr in ctx.inference.types.tensor_attributes and self.is_data(node.value, ctx)
        for info in infos:
            writes = list(ctx.inference.attribute_writes(info, node.attr)) if info is not None else []
            if not writes:
                passed = passed_for_field(info, node.attr, ctx) if info is not None else []
                if not passed or not all(self.is_data(value, inside) for value, inside in passed):
                    return False
            if any(registers_buffer(owner.module.index.parents.get(write.value)) for owner, write in writes):
                continue  # what is written there later is kept from one call to the next
            if not all(self.is_data(write.value, ctx.elsewhere(owner.module)) for owner, write in writes):
                return False
        return True

    # --- calls ------------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, ctx: Context) -> bool:
        table = gradient_table()
        callees = ctx.callees(node)
        # What may be a tensor or a dict of them is a tensor where its methods are called.
        names = tuple(name for name in callees if name.startswith("torch.Tensor.")) or callees
        if names and all(name.startswith(_CONTAINERS) for name in names) and isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, ctx)  # for name, part in batch.items()
        if any(k.arg in _RECORDING and ctx.constant(k.value) is not False for k in node.keywords):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_":
            return bool(node.args) and ctx.constant(node.args[0]) is False
        if not table.leaf_functions.isdisjoint(names):
            return is_fixed(node, ctx)
        if (table.source_functions | table.cutting_functions).intersection(names):
            return True
        if computes_anew(node, names) and without_gradients(ctx.module, node):
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in table.cutting_methods:
            return True
        if any(table.reading_functions.match(name.rpartition(".")[2]) for name in names):
            return True
        if runs_frozen(node, ctx):
            return self._arguments(node, ctx)
        # A module that is called runs its forward; what is no module has a method of that name itself.
        found = [
            ctx.module.project.definition(name) or ctx.module.project.definition(_CALL.sub(".forward", name))
            for name in names
        ]
        if any(found):
            return all(
                definition is not None
                and isinstance(definition[1], FUNCTIONS)
                and self._function(node, definition[1], ctx, ctx.elsewhere(definition[0]))
                for definition in found
            )
        if names and not all(computes(name) for name in names):
            return False
        if isinstance(node.func, ast.Attribute) and not any(is_function(name) for name in names):
            return self._method(node, node.func, ctx)
        if node.args and table.of_first_functions.intersection(names):
            return self.is_data(node.args[0], ctx)
        return bool(names) and self._arguments(node, ctx)

    def _method(self, call: ast.Call, function: ast.Attribute, ctx: Context) -> bool:
        """Does a method of a tensor, or of something unknown, give data?"""
        if any(_is_data_key(argument, ctx) for argument in call.args[:1]):
            return True
        if function.attr in LOOK_UPS and call.args:  # batch.get(key, torch.ones(n)), whatever the key is
            return self.is_data(function.value, ctx) and self._all(call.args[1:], ctx)
        alone = function.attr in gradient_table().of_receiver_methods
        return self.is_data(function.value, ctx) and (alone or self._arguments(call, ctx))

    def _arguments(self, node: ast.Call, ctx: Context) -> bool:
        numbers = gradient_table().numbers
        named = [k.value for k in node.keywords if k.arg is None or not numbers.search(k.arg)]
        return self._all_or_numbers([*node.args, *named], ctx)

    def _all_or_numbers(self, nodes: list[ast.expr], ctx: Context) -> bool:
        """Are all of them data, or numbers by their names?"""
        numbers = gradient_table().numbers
        return all(
            (isinstance(node, ast.Name) and numbers.search(node.id)) or self.is_data(node, ctx) for node in nodes
        )

    def _function(self, call: ast.Call, function: FunctionNode, ctx: Context, inside: Context) -> bool:
        """Does a function of the project give data: made of nothing but what it gets, or whatever it gets?"""
        if without_gradients(inside.module, function.body[0]):
            return True
        free = inside.module.index.class_at(function) is None
        if free and (call.args or call.keywords) and not makes_parameters(function) and self._arguments(call, ctx):
            return True
        scope = inside.module.index.scopes[function]
        returned = [statement.value for statement in inside.module.flow(scope).returns()]
        results = [result for result in returned if result is not None]
        return bool(results) and self._within(call, function, ctx)._all(results, inside)

    def _within(self, call: ast.Call, function: FunctionNode, ctx: Context) -> _Question:
        """Return the question as it is asked in the body of a function, for one call of it."""
        passed = (
            (argument, argument_of(function, argument.arg, call, skip_self=True))
            for argument, _ in parameters(function.args)
        )
        given = [argument for argument, value in passed if value is not None and self.is_data(value, ctx)]
        return _Question(given, self._calls - 1) if given and self._calls > 0 else self

    # --- names ------------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name, ctx: Context) -> bool:
        bindings = ctx.module.definitions(node)
        return (
            bool(bindings)
            and all(self._binding(binding, ctx) for binding in bindings)
            and all(is_added_unrecorded(part, ctx) or self.is_data(part, ctx) for part in written_into(node, ctx))
            and not any(asks_for_gradient(use, ctx) for use in ctx.module.index.uses_of(node))
        )

    def _binding(self, binding: Binding, ctx: Context) -> bool:
        value = binding.value
        if isinstance(binding.node, ast.arg):
            return self._parameter(binding, binding.node, ctx)
        if gradient_table().positions.search(binding.name):
            return True
        if value is None or binding.kind not in (BindingKind.ASSIGN, BindingKind.ITERATION, BindingKind.AUGMENTED):
            return False
        if binding.kind is BindingKind.AUGMENTED:
            others = [b for b in binding.of_same_name if b.kind is not BindingKind.AUGMENTED]
            return self.is_data(value, ctx) and all(self._binding(other, ctx) for other in others)
        before = _mentioned(value, binding.name) if gradient_table().names_data(binding.name) else None
        if before is not None:  # mask = mask.float()
            handed_on = any(isinstance(b.node, ast.arg) for b in ctx.module.definitions(before))
            return not handed_on or self.is_data(before, ctx)
        if binding.index == (1,) and gives_positions(value, ctx):
            return True
        return self._place(value, binding.index, ctx)

    def _place(self, node: ast.expr, index: tuple[int, ...], ctx: Context, steps: int = 4) -> bool:
        """Is one place of a tuple data: `shifts` of `cell, shifts = pair`, as it is written, returned or passed?"""
        if not index or steps == 0:
            return self.is_data(node, ctx)
        if isinstance(node, (ast.Tuple, ast.List)) and -1 < index[0] < len(node.elts):
            return self._place(node.elts[index[0]], index[1:], ctx, steps)
        if self.is_data(node, ctx):
            return True
        sources = self._tuples(node, ctx)
        return bool(sources) and all(self._place(source, index, inside, steps - 1) for source, inside in sources)

    def _tuples(self, node: ast.expr, ctx: Context) -> list[tuple[ast.expr, Context]]:
        """Return the expressions that a name stands for, or that a call returns; none where one is out of sight."""
        if isinstance(node, ast.Call):
            found = [ctx.module.project.definition(name) for name in ctx.callees(node)]
            called = found[0] if len(found) == 1 else None
            if called is None or not isinstance(called[1], FUNCTIONS):
                return []
            returns = called[0].flow(called[0].index.scopes[called[1]]).returns()
            return [(made.value, ctx.elsewhere(called[0])) for made in returns if made.value is not None]
        bindings = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
        if len(bindings) != 1 or bindings[0].index:
            return []
        value, function = bindings[0].value, bindings[0].scope.node
        if bindings[0].kind is not BindingKind.PARAMETER:
            return [(value, ctx)] if value is not None and bindings[0].kind is BindingKind.ASSIGN else []
        if not isinstance(function, FUNCTIONS):
            return []
        passed: list[tuple[ast.expr, Context]] = []
        for given in given_by_callers(function, bindings[0].name, ctx):
            if given is None:
                return []
            passed.append(given)
        return passed

    def _parameter(self, binding: Binding, node: ast.arg, ctx: Context) -> bool:
        function = binding.scope.node
        if node in self._given:
            return True
        if isinstance(function, FUNCTIONS) and is_judged(node, function, ctx):
            return False
        if gradient_table().names_data(node.arg) and not self._gets_computed(node.arg, function, ctx):
            return True
        if not isinstance(function, FUNCTIONS) or node in (function.args.vararg, function.args.kwarg):
            return False
        if receiver_class(ctx.inference, node, function) is not None:
            return False
        if is_model_input(node, function, ctx) or _sets_up_loss(function, ctx):
            return True
        passed = 0
        for site in calls_of(function, ctx):
            if site is None:
                return passed >= _ENOUGH_CALLS
            if _is_tried_out(site[1], site[0]):
                continue
            unrecorded = without_gradients(site[0].module, site[1])
            if not unrecorded and not self._is_passed(node.arg, function, *site, binding.value):
                return False
            passed += 1
        return passed > 0

    def _gets_computed(self, name: str, function: ast.AST, ctx: Context) -> bool:
        """Does the project call a helper named like `upsample(img)`, and never with what is known to be data?

        What runs behind a model, such as `post_process_masks`, calls it with results that nobody differentiates.
        """
        if not isinstance(function, FUNCTIONS) or ctx.module.index.class_at(function) is not None:
            return False
        passed = [
            (inside, argument)
            for inside, call in (site for site in calls_of(function, ctx) if site is not None)
            if (argument := argument_of(function, name, call, skip_self=True)) is not None
            and not _prepares(inside.function(call))
        ]
        return bool(passed) and not any(self.is_data(argument, inside) for inside, argument in passed)

    def _is_passed(
        self, name: str, function: FunctionNode, ctx: Context, call: ast.Call, default: ast.expr | None
    ) -> bool:
        """Does a call pass data for a parameter, or leave it at its default?"""
        passed = argument_of(function, name, call, skip_self=True)
        if passed is not None:
            return self.is_data(passed, ctx)
        hidden = any(isinstance(argument, ast.Starred) for argument in call.args)
        return not hidden and all(k.arg is not None for k in call.keywords) and isinstance(default, ast.Constant)


def _is_plain(values: tuple[Value, ...]) -> bool:
    """Is an expression a number, a string, or a tensor of integers, whatever path leads to it?"""
    return bool(values) and all(
        value.kind in _PLAIN or (value.kind is Kind.TENSOR and value.is_integral) for value in values
    )


def _is_data_key(node: ast.expr, ctx: Context) -> bool:
    """`batch["labels"]`, `inputs.get("pixel_values")`, `data[LABELS_KEY]`."""
    key = ctx.constant(node)
    if key is MISSING and isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        key = name if name.isupper() else key  # a constant of another package is called after the key that it holds
    return isinstance(key, str) and gradient_table().names_data(key)


def _sets_up_loss(function: FunctionNode, ctx: Context) -> bool:
    """Is it the constructor of a loss? Weights of classes are settings."""
    owner = ctx.module.index.class_at(function)
    return owner is not None and function.name == "__init__" and gradient_table().losses.search(owner.name) is not None


def _prepares(function: FunctionNode | None) -> bool:
    return function is not None and gradient_table().data_functions.match(function.name) is not None


def _mentioned(node: ast.AST, name: str) -> ast.Name | None:
    return next((child for child in walk(node) if isinstance(child, ast.Name) and child.id == name), None)


def _is_tried_out(call: ast.Call, ctx: Context) -> bool:
    """Does it stand under the `__main__` guard of a file in a package, which others import for what it defines?"""
    return in_package(ctx.module) and is_guarded(ctx.module, call)
