"""What may an expression be whose model was put there by other code: a field, an attribute, a global, a call's result?

All that the project puts under the name is asked for; one thing that leads out of sight, and nothing is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.passed_fields import fields_of, passed_as
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.analysis.values import Kind
from detlint.linter.modes.effects import is_unset
from detlint.linter.modes.names import Key
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier, is_own

if TYPE_CHECKING:
    from detlint.linter.modes.made_modes import MadeModes

MOST_FILES = 24  # that speak of a name
# Objects that hold whatever they are made with.
_NAMESPACES = frozenset({"types.SimpleNamespace", "argparse.Namespace"})
_NAMESPACE_WORDS = ("SimpleNamespace", "Namespace")
# What a web framework calls for the value of a parameter.
_PROVIDES = "Depends"


class Origin(NamedTuple):
    """An expression of the project that gives a model, at a place of the tuple that it gives."""

    module: Module
    node: ast.expr
    place: tuple[int, ...] = ()


def origins(modes: MadeModes, model: ast.expr) -> list[Origin]:
    """Return all that `state.net`, `store.net` or `get_net()` may be; nothing where one of them cannot be told."""
    module = modes.module
    if isinstance(model, ast.Call):
        return [Origin(module, model)] if any(functions_called(module.inference, model)) else []
    if isinstance(model, ast.Name):
        return _of_name(modes, model)
    if not isinstance(model, ast.Attribute):
        return []
    names = module.inference.resolve(model)
    if any(module.project.named(name.rpartition(".")[0]) is not None for name in names):
        return _all(_of_global(modes, name) for name in names)
    values = module.inference.values(model.value)
    kept_in = [module.inference.class_named(value.type) for value in values if value.kind is not Kind.UNKNOWN]
    if kept_in:
        return _all(_of_class(info, model.attr) if info is not None else [] for info in kept_in)
    return _of_anything(module, model.attr) if _comes_from_outside(module, model) else []


def speaking_of(name: str, module: Module) -> list[Module] | None:
    """Return the files of the project that hold a name, but for tests; None where too many do."""
    search = module.project.search(name, module, MOST_FILES)
    if search is None:
        return [module]
    if search.found is None:
        return None
    places = (module if path == module.path else module.project.at(path) for path in search.found)
    return [place for place in places if not is_test_file(place)]


def _all(ways: Iterable[list[Origin]]) -> list[Origin]:
    """Return what several ways lead to, but for those to None; nothing where one of them leads nowhere."""
    found = list(ways)
    return [each for way in found for each in way if not is_unset(each.node)] if all(found) else []


def _of_name(modes: MadeModes, name: ast.Name) -> list[Origin]:
    """`from store import net`, and `net: Net = Depends(get_net)`."""
    module = modes.module
    bindings = module.definitions(name)
    if bindings and all(binding.kind is BindingKind.IMPORT for binding in bindings):
        return _all(_of_global(modes, full) for full in module.inference.resolve(name))
    provider = provider_of(module, name)
    return _all(_returned(module, full) for full in module.inference.resolve(provider)) if provider is not None else []


def provider_of(module: Module, model: ast.expr) -> ast.expr | None:
    """Return `get_net` of a parameter `net: Net = Depends(get_net)`, None for anything else."""
    bindings = module.definitions(model) if isinstance(model, ast.Name) else ()
    default = bindings[0].value if len(bindings) == 1 and bindings[0].kind is BindingKind.PARAMETER else None
    provided = isinstance(default, ast.Call) and identifier(default.func) == _PROVIDES and bool(default.args)
    return default.args[0] if isinstance(default, ast.Call) and provided else None


def _returned(module: Module, name: str) -> list[Origin]:
    found = module.project.definition(name)
    if found is None or not isinstance(found[1], FUNCTIONS):
        return []
    place, function = found
    returns = place.flow(place.index.scopes[function]).returns()
    return [Origin(place, statement.value) for statement in returns if statement.value is not None]


def _of_global(modes: MadeModes, name: str) -> list[Origin]:
    """Return what a file makes a variable of its own: `net = load(path)`, at the top or in a function."""
    home, _, variable = name.rpartition(".")
    owner = modes.module.project.named(home)
    if owner is None or variable not in owner.index.root.bindings:
        return []
    events = modes.peer(owner).events_anywhere(Key(owner.tree, variable))
    made = [Origin(owner, event.made, event.index) for event in events if event.made is not None]
    return _all([each] for each in made) if len(made) == len(events) else []


def _of_class(info: ClassInfo, name: str) -> list[Origin]:
    """Return what a class keeps under a name, or what its instances are made with where that is a field of a record.

    The parts of a model are none: they follow the model.
    """
    if info.module.inference.is_module_class(info.name):
        return []
    writes = info.module.inference.attribute_writes(info, name)
    return _all([Origin(owner.module, write.value, write.index)] for owner, write in writes) or _of_field(info, name)


def _of_field(info: ClassInfo, name: str) -> list[Origin]:
    fields = fields_of(info)
    places = speaking_of(info.node.name, info.module) if name in fields else None
    given = [
        (place, passed_as(fields.index(name), name, call))
        for place in places or ()
        for call in place.index.calls_by_name.get(info.node.name, ())
        if info.name in place.inference.resolve(call.func)
    ]
    return _all([Origin(place, value)] if value is not None else [] for place, value in given)


def _of_anything(module: Module, name: str) -> list[Origin]:
    """Return what the project puts under an attribute of this name of whatever object."""
    places = speaking_of(name, module)
    return _all(way for place in places or () for way in _put_under(place, name))


def _put_under(place: Module, name: str) -> Iterator[list[Origin]]:
    """Yield what a file puts under the attributes of a name, an empty list for what cannot be told."""
    index = place.index
    stores = [use for use in index.names_used.get(name, ()) if isinstance(getattr(use, "ctx", None), ast.Store)]
    for use in (use for use in stores if isinstance(use, ast.Attribute)):
        yield _stored(place, use)
    for node in index.of_type(ast.ClassDef):
        info = place.classes[node]
        if name in info.declared and name not in info.attributes:
            yield _of_field(info, name)
    for call in (each for word in _NAMESPACE_WORDS for each in index.calls_by_name.get(word, ())):
        if not _NAMESPACES.isdisjoint(place.inference.callees(call)):
            yield from ([Origin(place, each.value)] for each in call.keywords if each.arg == name)


def _stored(place: Module, target: ast.Attribute) -> list[Origin]:
    """`app.state.net = load(path)`, `self.net, self.width = load(path)`."""
    owner = place.index.class_at(target) if is_own(target) else None
    if owner is not None and place.inference.is_module_class(place.qualified(owner)):
        return []
    around = place.index.parents.get(target)
    index = (around.elts.index(target),) if isinstance(around, ast.Tuple) else ()
    statement = place.index.parents.get(around) if isinstance(around, ast.Tuple) else around
    if not isinstance(statement, ast.Assign):
        return []
    value = statement.value
    if index and isinstance(value, ast.Tuple):
        return [Origin(place, value.elts[index[0]])] if index[0] < len(value.elts) else []
    return [Origin(place, value, index)]


def _comes_from_outside(module: Module, model: ast.Attribute) -> bool:
    """`request.app.state.net`: is it an attribute of what a function is given, of a global, or of such a thing?"""
    holder: ast.expr = model.value
    while isinstance(holder, ast.Attribute):
        holder = holder.value
    bindings = module.definitions(holder) if isinstance(holder, ast.Name) else ()
    return bool(bindings) and all(
        binding.kind in (BindingKind.PARAMETER, BindingKind.IMPORT) or binding.scope is module.index.root
        for binding in bindings
    )
