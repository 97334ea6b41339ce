"""Where does a value come from? Follows an expression back through names, attributes, calls and parameters."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.may_use import calls_among
from detlint.linter.analysis.module import Module
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode

_LIMIT = 400  # expressions looked at; a seed is never that far away
# Parameters of a field for the function that makes its default.
FACTORIES = frozenset({"default_factory", "factory"})
_READS = frozenset({"open", "read_bytes", "read_text"})
_READERS = frozenset({"builtins.open", "gzip.open", "numpy.load", "pandas.read_csv", "pandas.read_json", "torch.load"})


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """An expression whose value takes part in another one."""

    module: Module
    node: ast.expr


def origins(module: Module, expression: ast.expr, callers: Sequence[Module]) -> Iterator[Origin]:
    """Yield every expression that takes part in the value of `expression`, nearest first, itself included.

    A parameter comes from its default and from what the functions of `callers` pass for it. What is stored in an
    object does not flow into its other attributes: `Run(time.time()).seed` does not come from the clock, but
    `datetime.now().microsecond` comes from the call of `now`, and `options.seed` from what is assigned to `args.seed`
    where `args` is passed for `options`, and from what the project's class of `options` computes for it or keeps in it.
    """
    pending = deque([Origin(module, expression)])
    objects: dict[ast.AST, str] = {}  # expressions of which only an attribute is wanted
    keys: dict[ast.AST, str] = {}  # expressions of which only what stands under a key is wanted
    seen: set[ast.AST] = set()
    while pending and len(seen) < _LIMIT:
        origin = pending.popleft()
        node = origin.node
        if node in seen:
            continue
        seen.add(node)
        yield origin
        if isinstance(node, ast.Call) and node in objects:
            pending.extend(_of_object(origin.module, node, objects[node]))
            continue
        if isinstance(node, ast.Dict) and node in keys:
            pending.extend(Origin(origin.module, value) for value in _under_key(node, keys[node]))
            continue
        behind = tuple(_behind(origin, callers))
        pending.extend(behind)
        if isinstance(node, ast.Name) and node in objects and node.id != "self":
            set_here = _set_to(origin.module, f"{node.id}.{objects[node]}", ast.Attribute)
            pending.extend(Origin(origin.module, value) for value in set_here)
        for other in behind:
            if isinstance(node, ast.Attribute) and other.node is node.value:
                objects[other.node] = node.attr
            elif node in objects:
                objects[other.node] = objects[node]
            if isinstance(node, ast.Subscript) and other.node is node.value:
                keys[other.node] = ast.unparse(node.slice)
            elif node in keys and not isinstance(node, ast.Call):
                keys[other.node] = keys[node]


def _under_key(table: ast.Dict, key: str) -> Iterator[ast.expr]:
    """Yield what a dict holds under the key that is written so, and all that it takes in from others."""
    for name, value in zip(table.keys, table.values, strict=True):
        if name is None or ast.unparse(name) == key:
            yield value


def made_by(module: Module, expression: ast.expr, package: str) -> bool:
    """Return whether a call into `package` takes part in the value: `pd.read_csv(…)["text"]` for "pandas"."""
    return any(
        name.startswith(f"{package}.")
        for origin in origins(module, expression, ())
        if isinstance(origin.node, ast.Call)
        for name in origin.module.inference.callees(origin.node)
    )


def _behind(origin: Origin, callers: Sequence[Module]) -> Iterator[Origin]:
    module, node = origin.module, origin.node
    if isinstance(node, ast.Name):
        for binding in module.definitions(node):
            yield from _bound(binding, module, callers)
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        stored = tuple(_stored(module, node))
        yield from (Origin(module, value) for value in stored)
        if not stored:
            yield Origin(module, node.value)
            yield from _of_object(module, node.value, node.attr) if isinstance(node, ast.Attribute) else ()
    elif isinstance(node, ast.Call):
        yield from _made(module, node)
        yield from _called(module, node)
    elif isinstance(node, (ast.Dict, ast.DictComp)):  # what is looked up in it is no key
        values = node.values if isinstance(node, ast.Dict) else [node.value]
        yield from (Origin(module, value) for value in values)
    elif not isinstance(node, (ast.Lambda, ast.Compare)):
        yield from (Origin(module, child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


def _bound(binding: Binding, module: Module, callers: Sequence[Module]) -> Iterator[Origin]:
    if binding.value is not None:
        yield Origin(module, _element(binding) if binding.kind is BindingKind.ASSIGN else binding.value)
    if binding.kind is BindingKind.AUGMENTED:
        yield from (Origin(module, other.value) for other in binding.of_same_name if other.value is not None)
    if binding.kind is BindingKind.PARAMETER and isinstance(binding.scope.node, FUNCTIONS):
        yield from passed(module, binding.scope.node, binding.name, callers)


def _element(binding: Binding) -> ast.expr:
    """Return the part of the assigned value that the name gets: the second of `a, b = x, y` for b."""
    assert binding.value is not None
    value = binding.value
    for position in binding.index:
        if not isinstance(value, (ast.Tuple, ast.List)) or any(isinstance(part, ast.Starred) for part in value.elts):
            return value
        if not 0 <= position < len(value.elts):
            return value
        value = value.elts[position]
    return value


def passed(module: Module, function: FunctionNode, parameter: str, callers: Sequence[Module]) -> Iterator[Origin]:
    """Yield what the calls of `function` in `callers` pass for `parameter`."""
    for caller, call in calls_among(callers, module, function):
        method = isinstance(call.func, ast.Attribute)
        if function.args.vararg is not None and function.args.vararg.arg == parameter:
            yield from (Origin(caller, value) for value in _further(function, call, skip_self=method))
            continue
        value = argument_of(function, parameter, call, skip_self=method)
        if value is not None:
            yield Origin(caller, value)


def _further(function: FunctionNode, call: ast.Call, *, skip_self: bool) -> list[ast.expr]:
    """Return what a call passes for `*args`."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    bound = skip_self and names[:1] in (["self"], ["cls"])
    return call.args[len(names) - bound :]


def _stored(module: Module, place: ast.Attribute | ast.Subscript) -> Iterator[ast.expr]:
    """Yield what the module assigns to the same place: `args.seed = …` for `args.seed`.

    The same text is taken to mean the same place, in one class for `self` and anywhere in the module else.
    """
    text = ast.unparse(place)
    owner = module.index.class_at(place) if text.startswith("self.") else None
    yield from _set_to(module, text, place.__class__, owner)


def _of_object(module: Module, holder: ast.expr, attribute: str) -> Iterator[Origin]:
    """Yield what the project's class of an object computes for an attribute in a property, or else sets it to."""
    for value in module.inference.values(holder):
        info = module.inference.class_named(value.type) if value.type else None
        getter = module.inference.property_of(info, attribute) if info is not None else None
        if getter is not None:
            yield from _given_back(*getter)
        elif info is not None:
            writes = module.inference.attribute_writes(info, attribute)
            yield from (Origin(owner.module, write.value) for owner, write in writes if not write.index)


def _set_to(
    module: Module, text: str, kind: type[ast.Attribute | ast.Subscript], owner: ast.ClassDef | None = None
) -> Iterator[ast.expr]:
    """Yield what a module, or one class of it, assigns to the attribute or entry that is written so."""
    for statement in module.index.of_type(ast.Assign):
        for target in statement.targets:
            same = isinstance(target, kind) and ast.unparse(target) == text
            if same and (owner is None or module.index.class_at(statement) is owner):
                yield statement.value


def _made(module: Module, field: ast.Call) -> Iterator[Origin]:
    """`field(default_factory=lambda: time.time())` gives what the function makes, here or in the project."""
    for factory in (keyword.value for keyword in field.keywords if keyword.arg in FACTORIES):
        if isinstance(factory, ast.Lambda):
            yield Origin(module, factory.body)
        elif isinstance(factory, (ast.Name, ast.Attribute)):
            yield from _returned(module, module.inference.resolve(factory)) or (Origin(module, factory),)


def _returned(module: Module, names: Sequence[str]) -> list[Origin] | None:
    """Return what the function or class of the project that is first among `names` returns; None without one."""
    for name in names:
        definition = module.project.definition(name)
        if definition is not None:
            owner, found = definition
            return _given_back(owner, found) if isinstance(found, FUNCTIONS) else []
    return None


def _given_back(module: Module, function: FunctionNode) -> list[Origin]:
    returns = module.flow(module.index.scopes[function]).returns()
    return [Origin(module, statement.value) for statement in returns if statement.value is not None]


def _called(module: Module, call: ast.Call) -> Iterator[Origin]:
    """A project's function gives what it returns; others give what is made of their arguments; of classes, paths do."""
    names = module.inference.callees(call)
    returned = _returned(module, names)
    if returned is not None:
        yield from returned
        return
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method in _READS or not _READERS.isdisjoint(names):
        return  # what a file holds is not made of its path
    if isinstance(call.func, ast.Attribute):
        yield Origin(module, call.func.value)
    if any(name.rpartition(".")[2][:1].isupper() and name != "pathlib.Path" for name in names):
        return
    key = method == "get"  # `numbers.get(id(x), 0)` gives what is kept under the key
    yield from (Origin(module, argument) for argument in call.args[key:])
    yield from (Origin(module, keyword.value) for keyword in call.keywords)
