"""Is train mode meant where a model predicts? Then a caller asked for it, or training goes on around."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.linter.modes.left_flags import is_left_in_train_mode
from detlint.linter.modes.library_trainers import switched_by_trainer
from detlint.linter.modes.names import Key
from detlint.linter.modes.paths import Modes, Reason
from detlint.linter.modes.switches import Mode, switched
from detlint.linter.modes.train_only_losses import asks_for_losses
from detlint.linter.programs.evaluation import evaluates, goes_with_step, says_evaluation, shares_training_step
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.programs.step_calls import makes_steps
from detlint.linter.programs.step_flags import trains_and_evaluates
from detlint.linter.programs.training import chosen_by_caller, file_trains, trains
from detlint.linter.source.names import BindingKind
from detlint.linter.source.nodes import is_own, walk

_ACTS = re.compile(r"_?(act|explore|(select|choose|get|sample|take|pick)_(an_)?actions?)$")


class Intent:
    """Answers for the calls of one module."""

    def __init__(self, modes: Modes) -> None:
        self.module = modes.module
        self.modes = modes

    def counts(self, reason: Reason, call: ast.Call, key: Key) -> bool:
        """A caller may ask for train mode, and what is called within a training step runs in it on purpose.

        Not so where a helper says that it evaluates, and asks for no gradients.
        """
        if not reason.created and (self._is_chosen(reason, call, key) or goes_with_step(self.module, call)):
            return False
        if self._excludes(reason, call) or (not reason.created and self._goes_with_option(key)):
            return False
        if reason.goal is call:
            return True
        if without_gradients(self.module, call) and says_evaluation(self.module, call):
            return True
        return not (isinstance(reason.goal, ast.Call) and shares_training_step(reason.module, reason.goal))

    def _is_chosen(self, reason: Reason, call: ast.Call, key: Key) -> bool:
        """`if training: net.train()`, by who predicts, if all callers say so.

        A function that trains so leaves the mode on for others, unless its object is told which it does.
        """
        if not chosen_by_caller(reason.module, reason.node) or trains_and_evaluates(self.module, call):
            return False
        if reason.goal is call and is_left_in_train_mode(self.modes, reason.node, None, call):
            return False
        if reason.goal is None and not _evaluates_otherwise(reason):
            return next(self._steps_of(reason), None) is None
        return reason.goal is not call or not self._stays_on(reason, call, key)

    def _stays_on(self, reason: Reason, call: ast.Call, key: Key) -> bool:
        """`if mode == 2: self.net.train()`, and `self.net.eval()` in `__init__` alone: the next call is in it too."""
        body = self.modes.body_of(call)
        flow, events = self.module.flow(body), self.modes.events(body, key)
        places = [event.node for event in events]
        ended = [event.node for event in self.modes.events_anywhere(key) if event.mode is Mode.EVAL]
        around = [self.module.index.function_at(end) for end in ended]
        return (
            isinstance(key.owner, ast.ClassDef)
            and bool(ended)
            and all(function is not None and function.name == "__init__" for function in around)
            and all(event.mode is Mode.TRAIN for event in events)
            and flow.path(None, call, avoiding=places)
            and flow.path(reason.node, None, avoiding=places)
        )

    def _excludes(self, reason: Reason, call: ast.Call) -> bool:
        """`if isinstance(model, nn.Module): … model.train()`, `else: model(x)`: one is switched, another predicts."""
        around = [parent for parent in self.module.index.ancestors(reason.node) if isinstance(parent, ast.If)]
        return any(
            (parent in around and _branch(parent, reason.node) is not _branch(parent, call))
            or (_branch(parent, call) is parent.orelse and self._asks_for_module(parent.test, call))
            for parent in self.module.index.ancestors(call)
            if isinstance(parent, ast.If) and "isinstance(" in ast.unparse(parent.test)
        )

    def _goes_with_option(self, key: Key) -> bool:
        """`if self.dropout: net.train()`, and `eval()` too: an option says whether the mode of the model matters."""
        switches = [event for event in self.modes.events_anywhere(key) if event.made is None]
        options = [
            {
                ast.unparse(test)
                for test, holds in self.module.index.conditions_around(event.node)
                if holds and is_own(test)
            }
            for event in switches
        ]
        return {Mode.TRAIN, Mode.EVAL} <= {event.mode for event in switches} and bool(set.intersection(*options))

    def _asks_for_module(self, test: ast.expr, call: ast.Call) -> bool:
        """`isinstance(model, nn.Module)`, of what is called: where that does not hold, there is no mode."""
        asked = test.args if isinstance(test, ast.Call) else []
        return (
            len(asked) == 2
            and ast.unparse(asked[0]) == ast.unparse(call.func)
            and "torch.nn.Module" in self.module.inference.resolve(asked[1])
        )

    def is_deliberate(self, call: ast.Call, reason: Reason, holds: Truth) -> bool:
        """Some models give their losses in train mode only; and learning without gradients looks like inference.

        Whoever asks `if not model.training:` first wants the mode that comes.
        """
        asked = (part for part in walk(reason.node) if isinstance(part, ast.Attribute))  # a switch may be its condition
        if any(part.attr == "training" for part in asked):
            return True
        if asks_for_losses(self.module, call):
            return True
        function = self.module.index.function_at(call)
        indirect = reason.goal is not call and function is not None and not evaluates(function)
        return indirect and holds is Truth.UNKNOWN

    def acts_to_learn(self, call: ast.Call) -> bool:
        """`act(state)` of an agent that learns from what comes of it: it explores, and the mode is that of learning."""
        function, owner = self.module.index.function_at(call), self.module.index.class_at(call)
        return owner is not None and function is not None and bool(_ACTS.match(function.name)) and trains(owner)

    def is_for_a_while(self, call: ast.Call, key: Key, reason: Reason) -> bool:
        """Training goes on after the inference, which is a part of it; or `eval()` ends what `train()` began for it.

        Training that switches to train mode itself needs nobody to be in it before.
        """
        home = self.modes.peer(reason.module)
        body = home.body_of(reason.node)
        flow = reason.module.flow(body)
        switches = [part for part in walk(body.node) if isinstance(part, ast.Call) and switched(part) is not None]
        itself = {event.node for event in home.events(body, key)} if reason.module is self.module else set()
        goal = reason.goal
        steps = (step for step in self._steps_of(reason) if step not in itself)
        if goal and any(flow.path(goal, step, avoiding=switches) for step in steps):
            return True
        flow = self.module.flow_at(call)
        again = [part for part in self.module.index.calls_by_name.get("train", ()) if switched(part) is Mode.TRAIN]
        ends = (
            end.func.value
            for end in self.module.index.calls_by_name.get("eval", ())
            if switched(end) is Mode.EVAL
            and isinstance(end.func, ast.Attribute)
            and flow.path(call, end, avoiding=again)
        )
        return any(self.modes.key(model) == key for model in ends)

    def trained_between(self, reason: Reason) -> bool:
        """Return whether training steps lie between the switch and the inference: then eval() is what is missing."""
        if isinstance(reason.node, ast.Call) and switched_by_trainer(reason.module, reason.node) is not None:
            return True
        if reason.goal is None:
            # `self.net.train()` in a constructor comes before anything that other methods do.
            made_in = reason.module.index.function_at(reason.node)
            return file_trains(reason.module) or made_in is None or made_in.name != "__init__"
        flow = reason.module.flow(self.modes.peer(reason.module).body_of(reason.node))
        again = [reason.node]  # the next round of a loop starts with the switch, not with the training
        return any(
            step is reason.node or (flow.path(reason.node, step) and flow.path(step, reason.goal, avoiding=again))
            for step in self._steps_of(reason)
        )

    def _steps_of(self, reason: Reason) -> Iterator[ast.Call]:
        """Yield the calls that train, in the body that switches the mode."""
        home = self.modes.peer(reason.module)
        scope = home.body_of(reason.node)
        calls = (part for part in walk(scope.node) if isinstance(part, ast.Call))
        return (call for call in calls if home.body_of(call) is scope and makes_steps(reason.module, call))


def _evaluates_otherwise(reason: Reason) -> bool:
    """`if self.training: net.train()`, `else: net.eval()`: what the object is told holds for its other methods too.

    Not so what `update(x, evaluate=False)` is told, which holds for this call.
    """
    around = next((each for each in reason.module.index.ancestors(reason.node) if isinstance(each, ast.If)), None)
    asked = [part for part in walk(around.test) if isinstance(part, ast.Name)] if around is not None else []
    bindings = [binding for name in asked for binding in reason.module.definitions(name)]
    if bindings and all(binding.kind is BindingKind.PARAMETER and binding.name != "self" for binding in bindings):
        return False
    branches = [*around.body, *around.orelse] if around is not None else []
    calls = (part for statement in branches for part in walk(statement) if isinstance(part, ast.Call))
    return any(switched(call) is Mode.EVAL for call in calls)


def _branch(around: ast.If, node: ast.AST) -> list[ast.stmt]:
    """Return the branch of a condition that `node` stands in."""
    return around.body if any(node is part for statement in around.body for part in walk(statement)) else around.orelse
