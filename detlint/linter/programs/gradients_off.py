"""Where are gradients turned off: by a `with`, a decorator, a switch before, or by whoever calls?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import arguments_of, decorating, identifier, is_own

_NO_GRAD = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode"}
)
_DISABLING = ("_no_grad", "_inference_mode")
_SWITCH = frozenset({"torch.set_grad_enabled", "torch._C._set_grad_enabled"})


def without_gradients(module: Module, node: ast.AST) -> bool:
    """Return whether `node` runs under no_grad or inference_mode: a `with`, a decorator, or a switch before it."""
    child = node
    for parent in module.index.ancestors(node):
        if isinstance(parent, (ast.With, ast.AsyncWith)) and child in parent.body:
            if any(disables(module, item.context_expr) for item in parent.items):
                return True
        elif isinstance(parent, FUNCTIONS) and child in parent.body:
            if _is_decorated(module, parent):
                return True
            if _is_wrapped(module, parent) or _is_helper_without(module, parent):
                return True
            if _is_switched_off_before(module, child, parent):
                return True
        elif isinstance(parent, ast.Module) and isinstance(child, ast.stmt):
            return _is_switched_off_before(module, child, parent)
        child = parent
    return False


def runs_without_gradients(module: Module, node: ast.AST) -> bool:
    """Return whether what is called turns gradients off: a function of the project under `@torch.no_grad()`.

    It may be the forward pass of a model.
    """
    if not isinstance(node, ast.Call):
        return False
    if any(_is_decorated(place, function) for place, function in functions_called(module.inference, node)):
        return True
    models = (value.type for value in module.inference.values(node.func) if value.kind is Kind.MODULE)
    for info in filter(None, map(module.inference.class_named, models)):
        passes = info.methods.get("forward")
        if passes is not None and _is_decorated(info.module, passes):
            return True
    return False


def _is_decorated(module: Module, function: FunctionNode) -> bool:
    return any(disables(module, decorator) or _is_named_so(decorator) for decorator in function.decorator_list)


def _is_helper_without(module: Module, helper: FunctionNode) -> bool:
    """Is a function within a function called under no_grad only?"""
    if not isinstance(module.index.parents.get(helper), FUNCTIONS):
        return False
    around = module.index.function_at(helper)
    calls = [
        call
        for call in module.index.calls_by_name.get(helper.name, ())
        if isinstance(call.func, ast.Name) and module.index.function_at(call) is around
    ]
    return bool(calls) and all(without_gradients(module, call) for call in calls)


def disables(module: Module, node: ast.expr) -> bool:
    """Return whether a decorator, or what a `with` enters, turns gradients off: `torch.no_grad()`."""
    call = node if isinstance(node, ast.Call) else None
    names = module.inference.resolve(call.func if call is not None else node)
    if names and _NO_GRAD.issuperset(names):
        # inference_mode(not self.training) leaves them on where it matters
        return call is None or not arguments_of(call) or is_given(call, True)
    return call is not None and bool(_SWITCH.intersection(names)) and is_given(call, False)


def _is_wrapped(module: Module, method: FunctionNode) -> bool:
    """`self.forward = torch.no_grad()(self.forward)`, whatever decides whether that is run."""
    owner = module.index.parents.get(method)
    writes = module.classes[owner].attributes.get(method.name, ()) if isinstance(owner, ast.ClassDef) else ()
    return any(
        isinstance(write.value, ast.Call)
        and isinstance(write.value.func, ast.Call)
        and disables(module, write.value.func)
        and any(is_own(given) and identifier(given) == method.name for given in write.value.args)
        for write in writes
    )


def _is_named_so(decorator: ast.expr) -> bool:
    """`@smart_inference_mode()`, a decorator of the project for one of those of torch."""
    return identifier(decorating(decorator)).endswith(_DISABLING)


def _is_switched_off_before(module: Module, statement: ast.stmt, around: FunctionNode | ast.Module) -> bool:
    """Is `torch.set_grad_enabled(False)` a statement before this one in the body around both?"""
    switches = module.project.once(_switches_off, module)
    return any(module.index.parents[each] is around and each.lineno < statement.lineno for each in switches)


def _switches_off(module: Module) -> tuple[ast.Expr, ...]:
    return tuple(
        statement
        for statement in module.index.of_type(ast.Expr)
        if isinstance(statement.value, ast.Call)
        and is_given(statement.value, False)
        and not _SWITCH.isdisjoint(module.inference.resolve(statement.value.func))
    )


def is_given(call: ast.Call, mode: bool) -> bool:
    """Return whether a call passes a mode and nothing else: `model.train(False)`."""
    arguments = arguments_of(call)
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value is mode
