"""What does a loop make of the order it runs in? Looks for what its body collects, numbers, writes, yields or picks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from detlint.linter.names import FUNCTIONS, FunctionNode
from detlint.linter.order_form import Form, Trail, base_names, counted_up, names_in, stored_names
from detlint.linter.values import Kind

if TYPE_CHECKING:
    from detlint.linter.order import OrderTracer

_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_PINS = (ast.Eq, ast.Is)


class LoopEffects:
    """The effects of a loop (or of a function called from it) on what stands outside.

    `elements` are the names that hold an element, `positions` those that hold its running number, `items` further
    expressions that are elements.
    """

    def __init__(
        self,
        tracer: OrderTracer,
        body: ast.For | ast.AsyncFor | ast.While | FunctionNode,
        elements: frozenset[str],
        positions: frozenset[str],
        items: tuple[ast.expr, ...] = (),
        trail: Trail | None = None,
    ) -> None:
        self._tracer = tracer
        self._index = tracer.index
        self._body = body
        self._trail = trail or Trail()
        self._nodes = tuple(_own_nodes(body))
        self._made = tuple(binding for node in self._nodes for binding in _bindings(node))
        self._bound = frozenset(
            node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        self._positions = positions | counted_up(self._nodes)
        self._items = frozenset(items)
        self._keys = elements
        self._elements = self._derived(elements)

    def destination(self) -> str | None:
        """Return in words the first thing that takes over the order, or None."""
        for node in self._nodes:
            method = _EFFECTS.get(node.__class__)
            found = method(self, node) if method is not None else None
            if found is not None:
                return found
        return None

    # --- what depends on the element --------------------------------------------------------------------------------

    def _derived(self, elements: frozenset[str]) -> frozenset[str]:
        """Return `elements` and every name that the body computes from them."""
        found = set(elements)
        size = -1
        while len(found) != size:
            size = len(found)
            for target, value in self._made:
                if value is not None and self._mentions(value, found):
                    # `rows = rows + [row]` collects in `rows`, it does not make an element of it.
                    found |= stored_names(target) - names_in(value)
                    # `data.x = read(path)` makes `data` depend on the element too.
                    found |= base_names(target) & self._bound
            for node in self._nodes:
                found |= self._filled(node, found)
        return frozenset(found) - self._positions

    def _filled(self, node: ast.AST, names: set[str]) -> set[str]:
        """`row.append(word)`: a list made in the body depends on what is put into it."""
        methods = self._tracer.table.methods
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return set()
        fills = node.func.attr in methods["appending"] | methods["extending"] | {"add", "update"}
        given = any(self._mentions(argument, names) for argument in node.args)
        filled = node.func.value
        if not fills or not given or not isinstance(filled, ast.Name) or self._starts_outside(filled):
            return set()
        return {filled.id}

    def _starts_outside(self, name: ast.Name) -> bool:
        scope = self._index.scope_at(name).lookup(name.id)
        if scope is None or isinstance(self._body, FUNCTIONS):
            return scope is None or scope.node is not self._body
        reaching = self._tracer.module.definitions(name) if isinstance(name.ctx, ast.Load) else scope.bindings[name.id]
        return any(self._body not in self._index.ancestors(binding.node) for binding in reaching)

    def _has_default(self, name: ast.Name) -> bool:
        """Return whether the name has a value before the body runs; one given in another loop is for that loop."""
        scope = self._index.scope_at(name).lookup(name.id)
        around = {self._body, *self._index.ancestors(self._body)}
        return scope is None or any(
            self._body not in self._index.ancestors(binding.node)
            and all(loop in around for loop in self._index.ancestors(binding.node) if isinstance(loop, ast.For))
            for binding in scope.bindings[name.id]
        )

    def _mentions(self, node: ast.AST, names: set[str] | frozenset[str]) -> bool:
        return any(
            (isinstance(child, ast.Name) and child.id in names) or child in self._items for child in ast.walk(node)
        )

    def _has_element(self, node: ast.AST) -> bool:
        return self._mentions(node, self._elements)

    def _has_position(self, node: ast.AST) -> bool:
        return self._mentions(node, self._positions)

    def _is_outside(self, node: ast.expr) -> bool:
        """Return whether a container lives on after the body: a name bound outside it, or an attribute of self."""
        if isinstance(node, ast.Subscript):
            return self._is_outside(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._is_outside(node.func.value)
        if isinstance(node, ast.Attribute):
            return isinstance(node.value, ast.Name) and node.value.id not in self._elements
        if not isinstance(node, ast.Name) or node.id in self._elements:
            return False
        return self._index.scope_at(node).lookup(node.id) is not None and self._starts_outside(node)

    def _is_shared(self, node: ast.expr) -> bool:
        """Return whether a container outside is filled by several elements: `rows`, not `rows[name]` of each name."""
        part = node
        while isinstance(part, (ast.Subscript, ast.Call, ast.Attribute)):
            if isinstance(part, ast.Subscript):
                if isinstance(part.slice, ast.Name) and part.slice.id in self._keys:
                    return False
                part = part.value
            elif isinstance(part, ast.Call):
                if part.args and isinstance(part.args[0], ast.Name) and part.args[0].id in self._keys:
                    return False
                part = part.func
            else:
                part = part.value
        return self._is_outside(node)

    # --- effects ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> str | None:
        function = node.func
        methods = self._tracer.table.methods
        if isinstance(function, ast.Attribute):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(map(self._has_element, given)):
                if function.attr in methods["appending"] | methods["extending"] and self._is_shared(function.value):
                    return self._tracer.collected(function.value, node, self._trail)
                if function.attr in methods["writing"]:
                    return "the text that is written" if self._is_open_file(function.value) else None
                if function.attr == "update" and self._is_outside(function.value):
                    return self._updated(function.value, node)
                if function.attr in methods["adding"] and self._is_outside(function.value):
                    return f"{ast.unparse(function)}()"
                if function.attr in ("add_module", "register_module"):
                    return "the order of the parameters"
        if self._prints(node):
            return "the text that is written"
        if self._stores_numbered(node):
            return "the numbers given to names"
        return self._through_function(node)

    def _updated(self, receiver: ast.expr, change: ast.Call) -> str | None:
        """`found.update(rows)` fills a dict in that order, `digest.update(data)` makes it part of a checksum."""
        values = self._tracer.inference.values(receiver)
        if any(value.type.startswith("hashlib.") for value in values):
            return "the checksum"
        if {value.kind for value in values} == {Kind.DICT}:
            return self._tracer.collected(receiver, change, replace(self._trail, form=Form.MAPPING))
        return None

    def _prints(self, call: ast.Call) -> bool:
        """`print(name, file=output)` into a file that was opened before the loop."""
        if "builtins.print" not in self._tracer.inference.callees(call) or not any(map(self._has_element, call.args)):
            return False
        file = self._tracer.printed_to(call)
        return file is not None and self._is_open_file(file)

    def _stores_numbered(self, call: ast.Call) -> bool:
        """`shutil.copy(name, f"{number}.png")`, `image.save(f"{number}.png")`."""
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name not in self._tracer.table.methods["storing"]:
            return False
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        numbered = [value for value in given if self._is_numbered(value)]
        others = [value for value in given if value not in numbered]
        if isinstance(function, ast.Attribute):
            others.append(function.value)
        return bool(numbered) and any(map(self._has_element, others))

    def _is_numbered(self, node: ast.expr) -> bool:
        """Return whether the running number, and nothing of the element itself, stands in an expression."""
        if self._has_element(node):
            return False
        made = [value for target, value in self._made if names_in(target) & names_in(node) and value is not None]
        return self._has_position(node) or any(
            self._has_position(value) and not self._has_element(value) for value in made
        )

    def _is_open_file(self, node: ast.expr) -> bool:
        """Return whether a file was opened before the loop, so that its text is written piece by piece."""
        if not isinstance(node, ast.Name) or not self._is_outside(node):
            return False
        values = self._tracer.inference.values(node)
        return not any(value.type.startswith("sys.") for value in values)

    def _through_function(self, call: ast.Call) -> str | None:
        """A method of the project that the body calls may collect in self."""
        if self._trail.calls >= 2:
            return None
        for name in self._tracer.inference.callees(call):
            definition = self._tracer.module.project.definition(name)
            if definition is None or definition[0] is not self._tracer.module:
                continue
            function = definition[1]
            if not isinstance(function, FUNCTIONS) or function in self._index.ancestors(call):
                continue
            parameters = [argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)]
            skip = 1 if isinstance(call.func, ast.Attribute) and parameters[:1] == ["self"] else 0
            given = {p for p, value in zip(parameters[skip:], call.args, strict=False) if self._has_element(value)}
            given |= {k.arg for k in call.keywords if k.arg is not None and self._has_element(k.value)}
            if given:
                inner = replace(self._trail, calls=self._trail.calls + 1)
                effects = LoopEffects(self._tracer, function, frozenset(given), frozenset(), trail=inner)
                found = effects.destination()
                if found is not None:
                    return found
        return None

    def _augmented(self, node: ast.AugAssign) -> str | None:
        if not isinstance(node.op, ast.Add) or not self._has_element(node.value):
            return None
        if not self._is_outside(node.target):
            return None
        kinds = {value.kind for value in self._tracer.inference.values(node.target)}
        kinds |= self._initial_kinds(node.target)
        if kinds & {Kind.LIST, Kind.TUPLE, Kind.STRING}:
            form = Form.TEXT if Kind.STRING in kinds else Form.SEQUENCE
            return self._tracer.collected(node.target, node, replace(self._trail, form=form))
        return None

    def _initial_kinds(self, target: ast.expr) -> set[Kind]:
        if not isinstance(target, ast.Name):
            return set()
        scope = self._index.scope_at(target).lookup(target.id)
        bindings = scope.bindings[target.id] if scope is not None else ()
        values = [binding.value for binding in bindings if binding.node is not target and binding.value is not None]
        return {value.kind for initial in values for value in self._tracer.inference.values(initial)}

    def _record(self, node: ast.Dict) -> str | None:
        """`{"id": number, "file_name": name}` numbers its elements."""
        values = [*node.values]
        numbered = any(isinstance(value, ast.Name) and value.id in self._positions for value in values)
        if numbered and any(map(self._has_element, values)) and not self._tracer.shown(node):
            return "the numbers given to names"
        return None

    def _assigned(self, node: ast.Assign) -> str | None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                found = self._stored(target, node)
            elif isinstance(target, ast.Name) and self._has_element(node.value):
                found = self._rebound(target, node)
            else:
                found = None
            if found is not None:
                return found
        return None

    def _stored(self, target: ast.Subscript, node: ast.Assign) -> str | None:
        """`ids[name] = len(ids)`, `ids[name] = i`, `rows[i] = load(name)`."""
        if not self._is_shared(target.value):
            return None
        numbered = self._has_position(node.value) or _counts(node.value, target.value)
        if numbered and self._has_element(target.slice):
            return "the numbers given to names"
        if self._has_element(node.value) and self._has_position(target.slice):
            return self._tracer.collected(target.value, node, self._trail)
        if self._has_element(target.slice):
            if self._makes_module(node.value) and self._is_module(target.value):
                return "the order of the parameters"
            return self._tracer.collected(target.value, node, replace(self._trail, form=Form.MAPPING))
        return None

    def _is_module(self, node: ast.expr) -> bool:
        return {value.kind for value in self._tracer.inference.values(node)} == {Kind.MODULE}

    def _makes_module(self, node: ast.expr) -> bool:
        """Return whether an expression constructs a new module, and does not wrap one that is there already."""
        inference = self._tracer.inference
        return isinstance(node, ast.Call) and any(map(inference.is_module_class, inference.callees(node)))

    def _rebound(self, target: ast.Name, node: ast.Assign) -> str | None:
        """`out = torch.cat([out, part])` collects; `path = name` under a condition picks."""
        if isinstance(self._body, FUNCTIONS):
            return None
        if target.id in names_in(node.value):
            if self._is_outside(target) and self._concatenates(node.value):
                return self._tracer.collected(target, node, self._trail)
            return None
        if not self._picks(node) or not (self._has_default(target) or self._leaves(node)):
            return None
        binding = self._tracer.binding_of(target)
        if binding is None:
            return None
        flow = self._tracer.module.flow_at(node)
        for use in flow.uses(binding):
            outside = self._body not in self._index.ancestors(use)
            if outside and flow.path(node, use) and not self._tracer.shown(use):
                return "the choice of one entry"
        return None

    def _concatenates(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Call):
            return bool(self._tracer.table.functions["carrying"].intersection(self._tracer.inference.callees(value)))
        kinds = {found.kind for found in self._tracer.inference.values(value)}
        return isinstance(value, ast.BinOp) and bool(kinds & {Kind.LIST, Kind.STRING, Kind.TUPLE})

    def _picks(self, node: ast.stmt) -> bool:
        """Return whether the statement keeps whichever element comes first (or last) of those that qualify."""
        conditions = list(self._conditions(node))
        if any(_holds(condition, _COMPARISONS) for condition in conditions) or self._is_pinned(conditions):
            return False
        return any(map(self._has_element, conditions))

    def _leaves(self, node: ast.stmt) -> bool:
        """Return whether a `break` follows in the same block."""
        block = getattr(self._index.parents[node], "body", [])
        later = block[block.index(node) :] if isinstance(block, list) and node in block else []
        return any(isinstance(statement, ast.Break) for statement in later)

    def _conditions(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield the tests inside the body under which `node` runs."""
        for parent in self._index.ancestors(node):
            if parent is self._body:
                return
            if isinstance(parent, (ast.If, ast.While)):
                yield parent.test

    def _is_pinned(self, conditions: list[ast.expr]) -> bool:
        """Return whether a test asks for one particular element, or for one of a given collection."""
        return any(
            self._has_element(condition) and (_holds(condition, _PINS) or self._is_wanted(condition))
            for condition in conditions
        )

    def _is_wanted(self, condition: ast.expr) -> bool:
        """`name in wanted`, which is no search for a part of the name."""
        return any(
            isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.In) and self._has_element(part.left)
            for part in ast.walk(condition)
        )

    def _yielded(self, node: ast.Yield | ast.YieldFrom) -> str | None:
        if isinstance(self._body, FUNCTIONS) or node.value is None or not self._has_element(node.value):
            return None
        return self._tracer.returned(node.value, node, self._trail)

    def _returned(self, node: ast.Return) -> str | None:
        if isinstance(self._body, FUNCTIONS) or node.value is None or not self._has_element(node.value):
            return None
        conditions = list(self._conditions(node))
        if self._is_pinned(conditions) or self._tracer.shown(node.value) or _is_truth(node.value):
            return None
        return "the choice of one entry"


def _own_nodes(body: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a body in source order, nested functions and classes left out."""
    pending = list(reversed(getattr(body, "body", [])))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            pending += reversed(list(ast.iter_child_nodes(node)))


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _holds(condition: ast.expr, operators: tuple[type[ast.cmpop], ...]) -> bool:
    return any(
        isinstance(node, ast.Compare) and any(isinstance(op, operators) for op in node.ops)
        for node in ast.walk(condition)
    )


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
