"""What does a loop make of the order it runs in? Looks for what its body collects, numbers, writes, yields or picks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from detlint.linter.analysis.made import written
from detlint.linter.analysis.values import Kind
from detlint.linter.order.beside import LoopPartners, is_entry, is_name_of
from detlint.linter.order.form import (
    CHECKSUM,
    CHOICE,
    DRAWS,
    NUMBERING,
    SUM,
    WRITING,
    Form,
    GivenBack,
    KeptIn,
    Trail,
    each_target,
    leave_rest,
    place_name,
)
from detlint.linter.source.names import FUNCTIONS, FunctionNode, by_place
from detlint.linter.source.nodes import arguments_of, identifier, names_in, stored_names

if TYPE_CHECKING:
    from detlint.linter.order.calls import OrderCalls


_REGISTERS = frozenset({"add_module", "register_module", "register_parameter", "register_buffer"})


@dataclass(frozen=True, slots=True)
class Called:
    """The call that leads from a body into a function, and the containers from outside that it hands on."""

    effects: LoopEffects
    call: ast.Call
    arguments: dict[str, ast.expr]


class LoopEffects(LoopPartners):
    """The effects of a loop (or of a function called from it) on what stands outside."""

    def __init__(
        self,
        tracer: OrderCalls,
        body: ast.For | ast.AsyncFor | ast.While | ast.DictComp | FunctionNode,
        elements: frozenset[str],
        positions: frozenset[str],
        items: tuple[ast.expr, ...] = (),
        trail: Trail | None = None,
        files: frozenset[str] = frozenset(),
        called: Called | None = None,
    ) -> None:
        handed = frozenset(called.arguments) if called is not None else frozenset()
        super().__init__(tracer, body, elements, positions, items, files, handed)
        self._tracer = tracer
        self._trail = leave_rest(trail or Trail()) if self._is_cut_short() else trail or Trail()
        self._called = called
        self.reads_tensors = self._trail.tensors
        self.leaves_rest = self._trail.partial
        self.each_run, self.gathered = self._trail.each_run, self._trail.gathered

    def destination(self) -> str | None:
        """Return in words the first thing that takes over the order, or None.

        What is one of several that a function gives need not be all: `folders.append(path)`, `files.append(path)`.
        """
        given: GivenBack | None = None
        kept: KeptIn | None = None
        for node in self._nodes:
            found = self._effect(node)
            if isinstance(found, GivenBack) and found.places:
                given = found if given is None else given.beside(found)
            elif isinstance(found, KeptIn):
                kept = found
            elif found is not None:
                return found
        return CHOICE if given is None and kept is None and self._ends_when_filled() else given or kept

    def _effect(self, node: ast.AST) -> str | None:
        method = _EFFECTS.get(node.__class__)
        found = method(self, node) if method is not None else None
        return found or (SUM if self._adds_up(node) else CHOICE if self._measures_part(node) else None)

    def _call(self, node: ast.Call) -> str | None:
        function = node.func
        methods = self._tracer.table.methods
        if self._tracer.adds_command(identifier(function)):
            return None
        together = self._brought_together(node)
        if together is not None:
            return together
        if isinstance(function, ast.Attribute):
            given = [value for value in arguments_of(node) if not self._is_handle(value)]
            if any(map(self._has_element, given)):
                filling = function.attr in methods["appending"] | methods["extending"]
                filled = self._outer(function.value) if filling and not self._starts_anew(function.value) else []
                if filled and not self.is_for_one(node):
                    trail = replace(self._trail, tensors=any(map(self._is_added_up_inexactly, given)))
                    if not any(map(self._is_shared, filled)):  # `rows[name].append(row)` of each name
                        trail = replace(trail, form=Form.MAPPING)
                    return self._tracer.first(self._collected(each, node, trail) for each in filled)
                if self._tracer.adds_nodes(node) and self._is_outside(function.value):
                    return self._collected(function.value, node, replace(self._trail, form=Form.GRAPH))
                if function.attr in methods["writing"]:
                    if self._opens_numbered(function.value):
                        return NUMBERING
                    shown = any(map(self._tracer.shown, given))
                    written = self._is_open_file(function.value) and not (shown or self.stores_by_name(node))
                    return WRITING if written else None
                if function.attr == "update" and self._is_outside(function.value):
                    return self._updated(function.value, node)
                if function.attr in methods["adding"] and self._is_outside(function.value):
                    return None if any(map(self._tracer.shown, given)) else f"{ast.unparse(function)}()"
                if function.attr in _REGISTERS and not self._has_element(function.value):  # one module for all
                    return "the order of the parameters"
                if function.attr in methods["training"]:
                    return "the order of training"
            elif function.attr in methods["appending"] and self._notes_number(node, function.value):
                return self._collected(function.value, node, self._trail)
            if function.attr == "backward" and self._has_element(function.value):
                if self._updates_weights():
                    return "the order of training"
                if not self._looks_at_gradients():
                    return SUM
        if self._prints(node):
            return WRITING
        if self._handles(node) and (self._trail.subset or self._is_picked_by_number(node)):
            return CHOICE
        if self._stores_numbered(node) or self._numbers_key(node):
            return NUMBERING
        if self._draws_from_one_stream(node):
            return DRAWS
        return self._through_function(node)

    def _updates_weights(self) -> bool:
        """`optimizer.step()` in the same loop."""
        return any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"
            for node in self._nodes
        )

    def _looks_at_gradients(self) -> bool:
        """`model.zero_grad()`, `weight.grad`: the gradient of each element stands for itself, else they add up."""
        return any(isinstance(node, ast.Attribute) and node.attr in ("grad", "zero_grad") for node in self._nodes)

    def _starts_anew(self, entry: ast.expr) -> bool:
        """`rows[key] = []` stands in the body without a condition: the list is filled from one element only."""
        text = ast.unparse(entry) if isinstance(entry, ast.Subscript) else None
        return any(
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.List)
            and any(ast.unparse(target) == text for target in node.targets)
            and not any(self._conditions(node))
            for node in self._nodes
        )

    def _updated(self, receiver: ast.expr, change: ast.Call) -> str | None:
        """`found.update(rows)` fills a dict in that order, `digest.update(data)` makes it part of a checksum."""
        if self._tracer.is_checksum(receiver):
            return CHECKSUM
        if self._called is not None and isinstance(receiver, ast.Name) and receiver.id in self._called.arguments:
            return self._called.effects._updated(self._called.arguments[receiver.id], self._called.call)
        if {value.kind for value in self._tracer.inference.values(receiver)} == {Kind.DICT}:
            return self._collected(receiver, change, replace(self._trail, form=Form.MAPPING))
        return None

    def _prints(self, call: ast.Call) -> bool:
        """`print(name, file=output)` into a file that was opened before the loop."""
        if "builtins.print" not in self._tracer.inference.callees(call) or not any(map(self._has_element, call.args)):
            return False
        file = self._tracer.printed_to(call)
        return file is not None and self._is_open_file(file)

    def _handles(self, call: ast.Call) -> bool:
        """`shutil.copy(path, train)`, `path.unlink()`: an element is put somewhere, or taken away."""
        methods = self._tracer.table.methods
        last = getattr(call.func, "attr", getattr(call.func, "id", ""))
        return last in methods["storing"] | methods["removing"] and self._has_element(call)

    def _stores_numbered(self, call: ast.Call) -> bool:
        """`shutil.copy(name, f"{number}.png")`, `image.save(f"{number}.png")`."""
        function = call.func
        name = identifier(function)
        given = arguments_of(call)
        numbered = [value for value in given if self._is_numbered(value)]
        methods = self._tracer.table.methods
        if name not in methods["storing"] | methods["entering"]:
            if not self._tracer.is_parameter(function):
                return False
            numbered = [value for value in numbered if not is_name_of(value, self._positions)]
        others = [value for value in given if value not in numbered]
        if isinstance(function, ast.Attribute):
            others.append(function.value)
        return bool(numbered) and any(map(self._has_element, others))

    def _opens_numbered(self, file: ast.expr) -> bool:
        """`with open(f"{number}.txt", "w") as file:`."""
        opened = (value for target, value in self._made if value is not None and ast.dump(target) == _stored(file))
        return any(map(self._is_numbered, opened))

    def _numbers_key(self, call: ast.Call) -> bool:
        """`ids.setdefault(name, len(ids))`."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "setdefault" or len(call.args) != 2:
            return False
        key, value = call.args
        return self._has_element(key) and (self._is_numbered(value) or self._is_next_number(value, call.func.value))

    def _through_function(self, call: ast.Call) -> str | None:
        """What a function of the project that the body calls may do: collect in self, in what it is handed, draw."""
        if self._trail.calls >= 2:
            return None
        for name in self._tracer.inference.callees(call):
            owner, function = self._tracer.module.project.definition(name) or (None, None)
            if owner is None or not isinstance(function, FUNCTIONS) or function in self._index.ancestors(call):
                continue
            tracer = self._tracer.of(owner)
            parameters = by_place(function.args)
            skip = 1 if isinstance(call.func, ast.Attribute) and parameters[:1] in (["self"], ["cls"]) else 0
            further = function.args.vararg
            passed = [
                *zip(parameters[skip:], call.args, strict=False),
                *((further.arg, value) for value in call.args[len(parameters) - skip :] if further is not None),
                *((k.arg, k.value) for k in call.keywords if k.arg),
            ]
            given = frozenset(name for name, value in passed if self._has_element(value))
            files = frozenset(name for name, value in passed if self._is_open_file(value))
            shared = {name: value for name, value in passed if name not in given and self._is_outside(value)}
            if given:
                inner = replace(self._trail, calls=self._trail.calls + 1)
                called = Called(self, call, shared)
                numbers = frozenset(name for name, value in passed if self._is_numbered(value))
                effects = LoopEffects(tracer, function, given, numbers, (), inner, files, called)
                effects.reseeded = self._seeds_each()
                found = effects.destination()
                if found is not None:
                    return found
        return None

    def _collected(self, container: ast.expr, change: ast.AST, trail: Trail) -> str | None:
        """Follow what is filled; what a caller handed in is followed there."""
        base = container
        while isinstance(base, ast.Subscript):
            base = base.value
        if self._called is None or not isinstance(base, ast.Name) or base.id not in self._called.arguments:
            return self._tracer.collected(container, change, trail)
        if base is not container and trail.form is not Form.MAPPING:
            trail = replace(trail, form=Form.NESTED)
        return self._called.effects._collected(self._called.arguments[base.id], self._called.call, trail)

    def _augmented(self, node: ast.AugAssign) -> str | None:
        if not isinstance(node.op, ast.Add) or not self._has_element(node.value):
            return None
        if not self._is_shared(node.target):
            return None
        kinds = {value.kind for part in (node.target, node.value) for value in self._tracer.inference.values(part)}
        kinds |= self._initial_kinds(node.target)
        if kinds & {Kind.LIST, Kind.TUPLE, Kind.STRING}:
            form = Form.TEXT if Kind.STRING in kinds else Form.SEQUENCE
            return self._collected(node.target, node, replace(self._trail, form=form))
        return None

    def _initial_kinds(self, target: ast.expr) -> set[Kind]:
        if not isinstance(target, ast.Name):
            return set()
        bindings = self._index.bindings_of(target)
        others = [binding for binding in bindings if binding.node is not target and binding.value is not None]
        return {value.kind for initial in others for value in self._tracer.inference.bound(initial)}

    def _record(self, node: ast.Dict) -> str | None:
        """`{"id": number, "file_name": name}` numbers its elements."""
        values = [*node.values]
        numbered = any(place_name(value) in self._positions for value in values)
        if numbered and any(map(self._has_element, values)) and not self._tracer.shown(node):
            return NUMBERING
        return None

    def _assigned(self, node: ast.Assign) -> str | None:
        for target in each_target(node.targets):
            found = self._set_together(target, node.value)
            if found is None and isinstance(target, ast.Subscript):
                found = self._stored(target, node)
            elif found is None and isinstance(target, ast.Name) and self._has_element(node.value):
                found = self._rebound(target, node)
            if found is not None:
                return found
        return None

    def _stored(self, target: ast.Subscript, node: ast.Assign) -> str | None:
        """`ids[name] = len(ids)`, `ids[name] = i`, `rows[i] = load(name)`, `rows["last"] = load(name)`."""
        if not self._is_shared(target.value):
            return None
        numbered = self._gives_number(node.value) or self._is_next_number(node.value, target.value)
        if numbered and self._has_element(target.slice):
            return None if self._is_place_beside(target.value) else NUMBERING
        placed = self._has_position(target.slice) or self._is_numbered(target.slice)
        if placed and (self._has_element(node.value) or self._depends_on_element(node)):
            found = self._collected(target.value, node, self._trail)
            return WRITING if found is None and self._lies_in_file(target.value) else found
        if self._has_element(target.slice):
            if self._makes_module(node.value) and self._is_module(target.value):
                return "the order of the parameters"
            if self._has_places(target.value) or self._is_there_already(target):
                return None
            return self._collected(target.value, node, replace(self._trail, form=Form.MAPPING))
        return CHOICE if self._has_element(node.value) and self._is_overwritten(target, node) else None

    def _is_next_number(self, value: ast.expr, container: ast.expr) -> bool:
        """`len(ids)`, or `number` of `number = len(ids)`."""
        made = [given for place, given in self._made if isinstance(value, ast.Name) and value.id in stored_names(place)]
        return any(_counts(each, container) for each in (value, *made) if each is not None)

    def _rebound(self, target: ast.Name, node: ast.Assign) -> str | None:
        """`out = torch.cat([out, part])` collects; `word = name` under a condition picks.

        A file that is looked for, or a result, is one that fits: nothing says that there are others.
        """
        if isinstance(self._body, FUNCTIONS):
            return None
        if target.id in names_in(node.value):
            if self._is_outside(target) and self._concatenates(node.value):
                return self._collected(target, node, self._trail)
            return None
        default = self._has_default(target) or self._leaves(node)
        picks = not self.gathered and default and self._picks(node)
        if not picks and not self._is_last(node):
            return None
        if self._refuses_another(target) or self._is_answer(node.value):
            return None
        return CHOICE if self._is_taken_up(target) else None

    def _is_answer(self, value: ast.expr) -> bool:
        """`complete = not missing`: another element that qualifies gives the same one as a rule."""
        name = value.id if isinstance(value, ast.Name) else None
        made = [given for target, given in self._made if isinstance(target, ast.Name) and target.id == name]
        return _is_truth(value) or any(given is not None and _is_truth(given) for given in made)

    def _concatenates(self, value: ast.expr) -> bool:
        if isinstance(value, ast.IfExp):  # `part if rows is None else numpy.concatenate([rows, part])`
            return any(map(self._concatenates, (value.body, value.orelse)))
        if isinstance(value, ast.Call):
            inner, module = written(value, self._tracer.module)
            names = module.inference.callees(inner) if isinstance(inner, ast.Call) else ()
            return not self._tracer.table.functions["carrying"].isdisjoint(names)
        kinds = {found.kind for found in self._tracer.inference.values(value)}
        return isinstance(value, ast.BinOp) and bool(kinds & {Kind.LIST, Kind.STRING, Kind.TUPLE})

    def _yielded(self, node: ast.Yield | ast.YieldFrom) -> str | None:
        if isinstance(self._body, FUNCTIONS) or node.value is None or not self._has_element(node.value):
            return None
        keyed = is_entry(node.value) or self._tracer.goes_with_number(node.value, self._positions)
        return None if keyed else self._tracer.returned(node.value, node, self._trail)

    def _returned(self, node: ast.Return) -> str | None:
        if isinstance(self._body, FUNCTIONS) or node.value is None or not self._has_element(node.value):
            return None
        if self.gathered:  # the first that fits, as above
            return None
        if self._is_pinned(node) or self._tracer.shown(node.value) or _is_truth(node.value):
            return None
        return CHOICE


def _counts(value: ast.expr, container: ast.expr) -> bool:
    """`len(ids)` as the next number."""
    text = ast.unparse(container)
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "len"
        and len(node.args) == 1
        and ast.unparse(node.args[0]) == text
        for node in ast.walk(value)
    )


def _is_truth(value: ast.expr) -> bool:
    return isinstance(value, ast.Compare) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not))


_EFFECTS: Mapping[type[ast.AST], Callable[..., str | None]] = {
    ast.Call: LoopEffects._call,
    ast.AugAssign: LoopEffects._augmented,
    ast.Dict: LoopEffects._record,
    ast.Assign: LoopEffects._assigned,
    ast.Yield: LoopEffects._yielded,
    ast.YieldFrom: LoopEffects._yielded,
    ast.Return: LoopEffects._returned,
}


def _stored(file: ast.expr) -> str:
    return ast.dump(ast.Name(file.id, ast.Store())) if isinstance(file, ast.Name) else ""
