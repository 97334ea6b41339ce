"""Initial states of recurrent layers, and tokens to be learned, that a forward pass draws at random."""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.built import moved, runs_with_forward
from detlint.linter.analysis.context import Context
from detlint.linter.modes.layer_names import looked_up_in
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import identifier, is_own, walk

# Names of states and of what makes them; noise that a generator starts from goes by others.
_STATE = re.compile(r"^[hc](_?[0ntx]|s|idden|ell)?$|hid|state|init|cell", re.IGNORECASE)
_RECURRENT = re.compile(r"rnn|lstm|gru", re.IGNORECASE)
_CELL = re.compile(r"rnn|lstm|gru|recurrent|cell$", re.IGNORECASE)
# Names of parameters by which a recurrent layer is given its state.
_GIVEN_STATE = re.compile(r"([hc](_?[0x])?|hidden|(init|initial|hidden|cell)_?states?|states?)$", re.IGNORECASE)
# Tokens that a model learns: what comes of them goes to its head.
_TOKEN = re.compile(r"^(cls|class|register|query|prompt)_(\w+_)?(tokens?|embeds?|embeddings?|queries)$")
_WRAPPER = "torch.Tensor"  # `torch.autograd.Variable` is another name of it
_STEPS = 9


def starts_recurrence(draw: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """`self.lstm(x, (torch.randn(…), torch.randn(…)))` in a forward pass, through names, `self` and `init_hidden()`."""
    if steps == 0:
        return False
    node = moved(draw, ctx)
    parent = ctx.parent(node)
    if isinstance(parent, ast.keyword):
        around = ctx.parent(parent)
        return parent.arg == "hx" and isinstance(around, ast.Call) and _is_recurrent(around, ctx)
    if isinstance(parent, ast.Call):
        if _WRAPPER in ctx.callees(parent):
            return starts_recurrence(parent, ctx, steps - 1)
        return parent.args[1:2] == [node] and _is_recurrent(parent, ctx)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div)):  # `* 0.01`
        return starts_recurrence(parent, ctx, steps - 1)
    if isinstance(parent, ast.IfExp) and parent.test is not node:
        return starts_recurrence(parent, ctx, steps - 1)
    if isinstance(parent, ast.Return):
        return _is_called_for_state(parent, ctx, steps)
    binding = ctx.binding(node)
    if binding is not None and _is_fallback(binding, ctx):
        return True
    if binding is not None:
        uses = ctx.flow(node).uses(binding) if _STATE.search(binding.name) else ()
        return any(starts_recurrence(use, ctx, steps - 1) for use in uses)
    if isinstance(parent, ast.Tuple):
        return starts_recurrence(parent, ctx, steps - 1)
    return isinstance(parent, ast.Assign) and any(_is_read_as_state(target, ctx, steps) for target in parent.targets)


def stands_for_token(draw: ast.expr, ctx: Context) -> bool:
    """`cls_token = torch.randn(b, 1, d)` in a forward pass, in place of a parameter."""
    binding, function = ctx.binding(moved(draw, ctx)), ctx.function(draw)
    named = binding is not None and _TOKEN.match(binding.name) is not None
    return named and function is not None and runs_with_forward(function, ctx.module)


def _is_fallback(binding: Binding, ctx: Context) -> bool:
    """`if state is None: state = torch.randn(…)`, in a forward pass of a class that is called recurrent or a cell."""
    function, owner = ctx.function(binding.node), ctx.module.index.class_at(binding.node)
    if function is None or owner is None or not (_CELL.search(owner.name) and _GIVEN_STATE.match(binding.name)):
        return False
    given = any(other.kind is BindingKind.PARAMETER for other in binding.of_same_name)
    return (
        given
        and _stands_in_for(ctx.statement(binding.node), binding.name, ctx)
        and runs_with_forward(function, ctx.module)
    )


def _stands_in_for(statement: ast.stmt, name: str, ctx: Context) -> bool:
    """Does a statement stand under `if name is None:`?"""
    around = ctx.parent(statement)
    test = around.test if isinstance(around, ast.If) and statement in around.body else None
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Is)
        and getattr(test.left, "id", "") == name
        and getattr(test.comparators[0], "value", ...) is None
    )


def _is_recurrent(call: ast.Call, ctx: Context) -> bool:
    """Is an LSTM or its like called in a forward pass?"""
    layers = (
        trigger for trigger in ctx.rule.triggers if any(each.name == "hidden_size" for each in trigger.parameters)
    )
    names = {f"{layer.name}.__call__" for layer in layers}
    function = ctx.function(call)
    if function is None or not runs_with_forward(function, ctx.module):
        return False
    return not names.isdisjoint(ctx.callees(call)) or _is_recurrent_by_name(call.func, ctx)


def _is_recurrent_by_name(called: ast.expr, ctx: Context) -> bool:
    """`self.rnn(x)`, after `self.rnn = getattr(nn, kind)(width, hidden)` in the constructor."""
    owner = ctx.module.index.class_at(called)
    if owner is None or not is_own(called) or not _RECURRENT.search(identifier(called)):
        return False
    writes = ctx.inference.attribute_writes(ctx.inference.class_info(owner), identifier(called))
    made = [(ancestor.module, write.value) for ancestor, write in writes]
    return bool(made) and all(
        isinstance(value, ast.Call) and "torch.nn" in looked_up_in(module, value.func) for module, value in made
    )


def _is_called_for_state(result: ast.Return, ctx: Context, steps: int) -> bool:
    """`hidden = self.init_hidden()`, where that method returns what it draws."""
    function, owner = ctx.function(result), ctx.module.index.class_at(result)
    if function is None or owner is None:
        return False
    calls = ctx.module.index.calls_by_name.get(function.name, ())
    own = [call for call in calls if is_own(call.func) and ctx.module.index.class_at(call) is owner]
    return any(starts_recurrence(call, ctx, steps - 1) for call in own)


def _is_read_as_state(target: ast.expr, ctx: Context, steps: int) -> bool:
    """`self.hidden = self.init_hidden()`, then `self.lstm(x, self.hidden)`, in one function; or `h, c = …`."""
    if isinstance(target, ast.Tuple):
        names = [name for name in target.elts if isinstance(name, ast.Name) and _STATE.search(name.id)]
        bindings = [binding for name in names for binding in ctx.module.index.bindings_of(name) if binding.node is name]
        uses = (use for binding in bindings for use in ctx.flow(binding.node).uses(binding))
        return any(starts_recurrence(use, ctx, steps - 1) for use in uses)
    function = ctx.function(target)
    if not is_own(target) or not isinstance(function, FUNCTIONS) or not _STATE.search(identifier(target)):
        return False
    reads = (part for part in walk(function) if is_own(part) and identifier(part) == identifier(target))
    return any(
        starts_recurrence(read, ctx, steps - 1)
        for read in reads
        if isinstance(read, ast.Attribute) and isinstance(read.ctx, ast.Load)
    )
