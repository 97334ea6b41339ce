"""Is what is called a model or a layer? Then floats come out of it that were computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.resolution import instance_attribute
from detlint.linter.analysis.values import Kind
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import identifier, is_own, receiver_of
from detlint.linter.tables.rounding import rounding_table

# Names of outputs, or none of them, and inputs.
_OF_RUN = 2
_FED = ("feed_dict", "input_feed")
_RECURRENT = ("RNN", "GRU", "LSTM")
_COPYING = ("deepcopy", "copy")
_CASTING = ("half", "bfloat16", "float", "double", "to", "cuda", "cpu", "eval", "train", "requires_grad_")
_OF_RECORDS = tuple(f"model_{done}" for done in ("dump", "json_schema", "validate", "copy", "construct", "rebuild"))
_OF_MODELS = ("eval", "train", "parameters", "named_parameters", "state_dict", "load_state_dict")


def is_layer(module: Module, called: ast.expr) -> bool:
    """`nn.Linear(8, 8)`, `GCNConv(16, 32)`, or a module of the project: most layers compute."""
    return any(
        (value.kind is Kind.MODULE or (value.kind is Kind.INSTANCE and _is_of_library(value.type)))
        and _computes(value.type)
        for value in module.inference.values(called)
    )


def is_moving_layer(module: Module, called: ast.expr) -> bool:
    """`nn.Identity()`, `nn.Flatten()`: layers of torch that give the numbers that they are given."""
    found = [value for value in module.inference.values(called) if value.kind is Kind.MODULE]
    return bool(found) and all(value.type.startswith("torch.nn.") and not _computes(value.type) for value in found)


def is_recurrent(module: Module, called: ast.expr) -> bool:
    """`nn.GRU(8, 8)`, which gives its outputs and its last state."""
    types = (value.type for value in module.inference.values(called))
    return any(name.startswith("torch.nn.") and name.endswith(_RECURRENT) for name in types)


def is_engine_run(module: Module, call: ast.Call) -> bool:
    """`session.run(None, inputs)` of ONNX Runtime and its like: the same network, computed by other kernels."""
    table = rounding_table()
    if not table.engines.isdisjoint(module.inference.callees(call)):
        return True
    receiver = receiver_of(call)
    fed = [*call.args, *(keyword.arg for keyword in call.keywords if keyword.arg in _FED)]
    if receiver is None or identifier(call.func) != "run" or len(fed) != _OF_RUN:
        return False
    return not table.sessions.isdisjoint(identifier(receiver).lower().split("_"))


def is_model_run(module: Module, call: ast.Call) -> bool:
    """`run_and_get_code(torch.compile(net), x)`, `checkpoint(net, x)`."""
    run = call.args[0] if call.args else None
    return (
        run is not None
        and not rounding_table().runners.isdisjoint(module.inference.callees(call))
        and is_layer(module, run)
    )


def _is_of_library(type_name: str) -> bool:
    """Return whether a class stands where a library keeps its layers: `torch_geometric.nn.GCNConv`."""
    return any(type_name.startswith(f"{home}.") for home in rounding_table().layers)


def _computes(type_name: str) -> bool:
    """Those that pick, move or clip values do not."""
    return not type_name.rpartition(".")[2].startswith(rounding_table().moving)


def run_functions(module: Module, call: ast.Call) -> tuple[str, ...]:
    """Return the qualified names of the functions that a call runs, `Net.forward` of `net(x)`."""
    modules = [value for value in module.inference.values(call.func) if value.kind is Kind.MODULE]
    if not modules:
        return module.inference.callees(call)
    return tuple(name for value in modules for name in instance_attribute(module.inference, value.type, "forward"))


def is_model(module: Module, call: ast.Call) -> bool:
    """Is what is called something that only models are? Asked where no class or function is known that would tell."""
    return is_untold(module, call) and _is_called_model(module, _run(call))


def is_untold(module: Module, call: ast.Call) -> bool:
    """Is what is called neither a class nor a function that is known?"""
    called = _run(call)
    if any(value.kind in (Kind.MODULE, Kind.FUNCTION) for value in module.inference.values(called)):
        return False
    return not any(name.startswith("torch.") or _is_defined(module, name) for name in module.inference.callees(call))


def _run(call: ast.Call) -> ast.expr:
    """Return `net` of `net(x)` and of `net.forward(x)`."""
    forward = isinstance(call.func, ast.Attribute) and call.func.attr == "forward"
    return call.func.value if forward and isinstance(call.func, ast.Attribute) else call.func


def _is_called_model(module: Module, called: ast.expr) -> bool:
    if _is_named_model(called) or _is_made_of_model(module, called):
        return True
    return _is_treated_as_model(module, called) or _is_compiled(module, called)


def _is_defined(module: Module, name: str) -> bool:
    return module.project.definition(name) is not None


def _is_named_model(called: ast.expr) -> bool:
    """`model(x)`, `self.compiled_model(x)`; not the methods of records that pydantic has: `report.model_dump()`."""
    if isinstance(called, ast.Attribute) and called.attr.startswith(_OF_RECORDS):
        return False
    return not rounding_table().models.isdisjoint(identifier(called).split("_"))


def _is_made_of_model(module: Module, called: ast.expr) -> bool:
    """`fast = copy.deepcopy(model).half()`, `with Eval(model) as net:` of what is a model by its name."""
    made = only_value(module, called) if isinstance(called, ast.Name) else None
    if isinstance(called, ast.Name) and (entered := _entered(module, called)) is not None:
        return any(isinstance(given, ast.Name) and _is_named_model(given) for given in entered.args)
    while isinstance(made, ast.Call):
        if identifier(made.func) in _COPYING and len(made.args) == 1:
            made = made.args[0]
        elif isinstance(made.func, ast.Attribute) and made.func.attr in _CASTING:
            made = made.func.value
        else:
            return False
        if isinstance(made, ast.Name) and not _is_named_model(made):
            made = only_value(module, made)
    return isinstance(made, (ast.Name, ast.Attribute)) and made is not called and _is_named_model(made)


def _entered(module: Module, called: ast.Name) -> ast.Call | None:
    """Return `Eval(model)` of `with Eval(model) as net:`."""
    bindings = module.definitions(called)
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.CONTEXT else None
    return value if isinstance(value, ast.Call) else None


def _is_treated_as_model(module: Module, called: ast.expr) -> bool:
    """Does the function or class around ask what is called for its weights, or set its mode: `net.eval()`, `net(x)`?"""
    return any(
        isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == ast.unparse(called)
        for call in _calls_around(module, called, _OF_MODELS)
    )


def _is_compiled(module: Module, called: ast.expr) -> bool:
    """`fast = torch.compile(net)`: `fast` and `net` both compute."""
    text = ast.unparse(called)
    for call in _calls_around(module, called, tuple(rounding_table().compiling)):
        statement = module.index.statement(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        given = call.args[0] if call.args else None
        if not isinstance(given, (ast.Name, ast.Attribute)) or _is_no_model(module, call, given):
            continue
        if ast.unparse(given) == text or any(ast.unparse(target) == text for target in targets):
            return True
    return False


def _is_no_model(module: Module, compiler: ast.Call, given: ast.expr) -> bool:
    """Return whether texts are compiled, or a function, of which it would have to be known what it does."""
    kinds = {value.kind for value in module.inference.values(given)}
    names = module.inference.callees(compiler)
    return not kinds <= {Kind.UNKNOWN, Kind.MODULE, Kind.INSTANCE} or any(map(_compiles_texts, names))


def _compiles_texts(name: str) -> bool:
    return name.startswith(("re.", "builtins.", "regex."))


def _calls_around(module: Module, called: ast.expr, names: tuple[str, ...]) -> Iterator[ast.Call]:
    """Yield the calls by these names in the function around, of an attribute of the object in its class."""
    around = module.index.class_at if is_own(called) else module.index.function_at
    for name in names:
        yield from (call for call in module.index.calls_by_name.get(name, ()) if around(call) is around(called))
