"""What a call gives: tensors of torch functions, instances of classes, whatever a project function returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.elements import elements
from detlint.linter.analysis.parameters import annotation_values
from detlint.linter.analysis.resolution import instance_attribute
from detlint.linter.analysis.values import UNKNOWN, Kind, Value
from detlint.linter.source.names import FUNCTIONS, FunctionNode, by_place

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference
    from detlint.linter.analysis.module import Module


_BUILTIN_RESULTS = {
    "set": Kind.SET,
    "frozenset": Kind.SET,
    "list": Kind.LIST,
    "sorted": Kind.LIST,
    "tuple": Kind.TUPLE,
    "dict": Kind.DICT,
    "str": Kind.STRING,
    "repr": Kind.STRING,
    "bytes": Kind.STRING,
    "input": Kind.STRING,
    "int": Kind.NUMBER,
    "float": Kind.NUMBER,
    "len": Kind.NUMBER,
    "abs": Kind.NUMBER,
    "round": Kind.NUMBER,
    "hash": Kind.NUMBER,
    "id": Kind.NUMBER,
    "ord": Kind.NUMBER,
    "bool": Kind.BOOL,
    "isinstance": Kind.BOOL,
    "hasattr": Kind.BOOL,
    "enumerate": Kind.ITERATOR,
    "zip": Kind.ITERATOR,
    "map": Kind.ITERATOR,
    "filter": Kind.ITERATOR,
    "reversed": Kind.ITERATOR,
    "iter": Kind.ITERATOR,
    "range": Kind.ITERATOR,
}
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_PATH_METHODS = frozenset(
    {"absolute", "cwd", "expanduser", "home", "joinpath", "readlink", "relative_to", "rename", "replace", "resolve"}
    | {"with_name", "with_stem", "with_suffix"}
)
CHANGED_COPIES = frozenset({"dataclasses.replace", "copy.replace", "attr.evolve", "attrs.evolve"})
"""They give what their first argument is, with the fields that they are given."""
_PATH_LISTINGS = frozenset({"glob", "iterdir", "rglob"})
_JOINING = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
_TO_INTEGERS = frozenset({"int", "long"})
_STRING_LISTS = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition"})


def call_values(inference: Inference, node: ast.Call) -> Iterator[Value]:
    names = inference.resolve(node.func)
    for name in names:
        yield from _call_of(inference, name, node)
    if names:
        return
    for value in inference.values(node.func):
        if value.kind is Kind.MODULE:
            yield from _module_call(inference, value.type, node)
        elif value.kind is Kind.INSTANCE and value.type:
            yield from _call_of(inference, f"{value.type}.__call__", node)
        else:
            yield from _same_parameter(inference, node)


def _same_parameter(inference: Inference, node: ast.Call) -> Iterator[Value]:
    """`model.to(device)` of a parameter is still that parameter: the caller knows what it is.

    Only tensors become integers: `mask.to(torch.long)`, `mask.to(device, dtype=torch.long)`, `label.long()`.
    """
    if isinstance(node.func, ast.Attribute) and node.func.attr in _TO_INTEGERS and not node.args:
        yield inference.made(Kind.TENSOR, node, dtype="int")
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        named = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "dtype")]
        dtypes = (dtype_named(inference, each) for each in named)
        converted = inference.made(Kind.TENSOR, node, dtype=next(filter(None, dtypes), None))
        if converted.is_integral:
            yield converted
            return
    if isinstance(node.func, ast.Attribute) and node.func.attr in inference.types.module_methods:
        parameters_only = [value for value in inference.values(node.func.value) if isinstance(value.node, ast.arg)]
        yield from parameters_only
        if parameters_only:
            return
    yield inference.made(Kind.UNKNOWN, node)


def _module_call(inference: Inference, type_name: str, node: ast.Call) -> Iterator[Value]:
    """Calling a module runs its forward; those of torch.nn give tensors, recurrent ones tuples of them."""
    if inference.class_named(type_name) is not None:
        forward = next(instance_attribute(inference, type_name, "forward"), "")
        yield from _call_of(inference, forward, node)
    elif type_name.rpartition(".")[2] in ("LSTM", "GRU", "RNN", "MultiheadAttention", "LSTMCell"):
        yield _tensor_tuple(inference, node, 2)
    elif type_name.startswith("torch.nn."):
        yield inference.made(Kind.TENSOR, node)
    else:
        yield inference.made(Kind.UNKNOWN, node, f"{type_name}.__call__")


def _tensor_tuple(inference: Inference, node: ast.AST, length: int = 8) -> Value:
    element = (inference.made(Kind.TENSOR, node),)
    return Value(Kind.TUPLE, node=node, module=inference.module, elements=(element,) * length)


def _call_of(inference: Inference, name: str, node: ast.Call) -> Iterator[Value]:
    types = inference.types
    last = name.rpartition(".")[2]
    definition = inference.module.project.definition(name)
    if definition is not None:
        yield from _project_call(inference, name, definition, node)
    elif name in types.tensors:
        yield inference.made(Kind.TENSOR, node, dtype=_call_dtype(inference, last, node))
    elif name in types.tensor_tuples:
        yield _tensor_result(inference, last, node)
    elif name in types.wrappers:
        yield from _wrapped(inference, node)
    elif name in types.bars and node.args:
        items = elements(inference, node.args[0], inference.values(node.args[0]))
        yield Value(Kind.ITERATOR, node=node, module=inference.module, elements=(items,))
    elif name in types.modules or inference.is_module_class(name):
        yield inference.made(Kind.MODULE, node, name)
    elif last == "load_from_checkpoint" and isinstance(node.func, ast.Attribute):
        classes = filter(inference.is_module_class, inference.resolve(node.func.value))
        yield from (inference.made(Kind.MODULE, node, made) for made in classes)
    elif name == "torch.nn.Parameter" or name in ("torch.Tensor", "torch.FloatTensor"):
        yield inference.made(Kind.TENSOR, node, dtype="float")
    elif name == "torch.LongTensor":
        yield inference.made(Kind.TENSOR, node, dtype="int")
    elif _returns_receiver(inference, name, last) and isinstance(node.func, ast.Attribute):
        yield from inference.values(node.func.value)
    elif name == "torch.Tensor.numpy":
        yield inference.made(Kind.ARRAY, node)
    elif name.startswith("builtins."):
        yield from _builtin(inference, name.removeprefix("builtins."), node)
    elif name.startswith("numpy.") and last[:1].islower() and not name.startswith("numpy.random."):
        yield inference.made(Kind.ARRAY, node, dtype=_told_dtype(inference, node))
    elif name.startswith("pathlib.") and last in _PATH_METHODS:
        yield inference.made(Kind.INSTANCE, node, "pathlib.Path")
    elif name.startswith("pathlib.") and last in _PATH_LISTINGS:
        path = inference.made(Kind.INSTANCE, node, "pathlib.Path")
        yield Value(Kind.ITERATOR, name, node=node, module=inference.module, elements=((path,),))
    elif name == "numpy.random.default_rng":
        yield inference.made(Kind.INSTANCE, node, "numpy.random.Generator")
    elif name == "functools.reduce" and len(node.args) > 1 and _joins_sets(inference, node.args[0], node.args[1]):
        yield inference.made(Kind.SET, node)
    elif name in CHANGED_COPIES and node.args:
        yield from inference.values(node.args[0])
    elif last == "from_argparse_args":
        yield inference.made(Kind.INSTANCE, node, name.rpartition(".")[0])
    elif last[:1].isupper():
        yield inference.made(Kind.INSTANCE, node, name)
    else:
        yield inference.made(Kind.UNKNOWN, node, name)


def _joins_sets(inference: Inference, function: ast.expr, joined: ast.expr) -> bool:
    """`set.union`; `operator.or_` and `lambda a, b: a | b`, where what is joined are sets."""
    names = inference.resolve(function)
    if any(name.startswith("builtins.set.") for name in names):
        return True
    body = function.body if isinstance(function, ast.Lambda) else None
    operated = isinstance(body, ast.BinOp) and isinstance(body.op, (ast.BitAnd, ast.BitOr))
    if not operated and not {"operator.and_", "operator.or_"}.intersection(names):
        return False
    held = elements(inference, joined, inference.values(joined))
    return bool(held) and all(value.kind is Kind.SET for value in held)


def _returns_receiver(inference: Inference, name: str, last: str) -> bool:
    if last not in inference.types.module_methods:
        return False
    owner = name.rpartition(".")[0]
    return owner == "torch.nn.Module" or inference.is_module_class(owner)


def _call_dtype(inference: Inference, last: str, node: ast.Call) -> str | None:
    for keyword in node.keywords:
        if keyword.arg == "dtype":
            return dtype_named(inference, keyword.value)
    if last in ("to", "type") and node.args:
        named = dtype_named(inference, node.args[0])
        if named is not None:
            return named
    if last in inference.types.dtypes:
        precise = {"float": "float32", "half": "float16", "double": "float64", "bfloat16": "bfloat16"}
        return precise.get(last, inference.types.dtypes[last])
    if isinstance(node.func, ast.Attribute):
        receiver = [value for value in inference.values(node.func.value) if value.kind is Kind.TENSOR]
        if receiver:
            return receiver[0].dtype
    if last in ("tensor", "as_tensor") and node.args:
        return _literal_dtype(inference, node.args[0])
    if last in ("zeros", "ones", "empty", "eye", "full"):
        return "float" if last != "full" else None
    if last in _JOINING:
        return _joined_dtype(inference, node)
    chosen = node.args[1:3] if last == "where" else node.args[:2]
    operands = [value for argument in chosen for value in inference.values(argument)]
    dtypes = {value.dtype for value in operands if value.kind in (Kind.TENSOR, Kind.UNKNOWN)}
    return dtypes.pop() if len(dtypes) == 1 else None


def _told_dtype(inference: Inference, node: ast.Call) -> str | None:
    """`np.zeros(n, dtype=bool)`, `np.full(n, 0, np.int64)`: the dtype that is asked for."""
    asked = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"] or node.args[1:3]
    return next((dtype for each in asked if (dtype := dtype_named(inference, each)) is not None), None)


def _joined_dtype(inference: Inference, node: ast.Call) -> str | None:
    """`torch.cat([start, tokens])`: what is joined to whole numbers are whole numbers; masks go with anything."""
    listed = node.args[0] if node.args else None
    parts = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
    values = [value for part in parts for value in inference.values(part)]
    floating = next((value.dtype for value in values if value.is_floating), None)
    known = [value for value in values if value.is_integral]
    if floating is not None or not known:
        return floating
    if all(value.dtype == "bool" for value in known):
        return "bool" if len(known) == len(values) else None
    return "int"


def dtype_named(inference: Inference, node: ast.expr) -> str | None:
    """Return the dtype that `torch.float16`, `np.int64`, `torch.half` or `"float32"` names, or None."""
    for name in inference.resolve(node):
        owner, _, last = name.rpartition(".")
        if owner in ("torch", "numpy") or (owner == "builtins" and last in ("int", "float", "bool")):
            return {"half": "float16", "double": "float64", "long": "int64"}.get(last, last)
    return None


def _literal_dtype(inference: Inference, node: ast.expr) -> str | None:
    literals = [child.value for child in ast.walk(node) if isinstance(child, ast.Constant)]
    if not literals or any(isinstance(child, (ast.Name, ast.Call)) for child in ast.walk(node)):
        return None
    if any(isinstance(value, float) for value in literals):
        return "float"
    return "bool" if all(isinstance(value, bool) for value in literals) else "int"


def _tensor_result(inference: Inference, last: str, node: ast.Call) -> Value:
    """max, min and median without a dimension give one tensor; the rest always gives several."""
    if last in ("max", "min", "median", "nanmedian"):
        method = isinstance(node.func, ast.Attribute) and not inference.resolve(node.func.value)
        reduced = len(node.args) + len(node.keywords) > (0 if method else 1)
        if not reduced:
            return inference.made(Kind.TENSOR, node)
    if last == "unique" and not any(keyword.arg in ("return_inverse", "return_counts") for keyword in node.keywords):
        return inference.made(Kind.TENSOR, node, dtype=_call_dtype(inference, last, node))
    if last in inference.types.with_positions:
        values = inference.made(Kind.TENSOR, node, dtype=_call_dtype(inference, last, node))
        positions = inference.made(Kind.TENSOR, node, dtype="int")
        return Value(Kind.TUPLE, node=node, module=inference.module, elements=((values,), (positions,), (positions,)))
    return _tensor_tuple(inference, node)


def _wrapped(inference: Inference, node: ast.Call) -> Iterator[Value]:
    arguments = [
        *node.args[:1],
        *(keyword.value for keyword in node.keywords if keyword.arg in ("model", "module")),
    ]
    if not arguments:
        yield inference.made(Kind.UNKNOWN, node)
    for argument in arguments[:1]:
        yield from inference.values(argument)


def _builtin(inference: Inference, name: str, node: ast.Call) -> Iterator[Value]:
    owner, _, method = name.rpartition(".")
    if owner == "set" and method in _SET_METHODS:
        yield inference.made(Kind.SET, node)
    elif owner == "str":
        yield inference.made(Kind.LIST if method in _STRING_LISTS else Kind.STRING, node)
    elif owner in ("list", "dict") and method == "copy":
        yield inference.made(Kind(owner), node)
    elif owner == "dict" and method in ("keys", "values", "items"):
        yield inference.made(Kind.ITERATOR, node, f"builtins.dict.{method}")
    elif name == "open":
        yield inference.made(Kind.INSTANCE, node, "io.TextIOWrapper")
    elif name == "super":
        yield from _super(inference, node)
    elif name in ("list", "tuple", "sorted", "reversed", "iter") and node.args:
        items = elements(inference, node.args[0], inference.values(node.args[0]))
        yield Value(_BUILTIN_RESULTS[name], node=node, module=inference.module, elements=(items,))
    elif name == "next" and node.args:
        yield from elements(inference, node.args[0], inference.values(node.args[0]))
    elif name in ("float", "int"):
        yield inference.made(Kind.NUMBER, node, dtype=name)
    else:
        yield inference.made(_BUILTIN_RESULTS.get(name, Kind.UNKNOWN), node, "" if name in _BUILTIN_RESULTS else name)


def _super(inference: Inference, node: ast.Call) -> Iterator[Value]:
    owner = inference.index.class_at(node)
    for base in owner.bases if owner is not None else ():
        for name in inference.resolve(base):
            yield inference.made(Kind.MODULE if inference.is_module_class(name) else Kind.INSTANCE, node, name)


def _project_call(
    inference: Inference, name: str, definition: tuple[Module, FunctionNode | ast.ClassDef], node: ast.Call
) -> Iterator[Value]:
    module, found = definition
    if isinstance(found, ast.ClassDef):
        yield inference.made(Kind.MODULE if inference.is_module_class(name) else Kind.INSTANCE, node, name)
        return
    if any(value.kind is not Kind.UNKNOWN for value in _declared(inference, module, found)):
        yield from _declared(inference, module, found)
        return
    for value in returned(module.inference, found):
        argument = _argument_for(inference, value, found, node)
        if argument is None:
            yield value
        else:
            yield from inference.values(argument)


def _declared(inference: Inference, module: Module, function: FunctionNode) -> tuple[Value, ...]:
    if function.returns is None or isinstance(function, ast.AsyncFunctionDef):
        return ()
    declared = tuple(annotation_values(module.inference, function.returns, function.returns))
    # A declared tensor is as good as a computed one; a declared module hides its class and its mode.
    return declared if all(value.kind is Kind.TENSOR for value in declared) else ()


def returned(inference: Inference, function: FunctionNode) -> tuple[Value, ...]:
    """Return what calling `function` of this module can give; parameters stand for themselves."""
    results: dict[Value, None] = {}
    for statement in inference.module.flow(inference.index.scopes[function]).returns():
        values = inference.values(statement.value) if statement.value is not None else ()
        results.update(dict.fromkeys(values))
    return tuple(results) or (UNKNOWN,)


def _argument_for(inference: Inference, value: Value, function: FunctionNode, call: ast.Call) -> ast.expr | None:
    """Return the argument of `call` behind a returned value that is just a parameter of the function."""
    if not isinstance(value.node, ast.arg) or value.kind not in (Kind.UNKNOWN, Kind.MODULE):
        return None
    return argument_of(function, value.node.arg, call, skip_self=isinstance(call.func, ast.Attribute))


def functions_called(inference: Inference, call: ast.Call) -> Iterator[tuple[Module, FunctionNode]]:
    """Yield the functions of the project that `call` may call, methods among them, each with its module."""
    for name in inference.callees(call):
        found = inference.module.project.definition(name)
        if found is not None and isinstance(found[1], FUNCTIONS):
            yield found[0], found[1]


def argument_of(function: FunctionNode | ast.Lambda, name: str, call: ast.Call, *, skip_self: bool) -> ast.expr | None:
    """Return what `call` passes for the parameter `name` of `function`, or None where that is not written out.

    `apply(x)` of an operator runs its `forward(ctx, x)`.
    """
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = by_place(function.args)
    if (names[:1] in (["self"], ["cls"]) and skip_self) or (
        getattr(function, "name", "") == "forward" and names[:1] == ["ctx"]
    ):
        names = names[1:]
    if name not in names:
        return None
    position = names.index(name)
    before = call.args[: position + 1]
    if position < len(call.args) and not any(isinstance(argument, ast.Starred) for argument in before):
        return call.args[position]
    return None


def parameter_given(function: FunctionNode, call: ast.Call, node: ast.expr, *, skip_self: bool) -> str | None:
    """Return the parameter of `function` that gets the argument `node` of `call`, or None where that is not one."""
    names = [*by_place(function.args), *(argument.arg for argument in function.args.kwonlyargs)]
    return next((name for name in names if argument_of(function, name, call, skip_self=skip_self) is node), None)
