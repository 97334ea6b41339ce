"""What decides the mode of a model: where it is made, its `train()` and `eval()`, and calls that do either."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.flow import Flow
from detlint.linter.analysis.module import Module
from detlint.linter.modes.call_effects import CallEffects
from detlint.linter.modes.effects import Event
from detlint.linter.modes.library_trainers import switches_by_trainer
from detlint.linter.modes.lists import gone_round
from detlint.linter.modes.names import Key
from detlint.linter.modes.switches import Mode, names_switches, switched, switched_by_name, switches_any
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, Scope
from detlint.linter.source.nodes import arguments_of, identifier, is_own, names_in, unless_none, walk

_RUNS = ("__init__", "forward", "train", "eval")
# A target, what is assigned to it, and at which place of that it stands: `net, width = load(path)`.
_Assignments = dict[Scope, list[tuple[ast.expr, ast.expr, tuple[int, ...]]]]


class ModeEvents(CallEffects, ABC):
    """Finds, in the bodies of one module, the places that decide modes, and what its functions do to them."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._events: dict[tuple[Scope, Key], tuple[Event, ...]] = {}
        self._aliases: dict[Scope, dict[str, Key | None]] = {}

    @abstractmethod
    def mode_of(self, node: ast.expr, index: tuple[int, ...] = ()) -> Mode:
        """Return the mode of the model that an expression makes or gives (at `index` of a tuple)."""

    def events(self, scope: Scope, key: Key) -> tuple[Event, ...]:
        """Return the places in a body that decide the mode of `key`, in source order."""
        known = self._events.get((scope, key))
        if known is None:
            self._events[scope, key] = ()
            found = {event.node: event for event in self._find_events(scope, key)}
            known = tuple(sorted(found.values(), key=lambda event: _place(event.node)))
            known = tuple(event for event in known if not self.is_in_vain(event, key, known))
            self._events[scope, key] = known
        return known

    def events_anywhere(self, key: Key) -> list[Event]:
        """Return what decides the mode of a variable, in every body that can see it."""
        if not self._is_named(key):
            return []
        return [event for scope in self._scopes_of(key) for event in self.events(scope, key)]

    def _is_named(self, key: Key) -> bool:
        """Does the file hold the name at all? Base classes mostly know nothing of the models of their heirs."""
        name = key.name.partition("[")[0]
        return name in self.index.names_used or name in self.index.scopes[key.owner].bindings

    def _scopes_of(self, key: Key) -> Iterator[Scope]:
        """Yield every body that can see the variable."""
        if not isinstance(key.owner, ast.ClassDef):
            yield self.index.scopes[key.owner]
        for node in self._functions_in.get(key.owner, ()):
            yield self.index.scopes[node]

    @cached_property
    def _functions_in(self) -> dict[ast.AST, list[FunctionNode]]:
        """The functions inside each node that holds any, in source order."""
        found: dict[ast.AST, list[FunctionNode]] = {}
        functions: list[FunctionNode] = [*self.index.of_type(ast.FunctionDef)]
        functions += self.index.of_type(ast.AsyncFunctionDef)
        for function in sorted(functions, key=lambda function: function.lineno):
            for around in self.index.ancestors(function):
                found.setdefault(around, []).append(function)
        return found

    def _seeing(self, owner: ast.AST) -> dict[str, FunctionNode]:
        """Return, by name, what sees a variable of `owner`: methods of a class, else a body and all functions in it."""
        if isinstance(owner, ast.ClassDef):
            return {node.name: node for node in owner.body if isinstance(node, FUNCTIONS)}
        own = {owner.name: owner} if isinstance(owner, FUNCTIONS) else {}
        return {**own, **{node.name: node for node in self._functions_in.get(owner, ())}}

    def _find_events(self, scope: Scope, key: Key) -> Iterator[Event]:
        flow = self.module.flow(scope)
        for mention in self._mentions(scope, key, flow):
            yield from self._mention_events(mention, key)
        yield from self._bindings(scope, key)
        for target, value, index in self._item_assignments.get(scope, ()):
            if (isinstance(target, ast.Subscript) or identifier(target) == key.name) and self.key(target) == key:
                statement = self.index.statement(target)
                yield from self._binding_event(statement, value, index, key)
                yield from self._switches_under_name(statement, value, scope)
        yield from self._called_events(scope, key)

    def _mentions(self, scope: Scope, key: Key, flow: Flow) -> Iterator[ast.expr]:
        if scope not in self._aliases:
            self._aliases[scope] = {name: self._stands_for(bindings) for name, bindings in scope.bindings.items()}
        aliases = {name for name, other in self._aliases[scope].items() if other == key}
        for name in sorted(aliases | {key.name.partition("[")[0]}):
            for node in self.index.names_used.get(name, ()):
                if self.body_of(node) is scope:
                    yield from (mention for mention in self._with_items(node) if self.key(mention) == key)

    def _with_items(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield `nets`, `nets[name]` and `nets[name]["net"]` around a name."""
        while isinstance(node, ast.expr):
            yield node
            parent = self.index.parents.get(node)
            if not isinstance(parent, ast.Subscript) or parent.value is not node:
                return
            node = parent

    def _stands_for(self, bindings: list[Binding]) -> Key | None:
        """Return the variable that another one of these bindings is a name for: often itself, None where unclear."""
        known = (BindingKind.ASSIGN, BindingKind.PARAMETER)
        if any(binding.kind not in known or binding.index for binding in bindings):
            return None
        return self.canonical(Key(bindings[0].scope.node, bindings[0].name), bindings[0].scope, 4)

    def _mention_events(self, mention: ast.expr, key: Key) -> Iterator[Event]:
        node = self.outermost(mention)
        yield from self._loop_events(gone_round(self.index, node))
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.Attribute):
            call = self.index.parents.get(parent)
            if isinstance(call, ast.Call) and call.func is parent:
                mode = self.switched_to(call)
                either = self.chosen_by_test(call, key) if mode is not None else None
                if either is not None:
                    yield Event(either, Mode.UNKNOWN, asked=either.test)
                elif mode is not None:
                    known = Mode.UNKNOWN if mode is Mode.TRAIN and self.is_put_back(call, key) else mode
                    kept = self.kept_mode(call, key) if known is Mode.UNKNOWN else None
                    yield Event(self.place_of_switch(call, key), known, asked=_asked(call, mode), kept=kept)
                elif self._switches_parts(call, parent.attr):
                    yield Event(call, Mode.UNKNOWN)
                elif parent.attr not in _RUNS:
                    mode = self._effect_of_method(parent)
                    if mode is not Mode.SAME:
                        yield Event(call, mode)
            elif parent.attr == "training" and isinstance(parent.ctx, ast.Store):
                yield Event(self.index.statement(parent), Mode.UNKNOWN)
            return
        container: ast.AST = node
        while isinstance(parent, (ast.Tuple, ast.List, ast.Starred, ast.Dict, ast.keyword)):
            container, parent = parent, self.index.parents.get(parent)
        if isinstance(parent, ast.Assign) and container is not node:
            yield from self._container_events(parent, key)
        elif isinstance(parent, ast.Call) and (named := switched_by_name(parent, self.index.parents.get(parent))):
            yield Event(self.index.parents[parent], named)
        elif isinstance(parent, ast.Call) and parent.func is not container:
            yield from self._holder_events(parent)
            by_trainer = list(switches_by_trainer(self, parent))
            yield from (Event(*switch) for switch in by_trainer)
            mode = Mode.SAME if by_trainer else self._effect(parent, node)
            if mode is not Mode.SAME:
                yield Event(parent, mode, asked=self.asked_inside(parent, node) if mode is Mode.UNKNOWN else None)

    def leaves_train_at(self, use: ast.Name | ast.Attribute) -> bool:
        """Is what a name or an attribute stands for switched where it is used, or under the name that it gets there?"""
        if isinstance(use.ctx, ast.Store):
            return False
        node = self.outermost(use)
        around = self.index.parents.get(node)
        targets = around.targets if isinstance(around, ast.Assign) else []
        keys = [self.key(target) for target in targets]
        renamed = [event for key in keys if key is not None for event in self.events_anywhere(key)]
        events = [*self._mention_events(node, Key(self.index.tree, "")), *renamed]
        return any(event.made is None and event.mode is not Mode.TRAIN for event in events)

    def _loop_events(self, loop: ast.AST | None) -> Iterator[Event]:
        """`for m in (encoder, decoder): m.eval()`; the loop as a whole is the place, for it never runs zero times."""
        if not isinstance(loop, (ast.For, ast.comprehension)):
            return
        targets = names_in(loop.target)
        body: ast.AST | None = loop if isinstance(loop, ast.For) else self.index.parents.get(loop)
        for call in walk(body) if body is not None else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                receiver = self.unwrapped(call.func.value)
                mode = switched(call)
                if mode is not None and isinstance(receiver, ast.Name) and receiver.id in targets:
                    yield Event(body if body is not None else loop, mode, asked=_asked(call, mode))
            for given in arguments_of(call) if isinstance(call, ast.Call) else ():
                named = isinstance(given, ast.Name) and given.id in targets
                if not named or not isinstance(call, ast.Call):
                    continue
                mode = switched_by_name(call, self.index.parents.get(call)) or self._effect(call, given)
                if mode is not Mode.SAME:
                    yield Event(body if body is not None else loop, mode)

    def _container_events(self, assignment: ast.Assign, key: Key) -> Iterator[Event]:
        """`models = [encoder, decoder]`, and later a loop over them or a call that is given them."""
        names = [target.id for target in assignment.targets if isinstance(target, ast.Name)]
        for name in names:
            for use in self.index.names_used.get(name, ()):
                yield from self._loop_events(gone_round(self.index, use))
                parent = self.index.parents.get(use)
                if isinstance(parent, (ast.Call, ast.keyword, ast.Subscript)):
                    yield Event(self.index.statement(use), Mode.UNKNOWN)

    def _holder_events(self, call: ast.Call) -> Iterator[Event]:
        """`nn.ModuleList([encoder, decoder]).eval()`, at once or under a name: what is done to a module with parts."""
        if not any(map(self.module.inference.is_module_class, self.module.inference.resolve(call.func))):
            return
        holder = self.outermost(call)
        parent = self.index.parents.get(holder)
        around = self.index.parents.get(parent) if parent is not None else None
        mode = switched(around) if isinstance(around, ast.Call) and around.func is parent else None
        if around is not None and mode is not None:
            yield Event(around, mode)
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            key = self.key(parent.targets[0])
            events = self.events(self.body_of(parent), key) if key is not None else ()
            yield from (event for event in events if event.made is None)

    def _bindings(self, scope: Scope, key: Key) -> Iterator[Event]:
        if isinstance(key.owner, ast.ClassDef):
            yield from self._attribute_bindings(scope, key)
            if self.made_at_first_use(key.owner, key.name) is scope.node:
                yield from self._given_back(scope)
            return
        if key.owner is not scope.node and not scope.foreign.get(key.name):
            return
        owner = scope if key.owner is scope.node else scope.lookup(key.name)
        for binding in owner.bindings.get(key.name, ()) if owner is not None else ():
            if binding.kind is BindingKind.PARAMETER or self.body_of(binding.node) is not scope:
                continue
            statement = self.index.statement(binding.node)
            if binding.value is None or binding.kind is not BindingKind.ASSIGN:
                yield Event(statement, Mode.UNKNOWN)
            else:
                yield from self._binding_event(statement, binding.value, binding.index, key)

    def _attribute_bindings(self, scope: Scope, key: Key) -> Iterator[Event]:
        for target, value, index in self._attribute_assignments.get(scope, ()):
            if self.key(target) == key:
                statement = self.index.statement(target)
                yield from self._binding_event(statement, value, index, key)
                yield from self._switches_under_name(statement, value, scope)

    def _given_back(self, scope: Scope) -> Iterator[Event]:
        """`return net` of a property that makes a model once."""
        for statement in self.module.flow(scope).returns():
            if statement.value is not None:
                yield Event(statement, self.mode_of(statement.value), statement.value)

    def _switches_under_name(self, statement: ast.stmt, value: ast.expr, scope: Scope) -> Iterator[Event]:
        """`self.net = net`, and then `net.eval()`."""
        inner = self.unwrapped(value)
        other = self.key(inner) if isinstance(inner, ast.Name) else None
        for event in self.events(scope, other) if other is not None else ():
            if event.made is None and _place(event.node) > _place(statement):
                yield event

    @cached_property
    def _attribute_assignments(self) -> _Assignments:
        """What is assigned to attributes, by the body that it is done in."""
        return self._assignments(ast.Attribute)

    @cached_property
    def _item_assignments(self) -> _Assignments:
        """The same for items: `self.nets[name] = net`, `nets.append(net)`."""
        found = self._assignments(ast.Subscript)
        for call in self.index.calls_by_name.get("append", ()):
            held = call.func.value if isinstance(call.func, ast.Attribute) and len(call.args) == 1 else None
            if isinstance(held, (ast.Name, ast.Attribute)):
                found.setdefault(self.body_of(call), []).append((held, call.args[0], ()))
        return found

    def _assignments(self, kind: type[ast.expr]) -> _Assignments:
        found: _Assignments = {}
        for target, value in self.index.assigned():
            parts = list(enumerate(target.elts)) if isinstance(target, ast.Tuple) else []
            for part, index in [(target, ()), *((part, (place,)) for place, part in parts)]:
                if isinstance(part, kind):
                    found.setdefault(self.body_of(part), []).append((part, value, index))
        return found

    def items_of(self, key: Key) -> Iterator[ast.expr]:
        """Yield what is put into the list or dict of models that a variable holds."""
        for assignments in self._item_assignments.values():
            yield from (value for target, value, index in assignments if not index and self.key(target) == key)

    def _binding_event(self, statement: ast.stmt, value: ast.expr, index: tuple[int, ...], key: Key) -> Iterator[Event]:
        same = self.handed_back(value, index) if index and isinstance(value, ast.Call) else None
        if same is not None:
            value, index = same, ()
        if not index and self.key(value) == key:
            return  # model = model.to(device), model = model.train()
        made = unless_none(value)
        if len(index) == 1 and isinstance(value, ast.Tuple) and index[0] < len(value.elts):
            made, index = value.elts[index[0]], ()
        mode = self.mode_of(made, index)
        yield Event(statement, Mode.UNKNOWN if mode is Mode.SAME else mode, made, index=index)

    def _called_events(self, scope: Scope, key: Key) -> Iterator[Event]:
        """Calls of functions that reach the variable by themselves: globals, closures, methods of the same object."""
        calls = self._calls.get(scope, {})
        functions = self._seeing(key.owner)
        if isinstance(key.owner, ast.ClassDef):
            yield from self._construction_events(calls, scope, functions.get("__init__"), key)
            functions = {**self._seeing(scope.node), **functions}
            yield from self._inherited_events(calls, key, key.owner)
        for name, function in functions.items():
            if name not in calls or function is scope.node:
                continue
            if "builtins.property" in self.module.inference.decorators(function):
                continue
            for call in calls[name]:
                mode = self.effect(function, key, call) if self.is_call_of(call, function, key) else Mode.SAME
                if mode is not Mode.SAME:
                    made = self._made_in(function, key) if mode is Mode.TRAIN else None
                    asked = self.asked_by(function, key, call) if mode is Mode.UNKNOWN else None
                    yield Event(call, mode, made, asked=asked)

    def _construction_events(
        self, calls: dict[str, list[ast.Call]], scope: Scope, initializer: FunctionNode | None, key: Key
    ) -> Iterator[Event]:
        """`averaged = EMA(net)`, where `averaged.shadow` is spoken of: what the `__init__` of its class does."""
        owner = key.owner if isinstance(key.owner, ast.ClassDef) else None
        if owner is None or initializer is None or owner in self.index.ancestors(scope.node):
            return
        for call in calls.get(owner.name, ()):
            mode = self.effect(initializer, key, call)
            if mode is not Mode.SAME:
                yield Event(call, mode, self._made_in(initializer, key))

    def _inherited_events(self, calls: dict[str, list[ast.Call]], key: Key, owner: ast.ClassDef) -> Iterator[Event]:
        """`self.train_model(loader)`, a method of a base class: what it does to the model that it did not make."""
        own, *bases = self.module.inference.mro(self.module.classes[owner])
        known = set(own.methods)
        for base in bases:
            inherited = {name: base.methods[name] for name in base.methods.keys() - known}
            known |= base.methods.keys()
            if not names_switches(base.module):
                continue
            peer, inner = self.peer(base.module), Key(base.node, key.name)
            for name in sorted(inherited.keys() & calls.keys()):
                for call in calls[name]:
                    own_call = self.is_call_of(call, inherited[name], key)
                    mode = peer.effect(inherited[name], inner, call) if own_call else Mode.SAME
                    if mode is not Mode.SAME:
                        yield Event(call, Mode.UNKNOWN if _asks_heir(inherited[name], base, own) else mode)

    def _made_in(self, function: FunctionNode, key: Key) -> ast.expr | None:
        """`def build(self): self.net = Net()`: return what makes the model, where nothing else decides its mode."""
        made = [event.made for event in self.events(self.index.scopes[function], key)]
        return made[-1] if made and None not in made else None

    @cached_property
    def _calls(self) -> dict[Scope, dict[str, list[ast.Call]]]:
        """The calls by the body that they stand in and the last identifier of what they call."""
        found: dict[Scope, dict[str, list[ast.Call]]] = {}
        for name, calls in self.index.calls_by_name.items():
            for call in calls:
                found.setdefault(self.body_of(call), {}).setdefault(name, []).append(call)
        return found


def _asked(switch: ast.Call, mode: Mode) -> ast.expr | None:
    """Return `flag` of `net.train(flag)`, where that decides."""
    return arguments_of(switch)[0] if mode is Mode.UNKNOWN else None


def _asks_heir(method: FunctionNode, base: ClassInfo, heir: ClassInfo) -> bool:
    """Does a method call one of its object that the derived class has another of, and that switches modes?"""
    called = {part.attr for part in walk(method) if isinstance(part, ast.Attribute) and is_own(part)}
    for name in called & base.methods.keys():
        nearest = next(each for each in heir.module.inference.mro(heir) if name in each.methods)
        if nearest is not base and switches_any(nearest.module, nearest.methods[name]):
            return True
    return False


def _place(node: ast.AST) -> tuple[int, int]:
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
