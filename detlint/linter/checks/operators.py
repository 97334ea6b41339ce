"""DET301, DET302, DET304, DET305, DET306: calls of operators that the operator table says can differ."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.callers import CallSite, calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.guards import is_settled
from detlint.linter.analysis.layer_uses import is_certain, is_layer, uses_of_layer
from detlint.linter.analysis.made_by_callers import made_by_callers
from detlint.linter.analysis.never_taken import is_never_run, is_switched_off
from detlint.linter.analysis.registry import check_file
from detlint.linter.analysis.repairs import Repair, set_argument, unsafe
from detlint.linter.gradients.exported import is_exported
from detlint.linter.gradients.flow import can_need_gradient, runs_trained_models
from detlint.linter.gradients.learned import is_learned, is_read_by_many
from detlint.linter.gradients.unapplied import is_never_applied
from detlint.linter.indices.arguments import LayerArguments, SourceArguments, branches
from detlint.linter.indices.own_size import keeps_size
from detlint.linter.indices.repeating import may_repeat
from detlint.linter.indices.sparse_graphs import multiplies_sparse
from detlint.linter.indices.two_ranges import names_twice_at_most
from detlint.linter.modes.derived_layers import constructions, overrides, replaces_forward
from detlint.linter.numbers.few_repeats import repeats_twice_at_most
from detlint.linter.numbers.rough_tests import is_only_tested_roughly
from detlint.linter.numbers.whole_numbers import are_counted
from detlint.linter.programs.autotuning import adds_two_parts
from detlint.linter.programs.compiled_branches import is_compiled_out
from detlint.linter.programs.kernels import KERNEL_LANGUAGES
from detlint.linter.programs.on_cpu import is_only_built_with, runs_on_cpu
from detlint.linter.programs.operator_calls import as_launched, operator_calls, operator_entries
from detlint.linter.programs.own_places import adds_to_own_place
from detlint.linter.programs.timing import is_only_timed, is_speed_test
from detlint.linter.programs.training import file_trains
from detlint.linter.programs.used_results import gives_values_alone
from detlint.linter.randomness.determinism import asks_for_deterministic_algorithms
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.operators import CAUSES, WITH_FLAG, Operator
from detlint.rulebook import Trigger

_WEIGHTED = ("Conv", "Embedding")
_ASKS = "are_deterministic_algorithms_enabled"
# A remedy that is an argument and nothing else, but for a remark in brackets.
_ARGUMENT = re.compile(r"(?P<name>\w+)=(?P<value>True)(?: \([^)]*\))?")
# Operators that are a backward pass themselves: they are called where a derivative is written by hand.
_DERIVATIVE = re.compile(r"_(backward|grad)$")


@check_file("DET301")
def no_deterministic_implementation(ctx: Context) -> Iterator[Finding]:
    """Silent unless the condition holds, and on backward-only hazards where no gradient is asked for.

    What cannot differ as it is called and only raises is reported where the program asks for deterministic algorithms.
    """
    yield from _findings(_hazards(ctx), ctx)


@check_file("DET302")
def deterministic_only_on_request(ctx: Context) -> Iterator[Finding]:
    """As DET301; silent too where the program asks for deterministic algorithms."""
    hazards = list(_hazards(ctx))
    if hazards and not asks_for_deterministic_algorithms(ctx):
        yield from _findings(hazards, ctx)


@check_file("DET304")
def unstable_order(ctx: Context) -> Iterator[Finding]:
    """Every call whose ties nothing breaks, unless nothing but values is used that ties leave as they are."""
    hazards = (each for each in _hazards(ctx) if not (each[1].only_indices and gives_values_alone(each[0].node, ctx)))
    yield from _findings(hazards, ctx)


@check_file("DET305")
def duplicate_index_write(ctx: Context) -> Iterator[Finding]:
    """Method calls whose index is not known to name each place once; subscripts have a check of their own."""
    yield from _findings(_hazards(ctx), ctx)


@check_file("DET306")
def nondeterministic_third_party(ctx: Context) -> Iterator[Finding]:
    """Silent on what the flag makes deterministic where the program asks for it."""
    hazards = [(call, as_launched(operator, call, ctx)) for call, operator in (*_hazards(ctx), *_derived(ctx))]
    if any(operator.with_flag == "deterministic" for _, operator in hazards) and asks_for_deterministic_algorithms(ctx):
        hazards = [(call, operator) for call, operator in hazards if operator.with_flag != "deterministic"]
    yield from _findings(hazards, ctx)


def _findings(hazards: Iterable[tuple[Call, Operator]], ctx: Context) -> Iterator[Finding]:
    """Yield one a call; one a class for layers and one a kernel for atomics: the others are related places."""
    groups: dict[tuple[ast.AST | None, str], list[tuple[Call, Operator]]] = {}
    for call, operator in hazards:
        region = _region(call.node, ctx) if is_layer(call) or call.name.startswith(KERNEL_LANGUAGES) else call.node
        groups.setdefault((region, operator.name), []).append((call, operator))
    for (first, operator), *others in groups.values():
        yield _finding(first, operator, ctx, [call for call, _ in others])


def _region(node: ast.AST, ctx: Context) -> ast.AST | None:
    """Return the class, else the outermost function, that a call stands in."""
    owner = ctx.module.index.class_at(node)
    return owner or next((p for p in reversed(tuple(ctx.ancestors(node))) if isinstance(p, FUNCTIONS)), None)


def _finding(call: Call, operator: Operator, ctx: Context, others: list[Call]) -> Finding:
    reason = CAUSES[operator.cause]
    if operator.passes == ("backward",):
        reason = f"in its backward pass {reason}"
    if _is_exact(operator, call, ctx):
        reason = "called like this it gives the same bits every time, but torch does not tell the cases apart"
    return ctx.finding(
        call.node,
        call=call.name.removeprefix("torch."),
        reason=reason,
        outcome=WITH_FLAG[operator.with_flag],
        remedy=operator.instead,
        passes=operator.passes,
        devices=operator.devices,
        related=[(ctx.module, other.node, other.name) for other in others],
        repair=_repair([call, *others], operator),
    )


def _repair(calls: list[Call], operator: Operator) -> Repair | None:
    """Pass the argument that the operator table names as the remedy (`stable=True`, `deterministic=True`)."""
    remedy = _ARGUMENT.fullmatch(operator.instead)
    if remedy is None or not all(_can_pass(remedy["name"], call) for call in calls):
        return None
    name, value = remedy.groups()
    return unsafe(f"pass {name}={value}", *(set_argument(call.node, name, value) for call in calls))


def _can_pass(name: str, call: Call) -> bool:
    """Does the function take the argument by name? `stable` it takes only where all but the tensor is named too."""
    if all(parameter.name != name for parameter in call.trigger.parameters) or call.argument(name).hidden:
        return False
    return name != "stable" or len(call.node.args) <= (0 if call.is_method else 1)


def _hazards(ctx: Context) -> Iterator[tuple[Call, Operator]]:
    """Yield each call of an operator that the rule reports under the settings in force, with its entry.

    Several calls of one operator on a line are one hazard.
    """
    seen: set[tuple[int, str]] = set()
    for calls in operator_calls(ctx):
        for call, operators in calls:
            operator = next((each for each in operators if _applies(each, call, ctx)), None)
            if operator is not None and not _is_out_of_play(call.node, operator, ctx):
                if (call.node.lineno, operator.name) not in seen:
                    seen.add((call.node.lineno, operator.name))
                    yield call, operator
                break


def _is_out_of_play(node: ast.Call, operator: Operator, ctx: Context) -> bool:
    """Is no result of it kept here, or does a request for determinism settle the matter?

    It never runs, only to be timed or tested roughly, or to be exported.
    """
    if is_never_run(node, ctx) or is_exported(node, ctx) or is_only_timed(node, ctx) or is_speed_test(ctx):
        return True
    if is_only_tested_roughly(node, ctx, gradients=operator.passes == ("backward",)):
        return True
    return is_settled(node, lambda test, holds: _is_decided(test, holds, operator), ctx)


def _is_decided(test: ast.expr, asked: bool, operator: Operator) -> bool:
    """`if torch.are_deterministic_algorithms_enabled():`: not so, nobody asks; so, it is deterministic or it raises."""
    if not isinstance(test, ast.Call) or identifier(test.func) != _ASKS:
        return False
    return not asked or operator.with_flag == "deterministic"


def _derived(ctx: Context) -> Iterator[tuple[Call, Operator]]:
    """Yield the `super().__init__(…)` of classes that are layers of the table: `class Readout(Set2Set)`."""
    entries, index = operator_entries(ctx), ctx.module.index
    for node in index.of_type(ast.ClassDef):
        bases = [base for base in node.bases if _may_be_named(base, entries, index.aliases)]
        for name in (name for base in bases for name in ctx.resolve(base)):
            trigger, operators = entries.get(name.rpartition(".")[2], {}).get(name, (None, ()))
            if trigger is None:
                continue
            for built, inside in constructions(name, node.body[0], ctx):
                call = Call(built, trigger)
                if (
                    inside.module is ctx.module
                    and index.class_at(built) is node
                    and not replaces_forward(name, built, ctx)
                ):
                    yield from (
                        (call, each) for each in operators if not _has_methods(each, call) and _applies(each, call, ctx)
                    )


def _may_be_named(base: ast.expr, names: Container[str], aliases: Mapping[str, Collection[str]]) -> bool:
    """Is an identifier or what it stands for one of the names, so that it is worth resolving?"""
    last = identifier(base)
    return last in names or any(name in names for name in aliases.get(last, ()))


def _has_methods(operator: Operator, call: Call) -> bool:
    """Does the table list what classes that derive from the layer call of it, so that the calls are the hazard?"""
    return any(trigger.name.startswith(f"{call.name}.") for trigger in operator.python)


def _is_exact(operator: Operator, call: Call, ctx: Context) -> bool:
    """Is an error under the flag all that can come of the call?"""
    if operator.is_exact(SourceArguments(call, ctx)) is Truth.YES:
        return True
    passed = [
        SourceArguments(Call(made, call.trigger, written), inside)
        for (inside, made), written in made_by_callers(call.node, ctx)
    ]
    return bool(passed) and all(operator.is_exact(view) is Truth.YES for view in passed)


def _applies(operator: Operator, call: Call, ctx: Context) -> bool:
    if operator.only_in_training and not file_trains(ctx.module):
        return False
    uses = uses_of_layer(call, ctx)
    words = branches(call, operator.when, ctx)
    certain = [use for use in uses or () if is_certain(use, call, ctx)]
    views: list[SourceArguments] = [LayerArguments(call, use, ctx, word) for use in certain for word in words]
    layer = _layer_derived_from(operator, call)
    if layer is not None:
        if any(overrides(layer.name, method, call.node, ctx) for method in _called_by(operator, call)):
            return False
        if multiplies_sparse(call.node, ctx):
            return False
        views = [
            SourceArguments(Call(node, layer), inside) for node, inside in constructions(layer.name, call.node, ctx)
        ]
    if not any(
        operator.applies(view) is Truth.YES for view in views or [SourceArguments(call, ctx, word) for word in words]
    ):
        return False
    if _is_exact(operator, call, ctx) and not asks_for_deterministic_algorithms(ctx):
        return False
    if any(all(are_counted(value, ctx) for value in sums) for sums in _added(call)) or _is_entry(call, ctx):
        return False
    if _is_left_to_caller(operator, call, ctx):
        return False
    if keeps_size(_input(call), call.argument("size").value, call.name, ctx):
        return False
    if repeats_twice_at_most(call.argument("repeats").value, ctx):
        return False
    if operator.passes == ("backward",) and names_twice_at_most(call.argument("index").value, ctx):
        return False
    if operator.only_repeating and not _repeats(call, ctx):
        return False
    if call.name.startswith(KERNEL_LANGUAGES) and _is_alone(call.node, ctx):
        return False
    if uses == [] and call.name.startswith("torch.nn.") and is_never_applied(call.node, ctx):
        return False
    if operator.devices == ("cuda",):
        operands = [] if is_layer(call) else call.node.args
        if runs_on_cpu(call.node, _input(call), operands, ctx):
            return False
        if uses and all(use.args and runs_on_cpu(use, use.args[0], (), ctx) for use in uses):
            return False
    if operator.passes != ("backward",):
        function = ctx.function(call.node)
        built = uses is None and function is not None and operator.devices == ("cuda",)
        return function is None or not built or not is_only_built_with(function, ctx)
    if is_switched_off(call.node, ctx):
        return False
    if _DERIVATIVE.search(call.name):
        return not runs_trained_models(ctx.module)
    if not uses:
        tensors = _inputs(call, ctx) if uses is None else [None]
        if operator.only_learned and not any(is_learned(tensor, ctx) for tensor in tensors):
            return False
        return any(can_need_gradient(call.node, tensor, ctx) for tensor in tensors)
    # The weights of a layer need a gradient whatever the layer is called with; what it pads is its input.
    weighted = any(word in call.name for word in _WEIGHTED) and "padding_mode" not in operator.when
    inputs = [(use, None if weighted or not use.args else use.args[0]) for use in uses]
    return any(can_need_gradient(use, tensor, ctx) for use, tensor in inputs)


def _is_left_to_caller(operator: Operator, call: Call, ctx: Context) -> bool:
    """`deterministic=deterministic` in a function that takes it as well, which nobody in the project calls without it.

    What stands in for the operator elsewhere is such a function. `forward` is called in ways that are not followed.
    """
    remedy, function = _ARGUMENT.fullmatch(operator.instead), ctx.function(call.node)
    given = call.argument(remedy["name"]).value if remedy is not None else None
    if remedy is None or function is None or function.name == "forward" or not isinstance(given, ast.Name):
        return False
    if [binding.kind for binding in ctx.module.definitions(given)] != [BindingKind.PARAMETER]:
        return False
    is_local = ctx.module.index.function_at(function) is not None
    return all(is_local if site is None else _gives(function, given.id, site) for site in calls_of(function, ctx))


def _gives(function: FunctionNode, parameter: str, site: CallSite) -> bool:
    ctx, call = site
    given = argument_of(function, parameter, call, skip_self=True)
    return given is not None and ctx.truth(given) is not Truth.NO


def _is_alone(call: ast.Call, ctx: Context) -> bool:
    """Does a kernel add so little to a place that no order matters, or is it compiled without the call?"""
    return adds_two_parts(call, ctx) or adds_to_own_place(call, ctx) or is_compiled_out(call, ctx)


def _repeats(call: Call, ctx: Context) -> bool:
    index = call.argument("index").value
    return (index is not None and may_repeat(index, ctx)) or is_read_by_many(_input(call), ctx)


def _layer_derived_from(operator: Operator, call: Call) -> Trigger | None:
    """Return the layer whose method a class calls that derives from it: `self.propagate(…)`."""
    owner = call.name.rpartition(".")[0]
    return next((trigger for trigger in operator.python if trigger.name == owner), None)


def _called_by(operator: Operator, call: Call) -> list[str]:
    """Return the methods of the layer that the called one goes through: the table lists them in that order."""
    owner, _, last = call.name.rpartition(".")
    methods = [trigger.last for trigger in operator.python if trigger.name.rpartition(".")[0] == owner]
    return methods[methods.index(last) + 1 :]


def _is_entry(call: Call, ctx: Context) -> bool:
    """`@lowers(torch.gather)` above a function that hands on its arguments to `torch.gather`: an entry of a table.

    It stands for the operator where graphs are rewritten; whoever wrote the graph called the operator.
    """
    function = ctx.function(call.node)
    if function is None or not isinstance(function.body[-1], ast.Return) or function.body[-1].value is not call.node:
        return False
    own = {argument.arg for argument, _ in parameters(function.args)}
    if any(not isinstance(part, ast.Constant) and identifier(part) not in own for part in arguments_of(call.node)):
        return False
    marked = (part for decorator in function.decorator_list for part in walk(decorator))
    return any(isinstance(part, ast.Attribute) and call.name in ctx.resolve(part) for part in marked)


def _added(call: Call) -> Iterator[list[ast.expr]]:
    """Yield what is added: `x` of `index_add_(0, rows, x)`, products of two of `spmm(rows, value, n, n, matrix)`."""
    for names in (("src",), ("source",), ("weights",), ("value", "matrix")):
        given = [argument.value for argument in map(call.argument, names) if argument.given and argument.value]
        if len(given) == len(names):
            yield given


def _input(call: Call) -> ast.expr | None:
    """Return the tensor that a function or method works on."""
    if call.is_method and isinstance(call.node.func, ast.Attribute):
        return call.node.func.value
    if call.trigger.parameters:
        return call.argument(call.trigger.parameters[0].name).value
    return call.node.args[0] if call.node.args else None


def _inputs(call: Call, ctx: Context) -> list[ast.expr | None]:
    """Return the tensors whose gradients one backward pass gives: an image, and where in it a grid reads."""
    grid = call.argument("grid").value
    nearest = grid is None or SourceArguments(call, ctx).literal("mode") == "nearest"
    return [_input(call)] if nearest else [_input(call), grid]
