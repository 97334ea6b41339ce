"""What does a model read, and what becomes of its output? Evidence of inference where nothing else tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from detlint.linter.analysis.flow import Flow
from detlint.linter.analysis.module import Module
from detlint.linter.source.names import Binding, BindingKind, unpacked
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk

# Attributes and methods behind which no gradient flows.
_ENDING = frozenset({"detach", "data", "item", "numpy", "tolist", "argmax", "topk", "eq", "shape", "size"})
_GRADIENTS = ("backward", "grad")
_SHOWN = ("print", "info", "debug", "set_description", "set_postfix", "add_scalar", "add_scalars", "write")
# What looks at a loss and gives nothing back: `wandb.log({"val": loss})`, `scheduler.step(loss)`, `meter.update(loss)`.
_LOOKS = re.compile(r"(\w*scheduler\.step|(\w+\.)*(log|log_metrics?|update)|(\w+\.)*early_stop\w*(\.\w+)?)$", re.I)
_STEPS = 6


def takes_batch_of(module: Module, call: ast.Call, names_data: Callable[[ast.AST], bool]) -> bool:
    """`x, y = next(iter(test_loader))`, and later `model(x)`: is what a model reads a batch of such data?"""
    return any(_is_batch(module, argument, names_data, _STEPS) for argument in arguments_of(call))


def _is_batch(module: Module, node: ast.expr, names_data: Callable[[ast.AST], bool], steps: int) -> bool:
    """Is the value a batch, itself or moved, reshaped and unpacked?"""
    if isinstance(node, ast.Call):
        if getattr(node.func, "id", "") == "next" and node.args:
            return names_data(node.args[0])
        moved = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return any(_is_batch(module, part, names_data, steps) for part in (*moved, *node.args[:1]))
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return _is_batch(module, node.value, names_data, steps)
    if not isinstance(node, ast.Name) or steps == 0:
        return False
    values = [unpacked(binding) or binding.value for binding in module.definitions(node)]
    return bool(values) and all(
        isinstance(value, ast.expr) and _is_batch(module, value, names_data, steps - 1) for value in values
    )


def is_read_only_at(module: Module, call: ast.Call, names_data: Callable[[ast.AST], bool], steps: int = 2) -> bool:
    """`output = model(x)`, and then `output[idx_val]` and nothing else: is the output of such data alone looked at?"""
    bound = list(_bound(module, call))
    uses = [use for binding in bound for use in module.flow_at(call).uses(binding)] if bound else [call]
    return bool(uses) and all(_is_read_at(module, use, names_data, steps) for use in uses)


def _is_read_at(module: Module, use: ast.AST, names_data: Callable[[ast.AST], bool], steps: int) -> bool:
    """`output[idx_val]`, `(output.argmax(dim=1) == labels)[idx_val]`."""
    parent = module.index.parents.get(use)
    while isinstance(parent, (ast.Compare, ast.BinOp)):
        use, parent = parent, module.index.parents.get(parent)
    if isinstance(parent, ast.Subscript) and parent.value is use:
        return names_data(parent.slice)
    around = module.index.parents.get(parent) if parent is not None else None
    if isinstance(parent, ast.Attribute) and isinstance(around, ast.Call) and steps > 0:
        return is_read_only_at(module, around, names_data, steps - 1)  # guess = output.argmax(dim=1)
    return False


def leaves_graph(module: Module, call: ast.Call) -> bool:
    """`model(x).detach().numpy()`, at once or through a variable: is the output cut from what could train on it?"""
    if _is_cut(module, call):
        return True
    uses = [use for binding in _bound(module, call) for use in module.flow_at(call).uses(binding)]
    return bool(uses) and all(_is_cut(module, use) for use in uses)


def _is_cut(module: Module, node: ast.AST) -> bool:
    """`output.squeeze(0).detach()`."""
    parent = module.index.parents.get(node)
    while isinstance(parent, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(parent, ast.Attribute) and parent.attr in ("detach", "data"):
            return True
        if isinstance(parent, ast.Call) and parent.func is not node:
            return False
        node, parent = parent, module.index.parents.get(parent)
    return False


def may_be_differentiated(module: Module, call: ast.Call) -> bool:
    """Return whether a gradient may flow back through the result of a call: yes where it cannot be followed."""
    return any(True for _ in _ends(module, call))


def is_trained_on(module: Module, call: ast.Call) -> bool:
    """`actions, log_prob = self.sample()`, and then `loss += -log_prob * reward`: does a backward pass take it up?"""
    if module.index.names_used.keys().isdisjoint(_GRADIENTS):
        return False
    return any(identifier(part) in _GRADIENTS for end in _ends(module, call) for part in walk(end))


def _ends(module: Module, call: ast.Call) -> Iterator[ast.AST]:
    """Yield where a result, or what is made of it, goes with its gradient and can be followed no further."""
    pending: list[ast.AST] = [call]
    for node in pending:  # grows on the way
        end = _end_of(module, node)
        if end is None:
            continue
        uses = _kept_in_attribute(module, end)
        if uses is None:
            bound = list(_bound(module, end)) if isinstance(end, (ast.expr, ast.AugAssign)) else []
            if not bound:
                yield end
            uses = [use for binding in bound for use in _uses(module.flow_at(end), binding)]
        pending.extend(use for use in uses if use not in pending)


def _kept_in_attribute(module: Module, value: ast.AST) -> list[ast.expr] | None:
    """Return the loads of the attribute that `self.best_loss = <value>` sets; None where it goes elsewhere."""
    parent = module.index.parents.get(value)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    if len(targets) != 1 or not isinstance(targets[0], ast.Attribute) or not is_own(targets[0]):
        return None
    used = module.index.names_used.get(targets[0].attr, ())
    return [use for use in used if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Load)]


def _uses(flow: Flow, binding: Binding) -> Iterator[ast.Name]:
    """Yield the loads of a value, and those of what `loss /= count` makes of it."""
    yield from flow.uses(binding)
    for other in binding.of_same_name:
        if other.kind is BindingKind.AUGMENTED:
            yield from flow.uses(other)


def _end_of(module: Module, node: ast.AST) -> ast.AST | None:
    """Return the outermost expression that a value goes into with its gradient, or its statement; None without one."""
    parent = module.index.parents.get(node)
    while isinstance(parent, (ast.expr, ast.keyword)):
        if isinstance(parent, ast.Compare) or (isinstance(parent, ast.Attribute) and parent.attr in _ENDING):
            return None
        if isinstance(parent, ast.Attribute) and parent.attr in _GRADIENTS:
            return module.index.statement(node)
        if isinstance(parent, ast.Call) and parent.func is not node:
            name = identifier(parent.func)
            if name in _SHOWN or name in _ENDING or _is_only_looked_at(module, parent):
                return None
            if name in _GRADIENTS:
                return module.index.statement(node)
        node, parent = parent, module.index.parents.get(parent)
    return node if isinstance(parent, ast.Assign) else parent


def _is_only_looked_at(module: Module, call: ast.Call) -> bool:
    return isinstance(module.index.parents.get(call), ast.Expr) and _LOOKS.match(ast.unparse(call.func)) is not None


def _bound(module: Module, value: ast.AST) -> Iterator[Binding]:
    """Yield what `name = <value>`, `name, other = <value>` and `name += <value>` bind; nothing of another statement."""
    if isinstance(value, ast.AugAssign) and isinstance(value.target, ast.Name):
        names = module.flow_at(value).scope.bindings.get(value.target.id, ())
        yield from (binding for binding in names if binding.node is value.target)
    value = module.index.with_choice(value) if isinstance(value, ast.expr) else value
    parent = module.index.parents.get(value)
    if not isinstance(parent, ast.Assign) or parent.value is not value:
        return
    targets = [part for target in parent.targets for part in walk(target) if not isinstance(part, ast.Tuple)]
    if all(isinstance(target, ast.Name) for target in targets):
        for names in module.flow_at(parent).scope.bindings.values():
            yield from (binding for binding in names if binding.node in targets)
