"""What happens to fresh memory: is it written, read, looked at without reading, or handed to code that may write it?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import parameter_given
from detlint.linter.analysis.elements import goes_through_own
from detlint.linter.analysis.outline import PLAIN_DECORATORS
from detlint.linter.analysis.values import Kind
from detlint.linter.memory.erased import is_erased
from detlint.linter.memory.forms import gives_form_alone
from detlint.linter.memory.idle_reads import comes_to_nothing
from detlint.linter.memory.kernels import is_read_by_kernel
from detlint.linter.memory.marks import adds_up, is_mask, marks, marks_copy, sets_places
from detlint.linter.memory.rounds import may_stop_early, some_rounds_leave_out
from detlint.linter.modes.runs import is_left_open
from detlint.linter.source.names import COMPREHENSIONS, FUNCTIONS, Binding, FunctionNode
from detlint.linter.source.nodes import arguments_of, decorating, identifier, unless_none, walk
from detlint.linter.tables.memory import memory_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# A loss reads what it is given; other layers may be called to learn the shape of what they give. What a module of which
# nothing else is known does with it is not in sight.
_LAYER_CALL = re.compile(r"torch\.nn\.(?!Module\.)\w+\.__call__")
_LOSS_CALL = re.compile(r"torch\.nn\.\w+Loss\.__call__")
# Libraries whose decorators run a function as it is written, sooner or later.
_PLAIN = ("torch.", "functools.", "builtins.", "typing.", "contextlib.")
_MOST_NAMES = 3  # that a function gives to the memory it is given
_REGISTERING = ("register_buffer", "register_parameter", "add_state", "_add_state")
_WHERE = frozenset({"torch.where", "numpy.where"})
# They compute nothing: what is made of the whole decides.
JOINING = frozenset({"torch.cat", "torch.concat"}) | frozenset(
    f"numpy.{name}" for name in ("append", "column_stack", "concatenate", "hstack", "vstack")
)
# What hands on the very memory that it is given; `torch.autograd.Variable` is `torch.Tensor` by another name.
_WRAPPERS = frozenset(
    {"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.Tensor"}
    | {"torch.Tensor._make_subclass", "torch.Tensor._make_wrapper_subclass"}
)


class Fate(Enum):
    """What one expression does with memory."""

    READ = "read"
    WRITTEN = "written"  # or handed to code that may write it
    ADDED_TO = "added to"  # in places that another statement may have written: `totals[rows] += 1`
    MARKED = "marked"  # in some places: `one_hot.scatter_(1, labels, 1)`, `out[x > 0] = 1`
    UNTOUCHED = "untouched"
    RETURNED = "returned"
    STORED = "stored"  # under another name: look there
    MOVED = "moved"  # under its own name: `out = out.to(device)`


def fate(node: ast.expr, ctx: Context, depth: int = 2, *, learned: bool = False) -> tuple[Fate, ast.expr]:
    """Return what happens to the memory that `node` stands for, and the expression that does it.

    Functions of the project are followed `depth` calls deep. To join it to values reads it if it is `learned` and the
    model runs, or if a weight is made of both; other room behind values may be filled later, or cut off.
    """
    joined = False
    while True:
        parent = ctx.parent(node)
        if is_erased(node, parent, ctx):
            in_place = isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
            return (Fate.WRITTEN if in_place else Fate.UNTOUCHED), node
        if isinstance(parent, ast.Attribute):
            outcome, following = _method(parent, ctx)
        elif isinstance(parent, (ast.Call, ast.keyword)):
            outcome, following = _argument(node, parent, ctx, depth)
        else:
            outcome, following = _plain(node, parent, ctx)
        if outcome is Fate.READ and comes_to_nothing(following, ctx):
            return Fate.UNTOUCHED, following
        if outcome is Fate.STORED and joined and ctx.binding(following) is None:
            return Fate.WRITTEN, following
        if outcome is not None:
            return outcome, following
        if isinstance(following, ast.Call):
            if joined and not _WRAPPERS.isdisjoint(ctx.callees(following)):
                return Fate.READ, node
            joined |= not JOINING.isdisjoint(ctx.callees(following))
            if joined and learned and _runs(following, ctx):
                return Fate.READ, following
        node = following


def _method(attribute: ast.Attribute, ctx: Context) -> tuple[Fate | None, ast.expr]:
    call = ctx.parent(attribute)
    called = isinstance(call, ast.Call) and call.func is attribute
    name, methods = attribute.attr, memory_table().methods
    if name in methods["form"] or (name == "type" and isinstance(call, ast.Call) and not arguments_of(call)):
        return Fate.UNTOUCHED, attribute  # weight.requires_grad = False, weight.type() == "torch.FloatTensor"
    if not isinstance(attribute.ctx, ast.Load):
        if name not in methods["through"] and "load" not in name:
            return Fate.UNTOUCHED, attribute  # weight.skip_decay = True, and not weight.weight_loader = load
        changed = isinstance(call, ast.AugAssign)  # weight.data *= mask, and not weight.data = …
        return (Fate.READ if changed else Fate.WRITTEN), attribute
    if name in methods["through"]:
        return None, call if called and isinstance(call, ast.Call) else attribute
    if not isinstance(call, ast.Call) or not called or _ignores_memory(call):
        return Fate.WRITTEN, attribute
    if marks(call, ctx) and not adds_up(call):
        return Fate.MARKED, attribute
    if marks_copy(call, ctx):
        return Fate.WRITTEN, attribute
    if (
        adds_up(call)
        or name in methods["updating"]
        or name in methods["reading"]
        or (
            not name.endswith("_")
            and name not in methods["setting"]
            and f"torch.Tensor.{name}" in ctx.inference.types.tensors
        )
    ):
        return Fate.READ, attribute
    return Fate.WRITTEN, attribute


def _argument(node: ast.expr, parent: ast.Call | ast.keyword, ctx: Context, depth: int) -> tuple[Fate | None, ast.expr]:
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or (isinstance(parent, ast.keyword) and parent.arg == "out"):
        return Fate.WRITTEN, node
    if _ignores_memory(call):
        return Fate.WRITTEN, node
    names, table, types = ctx.callees(call), memory_table(), ctx.inference.types
    if _WRAPPERS.intersection(names) or (names and table.functions["views"].issuperset(names)):
        return None, call
    if not JOINING.isdisjoint(names):
        return None, call
    if registered_name(call) is not None:
        return Fate.STORED, call
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if (
        table.functions["like"].intersection(names)
        or method in table.methods["like"]
        or any(name in ("builtins.len", "builtins.isinstance", "builtins.callable") for name in names)
        or (call.func is node and _is_asked_whether_callable(node, ctx))
    ):
        return Fate.UNTOUCHED, call
    if names and all(_LOSS_CALL.fullmatch(name) for name in names):
        return Fate.READ, call
    if names and all(_LAYER_CALL.fullmatch(name) for name in names) and (call.args[:1] != [node] or _runs(call, ctx)):
        return Fate.READ, call  # a state or a mask beside what goes through the layer, and that where the model is run
    if isinstance(node, ast.Attribute) and _runs_a_part(call, ctx):
        return Fate.READ, call
    if method == "copy_" and isinstance(call.func, ast.Attribute) and _is_made_empty(call.func.value, ctx):
        return Fate.WRITTEN, call  # from memory that nobody wrote to other such memory, to see how long it takes
    if method and (
        method in table.methods["updating"]
        or method in table.methods["reading_argument"]
        or (bool(names) and all(name.startswith("torch.Tensor.") for name in names))
    ):
        return Fate.READ, call  # `x.sub_(memory)`
    if is_read_by_kernel(node, call, ctx):
        return Fate.READ, call
    if not names or any(name.endswith("_") for name in names):
        return Fate.WRITTEN, call
    if any(name.startswith("torch.nn.init.") for name in names):
        looks = all("calculate" in name for name in names)  # nn.init._calculate_fan_in_and_fan_out(weight)
        return (Fate.UNTOUCHED if looks else Fate.WRITTEN), call  # nn.init.xavier_uniform(weight), of before torch 0.4
    if not _WHERE.isdisjoint(names) and _is_put_back(node, call, ctx):
        return Fate.WRITTEN, call
    readers = [types.tensors, types.tensor_tuples, table.functions["reading"]]
    if call.args[:1] == [node]:
        readers.append(table.functions["reading_first"])
    if all(any(name in reading for reading in readers) for name in names):
        return Fate.READ, call
    outcome = _inside(node, call, ctx, depth)
    return (None if outcome is Fate.RETURNED else outcome), call


def _is_asked_whether_callable(called: ast.expr, ctx: Context) -> bool:
    """`self.weight() if callable(self.weight) else self.weight`: memory is not called."""
    tests = (around.test for around in ctx.ancestors(called) if isinstance(around, (ast.If, ast.IfExp)))
    return any(ast.unparse(test) == f"callable({ast.unparse(called)})" for test in tests)


def _runs_a_part(call: ast.Call, ctx: Context) -> bool:
    """`self.drop(self.weight)` in `forward`: a layer of the object is given a weight when it runs, to compute with it.

    So is one that `for layer in self.layers` goes through.
    """
    held = {value.kind for value in ctx.values(call.func)} - {Kind.NONE}
    return _runs(call, ctx) and (held == {Kind.MODULE} or goes_through_own(ctx.module, call.func))


def _runs(call: ast.Call, ctx: Context) -> bool:
    function = ctx.function(call)
    return function is not None and function.name == "forward"


def _is_put_back(node: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """`out = torch.where(mask, values, out)` writes some places of what it reads."""
    statement = ctx.statement(call)
    whole = isinstance(statement, ast.Assign) and unless_none(statement.value) is call
    targets = statement.targets if isinstance(statement, ast.Assign) and whole else ()
    return isinstance(node, ast.Name) and any(getattr(target, "id", None) == node.id for target in targets)


def _inside(node: ast.expr, call: ast.Call, ctx: Context, depth: int) -> Fate:
    """Return what a function of the project does with an argument: it reads it only if all that it does is in sight.

    What it only gives back, `return weight.to(x.device)`, is what its caller makes of the result.
    """
    found = [ctx.module.project.definition(name) for name in ctx.callees(call)]
    definition = found[0] if len(found) == 1 else None
    if depth == 0 or definition is None or not isinstance(definition[1], FUNCTIONS) or is_left_open(definition[1]):
        return Fate.WRITTEN
    inside, function = ctx.elsewhere(definition[0]), definition[1]
    if not all(_runs_as_written(decorator, inside) for decorator in function.decorator_list):
        return Fate.WRITTEN
    method = isinstance(call.func, ast.Attribute)
    name = parameter_given(function, call, node, skip_self=method)
    bindings = inside.module.index.scopes[function].bindings[name] if name is not None else []
    updates = [binding.node for binding in bindings[1:]]
    if (
        not bindings
        or not isinstance(bindings[0].node, ast.arg)
        or not all(_is_update(each, inside) for each in updates)
    ):
        return Fate.WRITTEN
    fates = {outcome for binding in bindings for outcome in _fates_in(function, binding, inside, depth - 1)}
    fates.update(Fate.READ for _ in updates)
    fates.discard(Fate.UNTOUCHED)
    if not fates:
        return Fate.UNTOUCHED
    return fates.pop() if len(fates) == 1 and fates <= {Fate.READ, Fate.RETURNED} else Fate.WRITTEN


def _runs_as_written(decorator: ast.expr, ctx: Context) -> bool:
    """`@torch.no_grad()`, and not `@launches(kernel)`, which may run something else on what the function is given."""
    called = decorating(decorator)
    names = ctx.resolve(called)
    return identifier(called) in PLAIN_DECORATORS or (bool(names) and all(name.startswith(_PLAIN) for name in names))


def _is_update(node: ast.AST, ctx: Context) -> bool:
    """`mean += momentum * (x.mean(0) - mean)`."""
    return isinstance(ctx.parent(node), ast.AugAssign)


def _fates_in(
    function: FunctionNode, binding: Binding, ctx: Context, depth: int, names: int = _MOST_NAMES
) -> Iterator[Fate]:
    """Yield what a function does with memory under one name, and under those it gives it: `rows = given.view(-1)`."""
    for use in ctx.flow(function.body[0]).uses(binding):
        if ctx.function(use) is not function:
            yield Fate.WRITTEN  # whoever gets the closure may never call it
            continue
        outcome, place = fate(use, ctx, depth)
        if outcome is Fate.RETURNED and (_is_display(place) or not isinstance(ctx.parent(place), ast.Return)):
            outcome = Fate.WRITTEN  # one of several
        other = ctx.binding(place) if outcome is Fate.STORED and names and not _is_display(place) else None
        if other is None:
            yield outcome
        else:
            yield from _fates_in(function, other, ctx, depth, names - 1)


def _ignores_memory(call: ast.Call) -> bool:
    """`baddbmm(memory, …, beta=0)` and `memory.addmm_(…, beta=0)` do not look at what is there."""
    return any(keyword.arg == "beta" for keyword in call.keywords)


def registered_name(call: ast.expr) -> str | None:
    """Return the attribute that `self.register_buffer("mean", …)` makes, or `self.add_state("mean", …)` of a metric."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
        return None
    name = call.args[0]
    registers = call.func.attr in _REGISTERING
    return name.value if registers and isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _is_display(node: ast.expr) -> bool:
    """`(a, b)`, `(a, b) + others`, `(a,) if first else (a, b)`."""
    if isinstance(node, ast.BinOp):
        return _is_display(node.left) or _is_display(node.right)
    if isinstance(node, ast.IfExp):
        return _is_display(node.body) or _is_display(node.orelse)
    return isinstance(node, (ast.Tuple, ast.List))


def _is_only_returned(display: ast.expr, ctx: Context) -> bool:
    """`states = (h, c)` and `return states`, the one thing that is done with it."""
    binding = ctx.binding(display)
    uses = list(ctx.flow(display).uses(binding)) if binding is not None else []
    return len(uses) == 1 and isinstance(ctx.parent(uses[0]), ast.Return)


def _is_part_of_tensor(target: ast.expr, ctx: Context) -> bool:
    """`dones[step]` of a tensor, which is given a copy of what is assigned, as against an entry of a list."""
    kinds = {value.kind for value in ctx.values(target.value)} if isinstance(target, ast.Subscript) else set()
    return kinds in ({Kind.TENSOR}, {Kind.ARRAY})


def _is_added_to(part: ast.Subscript, ctx: Context) -> bool:
    """`out[i] = out[i] + x`."""
    sum_, statement = ctx.parent(part), ctx.statement(part)
    targets = statement.targets if isinstance(statement, ast.Assign) and isinstance(sum_, ast.BinOp) else []
    return any(ast.unparse(target) == ast.unparse(part) for target in targets)


def _is_begun_otherwise(update: ast.AugAssign, ctx: Context) -> bool:
    """`if start == 0: out[rows] = x`, `else: out[rows] += x`: one round writes what the others add to."""
    around = ctx.parent(update)
    branches = (around.body, around.orelse) if isinstance(around, ast.If) else ()
    other = [statement for branch in branches if update not in branch for statement in branch]
    begun = (target for each in other if isinstance(each, ast.Assign) for target in each.targets)
    return any(ast.unparse(target) == ast.unparse(update.target) for target in begun)


def _is_moved(node: ast.expr, target: ast.expr, ctx: Context) -> bool:
    """`more[:n] = rows[:n]` after `more = np.empty(m)`: what nobody wrote goes where nobody wrote either."""
    if not isinstance(target, ast.Subscript) or ast.unparse(target.value) in ast.unparse(node):
        return False
    return _is_made_empty(target.value, ctx)


def _is_made_empty(memory: ast.expr, ctx: Context) -> bool:
    made = [value.node for value in ctx.values(memory)]
    return any(isinstance(call, ast.Call) and "empty" in identifier(call.func) for call in made)


def _is_group(node: ast.expr, entries: ast.Dict) -> bool:
    """`{"params": self.mask, "lr": 0.1}` of an optimizer, which goes on from what is there."""
    return any(
        value is node and getattr(key, "value", "") == "params"
        for key, value in zip(entries.keys, entries.values, strict=True)
    )


def _writes_rows(loop: ast.For, ctx: Context) -> bool:
    """`for row in out: row.copy_(x)`, `for i, row in …`: may what the loop goes through be written in it?"""
    names = [part for part in walk(loop.target) if isinstance(part, ast.Name)]
    bindings = [bound for name in names for bound in ctx.module.index.bindings_of(name) if bound.node is name]
    fates = {fate(use, ctx)[0] for binding in bindings for use in ctx.flow(loop).uses(binding)}
    return not fates <= {Fate.READ, Fate.UNTOUCHED}


def _plain(node: ast.expr, parent: ast.AST | None, ctx: Context) -> tuple[Fate | None, ast.expr]:
    if isinstance(parent, (ast.List, ast.Tuple)) and isinstance(ctx.parent(parent), (ast.Call, ast.keyword)):
        return None, parent  # torch.cat([memory, …])
    if isinstance(parent, ast.Subscript):
        if parent.value is not node or isinstance(parent.ctx, ast.Load):
            outcome = None if parent.value is node else Fate.READ
            return (Fate.ADDED_TO if outcome is None and _is_added_to(parent, ctx) else outcome), parent
        update = ctx.parent(parent)
        if isinstance(update, ast.AugAssign):
            return (Fate.WRITTEN if _is_begun_otherwise(update, ctx) else Fate.ADDED_TO), parent
        marked = is_mask(parent.slice, ctx) or sets_places(parent, ctx)
        marked = marked or some_rounds_leave_out(parent, ctx) or may_stop_early(parent, ctx)
        return (Fate.MARKED if marked else Fate.WRITTEN), parent
    if isinstance(parent, ast.Compare):
        identity = all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in parent.ops)
        return (Fate.UNTOUCHED if identity or gives_form_alone(parent, ctx) else Fate.READ), parent
    if isinstance(parent, ast.BinOp) and _is_display(node):
        return None, parent  # (memory,) + others
    if isinstance(parent, (ast.BinOp, ast.UnaryOp)):
        return (Fate.UNTOUCHED if gives_form_alone(parent, ctx) else Fate.READ), parent
    if isinstance(parent, ast.AugAssign):
        return Fate.READ, node
    if isinstance(parent, ast.IfExp) and parent.test is not node:
        return None, parent
    if isinstance(parent, (ast.Return, ast.Yield)):
        return Fate.RETURNED, node
    if isinstance(parent, ast.Assign) and all(_is_part_of_tensor(target, ctx) for target in parent.targets):
        return (Fate.WRITTEN if any(_is_moved(node, target, ctx) for target in parent.targets) else Fate.READ), node
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return (Fate.RETURNED if _is_display(node) and _is_only_returned(node, ctx) else Fate.STORED), node
    if isinstance(parent, (ast.For, ast.comprehension)) and isinstance(node, (ast.Tuple, ast.List)):
        return Fate.WRITTEN, node  # for weight in (self.up, self.down): init(weight)
    if isinstance(parent, ast.For) and parent.iter is node:
        return (Fate.WRITTEN if _writes_rows(parent, ctx) else Fate.UNTOUCHED), node
    if isinstance(parent, ast.Tuple) and isinstance(parent.ctx, ast.Load):
        return None, parent
    if isinstance(parent, ast.Dict) and _is_group(node, parent):
        return Fate.UNTOUCHED, node
    if isinstance(parent, (*COMPREHENSIONS, ast.List, ast.Dict, ast.Set, ast.Starred)):
        return Fate.WRITTEN, parent
    return Fate.UNTOUCHED, node
