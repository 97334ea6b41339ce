"""Which calls of a file mean operators of the operator table, in their own names or behind functions that hand on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.handed_on import handed_on
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.own_options import call_of
from detlint.linter.analysis.replaced_defaults import is_replaced
from detlint.linter.analysis.table_calls import calls_meaning, of_imported_tables
from detlint.linter.analysis.values import Kind
from detlint.linter.analysis.written_calls import mapped
from detlint.linter.programs.compiled_branches import is_left_out_on_request
from detlint.linter.programs.kernels import KERNEL_LANGUAGES
from detlint.operators import CONFIRMED, Operator, by_python_name, in_force, load_operators
from detlint.rulebook import Trigger

Entry = tuple[Trigger, tuple[Operator, ...]]
_Table = Mapping[str, Entry]
_Calls = list[tuple[Call, tuple[Operator, ...]]]
_REQUEST = "torch.use_deterministic_algorithms(True)"


def operator_calls(ctx: Context) -> Iterator[_Calls]:
    """Yield, for each call, what of the rule's operators under the settings in force it may mean."""
    yield from _called(ctx)
    yield from _handed_on(ctx)


def operator_entries(ctx: Context) -> Mapping[str, _Table]:
    """Return the rule's entries under the settings in force by the last identifier of their public names."""
    return _entries_of(*_settings(ctx))


def _settings(ctx: Context) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """Return what decides which entries are in force: the rule, torch's version, devices and passes."""
    config = ctx.config
    return ctx.rule.code, config.torch_version or CONFIRMED, config.devices, config.passes


def _called(ctx: Context) -> Iterator[_Calls]:
    table = _table(ctx)
    lasts = {name.rpartition(".")[2] for name in table}
    for node in calls_meaning(ctx.module, lasts):
        made = mapped(ctx.module, node) or node
        entries = list(_entries(made, table, ctx))
        if entries and not is_replaced(node, ctx):
            yield [(call_of(node, trigger, ctx, made), operators) for trigger, operators in entries]


def _handed_on(ctx: Context) -> Iterator[_Calls]:
    """`resize(x, mode="bilinear")`, a function of another file that hands on a word which an entry asks for."""
    entries, asked = operator_entries(ctx), _asked_for(*_settings(ctx))
    for keyword in ctx.module.index.of_type(ast.keyword):
        word = keyword.value
        if keyword.arg not in asked or not isinstance(word, ast.Constant) or not isinstance(word.value, str):
            continue
        call = ctx.parent(keyword)
        if isinstance(call, ast.Call):
            for names, written in handed_on(ctx.module, call, keyword.arg):
                found = (entries.get(name.rpartition(".")[2], {}).get(name) for name in names)
                yield [(Call(call, trigger, written), operators) for trigger, operators in filter(None, found)]


def _table(ctx: Context) -> _Table:
    """Return the entries that a file may call, by public name; those of the project itself by their inner names too."""
    entries = operator_entries(ctx)
    called = ctx.module.calls | {word for _, means in of_imported_tables(ctx.module) for word in means}
    table = {name: entry for last, found in entries.items() if last in called for name, entry in found.items()}
    project = ctx.module.project
    packages = dict.fromkeys(name.partition(".")[0] for name in table)
    own = frozenset(package for package in packages if project.holds(package, ctx.module))
    if not own:
        return table
    ours = [name for name in table if name.partition(".")[0] in own]
    inner = {project.canonical(name, ctx.module): table[name] for name in reversed(ours)}  # the first spelling stays
    return {**table, **inner}


@lru_cache(maxsize=32)
def _entries_of(code: str, version: str, devices: tuple[str, ...], passes: tuple[str, ...]) -> Mapping[str, _Table]:
    """Return a rule's entries by the last identifier of their public names."""
    operators = in_force(load_operators(), torch_version=version, devices=devices, passes=passes)
    chosen = [operator for operator in operators if operator.rule == code and not operator.auditor_only]
    triggers = {trigger.name: trigger for operator in chosen for trigger in operator.python}
    by_last: dict[str, dict[str, tuple[Trigger, tuple[Operator, ...]]]] = {}
    for name, entries in by_python_name(chosen).items():
        by_last.setdefault(triggers[name].last, {})[name] = triggers[name], entries
    return by_last


def operators_chosen(ctx: Context) -> tuple[Operator, ...]:
    """Return the rule's entries under the settings in force that other libraries call where an option says so."""
    return _chosen_by_options(*_settings(ctx))


@lru_cache(maxsize=32)
def _chosen_by_options(
    code: str, version: str, devices: tuple[str, ...], passes: tuple[str, ...]
) -> tuple[Operator, ...]:
    tables = _entries_of(code, version, devices, passes).values()
    return tuple(
        dict.fromkeys(each for table in tables for _, found in table.values() for each in found if each.chosen_by)
    )


@lru_cache(maxsize=32)
def _asked_for(code: str, version: str, devices: tuple[str, ...], passes: tuple[str, ...]) -> frozenset[str]:
    """Return the arguments that the entries' conditions ask for."""
    tables = _entries_of(code, version, devices, passes).values()
    return frozenset(
        key for table in tables for _, operators in table.values() for each in operators for key in each.when
    )


def _entries(node: ast.Call, table: _Table, ctx: Context) -> Iterator[tuple[Trigger, tuple[Operator, ...]]]:
    names = ctx.callees(node)
    yield from (table[name] for name in names if name in table)
    if not names and isinstance(node.func, ast.Attribute):
        found = table.get(f"torch.Tensor.{node.func.attr}")
        if found is not None and _is_tensor_method(Call(node, found[0]), node.func, ctx):
            yield found


def _is_tensor_method(call: Call, function: ast.Attribute, ctx: Context) -> bool:
    """`x.scatter_add_(…)`, `x.gather(1, index)`: can only a tensor be meant, in a file that uses torch?

    By an underscore in the name, or the number of a dimension beside an index; and by the arguments that it asks for,
    since `context.index_select(rows)` names no dimension.
    """
    needed = [parameter.name for parameter in call.trigger.parameters if parameter.default is None]
    if not all(call.argument(name).hidden or call.argument(name).given for name in needed) or not imports_torch(
        ctx.module
    ):
        return False
    if "_" not in function.attr and not (len(needed) > 1 and type(ctx.constant(call.argument("dim").value)) is int):
        return False
    return {value.kind for value in ctx.values(function.value)} <= {Kind.UNKNOWN, Kind.TENSOR, Kind.NONE}


def imports_torch(module: Module) -> bool:
    """Return whether a file imports torch itself."""
    index = module.index
    names = [alias.name for statement in index.of_type(ast.Import) for alias in statement.names]
    names += [statement.module or "" for statement in index.of_type(ast.ImportFrom) if not statement.level]
    return any(name.partition(".")[0] == "torch" for name in names)


def as_launched(operator: Operator, call: Call, ctx: Context) -> Operator:
    """Return an operator as it is under the flag where its kernel is launched without it on request."""
    on_request = call.name.startswith(KERNEL_LANGUAGES) and is_left_out_on_request(call.node, ctx)
    return replace(operator, with_flag="deterministic", instead=_REQUEST) if on_request else operator
