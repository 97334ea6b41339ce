"""Where a program trains with draws that none of its own lines makes: the masks of dropout."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.layers import load_layers
from detlint.linter.analysis.context import Call
from detlint.linter.analysis.defaults import truth_by_default
from detlint.linter.analysis.program import Program, calls_named
from detlint.linter.analysis.project import Module
from detlint.linter.programs.training import training_steps
from detlint.linter.randomness.global_draws import Drawn
from detlint.linter.randomness.seeding import Seeding, seeding_of
from detlint.linter.source.names import FUNCTIONS, LOOPS
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_STEP = "step"
_FIT = "fit"
_TRAINER = "trainer"
_DROPS = "drop"
# Switches of the mode: what is trained in eval mode, as an image in front of a finished model, drops nothing.
_MODES = ("eval", "train")


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Where a program trains, and a layer that draws there, in whichever file it stands."""

    place: ast.AST
    module: Module
    drawn: Drawn


def unseeded_training(program: Program, ctx: Context) -> Iterator[Trained]:
    """Yield the layers that drop values in a program which seeds torch nowhere, each with where its file trains."""
    place = next(_training(program, ctx), None)
    seeding = seeding_of(program)
    if place is None or seeding.of("torch"):
        return
    for module in program.modules:
        inside = ctx.elsewhere(module)
        for drawn in _dropout(inside):
            if _leads_to(seeding, module, drawn.node):
                yield Trained(place, module, drawn)


def _training(program: Program, ctx: Context) -> Iterator[ast.AST]:
    """Yield the loops of a program's own file that make training steps, and the calls of trainers in it."""
    called = ctx.module.index.calls_by_name
    may_train = _MODES[1] in called or _MODES[0] not in called
    for step in training_steps(ctx.module.tree) if may_train else ():
        loop = _loop_around(step, ctx) if identifier(step.func) == _STEP else None
        if loop is not None and program.runs(ctx.module, step):
            yield loop
    for call in called.get(_FIT, ()):
        trainer = identifier(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if trainer.lower().endswith(_TRAINER) and program.runs(ctx.module, call):
            yield call


def _loop_around(node: ast.AST, ctx: Context) -> ast.AST | None:
    for parent in ctx.ancestors(node):
        if isinstance(parent, (*LOOPS, *FUNCTIONS)):
            return parent if isinstance(parent, LOOPS) else None
    return None


def _leads_to(seeding: Seeding, module: Module, node: ast.AST) -> bool:
    start = seeding.reach.start(module, node)
    return start is not None and start[0] is seeding.program.module


def _dropout(inside: Context) -> Iterator[Drawn]:
    """Yield the layers of a file that drop values, at a rate that is above zero when nobody says anything."""
    table = load_layers().layers
    for call in calls_named(inside.module, table.lasts):
        for name in inside.callees(call):
            layer = table.get(name)
            if layer is not None and not layer.stacked and _DROPS in f"{name} {layer.rate}".lower():
                rate = Call(call, layer.call).argument(layer.rate).value
                if rate is not None and truth_by_default(rate, inside) is Truth.YES:
                    yield Drawn(call, name, "torch")
