"""Was a float computed? Then its last bits depend on order, kernel and machine; copies and integers keep theirs."""

from __future__ import annotations

import ast

from detlint.linter.analysis.elements import item
from detlint.linter.analysis.project import Module
from detlint.linter.analysis.taken import elements_of, entries_at, taken
from detlint.linter.analysis.values import Kind
from detlint.linter.programs.called_models import is_engine_run, is_layer, is_model, run_functions
from detlint.linter.source.names import Binding, BindingKind, FunctionNode, unpacked
from detlint.linter.source.nodes import identifier
from detlint.linter.tables.rounding import rounding_table

_WRAPPERS = frozenset({"builtins.float", "builtins.round", "numpy.asarray", "numpy.array", "torch.as_tensor"})
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult)
_COMPUTING = {Kind.TENSOR, Kind.MODULE, Kind.INSTANCE, Kind.UNKNOWN}
_DERIVATIVES = frozenset({"torch.autograd.grad"})
_FILLED = ("zeros", "empty", "ones", "new_zeros", "new_empty")
_NUMERICAL = ("torch", "numpy")
_TRANSPOSING = frozenset({"T", "mT", "H", "mH", "t", "transpose"})
_DEPTH = 8
_DYADIC = 2.0**20


def is_computed(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Return whether there is evidence that an expression is a floating result that was rounded on its way."""
    if depth == 0:
        return False
    inner = depth - 1
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        return bool(bindings) and all(_is_bound_to_computed(module, binding, inner) for binding in bindings)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        return _is_rounded_arithmetic(module, node, inner)
    if isinstance(node, (ast.UnaryOp, ast.Subscript, ast.Attribute)):
        return _keeps(module, node, inner)
    return isinstance(node, ast.Call) and _is_computed_call(module, node, inner)


def _is_bound_to_computed(module: Module, binding: Binding, depth: int) -> bool:
    """`y = net(x)`, `y, z = f(x), g(x)`, `y, weights = attention(x)`, `for y in ys`."""
    if binding.kind is BindingKind.ITERATION and depth:
        elements = taken(module, binding)
        return bool(elements) and all(is_computed(module, element, depth) for element in elements)
    if binding.kind is not BindingKind.ASSIGN or binding.value is None:
        return False
    value = unpacked(binding)
    if value is not None:
        return is_computed(module, value, depth)
    single = len(binding.index) == 1 and isinstance(binding.value, ast.Call)
    return single and _is_computed_item(module, binding.value, binding.index[0], depth)


def _is_computed_item(module: Module, several: ast.expr, position: object, depth: int) -> bool:
    """`attention(x)[0]`, `loads.max(dim=1)[0]`, `net(x)["logits"]`: one of several results, which may be no float."""
    if isinstance(several, ast.Name):
        made = [unpacked(binding) for binding in module.definitions(several)]
        return len(made) == 1 and made[0] is not None and _is_computed_item(module, made[0], position, depth - 1)
    if isinstance(position, str):
        known = rounding_table().results | rounding_table().measures
        return position in known and is_computed(module, several, depth)
    if not isinstance(several, ast.Call) or not isinstance(position, int) or not depth:
        return False
    if is_engine_run(module, several) or not _DERIVATIVES.isdisjoint(module.inference.callees(several)):
        return True
    found = [value for whole in module.inference.values(several) for value in item(whole, position)]
    if any(value.is_integral for value in found):
        return False
    called = [name for name in run_functions(module, several) if module.project.definition(name) is not None]
    if called:
        return all(_returns_computed(module, name, depth, position) for name in called)
    return any(value.kind is Kind.TENSOR for value in found) and is_computed(module, several, depth)


def is_result(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Return whether an expression is `outcome.mean` or the like, of an outcome that some call gave, or its name."""
    if isinstance(node, ast.Subscript):
        return is_result(module, node.value, depth)
    if isinstance(node, ast.Name) and depth:
        named = [unpacked(binding) for binding in module.definitions(node)]
        return len(named) == 1 and named[0] is not None and is_result(module, named[0], depth - 1)
    if not isinstance(node, ast.Attribute) or node.attr not in rounding_table().results:
        return False
    made: list[ast.expr | None] = [node.value]
    if isinstance(node.value, ast.Name):
        made = [binding.value for binding in module.definitions(node.value)]
    return bool(made) and all(isinstance(value, ast.Call) and not _constructs(module, value) for value in made)


def is_called_result(module: Module, node: ast.expr, depth: int = _DEPTH) -> bool:
    """`cmc_score(x, y)`, `2 * model.get_loss(x) / n`: a float going by the name of the function that computes it."""
    if isinstance(node, ast.Name) and depth:
        made = [unpacked(binding) for binding in module.definitions(node)]
        return len(made) == 1 and made[0] is not None and is_called_result(module, made[0], depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        return any(is_called_result(module, side, depth) for side in (node.left, node.right))
    if not isinstance(node, ast.Call):
        return False
    name = identifier(node.func)
    return name == name.lower() and not rounding_table().measures.isdisjoint(name.split("_"))


def _constructs(module: Module, call: ast.Call) -> bool:
    """An object that is made of values, or of another one, holds those values and has computed nothing yet."""
    lasts = [name.rpartition(".")[2] for name in module.inference.callees(call) or (ast.unparse(call.func),)]
    copying = rounding_table().keeping
    return any(last[:1].isupper() or last.startswith("from_") or last in copying for last in lasts)


def _is_rounded_arithmetic(module: Module, node: ast.BinOp, depth: int) -> bool:
    """One operation on exact operands is the same everywhere but for division; two in a row may be fused."""
    sides = (node.left, node.right)
    if any(is_computed(module, side, depth) for side in sides):
        return True
    if isinstance(node.op, (ast.MatMult, ast.Div)) and all(_is_float_tensor(module, side) for side in sides):
        return True
    if isinstance(node.op, ast.Div) and _is_float_tensor(module, node.left) and _is_untold(module, node.right):
        return True
    if isinstance(node.op, ast.MatMult) and _is_turned(*sides):
        return not any(value.is_integral for side in sides for value in module.inference.values(side))
    chained = any(isinstance(side, ast.BinOp) and isinstance(side.op, _ARITHMETIC) for side in sides)
    return chained and _is_float_tensor(module, node) and any(_has_fractions(module, side) for side in sides)


def _is_untold(module: Module, node: ast.expr) -> bool:
    """`params["scale"]`, `self.std`: some number or tensor, of which nothing says that dividing by it is exact."""
    named = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
    return named and all(value.kind is Kind.UNKNOWN for value in module.inference.values(node))


def _is_turned(left: ast.expr, right: ast.expr) -> bool:
    """`factor @ factor.T`, `q.t() @ q`: a product of fractions that is known by what it is meant to give."""
    for one, other in ((left, right), (right, left)):
        turned = other.func if isinstance(other, ast.Call) else other
        if isinstance(turned, ast.Attribute) and turned.attr in _TRANSPOSING:
            return ast.dump(turned.value) == ast.dump(one)
    return False


def is_of_shares(module: Module, node: ast.expr) -> bool:
    """`probs.sum(-1)`, `torch.softmax(x, -1).sum()`: parts of a whole, which no count gives."""
    return _has_fractions(module, node)


def _has_fractions(module: Module, node: ast.expr, depth: int = 4) -> bool:
    """Return whether random numbers or shares stand somewhere in a computation: they may be rounded anywhere."""
    for part in ast.walk(node):
        if not rounding_table().shares.isdisjoint(identifier(part).split("_")):
            return True
        if isinstance(part, ast.Call):
            names = module.inference.callees(part)
            if any(name.removeprefix("torch.") in rounding_table().fractions for name in names):
                return True
        elif isinstance(part, ast.Constant):
            if isinstance(part.value, float) and not (part.value * _DYADIC).is_integer():
                return True  # `0.1`, which has no exact binary form
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and depth:
            values = [binding.value for binding in module.definitions(part) if binding.kind is BindingKind.ASSIGN]
            if any(value is not None and _has_fractions(module, value, depth - 1) for value in values):
                return True
    return False


def _keeps(module: Module, node: ast.UnaryOp | ast.Subscript | ast.Attribute, depth: int) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and is_computed(module, node.operand, depth)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        entries = entries_at(module, node.value, node.slice.value)
        if entries:
            return all(is_computed(module, entry, depth) for entry in entries)
        if _gives_several(module, node.value):
            return _is_computed_item(module, node.value, node.slice.value, depth)
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return True
    if isinstance(node, ast.Attribute) and node.attr not in rounding_table().keeping:
        return False
    return is_computed(module, node.value, depth)


def _gives_several(module: Module, node: ast.expr) -> bool:
    """Return whether an expression is what a model of the project returns: one of several results may be no float."""
    if isinstance(node, ast.Name):
        made = (unpacked(binding) or binding.value for binding in module.definitions(node))
        return any(value is not None and _gives_several(module, value) for value in made)
    if not isinstance(node, ast.Call) or identifier(node.func) in rounding_table().floating:
        return False  # `x.std(dim=0)` gives one tensor, whoever has it
    return not any(value.kind is Kind.TENSOR for value in module.inference.values(node))


def _is_computed_call(module: Module, call: ast.Call, depth: int) -> bool:
    function = call.func
    names = module.inference.callees(call)
    if any(value.is_integral for value in module.inference.values(call)):
        return False
    if isinstance(function, ast.Attribute) and _is_comparison(function.value):
        return False  # a share of hits: a count, divided once
    if any(name in _WRAPPERS for name in names):
        whole = len(call.args) == 1 and names == ("builtins.round",)
        return bool(call.args) and not whole and is_computed(module, call.args[0], depth)
    table = rounding_table()
    owner, _, last = names[0].rpartition(".") if names else ("", "", "")
    if last in table.rounding and owner.partition(".")[0] in _NUMERICAL and not any(map(_is_comparison, call.args[:1])):
        return True
    if owner in table.libraries or is_engine_run(module, call):
        return True
    if owner == "torch" and last in table.adding and call.args and _has_fractions(module, call.args[0]):
        return True
    if owner in _NUMERICAL and last in table.adding and call.args and is_computed(module, call.args[0], depth):
        return True
    if last in table.joining and call.args:
        return any(is_computed(module, part, depth) for part in elements_of(module, call.args[0]))
    if isinstance(function, ast.Attribute) and _is_computed_method(module, function, depth):
        return True
    if is_layer(module, function) or _is_forward(module, function):
        return True
    return any(_returns_computed(module, name, depth) for name in names) or is_model(module, call)


def _is_forward(module: Module, function: ast.expr) -> bool:
    """`net.forward(x)`."""
    return isinstance(function, ast.Attribute) and function.attr == "forward" and is_layer(module, function.value)


def _is_computed_method(module: Module, method: ast.Attribute, depth: int) -> bool:
    table = rounding_table()
    kinds = {value.kind for value in module.inference.values(method.value)}
    if method.attr in table.floating and kinds <= _COMPUTING:
        return True
    if method.attr in table.adding and _has_fractions(module, method.value):
        return not _is_whole(method.value)
    return method.attr in table.keeping | table.rounding | table.adding and is_computed(module, method.value, depth)


def _is_whole(node: ast.expr) -> bool:
    """`probs.round()`."""
    return isinstance(node, ast.Call) and identifier(node.func) in rounding_table().whole


def _is_comparison(node: ast.expr) -> bool:
    """`(a == b)`, `(a == b).float()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return isinstance(node, ast.Compare)


def _returns_computed(module: Module, name: str, depth: int, position: int | None = None) -> bool:
    """Return whether a function of the project gives a computed result, or one at a position, wherever it returns."""
    definition = module.project.definition(name)
    if definition is None:
        return False
    owner, function = definition
    if isinstance(function, ast.ClassDef):
        return False
    returned = _returns(owner, function)
    if position is not None:
        returned = [_item_of(value, position) for value in returned]
    returned = [value for value in returned if not _is_empty(value)]
    return bool(returned) and all(value is not None and is_computed(owner, value, depth) for value in returned)


def _is_empty(node: ast.expr | None) -> bool:
    """`np.zeros((0, 8))`, given back where there was nothing to compute."""
    shape = node.args if isinstance(node, ast.Call) and identifier(node.func) in _FILLED else []
    sizes = [part for size in shape for part in (size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size])]
    return any(isinstance(size, ast.Constant) and size.value == 0 for size in sizes)


def _returns(module: Module, function: FunctionNode) -> list[ast.expr | None]:
    return [node.value for node in module.flow(module.index.scopes[function]).returns()]


def _item_of(display: ast.expr | None, position: int) -> ast.expr | None:
    elements = display.elts if isinstance(display, ast.Tuple) else []
    return elements[position] if position < len(elements) else None


def _is_float_tensor(module: Module, node: ast.expr) -> bool:
    values = module.inference.values(node)
    return any(value.kind is Kind.TENSOR for value in values) and not any(value.is_integral for value in values)
