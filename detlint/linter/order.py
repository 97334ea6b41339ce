"""Where does an arbitrary order end up? Follows a value upward through expressions, variables, attributes and calls.

The order of a directory listing, of a set or of finished futures only matters if it reaches data: items, numbers,
text, a choice, or whoever calls. Everything that is not known to take over an order is taken to ignore it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from detlint.linter.names import FUNCTIONS, Binding, BindingKind, FunctionNode
from detlint.linter.order_table import order_table
from detlint.linter.calls import argument_of
from detlint.linter.program import calls_named
from detlint.linter.values import Kind

if TYPE_CHECKING:
    from detlint.linter.flow import Flow
    from detlint.linter.project import Module

_MAX_CALLS = 3
_SHOWING = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})


class Form(Enum):
    """What holds the order."""

    SEQUENCE = "sequence"
    NESTED = "nested"  # a container with the sequence inside
    MAPPING = "mapping"  # a dict filled in that order
    TEXT = "text"
    WALK = "walk"  # the triples of os.walk
    SORTED_WALK = "sorted walk"  # the same with the folders in order, but not the names in each


@dataclass(frozen=True, slots=True)
class Trail:
    """How the order is carried. After `subset` the order has decided what is in, so sorting comes too late."""

    form: Form = Form.SEQUENCE
    subset: bool = False
    calls: int = 0
    entered: tuple[_Entered, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Entered:
    """A call that the order went through as an argument: what the function returns comes out there."""

    tracer: OrderTracer
    call: ast.Call
    function: FunctionNode


class OrderTracer:
    """Follows orders through one module; asks a tracer of its own for another module where calls lead there."""

    def __init__(self, module: Module, seen: set[tuple[ast.AST, Form, bool]] | None = None) -> None:
        self.module = module
        self.index = module.index
        self.inference = module.inference
        self.table = order_table()
        self._seen = set() if seen is None else seen

    def destination(self, node: ast.expr, trail: Trail | None = None) -> str | None:
        """Return in words what takes over the order of `node`, or None where nothing is known to."""
        trail = trail or Trail()
        key = (node, trail.form, trail.subset)
        if key in self._seen:
            return None
        self._seen.add(key)
        parent = self.index.parents.get(node)
        if parent is None or self._shown(node):
            return None
        method = _PARENTS.get(parent.__class__)
        return method(self, node, parent, trail) if method is not None else None

    # --- expressions --------------------------------------------------------------------------------------------

    def _carry(self, node: ast.expr, parent: ast.expr, trail: Trail) -> str | None:
        return self.destination(parent, trail)

    def _display(self, node: ast.expr, parent: ast.expr, trail: Trail) -> str | None:
        if isinstance(node, ast.Starred) or trail.form is Form.MAPPING:
            return self.destination(parent, trail)
        return self.destination(parent, replace(trail, form=Form.NESTED))

    def _binary(self, node: ast.expr, parent: ast.BinOp, trail: Trail) -> str | None:
        if isinstance(parent.op, (ast.Add, ast.Mod, ast.Mult)):
            return self.destination(parent, trail)
        return None

    def _branch(self, node: ast.expr, parent: ast.IfExp, trail: Trail) -> str | None:
        return None if node is parent.test else self.destination(parent, trail)

    def _formatted(self, node: ast.expr, parent: ast.FormattedValue, trail: Trail) -> str | None:
        string = self.index.parents[parent]
        assert isinstance(string, ast.expr)
        return self.destination(string, replace(trail, form=Form.TEXT))

    def _subscript(self, node: ast.expr, parent: ast.Subscript, trail: Trail) -> str | None:
        if not isinstance(parent.ctx, ast.Load):
            return None
        if node is parent.slice:
            return self._index(parent, trail)
        if trail.form is Form.NESTED:
            return self.destination(parent, replace(trail, form=Form.SEQUENCE))
        if trail.form is not Form.SEQUENCE:
            return None
        index = parent.slice
        if isinstance(index, ast.Slice):
            whole = index.lower is None and index.upper is None
            return self.destination(parent, replace(trail, subset=trail.subset or not whole))
        if isinstance(index, ast.UnaryOp):
            index = index.operand
        if isinstance(index, ast.Constant):
            return self.choice(node, parent)
        return self._by_position(parent, index)

    def _index(self, item: ast.Subscript, trail: Trail) -> str | None:
        """`scores[order]` is in that order, but not where it is stored under the same index."""
        if any(name.startswith("typing.") for name in self.inference.resolve(item.value)):
            return None
        statement = self.index.parents.get(item)
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        index = ast.dump(item.slice)
        if any(isinstance(target, ast.Subscript) and ast.dump(target.slice) == index for target in targets):
            return None
        return self.destination(item, replace(trail, form=Form.SEQUENCE))

    def _by_position(self, item: ast.Subscript, index: ast.expr) -> str | None:
        """`files[i]`: in a loop over the positions the items follow the order as if the loop ran over them."""
        names = {name.id for name in ast.walk(index) if isinstance(name, ast.Name)}
        for parent in self.index.ancestors(item):
            if isinstance(parent, FUNCTIONS):
                parameters = {argument.arg for argument in ast.walk(parent.args) if isinstance(argument, ast.arg)}
                return "the item at each index" if names & parameters else None
            if isinstance(parent, (ast.For, ast.AsyncFor)) and names & _bound_names(parent.target):
                return self._effects(parent, frozenset(), frozenset(names), Trail(), (item,))
            if isinstance(parent, (ast.ListComp, ast.GeneratorExp)):
                return self.destination(parent)
        return None

    def _element(self, node: ast.expr, parent: ast.ListComp | ast.GeneratorExp, trail: Trail) -> str | None:
        return self.destination(parent, replace(trail, form=Form.NESTED))

    def _comprehension(self, node: ast.expr, parent: ast.comprehension, trail: Trail) -> str | None:
        if node is not parent.iter:
            return None
        whole = self.index.parents[parent]
        assert isinstance(whole, ast.expr)
        if trail.form is Form.SORTED_WALK:
            return self._names_of_walk(parent.target, whole, trail)
        if isinstance(whole, ast.SetComp):
            return None
        if isinstance(whole, ast.DictComp):
            positions = self.positions(parent.target, parent.iter)
            used = _names(whole.key) | _names(whole.value)
            if positions & used and (_bound_names(parent.target) - positions) & used:
                return "the numbers given to names"
            return self.destination(whole, replace(trail, form=Form.MAPPING))
        return self.destination(whole, replace(trail, form=Form.SEQUENCE))

    # --- calls --------------------------------------------------------------------------------------------------

    def _keyword(self, node: ast.expr, parent: ast.keyword, trail: Trail) -> str | None:
        call = self.index.parents[parent]
        return self._argument(node, call, trail) if isinstance(call, ast.Call) else None

    def _argument(self, node: ast.expr, call: ast.Call, trail: Trail) -> str | None:
        if node is call.func:
            return None
        names = self.inference.callees(call)
        functions = self.table.functions
        if functions["sorting"].intersection(names):
            if trail.form is Form.WALK:
                return self.destination(call, replace(trail, form=Form.SORTED_WALK))
            return self.destination(call, trail) if trail.subset else None
        if self._numbers(node, call, names):
            return "the numbers given to names"
        if isinstance(node, ast.Starred) and "builtins.zip" in names:
            return self.destination(call, replace(trail, form=Form.NESTED))  # the order moves into the elements
        if functions["carrying"].intersection(names):
            return self.destination(call, _as_sequence(trail))
        if functions["receiving"].intersection(names) or self._keeps_items(names):
            return self._received(node, call, names, trail)
        if isinstance(call.func, ast.Attribute):
            found = self._taken_by_method(node, call, call.func, trail)
            if found is not None:
                return found
        return self._through_function(node, call, names, trail)

    def _numbers(self, node: ast.expr, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`zip(words, range(n))` and `dict(enumerate(words))` number what they get."""
        if "builtins.zip" in names:
            others = [argument for argument in call.args if isinstance(argument, ast.Call) and argument is not node]
            counters = {"builtins.range", "itertools.count"}
            return any(counters.intersection(self.inference.callees(other)) for other in others)
        if "builtins.dict" in names and isinstance(node, ast.Call):
            return "builtins.enumerate" in self.inference.callees(node)
        return False

    def _keeps_items(self, names: Iterable[str]) -> bool:
        endings = self.table.receiving_endings
        return any(name.endswith(endings) and not name.startswith("builtins.") for name in names)

    def _received(self, node: ast.expr, call: ast.Call, names: tuple[str, ...], trail: Trail) -> str | None:
        if trail.form is Form.MAPPING:
            return None
        if "builtins.next" in names:
            if trail.form is Form.WALK:
                return self.destination(call, replace(trail, form=Form.NESTED))
            return self.choice(node, call)
        return f"{names[0].removeprefix('builtins.')}()"

    def _taken_by_method(self, node: ast.expr, call: ast.Call, method: ast.Attribute, trail: Trail) -> str | None:
        methods = self.table.methods
        if method.attr == "join" and self.inference.resolve(method) in (("builtins.str.join",), ()):
            return self.destination(call, replace(trail, form=Form.TEXT))
        if method.attr in methods["extending"] and trail.form is Form.SEQUENCE:
            return self.collected(method.value, call, trail)
        if method.attr in methods["appending"] and trail.form is not Form.TEXT:
            return self.collected(method.value, call, replace(trail, form=Form.NESTED))
        if method.attr in methods["writing"] and trail.form in (Form.TEXT, Form.SEQUENCE):
            return "the text that is written"
        if method.attr in methods["mapping"] and call.args[1:2] == [node]:
            return self.destination(call, trail)
        if method.attr in methods["passing"]:
            return self.destination(call, trail)
        if method.attr in methods["keeping"] and trail.form is not Form.MAPPING:
            return f"{method.attr}()"
        return None

    def _through_function(self, node: ast.expr, call: ast.Call, names: tuple[str, ...], trail: Trail) -> str | None:
        """Follow an argument into the function of the project that gets it."""
        if trail.calls >= _MAX_CALLS or isinstance(node, ast.Starred):
            return None
        for name in names:
            definition = self.module.project.definition(name)
            if definition is None:
                continue
            module, function = definition
            if isinstance(function, ast.ClassDef):
                methods = module.inference.class_info(function).methods
                if "__iter__" in methods and "__getitem__" not in methods:
                    return self.destination(call, trail)  # a progress bar
                made = methods.get("__init__")
                if made is None:
                    continue
                function = made
            for parameter in (argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)):
                is_method = module.index.class_at(function) is not None
                if argument_of(function, parameter, call, skip_self=is_method) is node:
                    tracer = self if module is self.module else OrderTracer(module, self._seen)
                    entered = (*trail.entered, _Entered(self, call, function))
                    inner = replace(trail, calls=trail.calls + 1, entered=entered)
                    found = tracer._parameter(function, parameter, inner)
                    if found is not None:
                        return found
        return None

    def _parameter(self, function: FunctionNode, name: str, trail: Trail) -> str | None:
        scope = self.index.scopes[function]
        binding = next((b for b in scope.bindings[name] if b.kind is BindingKind.PARAMETER), None)
        return None if binding is None else self._binding(binding, None, trail)

    def _method(self, node: ast.expr, parent: ast.Attribute, trail: Trail) -> str | None:
        """A method called on the value, or an attribute of it."""
        call = self.index.parents.get(parent)
        methods = self.table.methods
        if not (isinstance(call, ast.Call) and call.func is parent):
            return self.destination(parent, trail) if parent.attr in ("values", "T", "iloc") else None
        if trail.form is Form.MAPPING:
            if parent.attr in ("items", "keys", "values"):
                return self.destination(call, replace(trail, form=Form.SEQUENCE))
            return None
        if trail.form is Form.NESTED:
            if parent.attr in ("items", "values", "get", "pop"):
                form = Form.SEQUENCE if parent.attr in ("get", "pop") else Form.NESTED
                return self.destination(call, replace(trail, form=form))
            return None
        if trail.form is Form.TEXT:
            return self.destination(call, trail)
        if parent.attr in methods["carrying"]:
            return self.destination(call, trail)
        if parent.attr in methods["choosing"]:
            return self.choice(node, call)
        return f"{parent.attr}()" if parent.attr in methods["receiving"] else None

    # --- variables, attributes, containers ------------------------------------------------------------------------

    def _assigned(self, node: ast.expr, parent: ast.Assign, trail: Trail) -> str | None:
        if node is not parent.value:
            return None
        return self._first(self._target(target, parent, trail) for target in parent.targets)

    def _annotated(self, node: ast.expr, parent: ast.AnnAssign, trail: Trail) -> str | None:
        return self._target(parent.target, parent, trail) if node is parent.value else None

    def _walrus(self, node: ast.expr, parent: ast.NamedExpr, trail: Trail) -> str | None:
        return self._target(parent.target, parent, trail) or self.destination(parent, trail)

    def _augmented(self, node: ast.expr, parent: ast.AugAssign, trail: Trail) -> str | None:
        if node is not parent.value or not isinstance(parent.op, ast.Add):
            return None
        return self.collected(parent.target, parent, trail)

    def _target(self, target: ast.expr, statement: ast.AST, trail: Trail) -> str | None:
        if isinstance(target, ast.Name):
            binding = self._binding_of(target)
            return None if binding is None else self._binding(binding, statement, trail)
        if isinstance(target, (ast.Tuple, ast.List)):
            if len(target.elts) == 1 and not isinstance(target.elts[0], ast.Starred):
                return None  # only one element fits, and one element has one order
            if trail.form is Form.SEQUENCE and not self._is_zip(statement):
                return "the names it is unpacked into"
            if trail.form not in (Form.SEQUENCE, Form.NESTED):
                return None
            inner = replace(trail, form=Form.SEQUENCE)
            return self._first(self._target(element, statement, inner) for element in target.elts)
        if isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Slice):
                return self.collected(target.value, statement, trail)
            if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                return None  # one entry of a record: what is read under other keys is something else
            return self.collected(target.value, statement, replace(trail, form=Form.NESTED))
        return self._attribute(target, trail) if isinstance(target, ast.Attribute) else None

    def _is_zip(self, statement: ast.AST) -> bool:
        value = getattr(statement, "value", None)
        return isinstance(value, ast.Call) and {"builtins.zip", "builtins.map"}.intersection(
            self.inference.callees(value)
        )  # type: ignore[return-value]

    def _binding_of(self, target: ast.Name) -> Binding | None:
        owner = self.index.scope_at(target).lookup(target.id)
        found = owner.bindings.get(target.id, ()) if owner is not None else ()
        return next((binding for binding in found if binding.node is target), None)

    def _binding(self, binding: Binding, after: ast.AST | None, trail: Trail) -> str | None:
        if self._is_complaint(binding.name) or not isinstance(binding.scope.node, (*FUNCTIONS, ast.Module)):
            return None
        flow = self.module.flow(binding.scope)
        return self._uses(flow.uses(binding), flow, after, trail)

    def _uses(self, uses: Iterable[ast.Name], flow: Flow, after: ast.AST | None, trail: Trail) -> str | None:
        uses = tuple(uses)
        sorts = () if trail.subset else [fixed for use in uses for fixed in self._fixes(use)]
        for use in uses:
            if sorts and not flow.path(after, use, avoiding=sorts):
                continue
            found = self.destination(use, trail)
            if found is not None:
                return found
        return None

    def _fixes(self, use: ast.Name) -> Iterator[ast.AST]:
        """Yield the nodes after which the variable is in order: a sort in place, or a sort that is on by default."""
        for call in self._sorts(use):
            yield self._unless_turned_off(call) or call
        statement = self.index.statement(use)
        call = self.index.parents.get(use)
        if isinstance(call, ast.Call) and self.sorts(call) and isinstance(statement, ast.Assign):
            if any(isinstance(target, ast.Name) and target.id == use.id for target in statement.targets):
                condition = self._unless_turned_off(statement)
                if condition is not None:
                    yield condition

    def _unless_turned_off(self, node: ast.AST) -> ast.If | None:
        """Return the `if sort:` around `node` where `sort` is a parameter that is True by default."""
        for parent in self.index.ancestors(node):
            if isinstance(parent, FUNCTIONS):
                return None
            if isinstance(parent, ast.If) and isinstance(parent.test, ast.Name):
                bindings = self.module.definitions(parent.test)
                defaults = [b.value for b in bindings if b.kind is BindingKind.PARAMETER]
                if any(isinstance(default, ast.Constant) and default.value is True for default in defaults):
                    return parent
        return None

    def _sorts(self, use: ast.expr) -> Iterator[ast.AST]:
        """Yield the node that puts the list or mapping `use` in order in place."""
        parent = self.index.parents.get(use)
        if isinstance(parent, ast.Attribute) and parent.attr in self.table.methods["sorting"]:
            yield self.index.parents[parent]
        elif isinstance(parent, ast.Subscript) and parent.value is use:
            if isinstance(parent.ctx, ast.Store):
                statement = self.index.parents.get(parent)
                value = getattr(statement, "value", None)
                if isinstance(value, ast.Call) and self.sorts(value):
                    yield parent
            else:
                yield from self._sorts(parent)

    def sorts(self, call: ast.Call) -> bool:
        """Return whether a call gives its argument in a fixed order."""
        return bool(self.table.functions["sorting"].intersection(self.inference.callees(call)))

    def collected(self, container: ast.expr, change: ast.AST, trail: Trail) -> str | None:
        """Return what takes over the order in which `change` fills `container`."""
        if isinstance(container, ast.Subscript):
            form = Form.MAPPING if trail.form is Form.MAPPING else Form.NESTED
            return self.collected(container.value, change, replace(trail, form=form))
        if isinstance(container, ast.Call) and isinstance(container.func, ast.Attribute):
            # by_class.setdefault(name, []).append(path)
            return self.collected(container.func.value, change, replace(trail, form=Form.NESTED))
        if isinstance(container, ast.Attribute):
            return self._attribute(container, trail)
        if not isinstance(container, ast.Name) or self._is_complaint(container.id):
            return None
        kinds = {value.kind for value in self.inference.values(container)}
        if kinds == {Kind.SET}:
            return None
        scope = self.index.scope_at(container).lookup(container.id)
        if scope is None or not isinstance(scope.node, (*FUNCTIONS, ast.Module)):
            return None
        flow = self.module.flow(scope)
        bindings = self._current(container)
        more = [binding for binding in scope.bindings[container.id] if binding.kind is BindingKind.AUGMENTED]
        uses = {use: None for binding in dict.fromkeys([*bindings, *more]) for use in flow.uses(binding)}
        later = [use for use in uses if use is not container and flow.path(change, use)]
        found = self._uses(later, flow, change, trail)
        received = bool(bindings) and all(binding.kind is BindingKind.PARAMETER for binding in bindings)
        if found is None and received and trail.form is not Form.MAPPING:
            return f"the caller's `{container.id}`"
        return found

    def _current(self, container: ast.Name) -> tuple[Binding, ...]:
        """Return the bindings that a container is filled through: those that reach it, or the one it makes."""
        if isinstance(container.ctx, ast.Load):
            return self.module.definitions(container)
        binding = self._binding_of(container)
        return () if binding is None else (binding,)

    def _attribute(self, target: ast.Attribute, trail: Trail) -> str | None:
        """`self.files = …`: what the methods of the class do with it; whoever holds the object, where they do nothing."""
        owner = self.index.class_at(target)
        if owner is None or not isinstance(target.value, ast.Name) or self._is_complaint(target.attr):
            return None
        if trail.form is Form.MAPPING:
            return None
        receivers = {value.type for value in self.inference.values(target.value)}
        if self.module.qualified(owner) not in receivers:
            return None
        loads = [
            node
            for node in self.index.of_type(ast.Attribute)
            if node.attr == target.attr
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name)
            and node.value.id == target.value.id
            and self.index.class_at(node) is owner
        ]
        if not trail.subset and any(self._fixes_order(load, target.attr) for load in loads):
            return None
        read = False
        for load in loads:
            if self._only_fills(load):
                continue
            read = True
            found = self.destination(load, trail)
            if found is not None:
                return f"self.{target.attr}"
        if read or trail.form is Form.TEXT or target.attr.startswith("__"):
            return None
        return f"self.{target.attr}"

    def _fixes_order(self, load: ast.Attribute, attribute: str) -> bool:
        """`self.files.sort()` or `self.files = sorted(self.files)`."""
        if any(True for _ in self._sorts(load)):
            return True
        parent = self.index.parents.get(load)
        statement = self.index.statement(load)
        return (
            isinstance(parent, ast.Call)
            and self.sorts(parent)
            and isinstance(statement, ast.Assign)
            and any(isinstance(t, ast.Attribute) and t.attr == attribute for t in statement.targets)
        )

    def _only_fills(self, load: ast.Attribute) -> bool:
        parent = self.index.parents.get(load)
        filling = self.table.methods["appending"] | self.table.methods["extending"]
        return isinstance(parent, ast.Attribute) and parent.attr in filling

    # --- statements -------------------------------------------------------------------------------------------------

    def _loop(self, node: ast.expr, parent: ast.For, trail: Trail) -> str | None:
        if node is not parent.iter or trail.form in (Form.NESTED, Form.TEXT):
            return None
        if trail.form is Form.SORTED_WALK or (trail.form is Form.WALK and self._sorts_folders(parent)):
            return self._names_of_walk(parent.target, parent, trail)
        positions = self.positions(parent.target, parent.iter)
        return self._effects(parent, _bound_names(parent.target) - positions, positions, trail)

    def _effects(
        self,
        loop: ast.For | ast.AsyncFor,
        elements: frozenset[str],
        positions: frozenset[str],
        trail: Trail,
        items: tuple[ast.expr, ...] = (),
    ) -> str | None:
        from detlint.linter.order_effects import LoopEffects

        inner = replace(trail, form=Form.SEQUENCE)
        return LoopEffects(self, loop, elements, positions, items, inner).destination()

    def positions(self, target: ast.expr, iterable: ast.expr) -> frozenset[str]:
        """Return the names that hold the running number of an `enumerate`."""
        call: ast.expr | None = iterable
        while isinstance(call, ast.Call):
            if "builtins.enumerate" in self.inference.callees(call):
                first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and target.elts else None
                return frozenset({first.id}) if isinstance(first, ast.Name) else frozenset()
            call = call.args[0] if call.args else None
        return frozenset()

    def _sorts_folders(self, loop: ast.For) -> bool:
        """Return whether a loop over os.walk sorts its folders in place, which fixes the order of the walk."""
        target = loop.target
        if not isinstance(target, ast.Tuple) or len(target.elts) < 2 or not isinstance(target.elts[1], ast.Name):
            return False
        folders = target.elts[1].id
        names = [name for name in self.index.of_type(ast.Name) if name.id == folders]
        inside = [name for name in names if loop in self.index.ancestors(name)]
        return any(True for name in inside for _ in self._sorts(name))

    def _names_of_walk(self, target: ast.expr, loop: ast.AST, trail: Trail) -> str | None:
        """Follow the file names of one folder, the last of the three that os.walk gives."""
        if not isinstance(target, ast.Tuple) or len(target.elts) < 3 or not isinstance(target.elts[2], ast.Name):
            return None
        names = target.elts[2]
        inner = replace(trail, form=Form.SEQUENCE)
        loads = [
            node for node in self.index.of_type(ast.Name) if node.id == names.id and isinstance(node.ctx, ast.Load)
        ]
        inside = [node for node in loads if loop in self.index.ancestors(node)]
        if any(True for node in inside for _ in self._sorts(node)):
            return None
        return self._first(self.destination(node, inner) for node in inside)

    def _entered(self, node: ast.expr, parent: ast.withitem, trail: Trail) -> str | None:
        if node is not parent.context_expr or parent.optional_vars is None:
            return None
        statement = self.index.parents[parent]
        return self._target(parent.optional_vars, statement, trail)

    def _returned(self, node: ast.expr, parent: ast.AST, trail: Trail) -> str | None:
        function = self.index.function_at(parent)
        if function is None or self._is_complaint(function.name) or trail.form is Form.MAPPING:
            return None
        if function.name in self.table.descriptions:
            return None
        if trail.entered and trail.entered[-1].function is function:
            last = trail.entered[-1]
            return last.tracer.destination(last.call, replace(trail, entered=trail.entered[:-1]))
        word = "returns" if isinstance(parent, ast.Return) else "yields"
        callers = self._callers(function)
        if callers and all(self._sorted_at_once(call) for call in callers) and not trail.subset:
            return None
        nested = isinstance(self.index.parents.get(function), FUNCTIONS)
        if callers and (function.name.startswith("_") or nested) and trail.calls < _MAX_CALLS:
            inner = replace(trail, calls=trail.calls + 1)
            return self._first(self.destination(call, inner) for call in callers)
        return f"what {function.name}() {word}"

    def _callers(self, function: FunctionNode) -> list[ast.Call]:
        """Return the calls of a function of this file, those from inside itself left out."""
        qualified = self.module.qualified(function)
        return [
            call
            for call in calls_named(self.module, (function.name,))
            if function not in self.index.ancestors(call) and qualified in self.inference.callees(call)
        ]

    def _sorted_at_once(self, call: ast.Call) -> bool:
        parent = self.index.parents.get(call)
        return isinstance(parent, ast.Call) and self.sorts(parent)

    def choice(self, node: ast.expr, chosen: ast.expr) -> str | None:
        """`files[0]` decides nothing where there is one file, or where only its form is looked at."""
        parent = self.index.parents.get(chosen)
        if self.is_only_element(node) or isinstance(parent, ast.Compare):
            return None
        if isinstance(parent, ast.Call) and {"builtins.len", "builtins.isinstance", "builtins.type"}.intersection(
            self.inference.callees(parent)
        ):
            return None
        return "the choice of one entry"

    # --- small questions --------------------------------------------------------------------------------------------

    def _first(self, answers: Iterable[str | None]) -> str | None:
        return next((answer for answer in answers if answer is not None), None)

    def _is_complaint(self, name: str) -> bool:
        lowered = name.lower()
        return any(word in lowered for word in self.table.complaints)

    def _shown(self, node: ast.AST) -> bool:
        """Return whether the value goes into a message, a log or an exception: people read it, nothing computes with it."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, ast.Raise) or (isinstance(parent, ast.Assert) and child is not parent.test):
                return True
            if isinstance(parent, ast.stmt):
                return False
            if isinstance(parent, ast.Call) and child is not parent.func and self._shows(parent):
                return True
            child = parent
        return False

    def _shows(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _SHOWING:
            return True
        return any(name in ("builtins.print", "warnings.warn") for name in self.inference.callees(call))

    def is_only_element(self, node: ast.expr) -> bool:
        """Return whether the code around counts what it picks from: `len(files) == 1`."""
        names = _names(node)
        scope = self.index.function_at(node) or self.module.tree
        for compare in self.index.of_type(ast.Compare):
            if scope is not self.module.tree and scope not in self.index.ancestors(compare):
                continue
            sides = (compare.left, *compare.comparators)
            counted = any(
                isinstance(side, ast.Call)
                and isinstance(side.func, ast.Name)
                and side.func.id == "len"
                and _names(side) - {"len"} <= names
                and _names(side) - {"len"}
                for side in sides
            )
            if counted and any(isinstance(side, ast.Constant) and side.value in (1, 2) for side in sides):
                return True
        return False


def _as_sequence(trail: Trail) -> Trail:
    """What `list(…)` and its like make of a form."""
    return replace(trail, form=Form.SEQUENCE) if trail.form is Form.MAPPING else trail


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(name.id for name in ast.walk(node) if isinstance(name, ast.Name))


def _bound_names(target: ast.expr) -> frozenset[str]:
    return _names(target)


_Method = Callable[["OrderTracer", ast.expr, "ast.AST", Trail], "str | None"]
_PARENTS: dict[type[ast.AST], _Method] = {
    ast.Call: OrderTracer._argument,
    ast.keyword: OrderTracer._keyword,
    ast.Starred: OrderTracer._carry,
    ast.Await: OrderTracer._carry,
    ast.BoolOp: OrderTracer._carry,
    ast.List: OrderTracer._display,
    ast.Tuple: OrderTracer._display,
    ast.Dict: OrderTracer._display,
    ast.BinOp: OrderTracer._binary,
    ast.IfExp: OrderTracer._branch,
    ast.FormattedValue: OrderTracer._formatted,
    ast.Subscript: OrderTracer._subscript,
    ast.Attribute: OrderTracer._method,
    ast.comprehension: OrderTracer._comprehension,
    ast.ListComp: OrderTracer._element,
    ast.GeneratorExp: OrderTracer._element,
    ast.Assign: OrderTracer._assigned,
    ast.AnnAssign: OrderTracer._annotated,
    ast.NamedExpr: OrderTracer._walrus,
    ast.AugAssign: OrderTracer._augmented,
    ast.For: OrderTracer._loop,
    ast.AsyncFor: OrderTracer._loop,
    ast.withitem: OrderTracer._entered,
    ast.Return: OrderTracer._returned,
    ast.Yield: OrderTracer._returned,
    ast.YieldFrom: OrderTracer._returned,
}  # type: ignore[dict-item]
