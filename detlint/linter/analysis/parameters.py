"""What the parameter of a function can be: its annotation, its default, or what its place promises."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.fixtures import fixture_values
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.source.names import FUNCTIONS, Binding, FunctionNode
from detlint.linter.source.parsing import parse_expression

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference


_ANNOTATIONS = {
    "builtins.str": Kind.STRING,
    "builtins.bytes": Kind.STRING,
    "builtins.int": Kind.NUMBER,
    "builtins.float": Kind.NUMBER,
    "builtins.bool": Kind.BOOL,
    "builtins.list": Kind.LIST,
    "builtins.tuple": Kind.TUPLE,
    "builtins.set": Kind.SET,
    "builtins.frozenset": Kind.SET,
    "builtins.dict": Kind.DICT,
    "typing.List": Kind.LIST,
    "typing.Sequence": Kind.LIST,
    "typing.Tuple": Kind.TUPLE,
    "typing.Set": Kind.SET,
    "typing.FrozenSet": Kind.SET,
    "typing.AbstractSet": Kind.SET,
    "typing.Dict": Kind.DICT,
    "typing.Mapping": Kind.DICT,
    "collections.abc.Set": Kind.SET,
    "collections.abc.Mapping": Kind.DICT,
    "collections.abc.Sequence": Kind.LIST,
    "numpy.ndarray": Kind.ARRAY,
}
_INTEGERS = tuple(f"torch.{kind}Tensor" for kind in ("Long", "Int", "Short", "Char", "Byte", "Bool"))
# A new type has a name, and another type.
_OF_NEW_TYPE = 2
_CONTAINERS = ("typing.Optional", "typing.Union", "typing.Annotated", "typing.Final", "typing.ClassVar")
# What a forward pass takes besides tensors, by its name.
_SIZES = frozenset({"H", "W", "batch_size", "height", "image_size", "img_size", "num_frames", "width"})


def parameter_values(inference: Inference, node: ast.arg, binding: Binding) -> Iterator[Value]:
    function = binding.scope.node
    receiver = receiver_class(inference, node, function) if isinstance(function, FUNCTIONS) else None
    if receiver is not None:
        name = inference.module.qualified(receiver)
        kind = Kind.MODULE if inference.is_module_class(name) else Kind.INSTANCE
        yield inference.made(kind, node, name)
        return
    if isinstance(function, FUNCTIONS) and function.args.kwarg is node:
        yield inference.made(Kind.DICT, node)
        return
    if isinstance(function, FUNCTIONS) and function.args.vararg is node:
        yield inference.made(Kind.TUPLE, node)
        return
    if node.annotation is not None:
        annotated = tuple(annotation_values(inference, node.annotation, node))
        if annotated:
            yield from annotated
            return
    default = binding.value
    if isinstance(default, ast.Constant) and default.value is not None:
        yield from (inference.made(value.kind, node, dtype=value.dtype) for value in inference.values(default))
    elif isinstance(function, FUNCTIONS) and _is_forward(inference, function):
        size = node.arg in _SIZES
        yield inference.made(Kind.NUMBER, node, dtype="int") if size else inference.made(Kind.TENSOR, node)
    else:
        given = fixture_values(inference, node, function) if isinstance(function, FUNCTIONS) else ()
        yield from given or (inference.made(Kind.UNKNOWN, node),)


def receiver_class(inference: Inference, node: ast.arg, function: FunctionNode) -> ast.ClassDef | None:
    """Return the class whose method's `self` the parameter is, or None."""
    positional = [*function.args.posonlyargs, *function.args.args]
    parent = inference.index.parents.get(function)
    while isinstance(parent, (ast.If, ast.Try)):
        parent = inference.index.parents.get(parent)
    if not isinstance(parent, ast.ClassDef) or not positional or positional[0] is not node:
        return None
    return None if inference.decorators(function) & {"builtins.staticmethod", "builtins.classmethod"} else parent


def _is_forward(inference: Inference, function: FunctionNode) -> bool:
    parent = inference.index.parents.get(function)
    if function.name != "forward" or not isinstance(parent, ast.ClassDef):
        return False
    return inference.is_module_class(inference.module.qualified(parent))


def annotation_values(inference: Inference, node: ast.expr, made: ast.AST) -> Iterator[Value]:
    """Yield what an annotation promises; nothing where it says too little."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        quoted = parse_expression(node.value)
        if quoted is None:
            return
        for child in ast.walk(quoted):
            for grandchild in ast.iter_child_nodes(child):
                inference.index.parents.setdefault(grandchild, child)
        inference.index.parents[quoted] = node
        yield from annotation_values(inference, quoted, made)
    elif isinstance(node, ast.Constant) and node.value is None:
        yield inference.made(Kind.NONE, made)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from annotation_values(inference, node.left, made)
        yield from annotation_values(inference, node.right, made)
    elif isinstance(node, ast.Subscript):
        names = inference.resolve(node.value)
        if any(name in _CONTAINERS for name in names):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for part in inner:
                yield from annotation_values(inference, part, made)
        else:
            yield from annotation_values(inference, node.value, made)
    elif names := inference.resolve(node):
        for name in names:
            yield from _annotated(inference, name, made)
    elif isinstance(node, ast.Name) and (meant := _new_type(inference, f"{inference.module.name}.{node.id}")):
        yield from annotation_values(meant[0], meant[1], made)


def _annotated(inference: Inference, name: str, made: ast.AST) -> Iterator[Value]:
    kind = _ANNOTATIONS.get(name)
    if kind is not None:
        number = {"builtins.int": "int", "builtins.float": "float"}.get(name)
        yield inference.made(kind, made, dtype=number)
    elif name in ("torch.Tensor", "torch.FloatTensor", "torch.nn.Parameter"):
        yield inference.made(Kind.TENSOR, made, dtype=None if name == "torch.Tensor" else "float")
    elif name in _INTEGERS:
        yield inference.made(Kind.TENSOR, made, dtype="bool" if "Bool" in name else "int")
    elif name.startswith("jaxtyping."):
        yield inference.made(Kind.TENSOR, made, dtype=_jaxtyping_dtype(name))
    elif (wrapped := _wrapped_annotation(inference, name)) is not None:
        yield from _annotated(inference, wrapped, made)
    elif inference.is_module_class(name):
        yield inference.made(Kind.MODULE, made, name)
    elif (meant := _new_type(inference, name)) is not None:
        yield from annotation_values(meant[0], meant[1], made)
    elif name.rpartition(".")[2][:1].isupper() and not name.startswith("typing."):
        yield inference.made(Kind.INSTANCE, made, name)


def _jaxtyping_dtype(name: str) -> str | None:
    """`Int`, `UInt8`, `Float32`; `Shaped` and `Num` say nothing of it."""
    last = name.rpartition(".")[2].lower()
    return next((kind for kind in ("uint", "int", "bool", "float", "bfloat") if last.startswith(kind)), None)


def _wrapped_annotation(inference: Inference, name: str) -> str | None:
    """Return the `jaxtyping.Int` of a project's own `Int = TensorTyping(Int)`."""
    owner, _, last = name.rpartition(".")
    module = inference.module.project.named(owner)
    for binding in module.index.root.bindings.get(last, ()) if module is not None else ():
        given = binding.value.args if module is not None and isinstance(binding.value, ast.Call) else []
        for argument in given:
            names = module.inference.resolve(argument) if module is not None else ()
            found = next((wrapped for wrapped in names if wrapped.startswith("jaxtyping.")), None)
            if found is not None:
                return found
    return None


def _new_type(inference: Inference, name: str) -> tuple[Inference, ast.expr] | None:
    """Return the type, and who reads it, that `Row = NewType("Row", int)` gives another name to."""
    home, _, last = name.rpartition(".")
    module = inference.module if home == inference.module.name else inference.module.project.named(home)
    bindings = module.index.root.bindings.get(last, ()) if module is not None else ()
    value = bindings[0].value if len(bindings) == 1 else None
    if module is None or not isinstance(value, ast.Call) or len(value.args) != _OF_NEW_TYPE:
        return None
    return (module.inference, value.args[1]) if "typing.NewType" in module.inference.callees(value) else None
