"""In which mode is a model here? Follows `train()` and `eval()` along paths and through calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from detlint.linter.calls import argument_of
from detlint.linter.evaluation import evaluates, without_gradients
from detlint.linter.flow import Flow
from detlint.linter.mode_layers import from_torchvision_by_name, switches_itself
from detlint.linter.names import FUNCTIONS, Binding, BindingKind, FunctionNode, Scope
from detlint.linter.nodes import walk
from detlint.linter.project import Module
from detlint.linter.training import trains
from detlint.linter.values import load_types
from detlint.randomness import load_sources

_MAX_DEPTH = 6
# Methods that return the model they are called on and leave its mode alone.
_KEEPING = frozenset(
    {"to", "cuda", "cpu", "float", "half", "double", "bfloat16", "type", "xpu", "requires_grad_", "to_empty", "compile"}
)
# Functions outside the project that are handed a model and leave its mode alone (or put it back).
_HARMLESS = (
    *(
        "builtins.",
        "torch.",
        "numpy.",
        "logging.",
        "copy.",
        "wandb.",
        "torchsummary.",
        "torchinfo.",
        "thop.",
        "fvcore.",
    ),
    *("ptflops.", "accelerate.", "timm.optim.", "timm.utils.ModelEma", "timm.scheduler.", "transformers.get_"),
    "transformers.AdamW",
)
# Names of functions of unknown origin that may well switch the mode of a model they are given.
_MAY_SWITCH = re.compile(
    r"eval|test|val|predict|infer|prepare|mode|freeze|train|fit|run|setup|convert|fuse|export|load|build|get|create|wrap|"
    r"make|demo|generate|init",
    re.I,
)
# Where projects keep their models: what is called from there, and not found, is taken for a constructor.
_MODEL_CODE = re.compile(
    r"(^|[._])(models?|nets?|networks?|archs?|architectures?|backbones?|modeling|unet|resnet|vgg|cnn)(?=[._\d]|$)", re.I
)
# Base classes that, going by their names, manage the model of their subclasses.
_MANAGES = re.compile(r"train|model|module|exp|learn|task|runner|solver|estimat|base|strategy|algorithm", re.I)
_LOADS_WEIGHTS = re.compile(r"checkpoint|state_dict|weights|param|__init__|init_|_init", re.I)
_PREPARING = ("accelerate.Accelerator.prepare", "apex.amp.initialize", "lightning.fabric.Fabric.setup")


class Mode(Enum):
    """What is known of a model's mode at a place."""

    TRAIN = "train"
    EVAL = "eval"
    SAME = "same"  # whatever it was when the function was entered
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=True)
class Key:
    """A variable that holds a model: its name and what owns it (a function, the module, or for `self.name` a class)."""

    owner: ast.AST
    name: str


@dataclass(frozen=True, slots=True)
class Event:
    """A place that decides a model's mode. `made` is the constructor where the model is created there."""

    node: ast.AST
    mode: Mode
    made: ast.expr | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a model is in train mode: the place, and whether it was just created so or switched.

    `goal` is the place that the mode reaches, in the same body as `node`: the inference itself, or the call that leads
    to it; None where the two are joined by nothing but the lack of any `eval()`.
    """

    module: Module
    node: ast.AST
    goal: ast.AST | None
    created: bool


class Modes:
    """Answers for the models of one module; asks the same of other modules where calls lead there."""

    def __init__(self, module: Module, peers: dict[Module, Modes] | None = None) -> None:
        self.module = module
        self.index = module.index
        self._peers = peers if peers is not None else {}
        self._peers[module] = self
        self._events: dict[tuple[Scope, Key], tuple[Event, ...]] = {}
        self._effects: dict[tuple[FunctionNode, Key], Mode] = {}
        self._depth = 0

    # --- which variable is meant ------------------------------------------------------------------------------------

    def key(self, node: ast.expr, depth: int = 4) -> Key | None:
        """Return the variable whose model an expression gives, wrappers and aliases looked through."""
        node = self.unwrapped(node)
        if isinstance(node, ast.Name):
            scope = self.index.scope_at(node).lookup(node.id)
            if scope is None or isinstance(scope.node, ast.ClassDef):
                return None
            return self._canonical(Key(scope.node, node.id), scope, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self._self_class(node.value)
            return Key(owner, node.attr) if owner is not None else None
        return None

    def unwrapped(self, node: ast.expr) -> ast.expr:
        """Strip what keeps the mode: `DataParallel(model)`, `model.to(device)`, `model.module`."""
        while True:
            if isinstance(node, ast.Call):
                inner = self._kept(node)
                if inner is None:
                    return node
                node = inner
            elif isinstance(node, ast.Attribute) and node.attr in ("module", "_orig_mod"):
                node = node.value
            else:
                return node

    def _kept(self, call: ast.Call) -> ast.expr | None:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPING:
            names = self.module.inference.resolve(call.func)
            wraps = any(name in load_types().wrappers for name in names)
            return call.args[0] if wraps and call.args else call.func.value
        names = self.module.inference.resolve(call.func)
        if any(name in load_types().wrappers and not name.startswith("copy.") for name in names):
            given = [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("model", "module", "mod"))]
            return given[0] if given else None
        return None

    def _canonical(self, key: Key, scope: Scope, depth: int) -> Key:
        """Follow `net = model` and `wrapped = DataParallel(model)` to `model`."""
        if depth == 0:
            return key
        others = set()
        for binding in scope.bindings.get(key.name, ()):
            if binding.kind is not BindingKind.ASSIGN or binding.value is None or binding.index:
                return key
            inner = self.unwrapped(binding.value)
            if isinstance(inner, ast.Name) and inner.id == key.name:
                continue
            other = self.key(inner, depth - 1) if isinstance(inner, (ast.Name, ast.Attribute)) else None
            others.add(other)
        found = others.pop() if len(others) == 1 else None
        return key if found is None else found

    def _self_class(self, name: ast.Name) -> ast.ClassDef | None:
        """Return the class whose method's `self` a name is."""
        for binding in self.module.definitions(name):
            function = binding.scope.node
            if binding.kind is BindingKind.PARAMETER and isinstance(function, FUNCTIONS):
                owner = self.index.parents.get(function)
                first = [*function.args.posonlyargs, *function.args.args][:1]
                if isinstance(owner, ast.ClassDef) and first and first[0] is binding.node:
                    return owner
        return None

    # --- what happens to it -----------------------------------------------------------------------------------------

    def events(self, scope: Scope, key: Key) -> tuple[Event, ...]:
        """Return the places in a body that decide the mode of `key`, in source order."""
        known = self._events.get((scope, key))
        if known is None:
            self._events[scope, key] = ()
            found = {event.node: event for event in self._find_events(scope, key)}
            known = tuple(sorted(found.values(), key=lambda event: _place(event.node)))
            self._events[scope, key] = known
        return known

    def _find_events(self, scope: Scope, key: Key) -> Iterator[Event]:
        flow = self.module.flow(scope)
        for mention in self._mentions(scope, key, flow):
            yield from self._mention_events(mention, key)
        yield from self._bindings(scope, key)
        yield from self._called_events(scope, key, flow)

    def _mentions(self, scope: Scope, key: Key, flow: Flow) -> Iterator[ast.expr]:
        names = {key.name}
        if not isinstance(key.owner, ast.ClassDef):
            names |= {name for name, bindings in scope.bindings.items() if self._is_alias(bindings, key)}
        for name in sorted(names):
            for node in self.index.names_used.get(name, ()):
                if isinstance(node, ast.expr) and self._runs_in(node, scope) and self.key(node) == key:
                    yield node

    def _is_alias(self, bindings: list[Binding], key: Key) -> bool:
        if any(binding.kind is not BindingKind.ASSIGN or binding.index for binding in bindings):
            return False
        return self._canonical(Key(bindings[0].scope.node, bindings[0].name), bindings[0].scope, 4) == key

    def _runs_in(self, node: ast.AST, scope: Scope) -> bool:
        return self.body_of(node) is scope

    def body_of(self, node: ast.AST) -> Scope:
        """Return the function's or module's scope that `node` runs in."""
        scope = self.index.scope_at(node)
        while not isinstance(scope.node, (*FUNCTIONS, ast.Module)) and scope.parent is not None:
            scope = scope.parent
        return scope

    def _mention_events(self, mention: ast.expr, key: Key) -> Iterator[Event]:
        node = self._outermost(mention)
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.Attribute):
            call = self.index.parents.get(parent)
            if isinstance(call, ast.Call) and call.func is parent:
                mode = switched(call)
                if mode is not None:
                    yield Event(self._place_of_switch(call, key), mode)
                elif parent.attr == "apply" and call.args and self._switches(call.args[0]):
                    yield Event(call, Mode.UNKNOWN)
            elif parent.attr == "training" and isinstance(parent.ctx, ast.Store):
                yield Event(self.index.statement(parent), Mode.UNKNOWN)
            return
        container: ast.AST = node
        while isinstance(parent, (ast.Tuple, ast.List, ast.Starred, ast.Dict, ast.keyword)):
            container, parent = parent, self.index.parents.get(parent)
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is container:
            yield from self._loop_events(parent)
        elif isinstance(parent, ast.Assign) and container is not node:
            yield from self._container_events(parent, key)
        elif isinstance(parent, ast.Call) and parent.func is not container:
            mode = self._effect(parent, node)
            if mode is not Mode.SAME:
                yield Event(parent, mode)

    def _place_of_switch(self, call: ast.Call, key: Key) -> ast.AST:
        """`if net.training: net.eval()` and `if isinstance(net, nn.Module): net.eval()` leave nothing unswitched."""
        statement = self.index.statement(call)
        around = self.index.parents.get(statement)
        if isinstance(around, ast.If) and statement in around.body and not around.orelse:
            about = (part for part in ast.walk(around.test) if isinstance(part, (ast.Name, ast.Attribute)))
            if any(self.key(part) == key for part in about):
                return around.test
        return call

    def _outermost(self, node: ast.expr) -> ast.expr:
        """Climb over wrappers: in `DataParallel(model.to(device)).eval()` up to the receiver of eval."""
        while True:
            parent = self.index.parents.get(node)
            around: ast.AST | None = parent
            if isinstance(parent, ast.Attribute):
                around = self.index.parents.get(parent)
                if not isinstance(around, ast.Call) and parent.attr in ("module", "_orig_mod"):
                    node = parent
                    continue
            if isinstance(around, ast.Call) and self._kept(around) is not None and self._is_inner(around, node):
                node = around
            else:
                return node

    def _is_inner(self, call: ast.Call, node: ast.expr) -> bool:
        return self._kept(call) is node

    def _loop_events(self, loop: ast.For | ast.comprehension) -> Iterator[Event]:
        """`for m in (encoder, decoder): m.eval()`; the loop as a whole is the place, for it never runs zero times."""
        if not isinstance(loop.target, ast.Name):
            return
        body: ast.AST | None = loop if isinstance(loop, ast.For) else self.index.parents.get(loop)
        for call in walk(body) if body is not None else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                receiver = self.unwrapped(call.func.value)
                mode = switched(call)
                if mode is not None and isinstance(receiver, ast.Name) and receiver.id == loop.target.id:
                    yield Event(body if body is not None else loop, mode)

    def _container_events(self, assignment: ast.Assign, key: Key) -> Iterator[Event]:
        """`models = [encoder, decoder]`, and later a loop over them or a call that is given them."""
        names = [target.id for target in assignment.targets if isinstance(target, ast.Name)]
        for name in names:
            for use in self.index.names_used.get(name, ()):
                parent = self.index.parents.get(use)
                if isinstance(parent, ast.Attribute) and isinstance(self.index.parents.get(parent), ast.Call):
                    use = self.index.parents[parent]  # models.values()
                    parent = self.index.parents.get(use)
                if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is use:
                    yield from self._loop_events(parent)
                elif isinstance(parent, (ast.Call, ast.keyword, ast.Subscript)):
                    yield Event(self.index.statement(use), Mode.UNKNOWN)

    def _bindings(self, scope: Scope, key: Key) -> Iterator[Event]:
        if isinstance(key.owner, ast.ClassDef):
            yield from self._attribute_bindings(scope, key)
            return
        if key.owner is not scope.node and not scope.foreign.get(key.name):
            return
        owner = scope if key.owner is scope.node else scope.lookup(key.name)
        for binding in owner.bindings.get(key.name, ()) if owner is not None else ():
            if binding.kind is BindingKind.PARAMETER or not self._runs_in(binding.node, scope):
                continue
            statement = self.index.statement(binding.node)
            if binding.value is None or binding.kind is not BindingKind.ASSIGN:
                yield Event(statement, Mode.UNKNOWN)
            else:
                yield from self._binding_event(statement, binding.value, binding.index, key)

    def _attribute_bindings(self, scope: Scope, key: Key) -> Iterator[Event]:
        for node in walk(scope.node):
            if isinstance(node, ast.Assign) and self._runs_in(node, scope):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and self.key(target) == key:
                        yield from self._binding_event(node, node.value, (), key)

    def _binding_event(self, statement: ast.stmt, value: ast.expr, index: tuple[int, ...], key: Key) -> Iterator[Event]:
        inner = self.unwrapped(value)
        if not index and isinstance(inner, (ast.Name, ast.Attribute)) and self.key(inner) == key:
            return  # model = model.to(device)
        if index and isinstance(value, ast.Call) and self._prepares(value):
            return
        made = value
        if len(index) == 1 and isinstance(value, ast.Tuple) and index[0] < len(value.elts):
            made, index = value.elts[index[0]], ()
        mode = self.mode_of(made, index)
        yield Event(statement, Mode.UNKNOWN if mode is Mode.SAME else mode, made)

    def _prepares(self, call: ast.Call) -> bool:
        return any(name in _PREPARING for name in self.module.inference.resolve(call.func))

    def _called_events(self, scope: Scope, key: Key, flow: Flow) -> Iterator[Event]:
        """Calls of functions that reach the variable by themselves: globals, closures, methods of the same object."""
        if isinstance(key.owner, ast.ClassDef):
            functions = {node.name: node for node in key.owner.body if isinstance(node, FUNCTIONS)}
        elif isinstance(key.owner, (*FUNCTIONS, ast.Module)):
            functions = {node.name: node for node in walk(key.owner) if isinstance(node, FUNCTIONS)}
        else:
            return
        for name, function in functions.items():
            if function is scope.node:
                continue
            for call in self.index.calls_by_name.get(name, ()):
                if not self._runs_in(call, scope) or not self._is_call_of(call, function, key):
                    continue
                mode = self.effect(function, key)
                if mode is not Mode.SAME:
                    yield Event(call, mode)

    def _is_call_of(self, call: ast.Call, function: FunctionNode, key: Key) -> bool:
        if isinstance(key.owner, ast.ClassDef):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            return isinstance(receiver, ast.Name) and self._self_class(receiver) is key.owner
        return isinstance(call.func, ast.Name) and self._means(call.func, function)

    def _means(self, name: ast.Name, function: FunctionNode) -> bool:
        return any(binding.node is function for binding in self.module.definitions(name))

    # --- what functions do to it ------------------------------------------------------------------------------------

    def _effect(self, call: ast.Call, argument: ast.expr) -> Mode:
        """Return what a call does to the mode of a model it is given as `argument`."""
        names = self.module.inference.callees(call)
        for name in names:
            found = self.module.project.definition(name)
            if found is None:
                continue
            module, definition = found
            peer = self._peer(module)
            if isinstance(definition, ast.ClassDef):
                return peer._class_effect(definition)
            for parameter in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs):
                given = argument_of(definition, parameter.arg, call, skip_self=isinstance(call.func, ast.Attribute))
                if given is argument or (given is not None and argument in walk(given)):
                    if any(isinstance(item, (ast.With, ast.AsyncWith)) for item in self._with_around(call)):
                        return Mode.UNKNOWN if peer._switches_any(definition) else Mode.SAME
                    return peer.effect(definition, Key(definition, parameter.arg))
            return Mode.UNKNOWN if peer._switches_any(definition) else Mode.SAME
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if names and all(name.startswith(_HARMLESS) for name in names):
            return Mode.SAME
        suspicious = last[:1].isupper() or (_MAY_SWITCH.search(last) and not _LOADS_WEIGHTS.search(last))
        return Mode.UNKNOWN if suspicious or not last else Mode.SAME

    def _with_around(self, call: ast.Call) -> Iterator[ast.AST]:
        parent = self.index.parents.get(call)
        if isinstance(parent, ast.withitem):
            yield self.index.parents[parent]

    def _class_effect(self, definition: ast.ClassDef) -> Mode:
        """An object that holds the model and switches it somewhere may do so at any time."""
        return Mode.UNKNOWN if self._switches_any(definition) else Mode.SAME

    @staticmethod
    def _switches_any(node: ast.AST) -> bool:
        return any(isinstance(part, ast.Call) and switched(part) is not None for part in walk(node))

    def _switches(self, function: ast.expr) -> bool:
        """Return whether a function given to `model.apply` switches submodules one by one."""
        if isinstance(function, ast.Lambda):
            return self._switches_any(function)
        for name in self.module.inference.resolve(function):
            found = self.module.project.definition(name)
            if found is not None and self._switches_any(found[1]):
                return True
        return False

    def effect(self, function: FunctionNode, key: Key) -> Mode:
        """Return the mode that running a function of this module leaves `key` in."""
        known = self._effects.get((function, key))
        if known is None:
            self._effects[function, key] = Mode.SAME  # recursion changes nothing
            known = self._effects[function, key] = self._find_effect(function, key)
        return known

    def _find_effect(self, function: FunctionNode, key: Key) -> Mode:
        if self._depth >= _MAX_DEPTH:
            return Mode.UNKNOWN
        scope = self.index.scopes[function]
        self._depth += 1
        try:
            events = self.events(scope, key)
        finally:
            self._depth -= 1
        if not events:
            return Mode.SAME
        flow = self.module.flow(scope)
        modes = {
            event.mode
            for event in events
            if self._reaches(flow, event, None, events) and not _is_rebound(event, key, function)
        }
        if Mode.UNKNOWN in modes or {Mode.EVAL, Mode.TRAIN} <= modes:
            return Mode.UNKNOWN
        return next(iter(modes)) if len(modes) == 1 else Mode.SAME

    def _reaches(self, flow: Flow, event: Event, goal: ast.AST | None, events: tuple[Event, ...]) -> bool:
        others = [other.node for other in events if other is not event]
        return flow.path(event.node, goal, avoiding=[*others, *self._handlers(flow.scope, goal)])

    def _handlers(self, scope: Scope, goal: ast.AST | None) -> list[ast.AST]:
        """Paths through `except` are exceptions: they count only where the goal stands in the handler itself."""
        around = set(self.index.ancestors(goal)) if goal is not None else set()
        handlers = self.index.of_type(ast.ExceptHandler)
        return [handler for handler in handlers if handler not in around and self.body_of(handler) is scope]

    # --- the mode of an expression ------------------------------------------------------------------------------------

    def mode_of(self, node: ast.expr, index: tuple[int, ...] = ()) -> Mode:
        """Return the mode of the model that an expression makes or gives."""
        if self._depth >= _MAX_DEPTH:
            return Mode.UNKNOWN
        self._depth += 1
        try:
            return self._mode_of(node, index)
        finally:
            self._depth -= 1

    def _mode_of(self, node: ast.expr, index: tuple[int, ...]) -> Mode:
        node = self.unwrapped(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            key = self.key(node)
            return self._one(self.reasons(key, node)[1]) if key is not None else Mode.UNKNOWN
        if isinstance(node, ast.IfExp):
            return _same(self.mode_of(node.body), self.mode_of(node.orelse))
        if not isinstance(node, ast.Call):
            return Mode.UNKNOWN
        mode = switched(node)
        if mode is not None and isinstance(node.func, ast.Attribute):
            return mode
        names = self.module.inference.callees(node)
        if from_torchvision_by_name(self.module, node):
            return Mode.TRAIN
        if any(name in ("copy.deepcopy", "copy.copy") for name in names) and node.args:
            return self.mode_of(node.args[0])
        modes = [self._made_by(name, index) for name in names]
        return _same(*modes) if modes else Mode.UNKNOWN

    def _made_by(self, name: str, index: tuple[int, ...]) -> Mode:
        inference = self.module.inference
        found = self.module.project.definition(name)
        if found is not None:
            module, definition = found
            if isinstance(definition, ast.ClassDef):
                info = module.inference.class_info(definition)
                plain = inference.is_module_class(name) and not switches_itself(info)
                return Mode.TRAIN if plain else Mode.UNKNOWN
            return self._peer(module).returned_mode(definition, index)
        factory = load_sources().factories.get(name)
        if factory is not None:
            return Mode.TRAIN if factory == "train" else Mode.EVAL
        made = name in load_types().modules or _MODEL_CODE.search(name.rpartition(".")[0]) is not None
        return Mode.TRAIN if made else Mode.UNKNOWN

    def returned_mode(self, function: FunctionNode, index: tuple[int, ...]) -> Mode:
        """Return the mode of the model that a function of this module returns (at `index` of a tuple)."""
        modes = []
        for statement in self.module.flow(self.index.scopes[function]).returns():
            value = statement.value
            if isinstance(value, ast.Tuple) and index and index[0] < len(value.elts):
                modes.append(self.mode_of(value.elts[index[0]], index[1:]))
            elif value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                modes.append(self.mode_of(value, index))
        return _same(*modes) if modes else Mode.UNKNOWN

    @staticmethod
    def _one(modes: frozenset[Mode]) -> Mode:
        return next(iter(modes)) if len(modes) == 1 else Mode.UNKNOWN

    # --- the mode at a place ------------------------------------------------------------------------------------------

    def reasons(self, key: Key, node: ast.AST) -> tuple[tuple[Reason, ...], frozenset[Mode]]:
        """Return why the model may be in train mode when `node` is evaluated, and every mode it may be in there."""
        reasons: dict[ast.AST, Reason] = {}
        modes: set[Mode] = set()
        self._trace(key, node, reasons, modes, set())
        return tuple(reasons.values()), frozenset(modes)

    def _trace(
        self, key: Key, node: ast.AST, reasons: dict[ast.AST, Reason], modes: set[Mode], seen: set[tuple[ast.AST, Key]]
    ) -> None:
        if (node, key) in seen or len(seen) > 40:
            modes.add(Mode.UNKNOWN)
            return
        seen.add((node, key))
        scope = self.body_of(node)
        flow = self.module.flow(scope)
        events = self.events(scope, key)
        for event in events:
            if self._reaches(flow, event, node, events):
                modes.add(event.mode)
                if event.mode is Mode.TRAIN:
                    created = event.made is not None
                    reasons.setdefault(event.node, Reason(self.module, event.node, node, created))
        barriers = [event.node for event in events] + self._handlers(scope, node)
        if flow.path(None, node, avoiding=barriers):
            self._trace_entry(key, scope, reasons, modes, seen)

    def _trace_entry(
        self, key: Key, scope: Scope, reasons: dict[ast.AST, Reason], modes: set[Mode], seen: set[tuple[ast.AST, Key]]
    ) -> None:
        """The mode at the beginning of a function is what its callers in this file have it in."""
        function = scope.node
        traced = False
        if isinstance(function, FUNCTIONS):
            for call in self.callers(function):
                traced = True
                if key.owner is function:
                    given = argument_of(function, key.name, call, skip_self=isinstance(call.func, ast.Attribute))
                    inner = self.key(given) if given is not None else None
                    if inner is not None:
                        self._trace(inner, call, reasons, modes, seen)
                    elif given is not None and self.mode_of(given) is Mode.TRAIN:
                        modes.add(Mode.TRAIN)
                        reasons.setdefault(given, Reason(self.module, given, call, True))
                    else:
                        modes.add(Mode.UNKNOWN)
                else:
                    self._trace(key, call, reasons, modes, seen)
        if not traced and isinstance(function, FUNCTIONS):
            self._trace_uncalled(key, function, reasons, modes)
        elif not traced:
            modes.add(Mode.SAME)

    def callers(self, function: FunctionNode) -> Iterator[ast.Call]:
        """Yield the calls of a function in this file, methods through `self`."""
        owner = self.index.parents.get(function)
        for call in self.index.calls_by_name.get(function.name, ()):
            if isinstance(owner, ast.ClassDef):
                receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
                if isinstance(receiver, ast.Name) and self._self_class(receiver) is owner:
                    yield call
            elif isinstance(call.func, ast.Name) and self._means(call.func, function):
                yield call

    def _trace_uncalled(
        self, key: Key, function: FunctionNode, reasons: dict[ast.AST, Reason], modes: set[Mode]
    ) -> None:
        """A function that others call: train mode is sure only where something sets it and nothing ever leaves it."""
        modes.add(Mode.SAME)
        if key.owner is function:
            self._trace_sibling(key, function, reasons)
            return
        if function.name == "__init__" or self._switched_elsewhere(key):
            return
        found: list[Event] = []
        for scope in self._scopes_of(key):
            for event in self.events(scope, key):
                if event.mode is Mode.TRAIN:
                    found.append(event)
                elif event.mode is not Mode.UNKNOWN or event.made is None:
                    self._trace_sibling(key, function, reasons)
                    return
        switches = [event for event in found if event.made is None]
        if not switches and (len(found) != 1 or self._has_foreign_base(key)):
            return
        for event in switches[:1] or found:
            reasons.setdefault(event.node, Reason(self.module, event.node, None, event.made is not None))

    def _has_foreign_base(self, key: Key) -> bool:
        """A base class outside the project that trains may do anything with its subclass's model."""
        if not isinstance(key.owner, ast.ClassDef):
            return False
        inference = self.module.inference
        bases = inference.external_bases(inference.class_info(key.owner))
        return (len(key.owner.bases) > 0 and not bases) or any(
            _MANAGES.search(base.rpartition(".")[2]) for base in bases
        )

    def _scopes_of(self, key: Key) -> Iterator[Scope]:
        """Yield every body that can see the variable."""
        if not isinstance(key.owner, ast.ClassDef):
            yield self.index.scopes[key.owner]
        for node in ast.walk(key.owner):
            if isinstance(node, FUNCTIONS) and node is not key.owner:
                yield self.index.scopes[node]

    def _trace_sibling(self, key: Key, function: FunctionNode, reasons: dict[ast.AST, Reason]) -> None:
        """`train(model)` beside `test(model)`: where one sets its own mode, the other has to set its own as well."""
        around = self.index.parents.get(function)
        own = key.owner is function
        loops = [part for part in ast.walk(function) if isinstance(part, (ast.For, ast.GeneratorExp, ast.ListComp))]
        whole = any(not own or without_gradients(self.module, loop) for loop in loops)
        if not whole or not evaluates(function) or self.events(self.index.scopes[function], key):
            return
        for other in ast.iter_child_nodes(around) if around is not None else ():
            if not isinstance(other, FUNCTIONS) or other is function or not trains(other):
                continue
            if own and key.name not in self.index.scopes[other].bindings:
                continue
            theirs = Key(other, key.name) if own else key
            switches = [event for event in self.events(self.index.scopes[other], theirs) if event.made is None]
            if switches and switches[0].mode is Mode.TRAIN:
                reasons.setdefault(switches[0].node, Reason(self.module, switches[0].node, None, False))

    def _switched_elsewhere(self, key: Key) -> bool:
        """Return whether the model is switched under another name: `trainer.model.eval()`, or in a base class."""
        if not isinstance(key.owner, ast.ClassDef):
            return False
        places = [(self, call) for name in ("eval", "train") for call in self.index.calls_by_name.get(name, ())]
        for ancestor in self.module.inference.mro(self.module.inference.class_info(key.owner)):
            if ancestor.node is not key.owner:
                peer = self._peer(ancestor.module)
                places += [(peer, call) for call in ast.walk(ancestor.node) if isinstance(call, ast.Call)]
        for peer, call in places:
            if switched(call) in (None, Mode.TRAIN) or not isinstance(call.func, ast.Attribute):
                continue
            receiver = peer.unwrapped(call.func.value)
            if isinstance(receiver, ast.Attribute) and receiver.attr == key.name and peer.key(receiver) != key:
                return True
        return False

    def peer(self, module: Module) -> Modes:
        """Return the answers for another module of the project."""
        return self._peer(module)

    def _peer(self, module: Module) -> Modes:
        found = self._peers.get(module)
        return found if found is not None else Modes(module, self._peers)


def _is_rebound(event: Event, key: Key, function: FunctionNode) -> bool:
    """A parameter that is assigned anew says nothing about the model that the caller passed."""
    return event.made is not None and key.owner is function


def switched(call: ast.Call) -> Mode | None:
    """Return the mode that `x.eval()`, `x.train()` or `x.train(mode)` asks for, or None for any other call."""
    function = call.func
    if not isinstance(function, ast.Attribute) or len(call.args) + len(call.keywords) > 1:
        return None
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in ("mode", None))]
    if function.attr == "eval":
        return Mode.EVAL if not call.args and not call.keywords else None
    if function.attr != "train" or len(given) != len(call.args) + len(call.keywords):
        return None
    if not given:
        return Mode.TRAIN
    value = given[0]
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        return Mode.TRAIN if value.value else Mode.EVAL
    return Mode.UNKNOWN


def _same(*modes: Mode) -> Mode:
    """Return the mode that all agree on; one that may be in train mode and is never in eval mode counts as in it."""
    found = set(modes)
    return modes[0] if len(found) == 1 else Mode.UNKNOWN


def _place(node: ast.AST) -> tuple[int, int]:
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
