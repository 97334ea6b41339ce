"""Local typing: what a name refers to and what an expression can be, worked out on demand and never guessed.

Names resolve only through bindings; a method is known only where its receiver is. What cannot be told is UNKNOWN.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from detlint.linter.classes import AttributeWrite, ClassInfo
from detlint.linter.names import FUNCTIONS, Binding, BindingKind, FunctionNode, parameters
from detlint.linter.values import UNKNOWN, Kind, Value, load_types

if TYPE_CHECKING:
    from detlint.linter.project import Module

_MAX_DEPTH = 14
_MAX_ALTERNATIVES = 8
_BUILTIN_NAMES = frozenset(dir(builtins))
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
_CONTAINERS = ("typing.Optional", "typing.Union", "typing.Annotated", "typing.Final", "typing.ClassVar")
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_STRING_LISTS = frozenset({"split", "rsplit", "splitlines", "partition", "rpartition"})


class Inference:
    """Answers questions about the expressions of one module; asks other modules' inference where names lead there."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.index = module.index
        self.types = load_types()
        self._values: dict[ast.AST, tuple[Value, ...]] = {}
        self._resolved: dict[ast.AST, tuple[str, ...]] = {}
        self._classes: dict[ast.ClassDef, ClassInfo] = {}
        self._depth = 0

    # --- names ----------------------------------------------------------------------------------------------------

    def resolve(self, node: ast.expr) -> tuple[str, ...]:
        """Return the qualified names that `node` may refer to, in order; empty where that cannot be told.

        Methods resolve through the receiver's type: "torch.Tensor.median", "torch.nn.Module.eval",
        "pkg.model.Net.encode". An instance that is called resolves to "<its class>.__call__".
        """
        known = self._resolved.get(node)
        if known is not None:
            return known
        if self._depth >= _MAX_DEPTH:
            return ()
        self._resolved[node] = ()  # a name that leads back to itself refers to nothing
        self._depth += 1
        try:
            names = tuple(dict.fromkeys(self._resolve(node)))[:_MAX_ALTERNATIVES]
        finally:
            self._depth -= 1
        self._resolved[node] = names
        return names

    def callees(self, call: ast.Call) -> tuple[str, ...]:
        """Return the qualified names that `call` may call: functions, classes, methods, or `Class.__call__`."""
        names = self.resolve(call.func)
        if names:
            return names
        instances = (value for value in self.values(call.func) if value.kind in (Kind.MODULE, Kind.INSTANCE))
        return tuple(dict.fromkeys(f"{value.type}.__call__" for value in instances if value.type))

    def _canonical(self, name: str) -> str:
        return self.types.canonical(self.module.project.canonical(name, self.module))

    def _resolve(self, node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Name):
            yield from self._resolve_name(node)
        elif isinstance(node, ast.Attribute):
            yield from self._resolve_attribute(node)
        elif isinstance(node, ast.IfExp):
            yield from self.resolve(node.body)
            yield from self.resolve(node.orelse)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self.resolve(value)
        elif isinstance(node, ast.NamedExpr):
            yield from self.resolve(node.value)
        elif isinstance(node, ast.Call):
            yield from self._resolve_call(node)
        elif isinstance(node, ast.Subscript):
            # Generic classes: Dataset[int] is Dataset.
            yield from (name for name in self.resolve(node.value) if name.rpartition(".")[2][:1].isupper())

    def _resolve_name(self, node: ast.Name) -> Iterator[str]:
        bindings = self.module.definitions(node)
        if not bindings:
            yield from self._resolve_unbound(node.id)
        for binding in bindings:
            if binding.kind is BindingKind.IMPORT:
                yield self._canonical(binding.target)
            elif isinstance(binding.node, (*FUNCTIONS, ast.ClassDef)):
                yield self.module.qualified(binding.node)
            elif binding.kind is BindingKind.ASSIGN and binding.value is not None and not binding.index:
                if isinstance(binding.value, (ast.Name, ast.Attribute, ast.IfExp, ast.BoolOp, ast.Call)):
                    yield from self.resolve(binding.value)

    def _resolve_unbound(self, name: str) -> Iterator[str]:
        stars = self.index.root.stars
        for star in stars:
            starred = self.module.project.find(star, self.module)
            if starred is not None and name in starred.index.root.bindings:
                yield self._canonical(f"{star}.{name}")
                return
        if name in _BUILTIN_NAMES:
            yield f"builtins.{name}"
            return
        for star in stars:
            if self.module.project.find(star, self.module) is None:
                yield self._canonical(f"{star}.{name}")

    def _resolve_attribute(self, node: ast.Attribute) -> Iterator[str]:
        bases = self.resolve(node.value)
        if bases:
            for base in bases:
                name = self._canonical(f"{base}.{node.attr}")
                yield from self._inherited(name)
            return
        for value in self.values(node.value):
            if value.kind in (Kind.INSTANCE, Kind.MODULE) and value.type:
                yield from self._instance_attribute(value.type, node.attr)
            elif value.kind is Kind.TENSOR:
                yield f"torch.Tensor.{node.attr}"
            elif value.kind is Kind.ARRAY:
                yield f"numpy.ndarray.{node.attr}"
            elif value.kind in (Kind.LIST, Kind.SET, Kind.DICT, Kind.TUPLE):
                yield f"builtins.{value.kind.value}.{node.attr}"
            elif value.kind is Kind.STRING:
                yield f"builtins.str.{node.attr}"

    def _instance_attribute(self, type_name: str, attribute: str) -> Iterator[str]:
        info = self.class_named(type_name)
        if info is None:
            if type_name in self.types.modules and attribute in self.types.module_methods:
                yield f"torch.nn.Module.{attribute}"
            else:
                yield f"{type_name}.{attribute}"
            return
        for ancestor in self.mro(info):
            if attribute in ancestor.methods:
                yield f"{ancestor.name}.{attribute}"
                return
        writes = list(self.attribute_writes(info, attribute))
        for owner, write in writes:
            yield from owner.module.inference.resolve(write.value)
        if not writes:
            for base in self.external_bases(info):
                if base in self.types.module_bases and attribute in self.types.module_methods:
                    base = "torch.nn.Module"
                yield f"{base}.{attribute}"

    def _inherited(self, name: str) -> Iterator[str]:
        """`Child.method` named on the class is its parent's where the child does not define it."""
        owner, _, attribute = name.rpartition(".")
        info = self.class_named(owner) if owner else None
        if info is None or attribute in info.methods:
            yield name
        else:
            yield from self._instance_attribute(owner, attribute)

    def _resolve_call(self, node: ast.Call) -> Iterator[str]:
        """The names that functools.partial(f, …) and getattr(module, "f") stand for."""
        for name in self.resolve(node.func):
            if name == "functools.partial" and node.args:
                yield from self.resolve(node.args[0])
            elif name == "builtins.getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
                for base in self.resolve(node.args[0]):
                    yield self._canonical(f"{base}.{node.args[1].value}")

    # --- classes --------------------------------------------------------------------------------------------------

    def class_info(self, node: ast.ClassDef) -> ClassInfo:
        """Return what the class `node` of this module holds."""
        info = self._classes.get(node)
        if info is None:
            info = self._classes[node] = ClassInfo(self.module, node)
        return info

    def class_named(self, name: str) -> ClassInfo | None:
        """Return the project's class of this qualified name, or None."""
        definition = self.module.project.definition(name)
        if definition is None or not isinstance(definition[1], ast.ClassDef):
            return None
        module, node = definition
        return module.inference.class_info(node)

    def mro(self, info: ClassInfo) -> tuple[ClassInfo, ...]:
        """Return the class and the project's classes it inherits from, nearest first."""
        found = {info.name: info}
        for base in info.node.bases:
            for name in info.module.inference.resolve(base):
                parent = self.class_named(name)
                if parent is not None and parent.name not in found:
                    for ancestor in parent.module.inference.mro(parent):
                        found.setdefault(ancestor.name, ancestor)
        return tuple(found.values())

    def external_bases(self, info: ClassInfo) -> tuple[str, ...]:
        """Return the qualified names of the bases outside the project, its ancestors' included."""
        names: dict[str, None] = {}
        for ancestor in self.mro(info):
            inference = ancestor.module.inference
            for base in ancestor.node.bases:
                for name in inference.resolve(base):
                    if self.class_named(name) is None:
                        names[name] = None
        return tuple(names)

    def is_module_class(self, name: str) -> bool:
        """Return whether the class of this qualified name is a torch.nn.Module."""
        if name in self.types.module_bases:
            return True
        info = self.class_named(name)
        return info is not None and any(base in self.types.module_bases for base in self.external_bases(info))

    def attribute_writes(self, info: ClassInfo, attribute: str) -> Iterator[tuple[ClassInfo, AttributeWrite]]:
        """Yield what `self.<attribute>` is set to in the nearest class of the inheritance that sets it."""
        for ancestor in self.mro(info):
            writes = ancestor.attributes.get(attribute)
            if writes:
                yield from ((ancestor, write) for write in writes)
                return

    # --- values ---------------------------------------------------------------------------------------------------

    def values(self, node: ast.expr) -> tuple[Value, ...]:
        """Return what `node` can be, in order; holds UNKNOWN where some path cannot be told."""
        known = self._values.get(node)
        if known is not None:
            return known
        if self._depth >= _MAX_DEPTH:
            return (UNKNOWN,)
        self._values[node] = (UNKNOWN,)  # a value that depends on itself
        self._depth += 1
        try:
            values = tuple(dict.fromkeys(self._infer(node)))[:_MAX_ALTERNATIVES] or (UNKNOWN,)
        finally:
            self._depth -= 1
        self._values[node] = values
        return values

    def _made(self, kind: Kind, node: ast.AST, type: str = "", dtype: str | None = None) -> Value:
        return Value(kind, type, dtype, node, self.module)

    def _infer(self, node: ast.expr) -> Iterable[Value]:
        method = _INFERENCES.get(node.__class__)
        return method(self, node) if method is not None else (UNKNOWN,)

    def _constant(self, node: ast.Constant) -> Iterable[Value]:
        value = node.value
        if value is None:
            yield self._made(Kind.NONE, node)
        elif isinstance(value, bool):
            yield self._made(Kind.BOOL, node)
        elif isinstance(value, (int, float, complex)):
            yield self._made(Kind.NUMBER, node, dtype="int" if isinstance(value, int) else "float")
        elif isinstance(value, (str, bytes)):
            yield self._made(Kind.STRING, node)

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Iterable[Value]:
        kind = {ast.List: Kind.LIST, ast.Tuple: Kind.TUPLE, ast.Set: Kind.SET}[node.__class__]
        starred = any(isinstance(element, ast.Starred) for element in node.elts)
        elements = () if starred else tuple(self.values(element) for element in node.elts[:16])
        yield Value(kind, node=node, module=self.module, elements=elements)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Iterable[Value]:
        kinds = {ast.ListComp: Kind.LIST, ast.SetComp: Kind.SET, ast.GeneratorExp: Kind.ITERATOR}
        yield Value(kinds[node.__class__], node=node, module=self.module, elements=(self.values(node.elt),))

    def _dict(self, node: ast.Dict | ast.DictComp) -> Iterable[Value]:
        yield self._made(Kind.DICT, node)

    def _string(self, node: ast.JoinedStr) -> Iterable[Value]:
        yield self._made(Kind.STRING, node)

    def _branches(self, node: ast.IfExp) -> Iterable[Value]:
        yield from self.values(node.body)
        yield from self.values(node.orelse)

    def _bool_op(self, node: ast.BoolOp) -> Iterable[Value]:
        for value in node.values:
            yield from self.values(value)

    def _inner(self, node: ast.NamedExpr | ast.Await | ast.Starred) -> Iterable[Value]:
        return self.values(node.value)

    def _unary(self, node: ast.UnaryOp) -> Iterable[Value]:
        if isinstance(node.op, ast.Not):
            yield self._made(Kind.BOOL, node)
        else:
            yield from self.values(node.operand)

    def _compare(self, node: ast.Compare) -> Iterable[Value]:
        sides = [value for side in (node.left, *node.comparators) for value in self.values(side)]
        plain = all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        if not plain and any(value.kind is Kind.TENSOR for value in sides):
            yield self._made(Kind.TENSOR, node, dtype="bool")
        elif not plain and any(value.kind is Kind.ARRAY for value in sides):
            yield self._made(Kind.ARRAY, node, dtype="bool")
        else:
            yield self._made(Kind.BOOL, node)

    def _binary(self, node: ast.BinOp) -> Iterable[Value]:
        yield from self._combine(self.values(node.left), self.values(node.right), node.op, node)

    def _combine(
        self, left: tuple[Value, ...], right: tuple[Value, ...], op: ast.operator, node: ast.AST
    ) -> Iterator[Value]:
        sides = (*left, *right)
        for kind in (Kind.TENSOR, Kind.ARRAY):
            found = [value for value in sides if value.kind is kind]
            if found:
                numbers = [*found, *(value for value in sides if value.kind is Kind.NUMBER)]
                yield self._made(kind, node, dtype=_arithmetic_dtype(numbers, op))
                return
        kinds = {value.kind for value in sides}
        if kinds == {Kind.NUMBER}:
            yield self._made(Kind.NUMBER, node, dtype=_arithmetic_dtype(list(sides), op))
        elif isinstance(op, ast.Mod) and {value.kind for value in left} == {Kind.STRING}:
            yield self._made(Kind.STRING, node)
        elif len(kinds) == 1 and kinds <= {Kind.LIST, Kind.TUPLE, Kind.STRING, Kind.SET}:
            yield self._made(kinds.pop(), node)
        elif Kind.SET in kinds and isinstance(op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)):
            yield self._made(Kind.SET, node)
        else:
            yield UNKNOWN

    def _name(self, node: ast.Name) -> Iterable[Value]:
        bindings = self.module.definitions(node)
        if not bindings:
            for name in self.resolve(node):
                yield from self._reference(name, node)
            return
        for binding in bindings[:_MAX_ALTERNATIVES]:
            yield from self.bound(binding)

    def bound(self, binding: Binding) -> tuple[Value, ...]:
        """Return what `binding` makes its name be."""
        node = binding.node
        if binding.kind is BindingKind.IMPORT:
            return tuple(self._reference(self._canonical(binding.target), node))
        if isinstance(node, FUNCTIONS):
            return (self._made(Kind.FUNCTION, node, self.module.qualified(node)),)
        if isinstance(node, ast.ClassDef):
            return (self._made(Kind.CLASS, node, self.module.qualified(node)),)
        if isinstance(node, ast.arg):
            return tuple(dict.fromkeys(self._parameter(node, binding))) or (UNKNOWN,)
        if binding.value is None:
            return (UNKNOWN,)
        if binding.kind is BindingKind.AUGMENTED:
            return self._augmented(binding)
        values = self.values(binding.value)
        if binding.kind is BindingKind.ITERATION:
            values = self._elements(binding.value, values)
        for position in binding.index:
            values = tuple(item for value in values for item in _item(value, position)) or (UNKNOWN,)
        return values

    def _augmented(self, binding: Binding) -> tuple[Value, ...]:
        statement = self.index.statement(binding.node)
        if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
            return (UNKNOWN,)
        others = [b for b in binding.scope.bindings[binding.name] if b.kind is not BindingKind.AUGMENTED]
        before = tuple(value for other in others for value in self.bound(other)) or (UNKNOWN,)
        return tuple(self._combine(before, self.values(statement.value), statement.op, statement))

    def _reference(self, name: str, node: ast.AST) -> Iterator[Value]:
        definition = self.module.project.definition(name)
        if definition is not None:
            module, found = definition
            kind = Kind.CLASS if isinstance(found, ast.ClassDef) else Kind.FUNCTION
            yield Value(kind, name, node=found, module=module)
            return
        owner = self.module.project.named(name.rpartition(".")[0])
        if owner is not None and owner is not self.module:
            for binding in owner.index.root.bindings.get(name.rpartition(".")[2], ()):
                yield from owner.inference.bound(binding)
            return
        yield Value(Kind.CLASS if name in self.types.modules else Kind.UNKNOWN, name, node=node, module=self.module)

    # --- parameters -----------------------------------------------------------------------------------------------

    def _parameter(self, node: ast.arg, binding: Binding) -> Iterator[Value]:
        function = binding.scope.node
        receiver = self.receiver_class(node, function) if isinstance(function, FUNCTIONS) else None
        if receiver is not None:
            name = self.module.qualified(receiver)
            kind = Kind.MODULE if self.is_module_class(name) else Kind.INSTANCE
            yield self._made(kind, node, name)
            return
        if isinstance(function, FUNCTIONS) and function.args.kwarg is node:
            yield self._made(Kind.DICT, node)
            return
        if isinstance(function, FUNCTIONS) and function.args.vararg is node:
            yield self._made(Kind.TUPLE, node)
            return
        if node.annotation is not None:
            annotated = tuple(self.annotation(node.annotation, node))
            if annotated:
                yield from annotated
                return
        default = binding.value
        if isinstance(default, ast.Constant) and default.value is not None:
            yield from (self._made(value.kind, node, dtype=value.dtype) for value in self.values(default))
        elif isinstance(function, FUNCTIONS) and self._is_forward(function):
            yield self._made(Kind.TENSOR, node)
        else:
            yield self._made(Kind.UNKNOWN, node)

    def receiver_class(self, node: ast.arg, function: FunctionNode) -> ast.ClassDef | None:
        """Return the class whose method's `self` the parameter is, or None."""
        positional = [*function.args.posonlyargs, *function.args.args]
        parent = self.index.parents.get(function)
        while isinstance(parent, (ast.If, ast.Try)):
            parent = self.index.parents.get(parent)
        if not isinstance(parent, ast.ClassDef) or not positional or positional[0] is not node:
            return None
        decorators = {name for decorator in function.decorator_list for name in self.resolve(decorator)}
        return None if decorators & {"builtins.staticmethod", "builtins.classmethod"} else parent

    def _is_forward(self, function: FunctionNode) -> bool:
        parent = self.index.parents.get(function)
        if function.name != "forward" or not isinstance(parent, ast.ClassDef):
            return False
        return self.is_module_class(self.module.qualified(parent))

    def annotation(self, node: ast.expr, made: ast.AST) -> Iterator[Value]:
        """Yield what an annotation promises; nothing where it says too little."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                quoted = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return
            for child in ast.walk(quoted):
                for grandchild in ast.iter_child_nodes(child):
                    self.index.parents.setdefault(grandchild, child)
            self.index.parents[quoted] = node
            yield from self.annotation(quoted, made)
        elif isinstance(node, ast.Constant) and node.value is None:
            yield self._made(Kind.NONE, made)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield from self.annotation(node.left, made)
            yield from self.annotation(node.right, made)
        elif isinstance(node, ast.Subscript):
            names = self.resolve(node.value)
            if any(name in _CONTAINERS for name in names):
                inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                for part in inner:
                    yield from self.annotation(part, made)
            else:
                yield from self.annotation(node.value, made)
        else:
            for name in self.resolve(node):
                yield from self._annotated(name, made)

    def _annotated(self, name: str, made: ast.AST) -> Iterator[Value]:
        kind = _ANNOTATIONS.get(name)
        if kind is not None:
            number = {"builtins.int": "int", "builtins.float": "float"}.get(name)
            yield self._made(kind, made, dtype=number)
        elif name in ("torch.Tensor", "torch.FloatTensor", "torch.nn.Parameter"):
            yield self._made(Kind.TENSOR, made, dtype=None if name == "torch.Tensor" else "float")
        elif name in ("torch.LongTensor", "torch.IntTensor", "torch.BoolTensor"):
            yield self._made(Kind.TENSOR, made, dtype="bool" if "Bool" in name else "int")
        elif name.startswith("jaxtyping."):
            yield self._made(Kind.TENSOR, made)
        elif self.is_module_class(name):
            yield self._made(Kind.MODULE, made, name)
        elif name.rpartition(".")[2][:1].isupper() and not name.startswith("typing."):
            yield self._made(Kind.INSTANCE, made, name)

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Iterator[Value]:
        names = self.resolve(node.func)
        for name in names:
            yield from self._call_of(name, node)
        if names:
            return
        for value in self.values(node.func):
            if value.kind is Kind.MODULE:
                yield from self._module_call(value.type, node)
            elif value.kind is Kind.INSTANCE and value.type:
                yield from self._call_of(f"{value.type}.__call__", node)
            else:
                yield self._made(Kind.UNKNOWN, node)

    def _module_call(self, type_name: str, node: ast.Call) -> Iterator[Value]:
        """Calling a module runs its forward; those of torch.nn give tensors, recurrent ones tuples of them."""
        if self.class_named(type_name) is not None:
            forward = next(iter(self._instance_attribute(type_name, "forward")), "")
            yield from self._call_of(forward, node)
        elif type_name.rpartition(".")[2] in ("LSTM", "GRU", "RNN", "MultiheadAttention", "LSTMCell"):
            yield self._tensor_tuple(node, 2)
        elif type_name.startswith("torch.nn."):
            yield self._made(Kind.TENSOR, node)
        else:
            yield self._made(Kind.UNKNOWN, node, f"{type_name}.__call__")

    def _tensor_tuple(self, node: ast.AST, length: int = 8) -> Value:
        element = (self._made(Kind.TENSOR, node),)
        return Value(Kind.TUPLE, node=node, module=self.module, elements=(element,) * length)

    def _call_of(self, name: str, node: ast.Call) -> Iterator[Value]:
        types = self.types
        last = name.rpartition(".")[2]
        definition = self.module.project.definition(name)
        if definition is not None:
            yield from self._project_call(name, definition, node)
        elif name in types.tensors:
            yield self._made(Kind.TENSOR, node, dtype=self._call_dtype(last, node))
        elif name in types.tensor_tuples:
            yield self._tensor_result(last, node)
        elif name in types.wrappers:
            yield from self._wrapped(node)
        elif name in types.modules:
            yield self._made(Kind.MODULE, node, name)
        elif self.is_module_class(name):
            yield self._made(Kind.MODULE, node, name)
        elif name == "torch.nn.Parameter" or name in ("torch.Tensor", "torch.FloatTensor"):
            yield self._made(Kind.TENSOR, node, dtype="float")
        elif name == "torch.LongTensor":
            yield self._made(Kind.TENSOR, node, dtype="int")
        elif self._returns_receiver(name, last) and isinstance(node.func, ast.Attribute):
            yield from self.values(node.func.value)
        elif name == "torch.Tensor.numpy":
            yield self._made(Kind.ARRAY, node)
        elif name.startswith("builtins."):
            yield from self._builtin(name.removeprefix("builtins."), node)
        elif name.startswith("numpy.") and last[:1].islower() and not name.startswith("numpy.random."):
            yield self._made(Kind.ARRAY, node)
        elif last[:1].isupper():
            yield self._made(Kind.INSTANCE, node, name)
        else:
            yield self._made(Kind.UNKNOWN, node, name)

    def _returns_receiver(self, name: str, last: str) -> bool:
        if last not in self.types.module_methods:
            return False
        owner = name.rpartition(".")[0]
        return owner == "torch.nn.Module" or self.is_module_class(owner)

    def _call_dtype(self, last: str, node: ast.Call) -> str | None:
        for keyword in node.keywords:
            if keyword.arg == "dtype":
                return self.dtype_named(keyword.value)
        if last in ("to", "type") and node.args:
            named = self.dtype_named(node.args[0])
            if named is not None:
                return named
        if last in self.types.dtypes:
            precise = {"float": "float32", "half": "float16", "double": "float64", "bfloat16": "bfloat16"}
            return precise.get(last, self.types.dtypes[last])
        if isinstance(node.func, ast.Attribute):
            receiver = [value for value in self.values(node.func.value) if value.kind is Kind.TENSOR]
            if receiver:
                return receiver[0].dtype
        if last in ("tensor", "as_tensor") and node.args:
            return self._literal_dtype(node.args[0])
        if last in ("zeros", "ones", "empty", "eye", "full"):
            return "float" if last != "full" else None
        operands = [value for argument in node.args[:2] for value in self.values(argument)]
        tensors = {value.dtype for value in operands if value.kind is Kind.TENSOR}
        return tensors.pop() if len(tensors) == 1 else None

    def dtype_named(self, node: ast.expr) -> str | None:
        """Return the dtype that `torch.float16`, `np.int64`, `torch.half` or `"float32"` names, or None."""
        for name in self.resolve(node):
            owner, _, last = name.rpartition(".")
            if owner in ("torch", "numpy") or (owner == "builtins" and last in ("int", "float", "bool")):
                return {"half": "float16", "double": "float64", "long": "int64"}.get(last, last)
        return None

    def _literal_dtype(self, node: ast.expr) -> str | None:
        literals = [child.value for child in ast.walk(node) if isinstance(child, ast.Constant)]
        if not literals or any(isinstance(child, (ast.Name, ast.Call)) for child in ast.walk(node)):
            return None
        if any(isinstance(value, float) for value in literals):
            return "float"
        return "bool" if all(isinstance(value, bool) for value in literals) else "int"

    def _tensor_result(self, last: str, node: ast.Call) -> Value:
        """max, min and median without a dimension give one tensor; the rest always gives several."""
        if last in ("max", "min", "median", "nanmedian"):
            method = isinstance(node.func, ast.Attribute) and not self.resolve(node.func.value)
            reduced = len(node.args) + len(node.keywords) > (0 if method else 1)
            if not reduced:
                return self._made(Kind.TENSOR, node)
        if last == "unique" and not any(keyword.arg in ("return_inverse", "return_counts") for keyword in node.keywords):
            return self._made(Kind.TENSOR, node)
        return self._tensor_tuple(node)

    def _wrapped(self, node: ast.Call) -> Iterator[Value]:
        arguments = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg in ("model", "module"))]
        if not arguments:
            yield self._made(Kind.UNKNOWN, node)
        for argument in arguments[:1]:
            yield from self.values(argument)

    def _builtin(self, name: str, node: ast.Call) -> Iterator[Value]:
        owner, _, method = name.rpartition(".")
        if owner == "set" and method in _SET_METHODS:
            yield self._made(Kind.SET, node)
        elif owner == "str":
            yield self._made(Kind.LIST if method in _STRING_LISTS else Kind.STRING, node)
        elif owner in ("list", "dict") and method == "copy":
            yield self._made(Kind(owner), node)
        elif owner == "dict" and method in ("keys", "values", "items"):
            yield self._made(Kind.ITERATOR, node, f"builtins.dict.{method}")
        elif name == "open":
            yield self._made(Kind.INSTANCE, node, "io.TextIOWrapper")
        elif name == "super":
            yield from self._super(node)
        elif name in ("list", "tuple", "sorted", "reversed", "iter") and node.args:
            elements = self._elements(node.args[0], self.values(node.args[0]))
            yield Value(_BUILTIN_RESULTS[name], node=node, module=self.module, elements=(elements,))
        elif name == "next" and node.args:
            yield from self._elements(node.args[0], self.values(node.args[0]))
        elif name in ("float", "int"):
            yield self._made(Kind.NUMBER, node, dtype=name)
        else:
            yield self._made(_BUILTIN_RESULTS.get(name, Kind.UNKNOWN), node, "" if name in _BUILTIN_RESULTS else name)

    def _super(self, node: ast.Call) -> Iterator[Value]:
        owner = self.index.class_at(node)
        for base in owner.bases if owner is not None else ():
            for name in self.resolve(base):
                yield self._made(Kind.MODULE if self.is_module_class(name) else Kind.INSTANCE, node, name)

    def _project_call(
        self, name: str, definition: tuple[Module, FunctionNode | ast.ClassDef], node: ast.Call
    ) -> Iterator[Value]:
        module, found = definition
        if isinstance(found, ast.ClassDef):
            yield self._made(Kind.MODULE if self.is_module_class(name) else Kind.INSTANCE, node, name)
            return
        if any(value.kind is not Kind.UNKNOWN for value in self._declared(module, found)):
            yield from self._declared(module, found)
            return
        for value in module.inference.returned(found):
            argument = self._argument_for(value, found, node)
            if argument is None:
                yield value
            else:
                yield from self.values(argument)

    def _declared(self, module: Module, function: FunctionNode) -> tuple[Value, ...]:
        if function.returns is None or isinstance(function, ast.AsyncFunctionDef):
            return ()
        declared = tuple(module.inference.annotation(function.returns, function.returns))
        # A declared tensor is as good as a computed one; a declared module hides its class and its mode.
        return declared if all(value.kind is Kind.TENSOR for value in declared) else ()

    def returned(self, function: FunctionNode) -> tuple[Value, ...]:
        """Return what calling `function` of this module can give; parameters stand for themselves."""
        results: dict[Value, None] = {}
        for statement in self.module.flow(self.index.scopes[function]).returns():
            values = self.values(statement.value) if statement.value is not None else ()
            results.update(dict.fromkeys(values))
        return tuple(results) or (UNKNOWN,)

    def _argument_for(self, value: Value, function: FunctionNode, call: ast.Call) -> ast.expr | None:
        """Return the argument of `call` behind a returned value that is just a parameter of the function."""
        if not isinstance(value.node, ast.arg) or value.kind not in (Kind.UNKNOWN, Kind.MODULE):
            return None
        return argument_of(function, value.node.arg, call, skip_self=isinstance(call.func, ast.Attribute))

    # --- attributes and items ---------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Iterable[Value]:
        for value in self.values(node.value):
            if value.kind is Kind.TENSOR:
                yield from self._tensor_attribute(node, value)
            elif value.kind in (Kind.MODULE, Kind.INSTANCE):
                yield from self._attribute_values(value.type, node)
            elif value.kind is Kind.TUPLE and node.attr in ("values", "indices"):
                dtype = "int" if node.attr == "indices" else None
                yield self._made(Kind.TENSOR, node, dtype=dtype)
            else:
                names = self.resolve(node)
                if not names:
                    yield self._made(Kind.UNKNOWN, node)
                for name in names:
                    yield from self._reference(name, node)

    def _tensor_attribute(self, node: ast.Attribute, value: Value) -> Iterator[Value]:
        if node.attr in self.types.tensor_attributes:
            yield self._made(Kind.TENSOR, node, dtype=value.dtype)
        elif node.attr == "shape":
            yield self._made(Kind.TUPLE, node)
        elif node.attr == "ndim":
            yield self._made(Kind.NUMBER, node, dtype="int")
        else:
            yield self._made(Kind.UNKNOWN, node)

    def _attribute_values(self, type_name: str, node: ast.Attribute) -> Iterator[Value]:
        info = self.class_named(type_name)
        if info is None:
            if node.attr == "module":  # DataParallel and its kind hold the wrapped model there
                yield from self.values(node.value)
            yield self._made(Kind.UNKNOWN, node)
            return
        found = False
        for owner, write in self.attribute_writes(info, node.attr):
            found = True
            values = owner.module.inference.values(write.value)
            for position in write.index:
                values = tuple(item for value in values for item in _item(value, position)) or (UNKNOWN,)
            yield from values
        if not found:
            yield self._made(Kind.UNKNOWN, node)

    def _subscript(self, node: ast.Subscript) -> Iterable[Value]:
        for value in self.values(node.value):
            if value.kind in (Kind.TENSOR, Kind.ARRAY):
                yield self._made(value.kind, node, dtype=value.dtype)
            elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                yield from _item(value, node.slice.value)
            elif value.kind is Kind.MODULE and value.type in ("torch.nn.ModuleList", "torch.nn.Sequential"):
                yield from self._elements(node.value, (value,))
            elif isinstance(node.slice, ast.Slice) and value.kind in (Kind.LIST, Kind.TUPLE, Kind.STRING):
                yield self._made(value.kind, node)
            else:
                yield self._made(Kind.UNKNOWN, node)

    def _elements(self, node: ast.expr, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return what iterating over `node`, whose values are `values`, gives."""
        results: dict[Value, None] = {}
        for value in values:
            results.update(dict.fromkeys(self._element(node, value)))
        return tuple(results) or (UNKNOWN,)

    def _element(self, node: ast.expr, value: Value) -> Iterator[Value]:
        if value.kind in (Kind.TENSOR, Kind.ARRAY):
            yield self._made(value.kind, node, dtype=value.dtype)
        elif value.kind in (Kind.LIST, Kind.TUPLE, Kind.SET) and value.elements:
            for element in value.elements:
                yield from element
        elif value.kind is Kind.INSTANCE and value.type.endswith("DataLoader"):
            # A batch: tensors, or a dict or tuple of them.
            yield Value(Kind.TENSOR, "batch", node=node, module=self.module)
        elif value.kind is Kind.MODULE and isinstance(value.node, ast.Call) and value.module is not None:
            inference = value.module.inference
            for argument in value.node.args:
                starred = isinstance(argument, ast.Starred)
                inner = inference.values(argument.value if isinstance(argument, ast.Starred) else argument)
                listed = starred or value.type == "torch.nn.ModuleList"
                yield from inference._elements(argument, inner) if listed else inner
        elif value.kind is Kind.ITERATOR and isinstance(value.node, ast.Call):
            yield from self._iterator_element(value)
        elif value.kind is Kind.ITERATOR and value.elements:
            yield from value.elements[0]
        elif value.kind is Kind.STRING:
            yield self._made(Kind.STRING, node)
        else:
            yield self._made(Kind.UNKNOWN, node)

    def _iterator_element(self, value: Value) -> Iterator[Value]:
        call, module = value.node, value.module
        assert isinstance(call, ast.Call)
        assert module is not None
        inference = module.inference
        names = inference.resolve(call.func)
        arguments = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
        inner = [inference._elements(argument, inference.values(argument)) for argument in arguments]
        if "builtins.range" in names:
            yield self._made(Kind.NUMBER, call, dtype="int")
        elif "builtins.enumerate" in names and inner:
            counter = (self._made(Kind.NUMBER, call, dtype="int"),)
            yield Value(Kind.TUPLE, node=call, module=module, elements=(counter, inner[0]))
        elif "builtins.zip" in names:
            yield Value(Kind.TUPLE, node=call, module=module, elements=tuple(inner))
        elif value.elements:
            yield from value.elements[0]
        else:
            yield self._made(Kind.UNKNOWN, call)


def argument_of(function: FunctionNode, name: str, call: ast.Call, *, skip_self: bool) -> ast.expr | None:
    """Return what `call` passes for the parameter `name` of `function`, or None where that is not written out."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = [argument.arg for argument, _ in parameters(function.args)]
    if names[:1] in (["self"], ["cls"]) and skip_self:
        names = names[1:]
    if name not in names:
        return None
    position = names.index(name)
    before = call.args[: position + 1]
    if position < len(call.args) and not any(isinstance(argument, ast.Starred) for argument in before):
        return call.args[position]
    return None


def _item(value: Value, position: int) -> Iterator[Value]:
    """Yield what stands at `position` of a tuple, list or batch."""
    if value.kind in (Kind.TUPLE, Kind.LIST) and len(value.elements) > position >= -len(value.elements):
        yield from value.elements[position]
    elif value.kind in (Kind.LIST, Kind.ITERATOR) and len(value.elements) == 1:
        yield from value.elements[0]
    elif value.kind in (Kind.TENSOR, Kind.ARRAY):
        yield Value(value.kind, node=value.node, module=value.module, dtype=value.dtype)
    elif value.kind is Kind.TUPLE and not value.elements and isinstance(value.node, ast.Attribute):
        yield Value(Kind.NUMBER, dtype="int", node=value.node, module=value.module)
    else:
        yield Value(Kind.UNKNOWN, node=value.node, module=value.module)


def _arithmetic_dtype(operands: list[Value], op: ast.operator) -> str | None:
    dtypes = [value.dtype for value in operands]
    floating = next((value.dtype for value in operands if value.is_floating), None)
    if floating is not None:
        return floating
    if isinstance(op, ast.Div):
        return "float"
    return "int" if dtypes and all(value.is_integral for value in operands) else None


_INFERENCES = {
    ast.Constant: Inference._constant,
    ast.List: Inference._display,
    ast.Tuple: Inference._display,
    ast.Set: Inference._display,
    ast.ListComp: Inference._comprehension,
    ast.SetComp: Inference._comprehension,
    ast.GeneratorExp: Inference._comprehension,
    ast.Dict: Inference._dict,
    ast.DictComp: Inference._dict,
    ast.JoinedStr: Inference._string,
    ast.IfExp: Inference._branches,
    ast.BoolOp: Inference._bool_op,
    ast.NamedExpr: Inference._inner,
    ast.Await: Inference._inner,
    ast.Starred: Inference._inner,
    ast.UnaryOp: Inference._unary,
    ast.Compare: Inference._compare,
    ast.BinOp: Inference._binary,
    ast.Name: Inference._name,
    ast.Call: Inference._call,
    ast.Attribute: Inference._attribute,
    ast.Subscript: Inference._subscript,
}
