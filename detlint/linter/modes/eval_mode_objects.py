"""Objects that hold a model, train it in one method and leave it in eval mode in another, for whoever runs the two.

`trainer.update(batch)` and `trainer.predict(batch)` in one loop, or `self.train_epoch()` and `self.validate()` in the
`fit` of a base class. A class that runs its own methods so is the business of `eval_mode_training`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from detlint.conditions import Truth
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.constructors import Constructors
from detlint.linter.modes.eval_mode_training import is_for_one_turn, is_for_prediction
from detlint.linter.modes.layers import parts_of
from detlint.linter.modes.names import Key
from detlint.linter.modes.paths import Modes
from detlint.linter.modes.switches import Mode, switched, switches_any
from detlint.linter.modes.training_runs import TrainingRuns
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import LOOPS, FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, is_own, receiver_of, walk

# Files that call a method which trains: how many of them are read as a whole.
_MOST_FILES = 8


@dataclass(frozen=True, slots=True)
class EvalModeObject:
    """A place of a file that has part in it: the switch, or the training where a class inherits the switch.

    `leaving` and `run` are calls in a loop of `module`: one leads to the switch, the other trains after that.
    """

    place: ast.Call
    model: str
    module: Module
    leaving: ast.Call
    run: ast.Call
    switch: tuple[Module, ast.Call]


def eval_mode_objects(module: Module) -> Iterator[EvalModeObject]:
    """Yield, of the classes in a file, the switches to eval mode that are left on for the training of a model."""
    found: dict[ast.Call, EvalModeObject] = {}
    for owner in module.index.of_type(ast.ClassDef) if not is_test_file(module) else ():
        if module.inference.is_module_class(module.qualified(owner)):
            continue
        for place, switch in _switches_of(module.inference.class_info(owner)):
            for result in _Holder(module, module.inference.class_info(owner), place, switch).examine():
                found.setdefault(result.place, result)
    yield from found.values()


def _switches_of(info: ClassInfo) -> Iterator[tuple[Module, ast.Call]]:
    """Yield the `self.net.eval()` of a class, and those that it inherits if its file trains anything."""
    inherits = file_trains(info.module)
    for ancestor in info.module.inference.mro(info) if inherits else (info,):
        for switch in ancestor.module.index.calls_by_name.get("eval", ()):
            held = receiver_of(switch)
            own = held is not None and is_own(held) and switched(switch) is Mode.EVAL
            if own and ancestor.module.index.class_at(switch) is ancestor.node:
                yield ancestor.module, switch


class _Holder:
    """The class of such an object, and one switch of a model that it holds: in the class or in one that it inherits."""

    def __init__(self, module: Module, info: ClassInfo, place: Module, switch: ast.Call) -> None:
        self._module = module
        self._place = place
        self._switch = switch
        self._name = identifier(switch.func.value) if isinstance(switch.func, ast.Attribute) else ""
        self._ancestors = module.inference.mro(info)
        self._methods: dict[str, tuple[Module, FunctionNode]] = {}
        self._called: dict[str, list[str]] = {}
        for ancestor in reversed(self._ancestors):
            self._methods.update({name: (ancestor.module, method) for name, method in ancestor.methods.items()})

    def examine(self) -> Iterator[EvalModeObject]:
        """Yield the first loop that trains the model in eval mode."""
        method = self._place.index.function_at(self._switch)
        if method is None or (self._place, method) not in self._methods.values() or not self._leaves_on(method):
            return
        for name in self._methods:
            places = list(self._trained_in(name))
            if not places or not self._may_depend():
                continue
            for place, loop, run in self._loops(name):
                leaving = self._leaving(place, loop, run, method)
                if leaving is not None:
                    model = f"self.{self._name}"
                    yield EvalModeObject(places[0], model, place, leaving, run, (self._place, self._switch))
                    return

    def _leaves_on(self, method: FunctionNode) -> bool:
        """Is the model in eval mode when the method is done, which evaluated it?"""
        owner = self._place.index.class_at(self._switch)
        if owner is None or not is_for_prediction(self._place, self._switch):
            return False
        modes = self._place.project.once(Modes, self._place)
        events = modes.events(self._place.index.scopes[method], Key(owner, self._name))
        return modes.reaches(self._place.flow_at(self._switch), self._switch, None, events)

    def _trained_in(self, name: str) -> Iterator[ast.Call]:
        """Yield the places of the file where it shows that a method trains the model as it comes.

        That is the switch, or else the call that trains it, in the method or in others of the object that it calls.
        Nothing of that puts a model into train mode.
        """
        reached = self._reached(name)
        if any(self._switches(method) for _, method in reached):
            return
        for place, method in reached:
            run = self._trains_as_it_comes(place, method)
            if run is not None and self._place is self._module:
                yield self._switch
            elif run is not None and place is self._module:
                yield run

    def _trains_as_it_comes(self, place: Module, method: FunctionNode) -> ast.Call | None:
        runs, scope = place.project.once(TrainingRuns, place), place.index.scopes[method]
        flow = place.flow(scope)
        for run in runs.of_body(scope) if scope in runs.bodies else ():
            owned = run.key.name == self._name and isinstance(run.key.owner, ast.ClassDef)
            if owned and runs.modes.reaches(flow, None, run.call, runs.modes.events(scope, run.key)):
                return run.call
        return None

    @staticmethod
    def _switches(method: FunctionNode) -> bool:
        """Does a method put any model into train mode?"""
        calls = (part for part in walk(method) if isinstance(part, ast.Call))
        return any(switched(call) not in (None, Mode.EVAL) for call in calls)

    def _makes(self, method: FunctionNode) -> bool:
        """`self.net = Net()`, which is in train mode again."""
        stored = (part for part in walk(method) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store))
        return any(is_own(part) and part.attr == self._name for part in stored)

    def _reached(self, name: str) -> list[tuple[Module, FunctionNode]]:
        """Return a method of the object and those that it calls in turn."""
        names = [name] if name in self._methods else []
        for each in names:  # grows on the way
            names += [other for other in self._called_in(each) if other not in names]
        return [self._methods[each] for each in names]

    def _called_in(self, name: str) -> list[str]:
        """Return the methods of the object that one of them calls itself."""
        if name not in self._called:
            calls = (part for part in walk(self._methods[name][1]) if isinstance(part, ast.Call))
            own = dict.fromkeys(identifier(call.func) for call in calls if is_own(call.func))
            self._called[name] = [other for other in own if other in self._methods]
        return self._called[name]

    def _may_depend(self) -> bool:
        modes = self._module.project.once(Modes, self._module)
        made = list(Constructors(modes).of_key(Key(self._ancestors[0].node, self._name)))
        return not made or parts_of(made, made=False) is not Truth.NO

    def _loops(self, name: str) -> Iterator[tuple[Module, ast.AST, ast.Call]]:
        """Yield the loops that call a method of this object, as far as can be told."""
        for place in self._callers(name):
            for call in place.index.calls_by_name.get(name, ()) if not is_test_file(place) else ():
                around = [parent for parent in place.index.ancestors(call) if isinstance(parent, LOOPS)]
                if identifier(call.func) == name and self._is_of_object(place, call):
                    yield from ((place, loop, call) for loop in around if not _makes_receiver(loop, call))

    def _callers(self, name: str) -> list[Module]:
        """Return the files that may call a method: those of the class and its bases, and others that mention it."""
        project = self._module.project
        search = project.search(name, self._module, _MOST_FILES)
        known = {ancestor.module.path: ancestor.module for ancestor in self._ancestors}
        others = (path for path in (search.found if search is not None else None) or () if path not in known)
        return [*known.values(), *map(project.at, others)]

    def _is_of_object(self, place: Module, call: ast.Call) -> bool:
        """Is a method called of such an object: of its base class by itself, or of what nothing else is known of?"""
        receiver = receiver_of(call)
        if receiver is None or isinstance(receiver, ast.Call):
            return False
        if isinstance(receiver, ast.Name) and receiver.id in ("self", "cls"):
            owner = place.index.class_at(call)
            return any(ancestor.node is owner for ancestor in self._ancestors[1:])
        known = [value.type for value in place.inference.values(receiver) if value.type]
        return not known or self._ancestors[0].name in known

    def _leaving(self, place: Module, loop: ast.AST, run: ast.Call, method: FunctionNode) -> ast.Call | None:
        """Return the call in a loop that leads to the switch, if nothing in the loop switches back or begins anew."""
        receiver = ast.unparse(run.func.value) if isinstance(run.func, ast.Attribute) else ""
        calls = [part for part in walk(loop) if isinstance(part, ast.Call)]
        found = None
        for call in calls:
            called = call.func if isinstance(call.func, ast.Attribute) else None
            own = called is not None and ast.unparse(called.value) == receiver
            reached = self._reached(identifier(call.func)) if own else []
            if switched(call) not in (None, Mode.EVAL):
                return None
            if any(self._switches(each) or self._makes(each) for _, each in reached):
                return None
            if not own and any(ast.unparse(argument) == receiver for argument in arguments_of(call)):
                definitions = map(place.project.definition, place.inference.callees(call))
                if any(each is not None and switches_any(*each) for each in definitions):
                    return None
            leads = any(function is method for _, function in reached)
            if found is None and leads and call is not run and not is_for_one_turn(place, call, loop):
                found = call if place.flow_at(run).path(call, run) else None
        return found


def _makes_receiver(loop: ast.AST, call: ast.Call) -> bool:
    """`for train, test in folds: learner = Learner()`: an object of its own for each turn."""
    receiver = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    stored = (part for part in walk(loop) if isinstance(part, (ast.Name, ast.Attribute)))
    return any(isinstance(part.ctx, ast.Store) and ast.unparse(part) == receiver for part in stored)
