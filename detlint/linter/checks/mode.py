"""Models that predict while they are in train mode, or train while they are in eval mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.registry import check_file
from detlint.linter.analysis.repairs import Repair, insert_before, replace, unsafe
from detlint.linter.modes.eval_mode_helpers import eval_mode_helpers
from detlint.linter.modes.eval_mode_hooks import eval_mode_hooks
from detlint.linter.modes.eval_mode_objects import eval_mode_objects
from detlint.linter.modes.eval_mode_training import EvalModeTraining, eval_mode_trainings
from detlint.linter.modes.restored_mode import restored_modes
from detlint.linter.modes.train_mode import TrainModeInference, train_mode_inferences
from detlint.linter.modes.vain_switches import vain_switches
from detlint.linter.programs.training import file_trains, training_steps
from detlint.linter.source.names import FUNCTIONS, LOOPS
from detlint.linter.source.nodes import walk
from detlint.operators import CONFIRMED, parse_version

_PREDICTS = "predicts"
# Since this release `torch.onnx.export` writes down the mode that a model is in: `dynamo` is on, says its docstring.
_EXPORTS_AS_IT_IS = parse_version("2.9")
_LEAVES = "this leaves"
_PUT_BACK = "if it is in it, though {} puts its mode back"
_UNCALLED = "if it is in it, for eval() is only named here and not called"
_FLAG_ALONE = "in its parts, which have flags of their own"
# What `eval()` is moved out of, so that it is not called for each batch.
_HOISTED = (ast.With, ast.AsyncWith, *LOOPS)


@check_file("DET201")
def missing_eval(ctx: Context) -> Iterator[Finding]:
    """The model was made or trained, and nothing switches it before it predicts; or not by what was to do so."""
    for found in _inferences(ctx):
        if found.reason.put_back:
            yield _finding(found, _PUT_BACK.format(ctx.line(found.reason.node, found.reason.module)), ctx)
        elif found.after_training:
            why = "since it was made" if found.reason.created else "since its training"
            yield _finding(found, why, ctx)
    for kept in restored_modes(ctx.module):
        why = _PUT_BACK.format(ctx.line(kept.restore))
        related = [(ctx.module, kept.restore, "the mode is put back here")]
        yield ctx.finding(kept.call, model=kept.model, runs=_PREDICTS, why=why, related=related)
    for vain in vain_switches(ctx.module):
        uncalled = vain.place.attr == "eval"
        repair = unsafe("call it", replace(vain.place, f"{vain.model}.eval()")) if uncalled else None
        why = _UNCALLED if uncalled else _FLAG_ALONE
        yield ctx.finding(vain.place, repair=repair, model=vain.model, runs=_PREDICTS, why=why)


@check_file("DET204")
def train_mode_inference(ctx: Context) -> Iterator[Finding]:
    """`train()` was called and no training follows, only the prediction."""
    for found in _inferences(ctx):
        if not found.after_training:
            yield _finding(found, f"switched on in {ctx.line(found.reason.node, found.reason.module)}", ctx)


def _inferences(ctx: Context) -> Iterator[TrainModeInference]:
    """Yield the inferences in train mode, exports but for releases of torch that switch the model for them."""
    keeps_mode = parse_version(ctx.config.torch_version or CONFIRMED) >= _EXPORTS_AS_IT_IS
    yield from (found for found in train_mode_inferences(ctx.module) if keeps_mode or not found.exported)


@check_file("DET208")
def eval_mode_training(ctx: Context) -> Iterator[Finding]:
    """An evaluation in the loop leaves the model in eval mode, and its next training step runs in that."""
    for found in eval_mode_trainings(ctx.module):
        trains = "the next turn of the loop" if found.leaving is found.run else ctx.line(found.run)
        related = [(module, switch, "eval mode is switched on here") for module, switch in found.switches]
        related += [(ctx.module, found.run, "trained in eval mode here")] if found.leaving is not found.run else []
        related += [(found.before.module, found.before.node, "in train mode from here")]
        repair = _switch_back(found, ctx)
        yield ctx.finding(
            found.leaving, repair=repair, leaves=_LEAVES, model=found.model, trains=trains, related=related
        )
    for hook in eval_mode_hooks(ctx.module):
        related = [(module, switch, "eval mode is switched on here") for module, switch in hook.switches]
        trains = f"the trainer, which calls {hook.method.name}() between its steps,"
        yield ctx.finding(hook.leaving, leaves=_LEAVES, model=hook.model, trains=trains, related=related)
    for helper in eval_mode_helpers(ctx.module):
        run, leaving = helper.training.run, helper.training.leaving
        related = [(helper.module, leaving, "called here"), (helper.module, run, "trained in eval mode here")]
        trains = ctx.line(run, helper.module)
        yield ctx.finding(helper.switch, leaves=_LEAVES, model=helper.model, trains=trains, related=related)
    for held in eval_mode_objects(ctx.module):
        related = [(*held.switch, "eval mode is switched on here"), (held.module, held.leaving, "called here")]
        related += [(held.module, held.run, "trained in eval mode here")]
        place, switch = held.switch
        leaves = _LEAVES if held.place is switch else f"{ctx.line(switch, place)} leaves"
        trains = ctx.line(held.run, held.module) if held.place is switch else "this"
        yield ctx.finding(held.place, leaves=leaves, model=held.model, trains=trains, related=related)


def _switch_back(found: EvalModeTraining, ctx: Context) -> Repair:
    """Call `train()` before the training step, outside loops that go through its batches alone."""
    statement: ast.stmt = ctx.statement(found.run)
    for parent in ctx.ancestors(statement):
        if not isinstance(parent, _HOISTED) or found.leaving in walk(parent):
            break
        statement = parent
    return unsafe("switch back to train mode", insert_before(statement, f"{found.model}.train()"))


def _finding(found: TrainModeInference, why: str, ctx: Context) -> Finding:
    since = "the mode is put back here" if found.reason.put_back else "in train mode from here"
    related = [(found.reason.module, found.reason.node, since)]
    repair = _repair(found, ctx) if found.after_training else None
    runs = "is recorded" if found.recorded else _PREDICTS
    return ctx.finding(found.call, repair=repair, model=found.model, runs=runs, why=why, related=related)


def _repair(found: TrainModeInference, ctx: Context) -> Repair | None:
    """Call `eval()` before the inference, outside loops over data, where training is known to switch back."""
    if not all(part.isidentifier() for part in found.model.split(".")):
        return None
    name = found.model.partition(".")[0]
    statement: ast.stmt = ctx.statement(found.call)
    for parent in ctx.ancestors(statement):
        if not isinstance(parent, _HOISTED) or found.reason.node in walk(parent) or training_steps(parent):
            break
        if any(isinstance(node, ast.Name) and node.id == name and _is_bound(node) for node in walk(parent)):
            break
        statement = parent
    scopes = [ctx.module.index.scope_at(node).lookup(name) for node in (found.call, statement)]
    if scopes[0] is scopes[1] and not _trains_on(found, statement, ctx):
        return unsafe("switch to eval mode", insert_before(statement, f"{found.model}.eval()"))
    return None


def _trains_on(found: TrainModeInference, statement: ast.stmt, ctx: Context) -> bool:
    """May training go on after the inference with nothing that switches back?"""
    if found.reason.created:
        return file_trains(ctx.module)
    for parent in ctx.ancestors(statement):
        if isinstance(parent, FUNCTIONS):
            break
        if isinstance(parent, LOOPS) and training_steps(parent):
            return found.reason.node not in walk(parent)
    return False


def _is_bound(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)
