"""Are numbers shown to be no few binary digits, so that what sums and products make of them has to be rounded?

Shown is what is drawn, gone through a network or a function such as `exp`, or written as `0.1`. What a parameter or a
file gives is not: it may be whole numbers, marks or halves, which come out exact whatever is added up in which order.
"""

from __future__ import annotations

import ast

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.returned import made_results
from detlint.linter.analysis.values import Kind
from detlint.linter.analysis.written_here import kept_in, whole_here
from detlint.linter.numbers.frames import Frame
from detlint.linter.numbers.value_parts import walk_values
from detlint.linter.programs.called_models import is_engine_run, is_layer, is_model, is_model_run, is_moving_layer
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

# Weights and gradients of networks.
_LEARNED = ("weight", "bias", "grad")
# Layers that pick rows of weights.
_TABLES = ("Embedding",)
_DYADIC = 2.0**20
_DEPTH = 7


def is_inexact(frame: Frame, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Does a number that is shown to have no few binary digits go into an expression?"""
    return any(_is_inexact_part(frame, part, depth) for part in walk_values(node))


def is_transcendental(module: Module, call: ast.Call) -> bool:
    """`torch.exp(x)`, `x.softmax(-1)`, `prior.log_prob(x)`: their results are rounded, whatever they are given."""
    table, name, names = rounding_table(), identifier(call.func), module.inference.callees(call)
    if any(each.partition(".")[0] in ("torch", "numpy", "einops") for each in names):
        return name in (table.rounding | table.floating) - table.linear
    method = isinstance(call.func, ast.Attribute) and not module.inference.resolve(call.func.value)
    return method and name in table.floating - table.linear


def is_network_run(module: Module, call: ast.Call) -> bool:
    """`nn.Linear(8, 8)(x)`, `model(x)`, `session.run(None, inputs)`: what weights of many digits make of inputs."""
    if is_engine_run(module, call) or is_model_run(module, call):
        return True
    called = call.func
    if isinstance(called, ast.Attribute) and called.attr == "forward":
        called = called.value
    if is_layer(module, called):
        return not is_moving_layer(module, called) and any(
            _has_weights(module, value.type) for value in module.inference.values(called)
        )
    return is_model(module, call)


def _has_weights(module: Module, name: str) -> bool:
    """Does a class of the project make layers or compute something? Those of libraries do."""
    owner, made = module.project.definition(name) or (None, None)
    if owner is None or not isinstance(made, ast.ClassDef):
        return True
    bases = [base for each in made.bases for base in owner.inference.resolve(each) if base != name]
    if any(module.project.definition(base) is not None and _has_weights(module, base) for base in bases):
        return True
    return any(_computes(owner, part) for part in ast.walk(made))


def _computes(module: Module, part: ast.AST) -> bool:
    if isinstance(part, ast.BinOp):
        return isinstance(part.op, ast.MatMult)
    if not isinstance(part, ast.Call):
        return False
    table, name = rounding_table(), identifier(part.func)
    if name in table.rounding | table.floating:
        return True
    layers = [each for each in module.inference.callees(part) if each.startswith("torch.nn.") or each in table.layers]
    made = [each.rpartition(".")[2] for each in layers]
    return any(each[:1].isupper() and not each.startswith((*table.moving, *table.holding)) for each in made)


def _is_inexact_part(frame: Frame, part: ast.AST, depth: int) -> bool:
    if isinstance(part, ast.Call):
        return _is_inexact_call(frame, part, depth)
    if isinstance(part, ast.Constant):
        return isinstance(part.value, float) and not (part.value * _DYADIC).is_integer()
    if isinstance(part, ast.BinOp):
        return isinstance(part.op, ast.Div) and not _is_exact_divisor(part.right)
    if isinstance(part, ast.Attribute):
        kept = kept_in(frame.module, part) if depth else None
        return part.attr in _LEARNED or (kept is not None and is_inexact(frame, kept, depth - 1))
    if not isinstance(part, ast.Name) or not isinstance(part.ctx, ast.Load) or not depth:
        return False
    bindings = frame.module.definitions(part)
    return any(_is_bound_to_inexact(frame, binding, depth - 1) for binding in bindings) or _is_drawn(frame, part)


def _is_exact_divisor(node: ast.expr) -> bool:
    """Only numbers written down that are no power of two show that a quotient is rounded."""
    number = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(number, (int, float)) or number == 0:
        return True
    return float(number).hex().partition("p")[0] in ("0x1.0000000000000", "-0x1.0000000000000")


def _is_inexact_call(frame: Frame, call: ast.Call, depth: int) -> bool:
    module = frame.module
    if _draws(module, call) or is_transcendental(module, call) or is_network_run(module, call):
        return True
    if any(value.type.rpartition(".")[2].startswith(_TABLES) for value in module.inference.values(call.func)):
        return True
    return bool(depth) and any(
        value is not None and is_inexact(inside, value, depth - 2)
        for name in module.inference.callees(call)
        for owner, function in filter(None, [module.project.definition(name)])
        if isinstance(function, FUNCTIONS) and function not in frame.running and depth > 1
        for inside in [frame.within(owner, function, call)]
        for value in made_results(owner, function)
    )


def _draws(module: Module, call: ast.Call) -> bool:
    """`torch.randn(3)`, `np.random.rand(3)`, `x.normal_()`."""
    table, names = rounding_table(), module.inference.callees(call)
    if any(name.removeprefix("torch.") in table.fractions or name in table.draws for name in names):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in table.drawing


def _is_drawn(frame: Frame, name: ast.Name) -> bool:
    """Is a parameter what a fixture or each caller draws?"""
    made = [(value.module, value.node) for value in frame.module.inference.values(name) if value.kind is Kind.TENSOR]
    return any(owner is not None and isinstance(node, ast.Call) and _draws(owner, node) for owner, node in made)


def _is_bound_to_inexact(frame: Frame, binding: Binding, depth: int) -> bool:
    meant = frame.meant_by(binding)
    if meant is not None:
        return is_inexact(meant.frame, meant.node, depth)
    if binding.kind in (BindingKind.ITERATION, BindingKind.AUGMENTED) and binding.value is not None:
        return is_inexact(frame, binding.value, depth)
    made = whole_here(frame.module, binding) if binding.kind is BindingKind.ASSIGN else None
    return made is not None and is_inexact(frame, made, depth)
