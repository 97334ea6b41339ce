"""Which variable holds the model that an expression means? Wrappers, moves and aliases are looked through."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.linter.analysis.calls import argument_of, functions_called
from detlint.linter.analysis.calls_elsewhere import constructions
from detlint.linter.analysis.classes import class_made
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import load_types
from detlint.linter.modes.switches import may_switch, switched, switches_any
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, Scope
from detlint.linter.source.nodes import arguments_of, identifier, is_own, receiver_of, unless_none, walk

# Methods that return the model they are called on and leave its mode alone.
_KEEPING = frozenset(
    {"to", "cuda", "cpu", "float", "half", "double", "bfloat16", "type", "xpu", "requires_grad_", "to_empty", "compile"}
    | {"apply", "share_memory"}
)
# These give back what they are given, one or several, in the mode that it was in.
_PREPARING = frozenset(
    {"accelerate.Accelerator.prepare", "apex.amp.initialize"}
    | {"lightning.fabric.Fabric.setup", "lightning.fabric.Fabric.setup_module"}
)
# Under these names wrappers keep the model that they are given.
_INSIDE = ("module", "_orig_mod")
# How many functions hand on what they are given to another that gives it back.
_MAX_CALLS = 3
_COPYING = frozenset(
    {"copy.deepcopy", "copy.copy", "torchvision.models.feature_extraction.create_feature_extractor"}
    | {"torch.optim.swa_utils.AveragedModel"}
)
_COPYING_METHODS = frozenset({"clone", "copy", "deepcopy", "__deepcopy__", "__copy__"})


@dataclass(frozen=True, slots=True, eq=True)
class Key:
    """A variable that holds a model: its name and what owns it (a function, the module, or for `self.name` a class)."""

    owner: ast.AST
    name: str


class ModelNames:
    """Names of models in one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.index = module.index
        self._passed: dict[tuple[FunctionNode, str], Key | None] = {}

    def key(self, node: ast.expr, depth: int = 4) -> Key | None:
        """Return the variable whose model an expression gives, wrappers, aliases and switches looked through."""
        node = self.unwrapped(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and switched(node) is not None:
            return self.key(node.func.value, depth)  # `net.train()` gives the net
        if isinstance(node, ast.Name):
            scope = self.index.scope_at(node).lookup(node.id)
            if scope is None or isinstance(scope.node, ast.ClassDef):
                return None
            return self.canonical(Key(scope.node, node.id), scope, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self.self_class(node.value)
            return Key(owner, self._behind_property(owner, node.attr)) if owner is not None else None
        return self._key_of_item(node, depth) if isinstance(node, ast.Subscript) else None

    def _key_of_item(self, item: ast.Subscript, depth: int) -> Key | None:
        """Models of one list or dict are in one mode, as far as can be told; `kept[name]` may hold other things too."""
        if isinstance(item.value, (ast.Name, ast.Attribute)):
            return self.key(item.value, depth)
        word = item.slice.value if isinstance(item.slice, ast.Constant) else None
        around = self._key_of_item(item.value, depth) if isinstance(item.value, ast.Subscript) else None
        return Key(around.owner, f"{around.name}[{word!r}]") if around is not None and isinstance(word, str) else None

    def _behind_property(self, owner: ast.ClassDef, name: str) -> str:
        """Return the attribute that a property hands out, `_net` of `net`; the name itself where it is none."""
        method = self.module.classes[owner].methods.get(name)
        if method is None or "builtins.property" not in self.module.inference.decorators(method):
            return name
        given = {part.value for part in walk(method) if isinstance(part, ast.Return) and part.value is not None}
        names = {identifier(value) if is_own(value) else "" for value in given}
        return names.pop() or name if len(names) == 1 else name

    def made_at_first_use(self, owner: ast.ClassDef, name: str) -> FunctionNode | None:
        """`@cached_property`: return the method that makes an attribute of a class when it is first read."""
        method = self.module.classes[owner].methods.get(name)
        cached = method is not None and "functools.cached_property" in self.module.inference.decorators(method)
        return method if cached else None

    def unwrapped(self, node: ast.expr) -> ast.expr:
        """Strip what keeps the mode: `DataParallel(net)`, `net.to(device)`, `model.module`, `net if on else None`."""
        while True:
            node = unless_none(node)
            if isinstance(node, ast.Call):
                inner = self._kept(node)
                if inner is None:
                    return node
                node = inner
            elif isinstance(node, ast.Attribute) and self._is_inside_wrapper(node):
                node = node.value
            else:
                return node

    def _is_inside_wrapper(self, part: ast.Attribute) -> bool:
        """`wrapped.module`, and not what a class of this file that is no module itself keeps under that name."""
        if part.attr not in _INSIDE:
            return False
        keeper = self.self_class(part.value) if isinstance(part.value, ast.Name) else None
        return keeper is None or self.module.inference.is_module_class(self.module.qualified(keeper))

    def _kept(self, call: ast.Call) -> ast.expr | None:
        kept = _moved_or_wrapped(call, self.module)
        return self.handed_back(call, ()) if kept is None else kept

    def handed_back(self, call: ast.Call, index: tuple[int, ...]) -> ast.expr | None:
        """Return what of its arguments a call gives back as it was (at `index` of a tuple).

        `accelerator.prepare(net, optimizer)`, or `load_weights(net, path)`, a function of the project.
        """
        return _handed_back_by(call, index, self.module, _MAX_CALLS)

    def copied(self, call: ast.Call) -> ast.expr | None:
        """Return the model of `copy.deepcopy(net)`, which keeps its mode; so does `net.clone()` that nobody defines.

        What gives some outputs of its inner layers is a copy as well.
        """
        names = self.module.inference.callees(call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _COPYING_METHODS and not call.args:
            return None if any(map(self.module.project.definition, names)) else call.func.value
        return call.args[0] if call.args and not _COPYING.isdisjoint(names) else None

    def canonical(self, key: Key, scope: Scope, depth: int) -> Key:
        """Follow `net = model.train()` and `wrapped = DataParallel(model)` to `model`, a parameter to `self.model`."""
        if depth == 0:
            return key
        bindings = scope.bindings.get(key.name, ())
        if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER and isinstance(scope.node, FUNCTIONS):
            return self._passed_to(scope.node, key.name) or key
        others = set()
        for binding in bindings:
            if len(bindings) == 1 and binding.kind is BindingKind.ITERATION:
                return self._gone_through(binding, depth) or key
            if binding.kind is not BindingKind.ASSIGN or binding.value is None or binding.index:
                return key
            inner = self.unwrapped(binding.value)
            if isinstance(inner, ast.Name) and inner.id == key.name:
                continue
            others.add(None if isinstance(inner, ast.Subscript) else self.key(inner, depth - 1))
        found = others.pop() if len(others) == 1 else None
        return key if found is None else found

    def _gone_through(self, binding: Binding, depth: int) -> Key | None:
        """`for name, net in self.nets.items()`: the variable that holds what the loop goes through."""
        source, place = binding.value, binding.index
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute):
            wanted = {"values": (), "items": (1,)}.get(source.func.attr)
            source, place = (source.func.value, ()) if place == wanted else (source, place)
        return self.key(source, depth - 1) if isinstance(source, (ast.Name, ast.Attribute)) and not place else None

    def _passed_to(self, method: FunctionNode, name: str) -> Key | None:
        """Return the attribute that all calls of a method in its class pass for a parameter: `self.fit(self.net)`."""
        if (method, name) not in self._passed:
            self._passed[method, name] = None  # a method that calls itself
            owner = self.index.parents.get(method)
            calls = self.callers(method) if method.name != "__init__" else ()
            given = [given_to(method, name, call) for call in calls]
            keys = {self.key(value) if value is not None else None for value in given}
            found = keys.pop() if len(keys) == 1 and isinstance(owner, ast.ClassDef) else None
            self._passed[method, name] = found if found is not None and found.owner is owner else None
        return self._passed[method, name]

    def self_class(self, name: ast.Name) -> ast.ClassDef | None:
        """Return the class whose method's `self` a name is, or whose instance its method makes: `made = cls(path)`."""
        for binding in self.module.definitions(name):
            function = binding.scope.node
            if binding.kind is BindingKind.PARAMETER and isinstance(function, FUNCTIONS):
                owner = self.index.parents.get(function)
                first = [*function.args.posonlyargs, *function.args.args][:1]
                if isinstance(owner, ast.ClassDef) and first and first[0] is binding.node:
                    return owner
            elif binding.kind is BindingKind.ASSIGN and isinstance(binding.value, ast.Call):
                return class_made(self.module, name) or self._keeper_made(name)
        return None

    def _keeper_made(self, name: ast.Name) -> ast.ClassDef | None:
        """`averaged = EMA(net)`: the class of this file, no module itself, of which this is the only instance there."""
        bindings = self.module.definitions(name)
        call = bindings[0].value if len(bindings) == 1 and not bindings[0].index else None
        names = self.module.inference.callees(call) if isinstance(call, ast.Call) else ()
        found = self.module.project.definition(names[0]) if len(names) == 1 else None
        if found is None or found[0] is not self.module or self.module.inference.is_module_class(names[0]):
            return None
        only = list(constructions(names[0], self.module)) == [call]
        return found[1] if only and isinstance(found[1], ast.ClassDef) else None

    def class_behind(self, key: Key) -> ast.ClassDef | None:
        """Return the class whose method's `self` a variable is."""
        owner = self.index.parents.get(key.owner) if isinstance(key.owner, FUNCTIONS) else None
        first = [*key.owner.args.posonlyargs, *key.owner.args.args][:1] if isinstance(key.owner, FUNCTIONS) else []
        return owner if isinstance(owner, ast.ClassDef) and [part.arg for part in first] == [key.name] else None

    def may_come_in(self, key: Key, scope: Scope) -> bool:
        """Has a body a model from outside: by a parameter, or a variable that is not its own, which starts unbound?"""
        bindings = scope.bindings.get(key.name, ()) if key.owner is scope.node else ()
        return not bindings or any(binding.kind is BindingKind.PARAMETER for binding in bindings)

    def is_replaced_in(self, heir: ast.AST, node: ast.AST) -> bool:
        """Does a method of this module never run in a derived class, which has one of its own and calls no other?"""
        method = self.index.function_at(node)
        owner = self.index.parents.get(method) if method is not None else None
        if method is None or not isinstance(owner, ast.ClassDef) or not isinstance(heir, ast.ClassDef) or owner is heir:
            return False
        own = [part for part in heir.body if isinstance(part, FUNCTIONS) and part.name == method.name]
        return bool(own) and all(identifier(part) != "super" for part in walk(own[0]) if isinstance(part, ast.Name))

    def is_of_made_one(self, statement: ast.AST, key: Key) -> bool:
        """`made = cls(); made.net = Net()`: nothing that other methods do happens to an object that is just made."""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return any(
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.attr == key.name
            and class_made(self.module, target.value) is not None
            for target in targets
        )

    def body_of(self, node: ast.AST) -> Scope:
        """Return the function's or module's scope that `node` runs in."""
        scope = self.index.scope_at(node)
        while not isinstance(scope.node, (*FUNCTIONS, ast.Module)) and scope.parent is not None:
            scope = scope.parent
        return scope

    def outermost(self, node: ast.expr) -> ast.expr:
        """Climb over wrappers: in `DataParallel(model.to(device)).eval()` up to the receiver of eval."""
        while True:
            parent = self.index.parents.get(node)
            around: ast.AST | None = parent
            chosen = isinstance(parent, ast.IfExp) and unless_none(parent) is unless_none(node)
            taken = isinstance(parent, ast.Subscript) and parent.value is node
            if isinstance(parent, (ast.IfExp, ast.Subscript)) and (chosen or taken):
                node = parent
                continue
            if isinstance(parent, ast.Attribute):
                around = self.index.parents.get(parent)
                if not isinstance(around, ast.Call) and self._is_inside_wrapper(parent):
                    node = parent
                    continue
            if isinstance(around, ast.Call) and self._kept(around) is node:
                node = around
            else:
                return node

    def callers(self, function: FunctionNode) -> Iterator[ast.Call]:
        """Yield the calls of a function in this file, methods through `self`; of `__init__`, those of its class."""
        owner = self.index.parents.get(function)
        if isinstance(owner, ast.ClassDef) and function.name == "__init__":
            yield from constructions(self.module.qualified(owner), self.module)
            return
        for call in self.index.calls_by_name.get(function.name, ()):
            if isinstance(owner, ast.ClassDef):
                receiver = receiver_of(call)
                if isinstance(receiver, ast.Name) and self.self_class(receiver) is owner:
                    yield call
            elif isinstance(call.func, ast.Name) and self.means(call.func, function):
                yield call

    def means(self, name: ast.Name, function: FunctionNode) -> bool:
        return any(binding.node is function for binding in self.module.definitions(name))

    def is_call_of(self, call: ast.Call, function: FunctionNode, key: Key) -> bool:
        if isinstance(key.owner, ast.ClassDef) and isinstance(call.func, ast.Attribute):
            return isinstance(call.func.value, ast.Name) and self.self_class(call.func.value) is key.owner
        return isinstance(call.func, ast.Name) and self.means(call.func, function)


def _handed_back_by(call: ast.Call, index: tuple[int, ...], module: Module, steps: int) -> ast.expr | None:
    """Return what of its arguments a call gives back as it was; `steps` is how many functions may do so for it."""
    if _PREPARING.isdisjoint(module.inference.resolve(call.func)):
        found = next(functions_called(module.inference, call), None)
        parameter = module.project.once(_handed_back, (*found, index, steps)) if found is not None else ""
        return given_to(found[1], parameter, call) if found is not None and parameter else None
    place = index[0] if index else 0
    known = place < len(call.args) and (len(call.args) > 1) is bool(index)
    return call.args[place] if known and not isinstance(call.args[place], ast.Starred) else None


def _handed_back(asked: tuple[Module, FunctionNode, tuple[int, ...], int]) -> str:
    """Return the parameter that a function returns always, and leaves in its mode; nothing if there is none."""
    module, function, index, steps = asked
    name = given_back(module, function, index, steps)
    calls = [part for part in walk(function) if isinstance(part, ast.Call)]
    return "" if function.decorator_list or any(_may_switch(call, name, module) for call in calls) else name


def given_back(module: Module, function: FunctionNode, index: tuple[int, ...] = (), steps: int = 0) -> str:
    """Return the parameter that a function returns always (at `index` of a tuple), in whatever mode.

    Nothing if there is none. `steps` is how many functions may hand it on to others in between.
    """
    returns = module.flow(module.index.scopes[function]).returns()
    names = {_name_given(statement.value, index, module, steps) for statement in returns}
    name = names.pop() if len(names) == 1 else ""
    bindings = module.index.scopes[function].bindings.get(name, ()) if name else ()
    others = [binding for binding in bindings if binding.kind is not BindingKind.PARAMETER]
    return name if len(others) < len(bindings) and all(_is_moved(each, module, steps) for each in others) else ""


def _name_given(value: ast.expr | None, index: tuple[int, ...], module: Module, steps: int) -> str:
    """Return `net` of `return net, config`, and of `return load_weights(net, path)`, a function that gives it back."""
    name = _name_moved(part_at(value, index), module)
    if name or not steps or not isinstance(value, ast.Call):
        return name
    return _name_moved(_handed_back_by(value, index, module, steps - 1), module)


def part_at(value: ast.expr | None, index: tuple[int, ...]) -> ast.expr | None:
    """Return `net` of `net, config` at its place."""
    if not index:
        return value
    return value.elts[index[0]] if isinstance(value, ast.Tuple) and index[0] < len(value.elts) else None


def _is_moved(binding: Binding, module: Module, steps: int) -> bool:
    """`net = net.to(device)`, `net, epoch = load_weights(net, path)`."""
    if not isinstance(binding.value, ast.Call):
        return False
    if not binding.index and _name_moved(binding.value, module) == binding.name:
        return True
    given = _handed_back_by(binding.value, binding.index, module, steps - 1) if steps else None
    return _name_moved(given, module) == binding.name


def _name_moved(value: ast.expr | None, module: Module) -> str:
    """Return the variable that `torch.compile(net.to(device))`, or the name alone, gives; nothing if it is none."""
    while isinstance(value, ast.Call):
        value = _moved_or_wrapped(value, module)
    return value.id if isinstance(value, ast.Name) else ""


def _moved_or_wrapped(call: ast.Call, module: Module) -> ast.expr | None:
    """Return the model of `net.to(device)`, `torch.compile(net)` and `DataParallel(net)`."""
    wraps = any(
        name in load_types().wrappers and not name.startswith("copy.") for name in module.inference.resolve(call.func)
    )
    if isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPING:
        return call.args[0] if wraps and call.args else call.func.value
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg in ("model", "module", "mod"))]
    return given[0] if wraps and given else None


def _may_switch(call: ast.Call, name: str, module: Module) -> bool:
    """Does a call switch a mode, or get the model and may do so?"""
    if switched(call) is not None:
        return True
    if not any(getattr(argument, "id", "") == name for argument in arguments_of(call)):
        return False
    names = module.inference.callees(call)
    found = [definition for each in names if (definition := module.project.definition(each)) is not None]
    return any(switches_any(*each) for each in found) if found else may_switch(identifier(call.func), names)


def given_to(function: FunctionNode, name: str, call: ast.Call) -> ast.expr | None:
    """Return what `call` passes for a parameter of a function, a method, or the `__init__` of what it makes."""
    return argument_of(
        function, name, call, skip_self=function.name == "__init__" or isinstance(call.func, ast.Attribute)
    )


def called_on(method: FunctionNode, name: str, call: ast.Call) -> ast.expr | None:
    """Return `net` of `net.evaluate(rows)`, which the method knows under the name of its first parameter, `self`."""
    first = [argument.arg for argument in (*method.args.posonlyargs, *method.args.args)][:1]
    receiver = receiver_of(call)
    return receiver if name == "self" and first == ["self"] else None
