"""Are weights loaded into a model? Then it is there to predict, and no more than that where nothing trains it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import Kind
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.layers import names_made
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.paths import Modes
from detlint.linter.source.index import Index
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own, receiver_of, walk

_LOADER = re.compile(r"(load|restore|resume)_?\w*(model|net|check|weight|state|param|ckpt|snapshot)", re.I)
# Of these it is certain that they make no model themselves.
_FILLER = re.compile(r"(load|restore|resume)_(check|weight|state|param|ckpt|snapshot)\w*$", re.I)
# Arguments that ask for pretrained weights.
_WEIGHTS = ("pretrained", "weights")


class LoadedWeights:
    """Answers for the models of one module."""

    def __init__(self, modes: Modes) -> None:
        self._modes = modes
        self._index = modes.module.index

    def into(self, key: Key) -> bool:
        """Return whether the file loads weights into the model, or makes it with pretrained ones."""
        if self.from_state(key) or self.by_making(Constructors(self._modes, near=True).of_key(key)):
            return True
        return self._by_what_it_is_given(key)

    def by_making(self, makers: Iterable[tuple[Module, ast.Call]]) -> bool:
        """Return whether one of the calls that make a model loads weights into it, or the function around it does."""
        return any(
            any(map(is_pretrained, self._behind(module, made)))
            or _is_made_by_loader(module, made)
            or _loads_itself(module, made)
            for module, made in makers
        )

    def _behind(self, module: Module, made: ast.Call) -> Iterator[ast.Call]:
        """Yield the constructor, and those of what it is given: `nn.Sequential(*list(resnet.children())[:-1])`."""
        yield made
        makers = Constructors(self._modes.peer(module), near=True)
        for name in walk(made):
            if isinstance(name, ast.Name):
                yield from (call for _, call in makers.of_expression(name, ()))

    def inside(self, key: Key) -> bool:
        """`Features()`, of a class that wraps a pretrained model and has no other parts that could be trained."""
        return any(
            self._wraps_pretrained(info)
            for module, made in Constructors(self._modes, near=True).of_key(key)
            for info in filter(None, map(module.inference.class_named, names_made(module, made)))
        )

    def _wraps_pretrained(self, info: ClassInfo) -> bool:
        writes = (write for writes in info.attributes.values() for write in writes)
        parts = [self._modes.peer(info.module).unwrapped(write.value) for write in writes]
        made = [part for part in parts if isinstance(part, ast.Call) and _makes_module(info.module, part)]
        return bool(made) and all(is_pretrained(call) and not _is_told_of_weights(call) for call in made)

    def from_state(self, key: Key) -> bool:
        """`model.load_state_dict(state)`, anywhere in the file."""
        return any(self._modes.key(model) == key for model in _loaded(self._index))

    def filled(self, key: Key) -> bool:
        """`model.load_state_dict(state)`, or `load_checkpoint(model, path)` of whatever library."""
        handed = self._modes.module.project.once(_calls_by_argument, self._modes.module).get(key.name, ())
        return self.from_state(key) or any(
            _FILLER.match(identifier(call.func)) is not None and self._modes.key(argument) == key
            for call, argument in handed
        )

    def _by_what_it_is_given(self, key: Key) -> bool:
        """`load_model(path, model)`, `self._fill(self.net, path)`: helpers that load weights into what they get."""
        for call, argument in self._modes.module.project.once(_calls_by_argument, self._modes.module).get(key.name, ()):
            named = _LOADER.match(identifier(call.func).lstrip("_")) is not None
            if self._modes.key(argument) == key and (named or self._fills(call, argument)):
                return True
        return False

    def _fills(self, call: ast.Call, model: ast.expr) -> bool:
        """Does a function of the project load weights into what a call gives it?"""
        for _, function in functions_called(self._modes.module.inference, call):
            given = [part.arg for part, _ in parameters(function.args) if given_to(function, part.arg, call) is model]
            if any(_is_load_into(part, given) for part in walk(function)):
                return True
        return False


def _loaded(index: Index) -> Iterator[ast.expr]:
    """Yield what `load_state_dict` is called on."""
    for call in index.calls_by_name.get("load_state_dict", ()):
        if isinstance(call.func, ast.Attribute):
            yield call.func.value


def _calls_by_argument(module: Module) -> dict[str, list[tuple[ast.Call, ast.expr]]]:
    """Return the calls of a file that are handed a variable or an attribute, by its last name."""
    calls: dict[str, list[tuple[ast.Call, ast.expr]]] = {}
    for call in module.index.of_type(ast.Call):
        for argument in call.args:
            if isinstance(argument, (ast.Name, ast.Attribute)):
                calls.setdefault(identifier(argument), []).append((call, argument))
    return calls


def loads_models(module: Module) -> bool:
    """Does a file call functions of the project that load weights into what they make: `Net.load(path)`?"""
    calls = (call for name, calls in module.index.calls_by_name.items() if "load" in name for call in calls)
    return any(_loads(module, call) for call in calls)


def _loads(module: Module, call: ast.Call, depth: int = 2) -> bool:
    """Does a call of what is named after loading end in `load_state_dict`?"""
    called = identifier(call.func)
    if called == "load_state_dict":
        return True
    if "load" not in called or not depth:
        return False
    return any(
        _loads(place, inner, depth - 1)
        for place, function in functions_called(module.inference, call)
        for inner in _calls_in(function)
    )


def _is_made_by_loader(module: Module, made: ast.Call) -> bool:
    """Does the function that makes the model load weights too, by itself or as `net.load(path)`?"""
    function = module.index.function_at(made)
    return function is not None and any(
        identifier(call.func) == "load_state_dict" or (_is_method_of(call, made, module) and _loads(module, call))
        for call in _calls_in(function)
    )


def _loads_itself(module: Module, made: ast.Call) -> bool:
    """Does the constructor of a class load weights into the object, in a method of it that it calls as well?"""
    found = filter(None, map(module.inference.class_named, names_made(module, made)))
    return any(map(_fills_itself, found))


def _fills_itself(info: ClassInfo) -> bool:
    methods: dict[str, FunctionNode] = {}
    for ancestor in info.module.inference.mro(info):
        methods.update({name: method for name, method in ancestor.methods.items() if name not in methods})
    reached = ["__init__"]
    for name in reached:  # grows on the way
        calls = _calls_in(methods[name]) if name in methods else ()
        own = [identifier(call.func) for call in calls if is_own(call.func)]
        if "load_state_dict" in own:
            return True
        reached += [other for other in own if other in methods and other not in reached]
    return False


def _calls_in(function: FunctionNode) -> Iterator[ast.Call]:
    return (part for part in walk(function) if isinstance(part, ast.Call))


def _is_method_of(call: ast.Call, made: ast.Call, module: Module) -> bool:
    receiver = receiver_of(call)
    bindings = module.definitions(receiver) if isinstance(receiver, ast.Name) else ()
    return any(binding.value is made for binding in bindings)


def _is_load_into(node: ast.AST, names: list[str]) -> bool:
    """`model.load_state_dict`, for a model of one of these names."""
    loads = isinstance(node, ast.Attribute) and node.attr == "load_state_dict"
    return loads and isinstance(node, ast.Attribute) and identifier(node.value) in names


def is_pretrained(made: ast.Call) -> bool:
    """`resnet50(weights="DEFAULT")`, `resnet50(pretrained=True)`."""
    given = [keyword.value for keyword in made.keywords if keyword.arg in _WEIGHTS]
    return any(not isinstance(value, ast.Constant) or bool(value.value) for value in given)


def _is_told_of_weights(made: ast.Call) -> bool:
    """`resnet50(pretrained=pretrained)`: somebody else decides that."""
    return any(keyword.arg in _WEIGHTS and isinstance(keyword.value, ast.Name) for keyword in made.keywords)


def _makes_module(module: Module, call: ast.Call) -> bool:
    return is_pretrained(call) or any(value.kind is Kind.MODULE for value in module.inference.values(call))
