"""Is an expression a set, and is the order of its elements the same in every process?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.element_fills import entries, first_entries
from detlint.linter.analysis.element_sort import Move, Sort, Steps, together
from detlint.linter.analysis.elements import gone_through
from detlint.linter.analysis.made import given_to, made_of
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.parameters import annotation_values
from detlint.linter.analysis.returned import made_results
from detlint.linter.analysis.values import Kind
from detlint.linter.order.asked import Asked
from detlint.linter.order.element_origins import ElementOrigins
from detlint.linter.order.element_uses import elements_of, used_as
from detlint.linter.order.takers import holder_taken_as, uses_of
from detlint.linter.source.names import Binding, BindingKind
from detlint.linter.source.nodes import holds_one, identifier, is_own, unless_none
from detlint.linter.tables.elements import element_table
from detlint.linter.tables.order import order_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 6  # of names for a result of set algebra, which in a loop may lead to themselves
_NEAR = 4  # names that stand further off say less about the elements
_ALGEBRA = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)


def is_set(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """Return whether the expression is a set, a variable on some path; the algebra of dict views included.

    `{place}`, handed on as it is, has one order: it counts as none.
    """
    return not holds_one(node) and _is_set(node, ctx, steps)


def _is_set(node: ast.expr, ctx: Context, steps: int) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ALGEBRA):
        if any(value.type in order_table().functions["ordered-sets"] for value in ctx.values(node.left)):
            return False
        sides = (node.left, node.right)
        return any(_is_set(side, ctx, steps) or _is_view(side) for side in sides)
    kinds = {value.kind for value in ctx.values(node)} - {Kind.NONE}
    name = node if isinstance(node, ast.Name) and kinds <= {Kind.UNKNOWN, Kind.INSTANCE} else None
    if name is not None and (_is_difference_of_views(name, ctx, steps) or _is_by_default(name, ctx)):
        return True
    if Kind.SET not in kinds:
        return kinds <= {Kind.UNKNOWN, Kind.LIST} and is_entry(node, ctx)
    if kinds <= {Kind.SET, Kind.UNKNOWN}:
        return True
    if isinstance(node, ast.Name):
        return any(_assigns_set(binding, ctx) for binding in ctx.module.definitions(node))
    return isinstance(node, ast.Attribute) and _is_just_made(node, ctx)


def _is_difference_of_views(node: ast.Name, ctx: Context, steps: int) -> bool:
    """`missing = wanted.keys() - known.keys()`."""
    if not steps:
        return False
    made = made_of(ctx.module, node)
    only = made[0] if len(made) == 1 else None
    return isinstance(only, ast.BinOp) and isinstance(only.op, _ALGEBRA) and is_set(only, ctx, steps - 1)


def _is_by_default(node: ast.Name, ctx: Context) -> bool:
    """`def load(self, seasons=SEASONS)`, after `SEASONS = frozenset({"spring", "autumn"})`."""
    bindings = ctx.module.definitions(node)
    default = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER else None
    named = only_value(ctx.module, default) if isinstance(default, ast.Name) else None
    return makes_set(named or default)


def _assigns_set(binding: Binding, ctx: Context) -> bool:
    """`labels = set(names)`, `labels = known(labels)`: one whatever else the variable holds on other paths."""
    value = given_to(binding)
    return binding.kind is BindingKind.ASSIGN and value is not None and _gives_set(value, ctx)


def _is_just_made(attribute: ast.Attribute, ctx: Context) -> bool:
    """`self.types = set(types)` on a path to where the attribute is read, or as the last thing another method makes."""
    index, text = ctx.module.index, ast.unparse(attribute)
    owner = index.class_at(attribute)
    made = [
        statement
        for statement in index.of_type(ast.Assign)
        if index.class_at(statement) is owner and text in map(ast.unparse, statement.targets)
    ]
    here = [statement for statement in made if ctx.function(statement) is ctx.function(attribute)]
    if not here:
        maker = ctx.function(made[-1]) if len({ctx.function(statement) for statement in made}) == 1 else None
        return maker is not None and made[-1] in maker.body and _gives_set(made[-1].value, ctx)
    flow = ctx.flow(attribute)
    sets = [each for each in here if _gives_set(each.value, ctx)]
    return any(flow.path(each, attribute, avoiding=[other for other in here if other is not each]) for each in sets)


def makes_set(value: ast.expr | None) -> bool:
    """Return whether an expression is a set by how it is written: `set(names)`, `{name}`, `set(names) - {name}`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, _ALGEBRA):
        return makes_set(value.left)
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("set", "frozenset")
    return made or isinstance(value, (ast.Set, ast.SetComp))


def is_entry(node: ast.expr, ctx: Context) -> bool:
    """Is this a set that a dict or a list holds: `words[key]`, taken from `words.items()`, or gone through?"""
    holder, move = _holder(node, ctx)
    if isinstance(holder, ast.Call):
        return move is not Move.ITERATED and _gives_dict_of_sets(holder, ctx)
    return isinstance(holder, (ast.Name, ast.Attribute)) and _holds_sets(holder, move, ctx)


def _gives_dict_of_sets(call: ast.Call, ctx: Context) -> bool:
    """`words_of(rows)`, a function of the project that says so or returns one."""
    found = list(functions_called(ctx.inference, call))
    if len(found) != 1:
        return False
    where, function = ctx.elsewhere(found[0][0]), found[0][1]
    if function.returns is not None and _declares_sets(function.returns, where):
        return True
    given = made_results(where.module, function)
    return bool(given) and all(
        isinstance(each, (ast.Name, ast.Attribute)) and _holds_sets(each, Move.LOOKED_UP, where) for each in given
    )


def _holder(node: ast.expr, ctx: Context) -> tuple[ast.expr | None, Move]:
    """Return what an entry is taken from: `words[key]`, `for key, entry in words.items()`, `for entry in groups`."""
    if isinstance(node, ast.Subscript):
        return node.value, Move.LOOKED_UP
    bindings = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    if len(bindings) != 1:
        return None, Move.LOOKED_UP
    made, index = bindings[0].value, bindings[0].index
    if bindings[0].kind is BindingKind.ASSIGN and not index:  # `entry = words[key] if key in words else []`
        chosen = made.body if isinstance(made, ast.IfExp) else made
        return chosen.value if isinstance(chosen, ast.Subscript) else None, Move.LOOKED_UP
    if bindings[0].kind is not BindingKind.ITERATION or made is None:
        return None, Move.LOOKED_UP
    made, place = gone_through(ctx.inference, made, index)
    index = place if place is not None else index
    if not isinstance(made, ast.Call):
        return made if index == () else None, Move.ITERATED
    view = made.func if isinstance(made.func, ast.Attribute) else None
    held = view is not None and (view.attr, index) in (("items", (1,)), ("values", ()))
    return view.value if view is not None and held else None, Move.LOOKED_UP


def _holds_sets(holder: ast.Name | ast.Attribute, move: Move, ctx: Context) -> bool:
    """`defaultdict(set)`, `{key: set() for …}`, or a dict of which each entry starts as a set: `words[key] = set()`.

    So a list that sets are added to: `groups.append(set(names))`; what is iterated over a dict are its keys.
    """
    values = [value for value in ctx.values(holder) if value.kind is not Kind.NONE]
    if {value.kind for value in values} in ({Kind.LIST}, {Kind.SET}):
        return any(_adds_set(value, steps, ctx) for value, steps in entries(holder, ctx.module.index))
    if move is Move.ITERATED:
        return False
    if any(_declares_sets(annotation, ctx) for annotation in _annotations_of(holder, ctx)):
        return True
    only = only_value(ctx.module, holder) if isinstance(holder, ast.Name) else None
    if isinstance(only, ast.Call) and _gives_dict_of_sets(only, ctx):
        return True
    made = [value.node for value in values]
    if not made or not all(isinstance(node, (ast.Call, ast.Dict, ast.DictComp)) for node in made):
        return False
    if all(_makes_sets(node, ctx) for node in made):
        return True
    text = ast.unparse(holder)
    put = [value for value, steps in entries(holder, ctx.module.index) if not steps]
    put += first_entries(holder, ctx.module.index)
    # `words[key] = words[other]` is a set if the others are.
    new = [value for value in put if not (isinstance(value, ast.Subscript) and ast.unparse(value.value) == text)]
    return bool(new) and all(_gives_set(value, ctx) for value in new)


def _adds_set(value: ast.expr, steps: Steps, ctx: Context) -> bool:
    """`set(names)` that is appended, `[set(names)]` that a list is made longer by."""
    if not steps:
        return _gives_set(value, ctx)
    return isinstance(value, ast.List) and any(_gives_set(part, ctx) for part in value.elts)


def _gives_set(value: ast.expr, ctx: Context) -> bool:
    """`set(names)`, also by a function of the project, or `set(names) if wanted else None`."""
    value = unless_none(value)
    return makes_set(value) or (isinstance(value, ast.Call) and {each.kind for each in ctx.values(value)} == {Kind.SET})


def _annotations_of(holder: ast.Name | ast.Attribute, ctx: Context) -> Iterator[ast.expr]:
    """Yield what is declared of a variable, a parameter or an attribute of self."""
    annotations = ctx.module.index.annotations
    if isinstance(holder, ast.Name):
        for binding in ctx.module.definitions(holder):
            if isinstance(binding.node, ast.arg) and binding.node.annotation is not None:
                yield binding.node.annotation
            elif isinstance(binding.node, ast.expr) and binding.node in annotations:
                yield annotations[binding.node]
    elif is_own(holder):
        owner = ctx.module.index.class_at(holder)
        fields = (target for target in annotations if ctx.module.index.class_at(target) is owner)
        yield from (annotations[each] for each in fields if identifier(each) == holder.attr)


def _declares_sets(annotation: ast.expr, ctx: Context) -> bool:
    """`dict[str, set[str]]`."""
    parts = annotation.slice if isinstance(annotation, ast.Subscript) else None
    if not isinstance(parts, ast.Tuple) or len(parts.elts) != 2:
        return False
    kinds = {value.kind for value in annotation_values(ctx.inference, annotation, annotation)}
    inner = {value.kind for value in annotation_values(ctx.inference, parts.elts[1], annotation)}
    return kinds == {Kind.DICT} and inner == {Kind.SET}


def _makes_sets(node: ast.AST | None, ctx: Context) -> bool:
    if isinstance(node, ast.DictComp):
        return _gives_set(node.value, ctx)
    if isinstance(node, ast.Dict):
        return bool(node.values) and all(_gives_set(value, ctx) for value in node.values)
    if not isinstance(node, ast.Call) or "collections.defaultdict" not in ctx.callees(node):
        return False
    return bool(node.args) and "builtins.set" in ctx.resolve(node.args[0])


def _is_view(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("keys", "items")
        and not node.args
    )


def has_fixed_order(
    node: ast.expr, ctx: Context, numbering: bool, taken: tuple[ast.expr, Context] | None = None
) -> bool:
    """Return whether a set holds numbers, for all that can be told; `numbering` if its elements are given numbers.

    What is done with the elements tells it first, then where they come from, then what they are called, also where
    the function that it is handed to has `taken` it up.
    """
    used = used_as(node, ctx)
    if used is Sort.NUMBERS:
        return True
    origins = ElementOrigins(ctx)
    made = origins.of(node, (Move.ITERATED,))
    if made is Sort.NUMBERS and origins.asked.by_value:
        return True  # that they have parts, as other objects do, says nothing then
    found = together((used, made))
    if found is Sort.UNKNOWN:
        found = together((holder_taken_as(node, ctx), origins.by_use(elements_of(node, ctx)), _searched_for(node, ctx)))
    looped = [name for place in ((node, ctx), taken) if place is not None for name in _loop_name(*place)]
    return found is Sort.NUMBERS or (
        found is Sort.UNKNOWN and _called_numbers(_list_name(node, ctx), looped, origins.asked, numbering)
    )


def _searched_for(node: ast.expr, ctx: Context) -> Sort:
    """`word in found`: what is looked for among the elements is one of their sort."""
    searches = ((use, ctx.parent(use)) for use in uses_of(node, ctx))
    origins = ElementOrigins(ctx)
    return together(
        origins.of(search.left)
        for use, search in searches
        if isinstance(search, ast.Compare) and isinstance(search.ops[0], (ast.In, ast.NotIn)) and search.left is not use
    )


def _called_numbers(listed: list[str], looped: list[str], asked: Asked, numbering: bool) -> bool:
    """Say the names of the list and of the loop that take the elements over, and of where they come from, numbers?"""
    table = element_table()
    names = list(dict.fromkeys([*listed, *asked.names, *asked.keys]))[:_NEAR]
    if numbering:
        names = [name for name in names if name not in listed]  # `nodes = list(things)`, which then become numbers
    # `item` of a loop may be anything, `item_id` is as good as any other name.
    telling = [name for name in (*looped, *asked.elements[:1]) if "_" in name or table.names_texts(name)]
    names = list(dict.fromkeys([*telling, *names]))
    decided = next((name for name in names if table.names_numbers(name) or table.names_texts(name)), None)
    if numbering and any(map(table.names_texts, names)):
        return False  # numbers have little need of others
    if decided is not None:
        return table.names_numbers(decided)
    return not numbering and not asked.keys and any(map(table.names_either, names))


def _loop_name(node: ast.expr, ctx: Context) -> list[str]:
    """`for word in found`, `for number, word in enumerate(found)`."""
    loop = ctx.parent(node)
    counted = isinstance(loop, ast.Call) and "builtins.enumerate" in ctx.callees(loop)
    loop = ctx.parent(loop) if loop is not None and counted else loop
    target = loop.target if isinstance(loop, (ast.For, ast.comprehension)) else None
    if counted and isinstance(target, ast.Tuple):
        target = target.elts[-1]
    return [target.id] if isinstance(target, ast.Name) else []


def _list_name(node: ast.expr, ctx: Context) -> list[str]:
    """`self.names = list(found)`."""
    call = ctx.parent(node)
    statement = ctx.parent(call) if isinstance(call, ast.Call) else None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [
        target.id if isinstance(target, ast.Name) else target.attr
        for target in targets
        if isinstance(target, (ast.Name, ast.Attribute))
    ]
