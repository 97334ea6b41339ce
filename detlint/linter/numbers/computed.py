"""Was a float computed? Then its last bits depend on order, kernel and machine; copies and integers keep theirs."""

from __future__ import annotations

import ast

from detlint.linter.analysis.elements import item
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.returned import made_results
from detlint.linter.analysis.taken import elements_of, entries_at, taken
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.analysis.written_here import each_here, kept_in, made_here, whole_here
from detlint.linter.numbers.arrays import FILLED, is_array, is_empty
from detlint.linter.numbers.frames import Frame
from detlint.linter.numbers.inexact import is_inexact, is_network_run, is_transcendental
from detlint.linter.numbers.named_results import ARITHMETIC, is_result_by_name
from detlint.linter.numbers.network_parts import is_run_of_part
from detlint.linter.numbers.value_parts import walk_values
from detlint.linter.numbers.written_results import is_written_out
from detlint.linter.programs.called_models import is_engine_run, is_model, is_model_run, is_recurrent, run_functions
from detlint.linter.source.names import FUNCTIONS, LOOPS, Binding, BindingKind, FunctionNode
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

_WRAPPERS = frozenset(
    {
        "builtins.float",
        "builtins.round",
        "numpy.asarray",
        "numpy.array",
        "torch.as_tensor",
        "torch.tensor",
        "torch.from_numpy",
    }
)
_COMPUTING = {Kind.TENSOR, Kind.ARRAY, Kind.UNKNOWN}
# Functions that give what functions of the same names make of a function, and of inputs where they are given any.
_DERIVATIVES = frozenset(
    {
        "torch.autograd.grad",
        *(
            f"{home}.{name}"
            for home in ("torch.func", "torch.autograd.functional", "functorch")
            for name in ("grad", "jacrev", "jacfwd", "jacobian", "hessian", "vjp", "jvp", "hvp", "vhp")
        ),
    }
)
_STARTS = (*FILLED, "zeros_like", "empty_like", "ones_like")
_ON_HOST = ("numpy", "math")
_NUMERICAL = ("torch", "numpy", "einops")
_LAST = -1
_DEPTH = 12


def is_computed(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Return whether there is evidence that an expression is a floating result that was rounded on its way."""
    return _is_computed(Frame(module), node, depth)


def after_start(module: Module, bindings: tuple[Binding, ...]) -> list[Binding]:
    """Return what a name is bound to beyond what a sum starts with, or all that it is bound to if there is no more."""
    return [each for each in bindings if not _is_start(module, each)] or list(bindings)


def _is_computed(frame: Frame, node: ast.expr, depth: int) -> bool:
    if depth == 0:
        return False
    inner = depth - 1
    if (kept := kept_in(frame.module, node)) is not None:
        return _is_computed(frame, kept, inner)
    if isinstance(node, ast.Name):
        bindings = after_start(frame.module, frame.module.definitions(node))
        bindings = [each for each in bindings if _is_added_in_rounds(frame.module, each)] or bindings
        return bool(bindings) and all(_is_bound_to_computed(frame, binding, inner) for binding in bindings)
    if isinstance(node, ast.IfExp):
        branches = [branch for branch in (node.body, node.orelse) if not is_empty(branch)]
        return bool(branches) and all(_is_computed(frame, branch, inner) for branch in branches)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        return _is_rounded_arithmetic(frame, node, inner)
    if isinstance(node, (ast.UnaryOp, ast.Subscript, ast.Attribute)):
        return _keeps(frame, node, inner)
    return isinstance(node, ast.Call) and _is_computed_call(frame, node, inner)


def _is_added_in_rounds(module: Module, binding: Binding) -> bool:
    """`x += step * p` in a loop: what comes out was added up, whatever `x` started from."""
    around = module.index.ancestors(binding.node) if binding.kind is BindingKind.AUGMENTED else ()
    return any(isinstance(parent, LOOPS) for parent in around)


def _is_start(module: Module, binding: Binding) -> bool:
    """`total = torch.zeros(3)`, `total = 0`, `total = None`: what a sum starts with."""
    value = made_here(module, binding) if binding.kind is BindingKind.ASSIGN else None
    if isinstance(value, ast.Constant):
        return value.value is None or value.value == 0
    return isinstance(value, ast.Call) and identifier(value.func) in _STARTS


def _is_bound_to_computed(frame: Frame, binding: Binding, depth: int) -> bool:
    """`y = net(x)`, `y, z = f(x), g(x)`, `y, weights = attention(x)`, `for y in ys`, `y += net(x)`."""
    if binding.kind is BindingKind.ITERATION and depth:
        elements = taken(frame.module, binding)
        return bool(elements) and all(_is_computed(frame, element, depth) for element in elements)
    if binding.kind is BindingKind.AUGMENTED and binding.value is not None:
        return _is_computed(frame, binding.value, depth)
    meant = frame.meant_by(binding)
    if meant is not None:
        return _is_computed(meant.frame, meant.node, depth)
    if binding.kind is not BindingKind.ASSIGN:
        return False
    several = whole_here(frame.module, binding) if len(binding.index) == 1 else None
    return isinstance(several, ast.Call) and _is_computed_item(frame, several, binding.index[0], depth)


def _is_computed_item(frame: Frame, several: ast.expr, position: object, depth: int) -> bool:
    """`attention(x)[0]`, `loads.max(dim=1)[0]`, `net(x)["logits"]`: one of several results, which may be no float."""
    module = frame.module
    if isinstance(several, ast.Name):
        made = [frame.meant_by(binding) for binding in module.definitions(several)]
        only = made[0] if len(made) == 1 else None
        return only is not None and _is_computed_item(only.frame, only.node, position, depth - 1)
    if isinstance(position, str) and is_result_by_name(position):
        return _is_computed(frame, several, depth)
    if not isinstance(several, ast.Call) or not isinstance(position, (int, str)) or not depth:
        return False
    if isinstance(position, int) and _gives_floats_alone(module, several, position):
        return True
    whole = module.inference.values(several)
    found = [value for each in whole for value in item(each, position)] if isinstance(position, int) else []
    if any(value.is_integral for value in found):
        return False
    called = [name for name in run_functions(module, several) if module.project.definition(name) is not None]
    if called:
        return all(_returns_computed(frame, several, name, depth, position) for name in called)
    return any(value.kind is Kind.TENSOR for value in found) and _is_computed(frame, several, depth)


def _gives_floats_alone(module: Module, call: ast.Call, position: int) -> bool:
    """`session.run(None, inputs)[2]`, `net(x)[0]`, and the state that a recurrent layer gives beside its outputs."""
    if is_engine_run(module, call) or _is_derivative(module, call) or _is_of_library(module, call):
        return True
    if is_recurrent(module, call.func):
        return True
    return position == 0 and (is_model_run(module, call) or is_model(module, call))


def _is_derivative(module: Module, call: ast.Call) -> bool:
    """`torch.autograd.grad(loss, x)`, `torch.func.grad(loss_of)(x)`."""
    makers = [call.func] if isinstance(call.func, ast.Call) else [call]
    return any(not _DERIVATIVES.isdisjoint(module.inference.callees(maker)) for maker in makers)


def _is_rounded_arithmetic(frame: Frame, node: ast.BinOp, depth: int) -> bool:
    """One operation is the same everywhere but for division and products of matrices; two in a row may be fused."""
    sides = (node.left, node.right)
    if any(_is_computed(frame, side, depth) for side in sides):
        return True
    if isinstance(node.op, ast.MatMult):
        return is_inexact(frame, node)
    chained = any(isinstance(side, ast.BinOp) and isinstance(side.op, ARITHMETIC) for side in sides)
    return (chained or isinstance(node.op, ast.Div)) and _is_of_tensors(frame, node) and is_inexact(frame, node)


def _is_of_tensors(frame: Frame, node: ast.expr) -> bool:
    """Arithmetic on Python's own numbers is the same everywhere."""
    return any(
        value.kind in (Kind.TENSOR, Kind.ARRAY)
        for part in walk_values(node)
        if isinstance(part, (ast.Name, ast.Call, ast.Attribute, ast.Subscript))
        for value in _values(frame, part)
    )


def _values(frame: Frame, part: ast.expr) -> tuple[Value, ...]:
    bindings = frame.module.definitions(part) if isinstance(part, ast.Name) else ()
    meant = frame.meant_by(bindings[0]) if len(bindings) == 1 else None
    if meant is not None and meant.frame is not frame:
        return meant.frame.module.inference.values(meant.node)
    return frame.module.inference.values(part)


def _keeps(frame: Frame, node: ast.UnaryOp | ast.Subscript | ast.Attribute, depth: int) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_computed(frame, node.operand, depth)
    if isinstance(node, ast.Subscript) and (place := _place(node.slice)) is not None:
        entries = entries_at(frame.module, node.value, place)
        if entries:
            last = entries[-1:] if place == _LAST else entries
            return all(_is_computed(frame, entry, depth) for entry in last)
        if _gives_several(frame.module, node.value):
            return _is_computed_item(frame, node.value, place, depth)
    if isinstance(node, ast.Subscript) and (places := _places_in_turn(frame.module, node.slice)):
        return all(_is_computed_item(frame, node.value, place, depth) for place in places)
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return True
    if isinstance(node, ast.Attribute) and node.attr not in rounding_table().keeping:
        return _is_computed_item(frame, node.value, node.attr, depth)
    return _is_computed(frame, node.value, depth)


def _place(index: ast.expr) -> object:
    """Return the key or position that is written out, `_LAST` for the end, or None."""
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub) and getattr(index.operand, "value", None) == 1:
        return _LAST
    return index.value if isinstance(index, ast.Constant) else None


def _places_in_turn(module: Module, index: ast.expr) -> list[str]:
    """Return the keys that a loop goes through: `for key in ("logits", "hidden")`."""
    bindings = module.definitions(index) if isinstance(index, ast.Name) else ()
    keys = [_place(key) for key in taken(module, bindings[0])] if len(bindings) == 1 else []
    named = [key for key in keys if isinstance(key, str)]
    return named if len(named) == len(keys) else []


def _gives_several(module: Module, node: ast.expr) -> bool:
    """Return whether an expression is what a model of the project returns: one of several results may be no float."""
    if isinstance(node, ast.Name):  # `full` of `full, _ = net(x)` is one of several already
        found = module.definitions(node)
        made = (made_here(module, each) or (None if each.index else whole_here(module, each)) for each in found)
        return any(value is not None and _gives_several(module, value) for value in made)
    if not isinstance(node, ast.Call) or identifier(node.func) in rounding_table().floating:
        return False  # `x.std(dim=0)` gives one tensor, whoever has it
    return not any(value.kind is Kind.TENSOR for value in module.inference.values(node))


def _is_computed_call(frame: Frame, call: ast.Call, depth: int) -> bool:
    module, function = frame.module, call.func
    names = module.inference.callees(call)
    if any(value.is_integral for value in module.inference.values(call)):
        return False
    if any(name in _WRAPPERS for name in names):
        whole = len(call.args) == 1 and names == ("builtins.round",)
        parts = elements_of(module, call.args[0]) if call.args and not whole else []
        return bool(parts) and all(_is_computed(frame, part, depth) for part in parts)
    table, last = rounding_table(), identifier(function)
    numerical = any(name.partition(".")[0] in _NUMERICAL for name in names)
    if numerical and call.args and is_written_out(module, call.args[0]) and names[0].startswith(_ON_HOST):
        return False  # the same constant in every run
    if is_transcendental(module, call) or is_network_run(module, call) or _is_derivative(module, call):
        return True
    if is_run_of_part(module, call):
        return True
    method = isinstance(function, ast.Attribute) and not module.inference.resolve(function.value)
    receiver = function.value if method and isinstance(function, ast.Attribute) else None
    given = [receiver] if receiver is not None else call.args[:1]
    if last in table.linear | table.adding and (numerical or _may_be_tensor(module, receiver)):
        return any(is_inexact(frame, part) for part in (*given, *call.args))
    if _is_of_library(module, call):
        return any(is_inexact(frame, part) for part in call.args)
    if (last in table.joining or "builtins.sum" in names) and call.args:
        return any(_is_computed(frame, part, depth) for part in elements_of(module, call.args[0]))
    if numerical and last == "where":
        return any(_is_computed(frame, part, depth) for part in call.args[1:])
    if last in table.keeping and (numerical or receiver is not None):
        return any(_is_computed(frame, part, depth) for part in given)
    return any(_returns_computed(frame, call, name, depth) for name in names)


def _may_be_tensor(module: Module, receiver: ast.expr | None) -> bool:
    return receiver is not None and {value.kind for value in module.inference.values(receiver)} <= _COMPUTING


def _is_of_library(module: Module, call: ast.Call) -> bool:
    """`scipy.linalg.sqrtm(x)`, `torchvision.ops.box_iou(boxes, others)`."""
    names = module.inference.callees(call)
    libraries = rounding_table().libraries
    return bool(names) and (names[0] in libraries or names[0].rpartition(".")[0] in libraries)


def _returns_computed(frame: Frame, call: ast.Call, name: str, depth: int, position: int | str | None = None) -> bool:
    """Return whether a function of the project gives `call` a computed result, or one at a position, in any return."""
    owner, function = frame.module.project.definition(name) or (None, None)
    if owner is None or not isinstance(function, FUNCTIONS) or function in frame.running:
        return False
    if position is None and _promises_text(function):
        return False
    returned = made_results(owner, function)
    inside = frame.within(owner, function, call)
    handed_on: list[ast.expr | None] = []  # `return session.run(None, inputs)` gives several as well
    if position is not None:
        returned = [_whole(owner, value) for value in returned]
        calls = (value for value in returned if isinstance(value, ast.Call))
        handed_on += [value for value in calls if _is_computed_item(inside, value, position, depth - 1)]
        arrays = (value for value in returned if isinstance(position, int) and is_array(owner, value))
        handed_on += [value for value in arrays if value is not None and _is_computed(inside, value, depth - 1)]
        returned = [value if value in handed_on else _item_of(owner, value, position) for value in returned]
    returned = [value for value in returned if not is_empty(value)]
    computed = [
        value for value in returned if value in handed_on or (value is not None and _is_computed(inside, value, depth))
    ]
    iterates = {value.id for value in computed if isinstance(value, ast.Name)}  # they may be given back early
    return bool(computed) and all(value in computed or getattr(value, "id", "") in iterates for value in returned)


def _promises_text(function: FunctionNode) -> bool:
    """`-> list[str]`; `-> dict[str, Tensor]` are texts and tensors."""
    named = {identifier(part) for part in ast.walk(function.returns)} if function.returns is not None else set()
    return "str" in named and "Tensor" not in named


def _whole(module: Module, result: ast.expr | None) -> ast.expr | None:
    """Return `(out, state)` of `result`, after `result = (out, state)`."""
    made = each_here(module, result) if isinstance(result, ast.Name) else []
    return made[0] if len(made) == 1 and isinstance(made[0], (ast.Tuple, ast.Call)) else result


def _item_of(module: Module, whole: ast.expr | None, position: int | str) -> ast.expr | None:
    """Return what stands at a position of a tuple, or is put in last into a list, such as one step after another.

    Or under a key of a dictionary: `z` of `{"z": z}`, and of `Output(z=z)`, which has it as an attribute.
    """
    if isinstance(position, str):
        return _entry_of(module, whole, position)
    elements = whole.elts if isinstance(whole, ast.Tuple) else []
    if position == _LAST and isinstance(whole, ast.Name):
        elements = [element for element in elements_of(module, whole) if element is not whole]
    return elements[position] if -len(elements) <= position < len(elements) else None


def _entry_of(module: Module, whole: ast.expr | None, key: str) -> ast.expr | None:
    made = each_here(module, whole) if whole is not None else []
    record = made[0] if len(made) == 1 else None
    if isinstance(record, ast.Call):
        return next((keyword.value for keyword in record.keywords if keyword.arg == key), None)
    return next(iter(entries_at(module, record, key)), None) if isinstance(record, ast.Dict) else None
