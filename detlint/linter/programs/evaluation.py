"""Is this inference? Evidence from disabled gradients, names of functions and of the data that is looped over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.values import load_types
from detlint.linter.programs.gradients_off import disables, runs_without_gradients, without_gradients
from detlint.linter.programs.predictions import is_read_only_at, is_trained_on, may_be_differentiated, takes_batch_of
from detlint.linter.programs.step_calls import step_takes_same
from detlint.linter.programs.step_flags import evaluates_on_request, trains_and_evaluates
from detlint.linter.programs.training import file_trains, training_steps, trains
from detlint.linter.source.names import COMPREHENSIONS, FUNCTIONS, LOOPS, BindingKind, FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, walk

_EVALUATES = re.compile(
    r"(^|_)(test|tests|testing|eval|evaluate|evaluates|evaluation|val|valid|validate|validation|dev|predict|predicts|"
    r"prediction|predictions|infer|inference|demo)(?=_|\d|$)",
    re.IGNORECASE,
)
_DATA = re.compile(r"(test|val|valid)_?(data)?(loader|set)$", re.IGNORECASE)
# Methods by which a model writes a text: they choose words, one after the other.
_GENERATES = frozenset({"generate", "translate", "transcribe"})
# What is given a prediction and judges it; `predict(features)` may be a layer.
_JUDGES = re.compile(r"(^|_)(eval|evaluate|evaluation|test|validate)(_|$)", re.IGNORECASE)
# What a function measures that nobody trains on.
_MEASURES = re.compile(r"(^|_)acc(uracy)?(_|$)", re.IGNORECASE)
# Names under which a function switches a model, or asks somebody to.
_SWITCHING = frozenset({"eval", "train", "training", "train_mode", "set_mode", "set_train", "set_eval"})
_LOSS = re.compile(r"(^|_)(loss|losses|objective)(?=_|\d|$)", re.IGNORECASE)
_TRAINS = re.compile(r"train|fit|finetune|fine_tune|calibrat|update|optimi[sz]e|fake|attack", re.IGNORECASE)


def names_evaluation(name: str) -> bool:
    """Return whether an identifier says that it evaluates: `validate`, `test_loader`, `x_val`, `runTest`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return bool(_EVALUATES.search(snake)) or _DATA.search(name) is not None


def names_inference(name: str) -> bool:
    """Return whether an identifier says that it evaluates and does not train as well: no `train_test_split`."""
    return names_evaluation(name) and not _TRAINS.search(name)


def names_measure(name: str) -> bool:
    """Return whether a function is named after what it measures: `get_accuracy`."""
    return _MEASURES.search(name) is not None


def is_inference(module: Module, node: ast.AST) -> bool:
    """Return whether `node` is evaluated for a prediction rather than for a training step.

    That is under disabled gradients, in a function named after evaluation, in a loop over evaluation data, or where the
    result goes to a function named after evaluation; and never in a loop body that also makes training steps, unless
    the data says otherwise.
    """
    in_training_step = shares_training_step(module, node)
    if without_gradients(module, node):
        asked = (_is_given_evaluation_data, _is_read_at_held_out, _goes_through_held_out)
        return not in_training_step or any(question(module, node) for question in asked)
    if in_training_step:
        return isinstance(node, ast.Call) and (
            _is_for_held_out_data(module, node)
            or is_in_all_phases(module, node)
            or trains_and_evaluates(module, node)
            or evaluates_on_request(module, node)
        )
    if says_evaluation(module, node) or _generates(node) or runs_without_gradients(module, node):
        return True
    if _measures(module, node):
        return True
    if isinstance(node, ast.Call) and (
        evaluates_on_request(module, node) or trains_and_evaluates(module, node) or _is_for_held_out_data(module, node)
    ):
        return True
    if isinstance(node, ast.Call) and (names_evaluation(identifier(node.func)) or is_trained_on(module, node)):
        return False  # a score itself, or a step whose outcome is scored to train on it
    return _goes_to_evaluation(module, node)


def _is_given_evaluation_data(module: Module, node: ast.AST) -> bool:
    """`net(x_val)`, `validate(net)`; what a variable that holds a model is called is no data."""
    called = node.func if isinstance(node, ast.Call) else None
    bindings = module.definitions(called) if isinstance(called, ast.Name) else ()
    held = bool(bindings) and all(binding.kind is BindingKind.ASSIGN for binding in bindings)
    return any(map(_takes_evaluation_data, arguments_of(node) if held and isinstance(node, ast.Call) else [node]))


def _is_read_at_held_out(module: Module, node: ast.AST) -> bool:
    """`(net(x).argmax(dim=1) == y)[val_mask]`, whatever else of the output there is."""
    return isinstance(node, ast.Call) and is_read_only_at(module, node, _takes_evaluation_data)


def _goes_through_held_out(module: Module, node: ast.AST) -> bool:
    """`sum(loss(net(x), y).item() for x, y in val)`, within a step that trains."""
    for parent in module.index.ancestors(node):
        if isinstance(parent, ast.stmt):
            return False
        loops = parent.generators if isinstance(parent, COMPREHENSIONS) else ()
        if any(_is_evaluation_data((module, loop.iter)) for loop in loops):
            return True
    return False


def _is_for_held_out_data(module: Module, call: ast.Call) -> bool:
    """`model(x_val)`, `model(next(iter(test_loader)))`, a result read at `output[idx_val]` alone; none trains on it."""
    asked = (takes_batch_of, is_read_only_at)
    held_out = any(map(_is_evaluation_data_itself, arguments_of(call))) or any(
        question(module, call, _takes_evaluation_data) for question in asked
    )
    return held_out and not may_be_differentiated(module, call)


def _is_evaluation_data_itself(node: ast.expr) -> bool:
    """`x_val`, `val_batch["x"].to(device)`; not `x[valid]`, of which only the choice is called so."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Attribute) and names_inference(node.attr):
            return True
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            return False
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and names_inference(node.id)


def is_in_all_phases(module: Module, call: ast.Call) -> bool:
    """`for phase in ("train", "val"):` with steps `if phase == "train"`, in a function with one mode for all phases."""
    function = module.index.function_at(call)
    phases = [loop for loop in _loops(module, call) if isinstance(loop, ast.For) and _names_phases(loop.iter)]
    names = {loop.target.id for loop in phases if isinstance(loop.target, ast.Name)}
    if function is None or not names:
        return False
    switches = [part for part in walk(function) if identifier(part) in _SWITCHING]
    steps = [step for step in training_steps(function) if identifier(step.func) != "zero_grad"]
    return (
        bool(steps)
        and all(_depends_on(module, step, names) for step in steps)
        and all(_is_for_train_mode(module, switch) for switch in switches)
        and ("eval" not in module.index.calls_by_name or not any(_depends_on(module, s, names) for s in switches))
    )


def _depends_on(module: Module, node: ast.AST, names: set[str]) -> bool:
    """Does a condition around `node` ask for one of these variables?"""
    return any(
        isinstance(parent, ast.If) and names & {identifier(part) for part in walk(parent.test)}
        for parent in module.index.ancestors(node)
    )


def _is_for_train_mode(module: Module, switch: ast.AST) -> bool:
    """`net.train` of `net.train()`, which asks nobody for the mode."""
    call = module.index.parents.get(switch)
    plain = isinstance(call, ast.Call) and call.func is switch and not arguments_of(call)
    return plain and isinstance(switch, ast.Attribute) and switch.attr == "train"


def _names_phases(phases: ast.expr) -> bool:
    """`("train", "val")`."""
    parts = phases.elts if isinstance(phases, (ast.Tuple, ast.List)) else []
    words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return len(words) > 1 and any(map(names_inference, words)) and any(map(_TRAINS.search, words))


def _generates(node: ast.AST) -> bool:
    """`model.generate(prompt)`, which no gradient flows through."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in _GENERATES


def says_evaluation(module: Module, node: ast.AST) -> bool:
    """Return whether the function around `node` is named after evaluation, or a loop in it goes through such data.

    A loop that trains as well goes through nothing of the kind: `for epoch in range(train_epochs + test_epochs):`.
    """
    function = module.index.function_at(node)
    if function is not None and evaluates(function):
        return True
    return any(
        isinstance(loop, ast.For) and module.project.once(_is_evaluation_data, (module, loop.iter)) and not trains(loop)
        for loop in _loops(module, node)
    )


def _measures(module: Module, node: ast.AST) -> bool:
    """Is the function around `node` named after what it measures, which has no gradient: `get_accuracy(net)`?"""
    function = module.index.function_at(node)
    return function is not None and names_measure(function.name) and not trains(function)


def _goes_to_evaluation(module: Module, node: ast.AST, steps: int = 3) -> bool:
    """`self.evaluate(embedding, labels)`: is the value judged, itself or a part of it under another name?"""
    parent = module.index.parents.get(node)
    while isinstance(parent, (ast.Subscript, ast.Tuple, ast.keyword)):
        parent = module.index.parents.get(parent)
    if isinstance(parent, ast.Call):
        name = identifier(parent.func)
        return _JUDGES.search(name) is not None and not _TRAINS.search(name)
    if not isinstance(parent, ast.Assign) or steps == 0:
        return False
    flow = module.flow_at(parent)
    bound = (binding for names in flow.scope.bindings.values() for binding in names if binding.value is parent.value)
    return any(_goes_to_evaluation(module, use, steps - 1) for binding in bound for use in flow.uses(binding))


def evaluates(function: FunctionNode) -> bool:
    """Return whether a function is named after evaluation and makes no training step."""
    return names_inference(function.name) and not trains(function)


def computes_loss(module: Module, node: ast.AST) -> bool:
    """Return whether `node` stands in a function that computes a loss to train on: its targets need no gradients.

    One that runs without gradients as a whole, such as `estimate_loss`, evaluates; so does what goes through such data
    without them.
    """
    function = module.index.function_at(node)
    return (
        function is not None
        and _LOSS.search(function.name) is not None
        and not names_evaluation(function.name)
        and not any(disables(module, decorator) for decorator in function.decorator_list)
        and not (without_gradients(module, node) and says_evaluation(module, node))
    )


def _loops(module: Module, node: ast.AST) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    """Yield the loops around `node` inside its function, the innermost first."""
    child = node
    for parent in module.index.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return
        if isinstance(parent, LOOPS) and child in parent.body:
            yield parent
        child = parent


def shares_training_step(module: Module, node: ast.AST) -> bool:
    """Return whether the innermost loop around `node` (its function without one) makes training steps in its own turn.

    Steps of an inner loop do not count: after an epoch of batches there is room for an evaluation.
    """
    loop = next(_loops(module, node), None)
    region = loop if loop is not None else module.index.function_at(node)
    if region is None or not file_trains(module):
        return False
    return any(
        next(_loops(module, step), None) is loop and module.index.function_at(step) is module.index.function_at(node)
        for step in training_steps(region)
    )


def goes_with_step(module: Module, call: ast.Call) -> bool:
    """Does a function that takes the same batch make a training step in the same turn of a loop?"""
    loop = next(_loops(module, call), None)
    return (
        loop is not None
        and file_trains(module)
        and step_takes_same(module, call, loop)
        and not _is_given_evaluation_data(module, call)
    )


def _is_evaluation_data(asked: tuple[Module, ast.expr]) -> bool:
    """Does an expression give such data: `enumerate(test_loader)`, or a name for `tqdm(test_loader)`?"""
    module, node = asked
    bindings = module.definitions(node) if isinstance(node, ast.Name) else ()
    return _takes_evaluation_data(node) or (
        bool(bindings) and all(_is_bar_over_evaluation_data(module, binding.value) for binding in bindings)
    )


def _is_bar_over_evaluation_data(module: Module, value: ast.AST | None) -> bool:
    if not isinstance(value, ast.Call) or not value.args or not _takes_evaluation_data(value.args[0]):
        return False
    return not load_types().bars.isdisjoint(module.inference.callees(value))


def _takes_evaluation_data(node: ast.AST) -> bool:
    """Return whether an expression reads something named after test or validation data."""
    return any(name not in ("eval", "test") and names_inference(name) for name in identifiers(node))


def identifiers(node: ast.AST) -> Iterator[str]:
    """Yield the names, attributes and short strings of an expression."""
    for part in walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and 0 < len(part.value) < 20:
            yield part.value
