"""Where does a project call a function, or make an object? By the qualified name, in every file that mentions it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import receiver_of

_MOST_FILES = 24  # with a name that more files hold, as `evaluate` may be, calls are not looked for


def calls_elsewhere(module: Module, function: FunctionNode) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of a module's function in other files, and `Evaluator().evaluate(net)` in its own.

    Calls of a method through the `self` of its own class are not among them, nor what tests do.
    """
    search = module.project.search(function.name, module, _MOST_FILES)
    qualified = module.qualified(function)
    for path in (search.found if search is not None else None) or ():
        other = module if path == module.path else module.project.at(path)
        if function.name not in other.calls or is_test_file(other):
            continue
        for call in other.index.calls_by_name.get(function.name, ()):
            own = other is module and isinstance(call.func, ast.Name)
            if not own and not _is_on_self(call) and qualified in other.inference.callees(call):
                yield other, call


def calls_of_unknown(module: Module, method: FunctionNode, parameter: str) -> Iterator[tuple[Module, ast.Call]]:
    """Yield `loop.run(rows, train=False)` of who knows what: calls of a method, by its name and that of a parameter.

    Nothing where the project has another function of that name with such a parameter.
    """
    search = module.project.search(method.name, module, _MOST_FILES) if module.index.class_at(method) else None
    places = [module if path == module.path else module.project.at(path) for path in (search and search.found) or ()]
    others = (other for place in places for other in _named_alike(place, method) if other is not method)
    if any(argument.arg == parameter for other in others for argument, _ in parameters(other.args)):
        return
    for place in places:
        for call in place.index.calls_by_name.get(method.name, ()) if not is_test_file(place) else ():
            named = any(keyword.arg == parameter for keyword in call.keywords)
            if named and not place.inference.callees(call) and not _is_on_self(call):
                yield place, call


def _named_alike(place: Module, method: FunctionNode) -> Iterator[FunctionNode]:
    functions: list[FunctionNode] = [*place.index.of_type(ast.FunctionDef), *place.index.of_type(ast.AsyncFunctionDef)]
    return (function for function in functions if function.name == method.name)


def called_elsewhere(module: Module, function: FunctionNode) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls of a function elsewhere; of an `__init__`, those that make an object in other files."""
    owner = module.index.class_at(function) if function.name == "__init__" else None
    return calls_elsewhere(module, function) if owner is None else _constructions_elsewhere(module, owner)


def _constructions_elsewhere(module: Module, owner: ast.ClassDef) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the calls in other files that run the `__init__` of a module's class; not what tests do."""
    search = module.project.search(owner.name, module, _MOST_FILES)
    for path in (search.found if search is not None else None) or ():
        other = module.project.at(path) if path != module.path else module
        if other is not module and not is_test_file(other):
            yield from ((other, call) for call in constructions(module.qualified(owner), other))


def constructions(made: str, place: Module) -> Iterator[ast.Call]:
    """Yield the calls in one file that run the `__init__` of the class of this qualified name.

    These are calls of the class, `cls(…)` inside it, the same for a class that inherits its `__init__`, and
    `super().__init__(…)` of one that has its own.
    """
    inference = place.inference
    for word in dict.fromkeys(("cls", *(heir.name for heir in _heirs(made, place)), made.rpartition(".")[2])):
        for call in place.index.calls_by_name.get(word, ()):
            if any(_initializer_of(name, place) == made for name in inference.resolve(call.func)):
                yield call
    for call in place.index.calls_by_name.get("__init__", ()):
        heir = place.index.class_at(call)
        receiver = receiver_of(call)
        is_super = isinstance(receiver, ast.Call) and getattr(receiver.func, "id", "") == "super"
        if is_super and heir is not None and any(made == info.name for info in _bases_of(heir, place)):
            yield call


def _heirs(made: str, place: Module) -> Iterator[ast.ClassDef]:
    """Yield the classes of a file that inherit from the one of this qualified name."""
    for heir in place.index.of_type(ast.ClassDef):
        if any(made == info.name for info in _bases_of(heir, place)):
            yield heir


def heirs_with(module: Module, owner: ast.ClassDef, method: str) -> Iterator[tuple[Module, ast.ClassDef]]:
    """Yield the classes of the project that inherit from one and have a method of their own of that name."""
    made = module.qualified(owner)
    search = module.project.search(method, module, _MOST_FILES)
    for path in (module.path,) if search is None else search.found or ():  # a lone file
        place = module.project.at(path) if path != module.path else module
        heirs = _heirs(made, place)
        yield from ((place, heir) for heir in heirs if method in place.inference.class_info(heir).methods)


def _bases_of(heir: ast.ClassDef, place: Module) -> tuple[ClassInfo, ...]:
    return place.inference.mro(place.inference.class_info(heir))[1:] if heir.bases else ()


def _initializer_of(name: str, place: Module) -> str:
    """Return the qualified name of the class whose `__init__` the class of this name runs."""
    info = place.inference.class_named(name)
    for ancestor in place.inference.mro(info) if info is not None else ():
        if "__init__" in ancestor.methods:
            return ancestor.name
    return ""


def _is_on_self(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") in ("self", "cls")
