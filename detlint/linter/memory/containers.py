"""What becomes of fresh memory that a list or a dictionary holds? Follows its elements through loops and keys."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.memory.attribute_fates import assigned_to, fate_under_names, made_where
from detlint.linter.memory.looped import looped
from detlint.linter.memory.needs import guards_emptiness
from detlint.linter.memory.updates import sets_nothing
from detlint.linter.memory.uses import JOINING, Fate, fate
from detlint.linter.memory.weights import is_initialised_unnamed
from detlint.linter.source.names import COMPREHENSIONS
from detlint.linter.source.nodes import is_own, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# What holds the elements of the list, or of the dictionary, that it is given.
_HOLDERS = frozenset({"builtins.list", "builtins.tuple", "builtins.dict", "torch.nn.ParameterList"})
_PARAMETERS = "torch.nn.ParameterList"
_OPTIMIZER = "torch.optim.Optimizer"
_STACKING = JOINING | {"torch.stack", "torch.hstack", "torch.vstack"}
_Found = tuple[Fate, ast.expr]


def read_of_elements(made: ast.expr, comprehension: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what reads an element of `sums = [torch.empty_like(p) for p in weights]`, where nothing fills one.

    `for total, p in zip(sums, weights): total += p.grad`
    """
    if not isinstance(comprehension, COMPREHENSIONS) or not _is_element(made, comprehension):
        return None
    holder: ast.expr = comprehension
    registered = False
    while isinstance(call := ctx.parent(holder), ast.Call) and _HOLDERS.intersection(ctx.callees(call)):
        holder, registered = call, _PARAMETERS in ctx.callees(call)
    statement = ctx.parent(holder)
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or len(targets) != 1:
        return None
    target = targets[0]
    if isinstance(target, ast.Attribute) and registered and is_initialised_unnamed(target, ctx):
        return None
    uses = _uses(target, ctx) if isinstance(target, (ast.Name, ast.Attribute)) else None
    return _read_among(found for use in uses for found in _fates(use, ctx)) if uses is not None else None


def _is_element(made: ast.expr, comprehension: ast.expr) -> bool:
    """Is memory made for each round, and is it an element by itself?"""
    element = comprehension.value if isinstance(comprehension, ast.DictComp) else getattr(comprehension, "elt", None)
    return element is not None and not isinstance(element, (ast.Tuple, ast.List)) and made in walk(element)


def read_of_entry(entry: ast.Subscript, ctx: Context) -> ast.expr | None:
    """Return what reads `state["mean"] = torch.empty_like(p)` later in the function, where nothing fills it.

    `mean = state["mean"]` and `mean.mul_(0.9).add_(p.grad)`
    """
    named = isinstance(entry.slice, ast.Name) or isinstance(getattr(entry.slice, "value", None), str)
    if not named or not isinstance(entry.value, (ast.Name, ast.Attribute, ast.Subscript)):
        return None
    attribute = entry.value if isinstance(entry.value, ast.Attribute) and _holds_parameters(entry, ctx) else None
    if attribute is not None and is_initialised_unnamed(attribute, ctx):
        return None
    return _read_at_key(entry.value, entry.slice, ctx) or _read_of_state(entry, ctx)


def _read_of_state(entry: ast.Subscript, ctx: Context) -> ast.expr | None:
    """Return what reads a state of an optimizer that one of its methods sets: `state["mean"].mul_(0.9)` in another.

    That is the entry itself where a base class in another file reads it.
    """
    owner, inference = ctx.module.index.class_at(entry), ctx.inference
    info = inference.class_info(owner) if owner is not None else None
    if info is None or _OPTIMIZER not in inference.external_bases(info) or not isinstance(entry.slice, ast.Constant):
        return None
    found: list[_Found] = []
    for each in inference.mro(info):
        inside = ctx.elsewhere(each.module)
        for part in walk(each.node):
            if part is entry or not isinstance(part, ast.Subscript) or ast.dump(part.slice) != ast.dump(entry.slice):
                continue
            is_read = isinstance(part.ctx, ast.Load)
            found.append(fate_under_names(part, inside) if is_read else (_fate_of_store(part, inside), part))
    read = _read_among(iter(found))
    return entry if read is not None and ctx.parent(read) is None else read


def _holds_parameters(entry: ast.Subscript, ctx: Context) -> bool:
    """`self.weights[key] = nn.Parameter(torch.empty(n))`: hooks and checkpoints reach it."""
    value = assigned_to(entry, ctx)
    made, where = made_where(value, ctx) if value is not None else (None, ctx)
    return isinstance(made, ast.Call) and "torch.nn.Parameter" in where.callees(made)


def read_of_value(made: ast.expr, entries: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what reads `state = {"mean": torch.empty(n)}` under its key, in the same function."""
    statement = ctx.parent(entries)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(entries, ast.Dict) or not isinstance(target, (ast.Name, ast.Attribute)):
        return None
    pairs = zip(entries.keys, entries.values, strict=True)
    key = next((key for key, value in pairs if made in walk(value)), None)
    return _read_at_key(target, key, ctx) if isinstance(key, ast.Constant) else None


def _read_at_key(holder: ast.expr, key: ast.expr, ctx: Context) -> ast.expr | None:
    own = ctx.module.index.class_at(holder) if isinstance(holder, ast.Attribute) and is_own(holder) else None
    around = own if own is not None else ctx.function(holder)
    if around is None:
        return None
    text, statement = ast.unparse(holder), ctx.statement(holder)
    named = [part for part in walk(around) if part is not holder and _is_named(part, text)]
    uses = [part for part in named if isinstance(part, ast.expr) and isinstance(getattr(part, "ctx", None), ast.Load)]
    bound = [part for part in named if part not in uses]
    found = [each for use in uses if not _is_another_entry(use, key, ctx) for each in _fates(use, ctx)]
    flow = ctx.flow(holder)
    if own is not None:
        bound = [part for part in bound if part in flow]
    elif any(ctx.flow(place) is not flow for _, place in found):
        return None  # a closure may fill it
    return _read_among(
        (outcome, place)
        for outcome, place in found
        if outcome is not Fate.READ or place not in flow or flow.path(statement, place, avoiding=bound)
    )


def _is_named(node: ast.AST, text: str) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and ast.unparse(node) == text


def _is_another_entry(use: ast.expr, key: ast.expr, ctx: Context) -> bool:
    """`state["step"]` beside `state["mean"]`."""
    around = ctx.parent(use)
    if not isinstance(around, ast.Subscript) or around.value is not use:
        return False
    keys = (around.slice, key)
    return all(isinstance(key, ast.Constant) for key in keys) and ast.unparse(keys[0]) != ast.unparse(keys[1])


def _read_among(found: Iterator[_Found]) -> ast.expr | None:
    """Return the first place that reads, where none may have written."""
    read = None
    for outcome, place in found:
        if outcome in (Fate.WRITTEN, Fate.STORED, Fate.MARKED):
            return None
        if outcome in (Fate.READ, Fate.ADDED_TO) and read is None:
            read = place
    return read


def _uses(target: ast.Name | ast.Attribute, ctx: Context) -> list[ast.expr] | None:
    """Return where a variable of a function, or an attribute of an object, is used; None where it is set elsewhere."""
    if isinstance(target, ast.Name):
        bindings = ctx.module.index.scope_at(target).bindings.get(target.id, ())
        binding = next((each for each in bindings if each.node is target), None)
        if binding is None or ctx.function(target) is None:
            return None
        uses = ctx.flow(target).uses(binding)
        return list(uses) if all(ctx.flow(use) is ctx.flow(target) for use in uses) else None
    owner = ctx.module.index.class_at(target)
    named = [use for use in ctx.module.index.names_used.get(target.attr, ()) if isinstance(use, ast.Attribute)]
    if owner is None or not is_own(target) or any(not is_own(use) for use in named):
        return None
    own = [use for use in named if ctx.module.index.class_at(use) is owner and use is not target]
    stores = [use for use in own if not isinstance(use.ctx, ast.Load)]
    return None if any(not sets_nothing(use, ctx) for use in stores) else [use for use in own if use not in stores]


def _fates(use: ast.expr, ctx: Context) -> Iterator[_Found]:
    """Yield what happens to the elements of a container where it is used."""
    if getattr(ctx.function(use), "name", "") == "state_dict":
        return  # it hands out what is there, to be saved
    loop = looped(_all_of(use, ctx) or use, ctx)
    if loop is not None:
        yield from _fates_in_loop(*loop, ctx)
        return
    around = ctx.parent(use)
    if not isinstance(around, ast.Subscript) or around.value is not use:
        outcome, place = fate(use, ctx)
        given_whole = outcome is Fate.STORED or isinstance(around, ast.keyword)
        yield (Fate.WRITTEN if given_whole else outcome), place
    elif isinstance(around.slice, ast.Slice):
        yield Fate.WRITTEN, around
    elif isinstance(around.ctx, ast.Load):
        yield fate_under_names(around, ctx)
    else:
        yield _fate_of_store(around, ctx), around


def _all_of(use: ast.expr, ctx: Context) -> ast.Call | None:
    """Return `weights.items()` of `for key, weight in weights.items()`."""
    method = ctx.parent(use)
    call = ctx.parent(method) if isinstance(method, ast.Attribute) and method.attr in ("items", "values") else None
    return call if isinstance(call, ast.Call) and call.func is method else None


def _fate_of_store(element: ast.Subscript, ctx: Context) -> Fate:
    """`sums[name] += x` and `sums[name] = sums[name] + x` read what they replace."""
    statement = ctx.statement(element)
    if isinstance(statement, ast.AugAssign):
        return Fate.READ
    text, value = ast.unparse(element), getattr(statement, "value", None)
    parts = walk(value) if isinstance(value, ast.expr) else ()
    kept = any(isinstance(part, ast.Subscript) and ast.unparse(part) == text for part in parts)
    return Fate.UNTOUCHED if kept else Fate.WRITTEN


def _fates_in_loop(loop: ast.AST, target: ast.expr, ctx: Context) -> Iterator[_Found]:
    """`for total in sums: total += x`, `[total / n for total in sums]`."""
    whole = loop if isinstance(loop, ast.For) else ctx.parent(loop)
    if not isinstance(target, ast.Name) or whole is None:
        yield Fate.WRITTEN, target
        return
    for part in walk(whole):
        if isinstance(part, ast.Name) and part.id == target.id and part is not target:
            if isinstance(part.ctx, ast.Load):
                yield fate_under_names(part, ctx)
            elif isinstance(ctx.parent(part), ast.AugAssign):
                yield Fate.READ, part


def read_of_list(call: ast.expr, ctx: Context) -> ast.expr | None:
    """`parts.append(torch.empty(n))` and `torch.stack(parts)`, where nothing in sight could fill an element."""
    appended = call.func if isinstance(call, ast.Call) else None
    carrier = appended.value if isinstance(appended, ast.Attribute) and appended.attr == "append" else None
    uses = _uses_of_list(carrier, call, ctx) if carrier is not None and not guards_emptiness(call, ctx) else []
    reads: list[ast.expr] = []
    for use in uses:
        user = ctx.parent(use)
        if isinstance(user, ast.Call) and _STACKING.intersection(ctx.callees(user)):
            reads.append(user)
        elif not _leaves_elements(use, user, ctx):
            return None
    flow = ctx.flow(call)
    return next((read for read in reads if read not in flow or flow.path(call, read)), None)


def _uses_of_list(carrier: ast.expr, call: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return where a list is used that the function makes, or that an object has from `self.parts = []` on."""
    if isinstance(carrier, ast.Name):
        bindings = ctx.module.definitions(carrier)
        flow = ctx.flow(call)
        given = len(bindings) != 1 or isinstance(bindings[0].node, ast.arg) or ctx.flow(bindings[0].node) is not flow
        return [] if given else list(flow.uses(bindings[0]))
    named = ctx.module.index.names_used.get(carrier.attr, ()) if isinstance(carrier, ast.Attribute) else ()
    stores = [use for use in named if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Store)]
    made = next((use for use in stores if _is_empty_list(getattr(ctx.statement(use), "value", None))), None)
    return (_uses(made, ctx) or []) if made is not None else []


def _is_empty_list(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List) and not value.elts


def _leaves_elements(use: ast.expr, user: ast.AST | None, ctx: Context) -> bool:
    """`parts.append(x)`, `len(parts)`, `parts[-1].min()`."""
    if isinstance(user, ast.Attribute):
        return user.attr == "append"
    if isinstance(user, ast.Subscript):
        return isinstance(user.ctx, ast.Load) and fate(user, ctx)[0] in (Fate.READ, Fate.UNTOUCHED)
    return isinstance(user, ast.Call) and "builtins.len" in ctx.callees(user)
