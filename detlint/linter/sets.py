"""Is an expression a set, and is the order of its elements the same in every process?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.names import Binding, BindingKind
from detlint.linter.order_form import names_in
from detlint.linter.set_elements import is_literal_number
from detlint.linter.values import Kind, Value

if TYPE_CHECKING:
    from detlint.linter.context import Context

# Names under which people keep numbers: positions, identities, frames, nodes of a graph.
_NUMBERS = re.compile(
    r"(^|_)(idxs?|idxes|inds?|indices|indexes|positions|frames?|nodes?|ranks?|epochs?|steps?|dims?|axes|axis|sizes|pids?|"
    r"ports?|years?|lengths?|widths?|heights?|counts?|arcs?|src|dst|seeds?|"
    r"targets|clusters?|atoms?|timestamps?|timesteps?|offsets?|degrees|"
    r"(gpu|device|token|input|class|cluster|node|edge|batch|client|layer|row|col|atom)_ids?)(_(set|list|lst|pool))?$",
    re.IGNORECASE,
)
# `set[int]`, `Optional[Set[int]]`, `list[tuple[int, int]] | None`.
_NUMBER = r"(int|float|bool)"
_SEVERAL = rf"{_NUMBER}(, {_NUMBER})*(, \.\.\.)?"
_OF_NUMBERS = re.compile(rf"([\w.]*Optional\[)?[\w.]+\[({_SEVERAL}|[\w.]*[tT]uple\[{_SEVERAL}\])\]{{1,2}}( \| None)?")
_MOST_STEPS = 6
_ALGEBRA = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_STABLE = {Kind.NUMBER, Kind.BOOL}
_NUMBER_FUNCTIONS = frozenset(
    {f"numpy.{name}" for name in ("arange", "argsort", "argwhere", "bincount", "flatnonzero", "nonzero", "where")}
    | {"scipy.cluster.hierarchy.fcluster"}
)
_PICKING_FUNCTIONS = frozenset(
    {f"numpy.random.{name}" for name in ("choice", "permutation")}
    | {f"numpy.random.Generator.{name}" for name in ("choice", "permutation")}
    | {f"random.{name}" for name in ("sample", "choices")}
)
_DRAWN_NUMBERS = frozenset(
    {"random.randint", "random.randrange", "random.getrandbits", "random.random", "random.uniform"}
)
_NUMBER_METHODS = frozenset({"tolist", "numel", "dim", "size", "argmax", "argmin", "get_rank"})


def is_set(node: ast.expr, ctx: Context) -> bool:
    """Return whether the expression is a set, a variable on some path; the algebra of dict views included."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ALGEBRA):
        sides = (node.left, node.right)
        return any(is_set(side, ctx) or _is_view(side) for side in sides)
    kinds = {value.kind for value in ctx.values(node)} - {Kind.NONE}
    if isinstance(node, ast.Name) and Kind.SET in kinds:
        return any(map(_assigns_set, ctx.module.definitions(node))) or kinds == {Kind.SET}
    return kinds == {Kind.SET} or (kinds <= {Kind.UNKNOWN} and _is_entry(node, ctx))


def _assigns_set(binding: Binding) -> bool:
    """`labels = set(names)`, which is one whatever else the variable holds on other paths."""
    value = binding.value if binding.kind is BindingKind.ASSIGN and not binding.index else None
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("set", "frozenset")
    return made or isinstance(value, (ast.Set, ast.SetComp))


def _is_entry(node: ast.expr, ctx: Context) -> bool:
    """Is this a set of strings that a `defaultdict(set)` holds: `words[key]`, or taken from `words.items()`?"""
    holder = node.value if isinstance(node, ast.Subscript) else _taken_from(node, ctx)
    if not isinstance(holder, (ast.Name, ast.Attribute)):
        return False
    made = [value.node for value in ctx.values(holder)]
    if not made or not all(isinstance(call, ast.Call) and _makes_sets(call, ctx) for call in made):
        return False
    return any({value.kind for value in ctx.values(element)} == {Kind.STRING} for element in _entered(holder, ctx))


def _entered(holder: ast.Name | ast.Attribute, ctx: Context) -> Iterator[ast.expr]:
    """Yield what is put into the sets of a dict: `words[key].add(word)`, in the same function or class."""
    index = ctx.module.index
    place = index.scope_at(holder).lookup(holder.id) if isinstance(holder, ast.Name) else index.class_at(holder)
    for call in index.calls_by_name.get("add", ()):
        entry = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not isinstance(entry, ast.Subscript) or ast.unparse(entry.value) != ast.unparse(holder) or not call.args:
            continue
        same = index.scope_at(call).lookup(holder.id) if isinstance(holder, ast.Name) else index.class_at(call)
        if same is place:
            yield call.args[0]


def _taken_from(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the dict that a loop takes an entry from: `for key, words in found.items()`."""
    bindings = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.ITERATION:
        return None
    call = bindings[0].value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return call.func.value if (call.func.attr, bindings[0].index) in (("items", (1,)), ("values", ())) else None


def _makes_sets(call: ast.Call, ctx: Context) -> bool:
    factory = call.args[0] if call.args else None
    named = "collections.defaultdict" in ctx.callees(call)
    return named and factory is not None and "builtins.set" in ctx.resolve(factory)


def _is_view(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("keys", "items")
        and not node.args
    )


def has_fixed_order(node: ast.expr, ctx: Context, depth: int = 0) -> bool:
    """Return whether a set is known to hold numbers only, or nothing."""
    if depth > _MOST_STEPS:
        return False
    if isinstance(node, ast.BinOp):
        # Sets that are combined hold things of one kind.
        return any(has_fixed_order(side, ctx, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.Name) and _NUMBERS.search(node.id):
        return True
    if isinstance(node, (ast.Name, ast.Attribute)) and _declared_numbers(node, ctx):
        return True
    if isinstance(node, ast.Call) and _returns_numbers(node, ctx):
        return True
    if isinstance(node, (ast.Name, ast.Attribute)) and _is_filled(node, ctx):
        return _filled_with_numbers(node, ctx)
    made = [value for value in ctx.values(node) if value.kind is Kind.SET]
    return bool(made) and all(_holds_numbers(value, ctx, depth) for value in made)


def _holds_numbers(value: Value, ctx: Context, depth: int) -> bool:
    node = value.node
    if isinstance(node, (ast.Set, ast.SetComp)):
        return bool(value.elements) and all(_is_number(element) for element in value.elements)
    if isinstance(node, ast.arg) and node.annotation is not None:
        return _annotated_numbers(node.annotation)
    if isinstance(node, ast.BinOp):
        return has_fixed_order(node, ctx, depth + 1)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and ctx.is_kind(node.func.value, Kind.SET).value == "yes":
            return has_fixed_order(node.func.value, ctx, depth + 1)
        return bool(node.args) and holds_numbers(node.args[0], ctx)
    return False


def _is_number(element: tuple[Value, ...]) -> bool:
    return all(
        value.kind in _STABLE
        or value.type in _DRAWN_NUMBERS
        or (value.kind is Kind.TUPLE and value.elements and all(map(_is_number, value.elements)))
        for value in element
    )


def _is_parsed(node: ast.expr, ctx: Context) -> bool:
    """`pid, camera = map(int, match.groups())`, `for pair in zip(rows.numpy(), …)`, and names that numbers go by."""
    if not isinstance(node, ast.Name):
        return False
    bindings = ctx.module.definitions(node)
    return bool(_NUMBERS.search(node.id)) or (
        bool(bindings)
        and all(
            (binding.kind is BindingKind.ITERATION or (binding.kind is BindingKind.ASSIGN and binding.index))
            and binding.value is not None
            and holds_numbers(binding.value, ctx)
            for binding in bindings
        )
    )


def _seems_number(element: tuple[Value, ...]) -> bool | None:
    """Is an element a number? None where it is something else for sure, False where nothing is known."""
    kinds = {value.kind for value in element}
    if _is_number(tuple(value for value in element if value.kind is not Kind.UNKNOWN)) and kinds != {Kind.UNKNOWN}:
        return True
    return False if Kind.UNKNOWN in kinds else None


def _annotated_numbers(annotation: ast.expr) -> bool:
    """`set[int]`, `list[int]`, `Iterable[int]`, `tuple[int, ...]`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        text = annotation.value
    else:
        text = ast.unparse(annotation)
    return _OF_NUMBERS.fullmatch(text) is not None


def _declared_numbers(node: ast.Name | ast.Attribute, ctx: Context) -> bool:
    """`seen: set[int] = set()`, `self.seen: set[int] = set()`, and the same as a field of the class."""
    if isinstance(node, ast.Name):
        places = [ctx.parent(binding.node) for binding in ctx.module.definitions(node)]
    else:
        owner = ctx.module.index.class_at(node)
        own = owner is not None and isinstance(node.value, ast.Name) and node.value.id == "self"
        places = [
            place
            for place in (ctx.module.index.of_type(ast.AnnAssign) if own else ())
            if ctx.module.index.class_at(place) is owner
            and ast.unparse(place.target) == (node.attr if ctx.parent(place) is owner else f"self.{node.attr}")
        ]
    return any(isinstance(place, ast.AnnAssign) and _annotated_numbers(place.annotation) for place in places)


def _returns_numbers(call: ast.Call, ctx: Context) -> bool:
    """A function of the project that is declared to return `set[int]`."""
    definitions = [ctx.module.project.definition(name) for name in ctx.callees(call)]
    returned = [found[1].returns for found in definitions if found and not isinstance(found[1], ast.ClassDef)]
    return bool(returned) and all(one is not None and _annotated_numbers(one) for one in returned)


def holds_numbers(node: ast.expr, ctx: Context, depth: int = 0) -> bool:
    """Return whether iterating the expression gives numbers."""
    if depth > _MOST_STEPS:
        return False
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if _NUMBERS.search(name):
        return True
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "numpy" and not node.args:
            return True  # of a tensor, whatever it is called
        if isinstance(node.func, ast.Attribute) and node.func.attr in _NUMBER_METHODS:
            receiver = {value.kind for value in ctx.values(node.func.value)}
            sliced = isinstance(node.func.value, ast.Subscript) and isinstance(node.func.value.slice, ast.Tuple)
            return sliced or (bool(receiver) and receiver <= {Kind.TENSOR, Kind.ARRAY})
        names = ctx.callees(node)
        if "builtins.range" in names or _NUMBER_FUNCTIONS.intersection(names):
            return True
        if {"builtins.list", "builtins.sorted", "builtins.tuple", "builtins.set"}.intersection(names) and node.args:
            return holds_numbers(node.args[0], ctx, depth + 1)
        if _PICKING_FUNCTIONS.intersection(names) and node.args:  # of a number: of all the numbers below it
            among = ctx.values(node.args[0])
            return (bool(among) and _is_number(among)) or holds_numbers(node.args[0], ctx, depth + 1)
        if "builtins.zip" in names:
            return bool(node.args) and all(holds_numbers(part, ctx, depth + 1) for part in node.args)
        if "builtins.map" in names and len(node.args) == 2:
            return bool(
                {"builtins.int", "builtins.float", "builtins.len", "builtins.ord"} & set(ctx.resolve(node.args[0]))
            )
    if isinstance(node, ast.Subscript):
        return holds_numbers(node.value, ctx, depth + 1)
    values = ctx.values(node)
    if values and all(_gives_numbers(value) for value in values):
        return True
    return isinstance(node, ast.Name) and _is_defined_by_numbers(node, ctx, depth)


def _is_defined_by_numbers(node: ast.Name, ctx: Context, depth: int) -> bool:
    """`first, rest = numbers[0], numbers[1:]`; what is made of the variable itself, `left = left[2:]`, adds nothing."""
    sources = [_source(binding) for binding in ctx.module.definitions(node)]
    others = [source for source in sources if source is None or node.id not in names_in(source)]
    return bool(others) and all(source is not None and holds_numbers(source, ctx, depth + 1) for source in others)


def _source(binding: Binding) -> ast.expr | None:
    """Return what a variable is assigned, also as one of several."""
    value = binding.value if binding.kind is BindingKind.ASSIGN else None
    if not binding.index or value is None:
        return value
    if isinstance(value, (ast.Tuple, ast.List)) and len(binding.index) == 1 and 0 <= binding.index[0] < len(value.elts):
        return value.elts[binding.index[0]]
    return None


def _gives_numbers(value: Value) -> bool:
    if isinstance(value.node, ast.arg) and value.node.annotation is not None:
        return _annotated_numbers(value.node.annotation)
    if value.kind is Kind.UNKNOWN and value.type in _NUMBER_FUNCTIONS:
        return True
    if value.kind is Kind.ARRAY:
        made = value.node if value.module is not None and isinstance(value.node, ast.Call) else None
        names = value.module.inference.callees(made) if value.module is not None and made is not None else ()
        return value.dtype not in (None, "object") or bool(_NUMBER_FUNCTIONS.intersection(names))
    if isinstance(value.node, (ast.ListComp, ast.GeneratorExp)) and _selects_numbers(value.node):
        return True
    return bool(value.elements) and all(_is_number(element) for element in value.elements)


def _selects_numbers(made: ast.ListComp | ast.GeneratorExp) -> bool:
    """`[(start, end) for start, end in spans if start != -1 and end != -1]`."""
    parts = made.elt.elts if isinstance(made.elt, ast.Tuple) else [made.elt]
    compares = [part for loop in made.generators for test in loop.ifs for part in ast.walk(test)]
    numbers = {
        name.id
        for compare in compares
        if isinstance(compare, ast.Compare) and any(map(is_literal_number, compare.comparators))
        for name in [compare.left]
        if isinstance(name, ast.Name)
    }
    return all(isinstance(part, ast.Name) and part.id in numbers for part in parts)


def _is_filled(node: ast.Name | ast.Attribute, ctx: Context) -> bool:
    """Return whether the set starts empty: what it holds is said by what is added."""
    made = [value.node for value in ctx.values(node) if value.kind is Kind.SET]
    return any(isinstance(call, ast.Call) and not call.args for call in made)


def _filled_with_numbers(node: ast.Name | ast.Attribute, ctx: Context) -> bool:
    text = ast.unparse(node)
    index = ctx.module.index
    function = index.function_at(node) if isinstance(node, ast.Name) else index.class_at(node)
    added: list[bool | None] = []
    for call in index.of_type(ast.Call):
        if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) != text or not call.args:
            continue
        if function is not None and function not in index.ancestors(call):
            continue
        if call.func.attr == "add":
            added.append(_is_parsed(call.args[0], ctx) or _seems_number(ctx.values(call.args[0])))
        elif call.func.attr == "update":
            added.append(holds_numbers(call.args[0], ctx))
    for statement in index.of_type(ast.AugAssign):
        if ast.unparse(statement.target) == text:
            added.append(has_fixed_order(statement.value, ctx, 3))
    return any(added) and None not in added
