"""What an expression comes down to in a frame: the branch that is taken, what a parameter is given, a constant."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import MISSING
from detlint.linter.analysis.dicts import is_changed
from detlint.linter.analysis.passed_fields import fields_of
from detlint.linter.modes.constants import compared, computed, converted, of_text
from detlint.linter.modes.frames import MAX_DEPTH, Closure, Frame, constructors, constructors_of, frame_of_call
from detlint.linter.source.names import LOOPS, Binding, BindingKind, element_at
from detlint.linter.source.nodes import arguments_of, identifier, is_none, is_own

_MAX_STEPS = 16  # from a name to what it is in the end

# What makes an object of the names that it is given.
_NAMESPACES = frozenset({"DictConfig", "EasyDict", "Namespace", "SimpleNamespace", "edict", "dict"})


def constant(frame: Frame | None, node: ast.expr) -> object:
    """Return the constant that an expression is in a frame, `MISSING` where that cannot be told.

    Without a frame it is what is written there.
    """
    if frame is None:
        return node.value if isinstance(node, ast.Constant) else MISSING
    return constant_of(Closure(node, frame.module, frame))


def truth(frame: Frame, test: ast.expr) -> bool | None:
    """Return whether a condition holds in a frame: `if norm:`, `norm is not None`, `p > 0`, `kind in ("a", "b")`."""
    return _truth(Closure(test, frame.module, frame))


def is_reached(frame: Frame, node: ast.AST) -> bool | None:
    """Return whether a place in the function of a frame is come to, going by the conditions around; None if unknown."""
    outcomes = {
        None if (found := truth(frame, test)) is None else found is holds
        for test, holds in frame.module.index.conditions_around(node)
    }
    return False if False in outcomes else None if None in outcomes else True


def reduced(expr: Closure) -> Closure:
    """Return what an expression comes down to, followed through names, parameters, fields, branches and returns."""
    return _folded(expr).expr


def constant_of(expr: Closure) -> object:
    """Return the constant that an expression comes down to, or `MISSING`. A tuple stands for any list of constants."""
    return _folded(expr).value


class _Folded(NamedTuple):
    expr: Closure
    value: object = MISSING


def _folded(expr: Closure) -> _Folded:
    project = expr.module.project
    return project.questions.answer(project.once(_answers, None), expr, _fold, _Folded(expr))


def _answers(_: None) -> dict[Closure, _Folded]:
    return {}


def _fold(expr: Closure) -> _Folded:
    for _ in range(_MAX_STEPS):
        further = _step(expr)
        if further is None:
            break
        if further.frame is not expr.frame:
            return _folded(further)
        expr = further
    return _Folded(expr, _value(expr))


def _step(expr: Closure) -> Closure | None:
    node = expr.node
    if isinstance(node, ast.IfExp):
        holds = _truth(expr._replace(node=node.test))
        return None if holds is None else expr._replace(node=node.body if holds else node.orelse)
    if isinstance(node, ast.BoolOp):
        first = _truth(expr._replace(node=node.values[0]))
        if first is None:
            return None
        if first is isinstance(node.op, ast.Or):
            return expr._replace(node=node.values[0])
        rest = node.values[1:]
        return expr._replace(node=rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
    if isinstance(node, ast.NamedExpr):
        return expr._replace(node=node.value)
    if isinstance(node, ast.Name):
        return _named(expr, node)
    if isinstance(node, ast.Attribute):
        return _attribute(expr, node)
    if isinstance(node, ast.Subscript):
        return _entry(expr, node.value, node.slice)
    return _called(expr, node) if isinstance(node, ast.Call) else None


# --- names ------------------------------------------------------------------------------------------------------------


def _named(expr: Closure, name: ast.Name) -> Closure | None:
    frame, index = expr.frame, expr.module.index
    if frame is None:
        return _only_value(expr)
    owner = index.scope_at(name).lookup(name.id)
    if owner is None or owner is index.root:
        return expr._replace(frame=None)
    if owner.node is not frame.function:
        return None
    binding = _in_force(expr.module.definitions(name), frame)
    if binding is None:
        return None
    if binding.kind is BindingKind.PARAMETER:
        return frame.given(name.id)
    value = element_at(binding.value, binding.index) if binding.kind is BindingKind.ASSIGN else None
    return expr._replace(node=value) if value is not None else None


def _in_force(bindings: Sequence[Binding], frame: Frame) -> Binding | None:
    """Return the last of the bindings of a name that is come to for sure, if none after it may be come to as well."""
    open_to = [(each, _is_run(each, frame)) for each in bindings]
    alive = [(binding, sure) for binding, sure in open_to if sure is not False]
    if not alive:
        return None
    last, sure = alive[-1]
    return last if sure or len(alive) == 1 else None


def _is_run(binding: Binding, frame: Frame) -> bool | None:
    if binding.kind is BindingKind.PARAMETER:
        return True
    reached = is_reached(frame, binding.node)
    if not reached:
        return reached
    for parent in frame.module.index.ancestors(binding.node):
        if parent is frame.function:
            break
        if isinstance(parent, (*LOOPS, ast.Try, ast.Match)):
            return None
    return True


def _only_value(expr: Closure) -> Closure | None:
    """Return what the analysis takes an expression for outside of frames, where that is one thing."""
    values = expr.module.inference.values(expr.node)
    made = values[0] if len(values) == 1 else None
    if made is None or made.module is None or not isinstance(made.node, ast.expr) or made.node is expr.node:
        return None
    return Closure(made.node, made.module)


# --- fields and entries -----------------------------------------------------------------------------------------------


def _attribute(expr: Closure, node: ast.Attribute) -> Closure | None:
    if expr.frame is not None and is_own(node):
        return _kept(expr.frame, node.attr)
    before = expr._replace(node=node.value)
    base = reduced(before)
    if isinstance(base.node, ast.Call):
        return _field_of(base, node.attr, expr)
    if expr.frame is None:
        return _only_value(expr)
    whole = base.frame is None and base.module is expr.module and base.node is node.value
    return expr._replace(frame=None) if whole else None


def _kept(frame: Frame, name: str) -> Closure | None:
    """Return what the constructors of an object set `self.<name>` to, where one place does that."""
    found: list[Closure] = []
    for made in constructors(frame):
        index = made.module.index
        for target in index.names_used.get(name, ()):
            if not _is_store(target) or not is_own(target) or index.function_at(target) is not made.function:
                continue
            statement = index.parents.get(target)
            if is_reached(made, target) is not False:
                if not isinstance(statement, ast.Assign) or target not in statement.targets:
                    return None
                found.append(Closure(statement.value, made.module, made))
    return found[0] if len(found) == 1 else None


def _field_of(made: Closure, name: str, asked: Closure) -> Closure | None:
    """Return what the object that a call makes has under a name, if nobody sets that afterwards.

    Of a record that is what it is made with, of a class of the project what its constructor sets.
    """
    call = made.node
    assert isinstance(call, ast.Call)
    if any(keyword.arg is None for keyword in call.keywords) or _is_set_in(asked, name) or _is_set_in(made, name):
        return None
    if identifier(call.func) in _NAMESPACES and not call.args:
        given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
        return made._replace(node=given) if given is not None else None
    names = made.module.inference.callees(call)
    definition = made.module.project.definition(names[0]) if len(names) == 1 else None
    if definition is None or not isinstance(definition[1], ast.ClassDef) or _is_deep(made.frame):
        return None
    info = definition[0].inference.class_info(definition[1])
    fields = fields_of(info)
    if name in fields:
        return _field_given(info, fields, name, made)
    frames = constructors_of(info.module.inference.mro(info), call, made.frame, made.module)
    return _kept(next(iter(frames.values())), name) if frames else _of_class(info, name)


def _field_given(info: ClassInfo, fields: list[str], name: str, made: Closure) -> Closure | None:
    call, place = made.node, fields.index(name)
    assert isinstance(call, ast.Call)
    given = [keyword.value for keyword in call.keywords if keyword.arg == name]
    given = given or ([] if any(isinstance(argument, ast.Starred) for argument in call.args) else call.args[place:])
    return made._replace(node=given[0]) if given else _of_class(info, name)


def _of_class(info: ClassInfo, name: str) -> Closure | None:
    """Return what the body of a class sets a name to: `bn: bool = False`, `bn: bool = field(default=False)`."""
    writes = info.attributes.get(name, ())
    value = writes[0].value if len(writes) == 1 and writes[0].method is None else None
    if isinstance(value, ast.Call):
        value = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    return Closure(value, info.module) if value is not None else None


def _is_set_in(place: Closure, name: str) -> bool:
    """Does a file set an attribute of that name, of another object than that of the method around?"""
    return any(_is_store(use) and not is_own(use) for use in place.module.index.names_used.get(name, ()))


def _is_store(use: ast.AST) -> bool:
    return isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Store)


def _entry(expr: Closure, table: ast.expr, key: ast.expr, absent: ast.expr | None = None) -> Closure | None:
    """Return what a dictionary or a list that is written out holds under a key."""
    if isinstance(table, (ast.Name, ast.Attribute)) and is_changed(expr.module, table):
        return None
    held, name = reduced(expr._replace(node=table)), constant_of(expr._replace(node=key))
    if name is MISSING:
        return None
    if isinstance(held.node, ast.Dict) and all(isinstance(each, ast.Constant) for each in held.node.keys):
        entries = zip(held.node.keys, held.node.values, strict=True)
        found = [value for each, value in entries if isinstance(each, ast.Constant) and each.value == name]
        if found:
            return held._replace(node=found[-1])
        return expr._replace(node=absent) if absent is not None else None
    if isinstance(held.node, ast.Call) and identifier(held.node.func) == "dict" and not held.node.args:
        words = [word.value for word in held.node.keywords if word.arg == name]
        return held._replace(node=words[0]) if words else None
    if isinstance(held.node, (ast.Tuple, ast.List)) and isinstance(name, int) and name >= 0:
        value = element_at(held.node, (name,))
        return held._replace(node=value) if value is not None else None
    return None


# --- calls ------------------------------------------------------------------------------------------------------------


def _called(expr: Closure, call: ast.Call) -> Closure | None:
    """Return what `table.get(key)`, `getattr(config, "p")` or a function of the project gives back in a frame."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and 1 <= len(call.args) <= 2:
        return _entry(expr, call.func.value, call.args[0], (*call.args[1:], ast.Constant(None))[0])
    if getattr(call.func, "id", "") == "getattr" and len(call.args) > 1:
        named = call.args[1]
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            return _attribute(expr, ast.Attribute(call.args[0], named.value, ast.Load()))
        return None
    if expr.frame is None or _is_deep(expr.frame):
        return None
    names = expr.module.inference.callees(call)
    definition = expr.module.project.definition(names[0]) if len(names) == 1 else None
    if definition is None or not isinstance(definition[1], ast.FunctionDef):
        return None
    frame = frame_of_call(definition[0], definition[1], call, expr.frame, expr.module)
    returned = [each.value for each in _returns(frame) if each.value is not None]
    return Closure(returned[0], frame.module, frame) if len(returned) == 1 else None


def _returns(frame: Frame) -> Iterator[ast.Return]:
    """Yield the `return` statements of the function that a frame may come to."""
    flow = frame.module.flow(frame.module.index.scopes[frame.function])
    return (each for each in flow.returns() if is_reached(frame, each) is not False)


def _is_deep(frame: Frame | None) -> bool:
    return frame is not None and frame.depth >= MAX_DEPTH


# --- constants --------------------------------------------------------------------------------------------------------


def _value(expr: Closure) -> object:
    """Return the constant that an expression is which comes down to nothing else, or `MISSING`."""
    node = expr.node
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = tuple(constant_of(expr._replace(node=part)) for part in node.elts)
        return MISSING if MISSING in parts else parts
    if isinstance(node, (ast.UnaryOp, ast.BinOp)):
        return _arithmetic(expr, node)
    if isinstance(node, (ast.Compare, ast.BoolOp)):
        holds = _truth(expr)
        return MISSING if holds is None else holds
    if isinstance(node, ast.IfExp):
        ways = {constant_of(expr._replace(node=way)) for way in (node.body, node.orelse)}
        return ways.pop() if len(ways) == 1 else MISSING
    if isinstance(node, ast.Call):
        return _converted(expr, node)
    return _by_inference(expr) if expr.frame is None else MISSING


def _by_inference(expr: Closure) -> object:
    """Return the one constant that an expression is outside of frames, whichever of its values that is."""
    values = expr.module.inference.values(expr.node)
    found = {each.node.value if isinstance(each.node, ast.Constant) else MISSING for each in values}
    return found.pop() if len(found) == 1 else MISSING


def _arithmetic(expr: Closure, node: ast.UnaryOp | ast.BinOp) -> object:
    if isinstance(node, ast.BinOp):
        return computed(
            node.op, constant_of(expr._replace(node=node.left)), constant_of(expr._replace(node=node.right))
        )
    if isinstance(node.op, ast.Not):
        holds = _truth(expr._replace(node=node.operand))
        return MISSING if holds is None else not holds
    return computed(ast.Sub(), 0, constant_of(expr._replace(node=node.operand)))


def _converted(expr: Closure, call: ast.Call) -> object:
    """Return what `kind.lower()` and `bool(p)` give for a constant."""
    given = [constant_of(expr._replace(node=argument)) for argument in arguments_of(call)]
    if isinstance(call.func, ast.Attribute):
        return of_text(constant_of(expr._replace(node=call.func.value)), call.func.attr, given)
    return converted(getattr(call.func, "id", ""), given)


def _truth(expr: Closure) -> bool | None:
    node = expr.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(expr._replace(node=node.operand))
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        decisive = isinstance(node.op, ast.Or)
        truths = {_truth(expr._replace(node=value)) for value in node.values}
        return decisive if decisive in truths else None if None in truths else not decisive
    if isinstance(node, ast.Compare):
        return _compared(expr, node) if len(node.ops) == 1 else None
    value = constant_of(expr)
    if value is MISSING:
        return True if _is_some(reduced(expr)) else None
    return bool(value)


def _compared(expr: Closure, test: ast.Compare) -> bool | None:
    one, other = (expr._replace(node=side) for side in (test.left, test.comparators[0]))
    if (
        is_none(other.node)
        and isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
        and _is_some(reduced(one))
    ):
        return isinstance(test.ops[0], (ast.IsNot, ast.NotEq))
    return compared(test.ops[0], constant_of(one), constant_of(other))


def _is_some(expr: Closure) -> bool:
    """A class, a function or what a class makes: it is not None, whatever else it is."""
    node = expr.node.func if isinstance(expr.node, ast.Call) else expr.node
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return isinstance(node, ast.Lambda)
    names = expr.module.inference.resolve(node)
    found = expr.module.project.definition(names[0]) if len(names) == 1 else None
    made = isinstance(expr.node, ast.Call)  # by a class: what a function gives back may well be None
    if found is None or (made and not isinstance(found[1], ast.ClassDef)):
        return len(names) == 1 and names[0].startswith("torch.nn.") and names[0].rpartition(".")[2][:1].isupper()
    return True
