"""Local typing: what a name refers to and what an expression can be, worked out on demand and never guessed.

Names resolve only through bindings; a method is known only where its receiver is. What cannot be told is UNKNOWN.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from detlint.linter.analysis.arithmetic import combined
from detlint.linter.analysis.calls import call_values, returned
from detlint.linter.analysis.classes import AttributeWrite, ClassInfo
from detlint.linter.analysis.dicts import written_items
from detlint.linter.analysis.elements import elements, item
from detlint.linter.analysis.given_objects import objects_given
from detlint.linter.analysis.parameters import annotation_values, parameter_values
from detlint.linter.analysis.resolution import referred_names
from detlint.linter.analysis.values import UNKNOWN, Kind, Value, load_types
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_PROPERTIES = frozenset({"builtins.property", "functools.cached_property"})
_MAX_ALTERNATIVES = 8
_WITHOUT_ATTRIBUTES = frozenset({Kind.STRING, Kind.NUMBER, Kind.BOOL, Kind.LIST, Kind.TUPLE, Kind.SET, Kind.DICT})


class Inference:
    """Answers questions about the expressions of one module; asks other modules' inference where names lead there."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.index = module.index
        self.questions = module.project.questions
        self.types = load_types()
        self._values: dict[ast.expr, tuple[Value, ...]] = {}
        self._imported: dict[Binding, tuple[Value, ...]] = {}
        self._resolved: dict[ast.expr, tuple[str, ...]] = {}
        self._mros: dict[ClassInfo, tuple[ClassInfo, ...]] = {}
        self._external_bases: dict[ClassInfo, tuple[str, ...]] = {}

    # --- names ----------------------------------------------------------------------------------------------------

    def resolve(self, node: ast.expr) -> tuple[str, ...]:
        """Return the qualified names that `node` may refer to, in order; empty where that cannot be told.

        Methods resolve through the receiver's type: "torch.Tensor.median", "torch.nn.Module.eval",
        "pkg.model.Net.encode". An instance that is called resolves to "<its class>.__call__".
        """
        known = self._resolved.get(node)
        if known is not None:
            return known
        # A name that leads back to itself refers to nothing.
        return self.questions.answer(self._resolved, node, self._resolve, ())

    def _resolve(self, node: ast.expr) -> tuple[str, ...]:
        return tuple(dict.fromkeys(referred_names(self, node)))[:_MAX_ALTERNATIVES]

    def callees(self, call: ast.Call) -> tuple[str, ...]:
        """Return the qualified names that `call` may call: functions, classes, methods, or `Class.__call__`."""
        names = self.resolve(call.func)
        if names:
            return names
        instances = (value for value in self.values(call.func) if value.kind in (Kind.MODULE, Kind.INSTANCE))
        return tuple(dict.fromkeys(f"{value.type}.__call__" for value in instances if value.type))

    def decorators(self, function: FunctionNode) -> set[str]:
        """Return the qualified names of what decorates a function of this module."""
        return {name for decorator in function.decorator_list for name in self.resolve(decorator)}

    def canonical(self, name: str) -> str:
        return self.types.canonical(self.module.project.canonical(name, self.module))

    # --- classes --------------------------------------------------------------------------------------------------

    def class_info(self, node: ast.ClassDef) -> ClassInfo:
        """Return what the class `node` of this module holds."""
        return self.module.classes[node]

    def class_named(self, name: str) -> ClassInfo | None:
        """Return the project's class of this qualified name, or None."""
        definition = self.module.project.definition(name)
        if definition is None or not isinstance(definition[1], ast.ClassDef):
            return None
        return definition[0].classes[definition[1]]

    def mro(self, info: ClassInfo) -> tuple[ClassInfo, ...]:
        """Return the class and the project's classes it inherits from, nearest first."""
        if self.module is not info.module:
            return info.module.inference.mro(info)
        # A class that inherits from itself has no other ancestors.
        return self.questions.answer(self._mros, info, self._mro, (info,))

    def _mro(self, info: ClassInfo) -> tuple[ClassInfo, ...]:
        found = {info.name: info}
        for base in info.node.bases:
            for name in self.resolve(base):
                parent = self.class_named(name)
                for ancestor in self.mro(parent) if parent is not None else ():
                    if ancestor is not info:
                        found.pop(ancestor.name, None)  # a base that two of them share comes after both
                        found[ancestor.name] = ancestor
        return tuple(found.values())

    def external_bases(self, info: ClassInfo) -> tuple[str, ...]:
        """Return the qualified names of the bases outside the project, its ancestors' included."""
        return self.questions.answer(self._external_bases, info, self._bases_outside, ())

    def _bases_outside(self, info: ClassInfo) -> tuple[str, ...]:
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

    def property_of(self, info: ClassInfo, attribute: str) -> tuple[Module, FunctionNode] | None:
        """Return the function that computes an attribute, with its module, where that is a property."""
        for ancestor in self.mro(info):
            method = ancestor.methods.get(attribute)
            if method is not None:
                named = ancestor.module.inference.decorators(method)
                return (ancestor.module, method) if named & _PROPERTIES else None
        return None

    def attribute_declared(self, info: ClassInfo, attribute: str) -> tuple[Value, ...]:
        """Return what the annotation of a field says that nothing else sets, or nothing where there is none."""
        for ancestor in self.mro(info):
            annotation = ancestor.declared.get(attribute)
            if annotation is not None:
                return tuple(annotation_values(ancestor.module.inference, annotation, annotation))
        return ()

    # --- values ---------------------------------------------------------------------------------------------------

    def values(self, node: ast.expr) -> tuple[Value, ...]:
        """Return what `node` can be, in order; holds UNKNOWN where some path cannot be told."""
        known = self._values.get(node)
        if known is not None:
            return known
        # A value that depends on itself cannot be told.
        return self.questions.answer(self._values, node, self._infer, (UNKNOWN,))

    def made(self, kind: Kind, node: ast.AST, type: str = "", dtype: str | None = None) -> Value:
        return Value(kind, type, dtype, node, self.module)

    def _infer(self, node: ast.expr) -> tuple[Value, ...]:
        method = _INFERENCES.get(node.__class__)
        found = tuple(method(self, node)) if method is not None else ()
        return found if len(found) == 1 else tuple(dict.fromkeys(found))[:_MAX_ALTERNATIVES] or (UNKNOWN,)

    def _constant(self, node: ast.Constant) -> Iterable[Value]:
        value = node.value
        if value is None:
            yield self.made(Kind.NONE, node)
        elif isinstance(value, bool):
            yield self.made(Kind.BOOL, node)
        elif isinstance(value, (int, float, complex)):
            yield self.made(Kind.NUMBER, node, dtype="int" if isinstance(value, int) else "float")
        elif isinstance(value, (str, bytes)):
            yield self.made(Kind.STRING, node)

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Iterable[Value]:
        kind = {ast.List: Kind.LIST, ast.Tuple: Kind.TUPLE, ast.Set: Kind.SET}[node.__class__]
        starred = any(isinstance(element, ast.Starred) for element in node.elts)
        elements = () if starred else tuple(self.values(element) for element in node.elts[:16])
        yield Value(kind, node=node, module=self.module, elements=elements)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Iterable[Value]:
        kinds = {ast.ListComp: Kind.LIST, ast.SetComp: Kind.SET, ast.GeneratorExp: Kind.ITERATOR}
        yield Value(kinds[node.__class__], node=node, module=self.module, elements=(self.values(node.elt),))

    def _dict(self, node: ast.Dict | ast.DictComp) -> Iterable[Value]:
        yield self.made(Kind.DICT, node)

    def _string(self, node: ast.JoinedStr) -> Iterable[Value]:
        yield self.made(Kind.STRING, node)

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
            yield self.made(Kind.BOOL, node)
        else:
            yield from self.values(node.operand)

    def _compare(self, node: ast.Compare) -> Iterable[Value]:
        sides = [value for side in (node.left, *node.comparators) for value in self.values(side)]
        plain = all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        if not plain and any(value.kind is Kind.TENSOR for value in sides):
            yield self.made(Kind.TENSOR, node, dtype="bool")
        elif not plain and any(value.kind is Kind.ARRAY for value in sides):
            yield self.made(Kind.ARRAY, node, dtype="bool")
        else:
            yield self.made(Kind.BOOL, node)

    def _binary(self, node: ast.BinOp) -> Iterable[Value]:
        yield from combined(self, self.values(node.left), self.values(node.right), node.op, node)

    def _name(self, node: ast.Name) -> Iterable[Value]:
        bindings = self.module.definitions(node)
        if not bindings:
            for name in self.resolve(node):
                yield from self.reference(name, node)
            return
        for binding in bindings[:_MAX_ALTERNATIVES]:
            yield from self.bound(binding)

    def bound(self, binding: Binding) -> tuple[Value, ...]:
        """Return what `binding` makes its name be."""
        node = binding.node
        if binding.kind is BindingKind.IMPORT:
            # Files that import a name from each other in a ring never say what it is.
            return self.questions.answer(self._imported, binding, self._import, (UNKNOWN,))
        if isinstance(node, FUNCTIONS):
            return (self.made(Kind.FUNCTION, node, self.module.qualified(node)),)
        if isinstance(node, ast.ClassDef):
            return (self.made(Kind.CLASS, node, self.module.qualified(node)),)
        if isinstance(node, ast.arg):
            found = tuple(dict.fromkeys(parameter_values(self, node, binding)))
            known = any(value.kind is not Kind.UNKNOWN for value in found)
            return found if known else (*dict.fromkeys(objects_given(self, node, binding)), *(found or (UNKNOWN,)))
        if binding.value is None:
            return (UNKNOWN,)
        if binding.kind is BindingKind.AUGMENTED:
            return self._augmented(binding)
        values = self.values(binding.value)
        if binding.kind is BindingKind.ITERATION:
            values = elements(self, binding.value, values)
        for position in binding.index:
            values = tuple(found for value in values for found in item(value, position)) or (UNKNOWN,)
        return values

    def _import(self, binding: Binding) -> tuple[Value, ...]:
        return tuple(self.reference(self.canonical(binding.target), binding.node))

    def _augmented(self, binding: Binding) -> tuple[Value, ...]:
        statement = self.index.statement(binding.node)
        if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
            return (UNKNOWN,)
        others = [b for b in binding.of_same_name if b.kind is not BindingKind.AUGMENTED]
        before = tuple(value for other in others for value in self.bound(other)) or (UNKNOWN,)
        return tuple(combined(self, before, self.values(statement.value), statement.op, statement))

    def reference(self, name: str, node: ast.AST) -> Iterator[Value]:
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

    # --- attributes and items ---------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Iterable[Value]:
        for value in self.values(node.value):
            if value.kind is Kind.TENSOR:
                yield from self._tensor_attribute(node, value)
            elif self._holds_attribute(value, node.attr):
                yield from self._attribute_values(value.type, node)
            elif node.attr == "value" and value.kind in _WITHOUT_ATTRIBUTES:
                yield value  # of a member of an enum, which is taken for what it is set to
            elif value.kind is Kind.TUPLE and node.attr in ("values", "indices"):
                dtype = "int" if node.attr == "indices" else None
                yield self.made(Kind.TENSOR, node, dtype=dtype)
            else:
                names = self.resolve(node)
                if not names:
                    yield self.made(Kind.UNKNOWN, node)
                for name in names:
                    yield from self.reference(name, node)

    def _tensor_attribute(self, node: ast.Attribute, value: Value) -> Iterator[Value]:
        if node.attr in self.types.tensor_attributes:
            yield self.made(Kind.TENSOR, node, dtype=value.dtype)
        elif node.attr == "shape":
            yield self.made(Kind.TUPLE, node)
        elif node.attr == "ndim":
            yield self.made(Kind.NUMBER, node, dtype="int")
        else:
            yield self.made(Kind.UNKNOWN, node)

    def _holds_attribute(self, value: Value, attribute: str) -> bool:
        if value.kind is not Kind.CLASS:
            return value.kind in (Kind.MODULE, Kind.INSTANCE)
        info = self.class_named(value.type)
        return info is not None and attribute in info.attributes

    def _attribute_values(self, type_name: str, node: ast.Attribute) -> Iterator[Value]:
        info = self.class_named(type_name)
        if info is None:
            if node.attr == "parent" and type_name == "pathlib.Path":
                yield from self.values(node.value)
                return
            if node.attr == "module":  # DataParallel and its kind hold the wrapped model there
                yield from self.values(node.value)
            yield self.made(Kind.UNKNOWN, node)
            return
        getter = self.property_of(info, node.attr)
        if getter is not None:
            yield from returned(getter[0].inference, getter[1])
            return
        declared = self.attribute_declared(info, node.attr)
        written = False
        for owner, write in self.attribute_writes(info, node.attr):
            written = True
            values = owner.module.inference.values(write.value)
            for position in write.index:
                values = tuple(found for value in values for found in item(value, position)) or (UNKNOWN,)
            known = [value for value in values if value.kind is not Kind.UNKNOWN]
            yield from known
            if len(known) < len(values):
                yield from declared or values
        if not written:
            yield from declared or (self.made(Kind.UNKNOWN, node),)

    def _subscript(self, node: ast.Subscript) -> Iterable[Value]:
        for value in self.values(node.value):
            if value.kind in (Kind.TENSOR, Kind.ARRAY):
                yield self.made(value.kind, node, dtype=value.dtype)
            elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                yield from item(value, node.slice.value)
            elif value.kind is Kind.MODULE and value.type in ("torch.nn.ModuleList", "torch.nn.Sequential"):
                yield from elements(self, node.value, (value,))
            elif isinstance(node.slice, ast.Slice) and value.kind in (Kind.LIST, Kind.TUPLE, Kind.STRING):
                yield self.made(value.kind, node)
            elif value.kind is Kind.DICT and (found := self._under_key(node)) is not None:
                yield from self.values(found)
            elif isinstance(node.value, ast.Tuple):
                yield from elements(self, node.value, (value,))  # ("linear", "bilinear")[dimensions - 1]
            else:
                yield self.made(Kind.UNKNOWN, node)

    def _under_key(self, node: ast.Subscript) -> ast.expr | None:
        """Return what stands in a dictionary that is written out: `config["rate"]`."""
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        items = written_items(self.module, node.value) if isinstance(key, str) else None
        return items.get(str(key)) if items is not None else None


_INFERENCES: dict[type[ast.AST], Callable[[Inference, Any], Iterable[Value]]] = {
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
    ast.Call: call_values,
    ast.Attribute: Inference._attribute,
    ast.Subscript: Inference._subscript,
}
