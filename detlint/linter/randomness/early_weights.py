"""Models that get their first weights before a program seeds torch, and are trained behind it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.program import Program
from detlint.linter.analysis.values import Kind
from detlint.linter.programs.evaluation import identifiers
from detlint.linter.programs.training import file_trains
from detlint.linter.randomness.seeded_later import is_seeded_later
from detlint.linter.randomness.seeding import seeding_of
from detlint.linter.source.names import run_by
from detlint.linter.source.nodes import arguments_of, identifier, walk

_WITH_WEIGHTS = re.compile(r"^torch\.nn\.(Linear|Bilinear|Conv|Embedding|LSTM|GRU|RNN|Transformer|Multihead)")
_TRAINS = re.compile(r"(^|_)(fit|train|finetune)(_|$)", re.IGNORECASE)
_TRAINER = re.compile(r"trainer$", re.IGNORECASE)
# Words of code that takes weights from elsewhere, or draws them anew.
_REPLACES = re.compile(
    r"(^|_)load(_|$)|pretrained|checkpoint|ckpt|resume|restore|init_weights|reset_parameters|^apply$", re.IGNORECASE
)


def built_before_seed(program: Program, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls of a program's file that build a model which it trains, where all seeds of torch come later.

    A seed that something takes on its way from its own settings is no sign that anybody wants these weights again.
    """
    built = [call for call in ctx.module.index.of_type(ast.Call) if _is_trained(call, ctx)]
    built = [call for call in built if _draws_weights(call, ctx) and program.runs(ctx.module, call)]
    seeding = seeding_of(program) if built else None
    if seeding is None or all(seed.seeder is not None and seed.seeder.implicit for seed in seeding.of("torch")):
        return
    yield from (call for call in built if is_seeded_later("torch", ctx.module, call, seeding))


def _draws_weights(call: ast.Call, ctx: Context) -> bool:
    """Is this a model of torch's layers, or one of the project that loads no other weights and wraps no other model?"""
    if not _is_model(call, ctx):
        return False
    for name in ctx.callees(call):
        definition = ctx.module.project.definition(name)
        if definition is not None:
            made = run_by(definition[1]) if isinstance(definition[1], ast.ClassDef) else None
            loads = made is None or any(map(_REPLACES.search, identifiers(made)))
            return not loads and not any(_is_model(given, ctx) for given in arguments_of(call))
    layers = (part for part in walk(call) if isinstance(part, ast.Call))
    return any(_WITH_WEIGHTS.search(name) for layer in layers for name in ctx.callees(layer))


def _is_model(node: ast.expr, ctx: Context) -> bool:
    return {value.kind for value in ctx.values(node)} == {Kind.MODULE}


def _is_trained(call: ast.Call, ctx: Context) -> bool:
    """Is what a call makes kept under a name and trained there, and do no other weights come into it?"""
    binding = ctx.binding(ctx.chained(call))  # Net().to(device)
    uses = ctx.flow(call).uses(binding) if binding is not None else ()
    told = [_done_with(use, ctx) for use in uses]
    return not any(map(_REPLACES.search, told)) and any(_trains(word, ctx) for word in told)


def _done_with(use: ast.expr, ctx: Context) -> str:
    """Return the name of what is called with a model or on it: `fit` of `trainer.fit(model)`, `parameters`."""
    parent = ctx.parent(use)
    if isinstance(parent, ast.Attribute):
        return parent.attr
    call = ctx.parent(parent) if isinstance(parent, ast.keyword) else parent
    return identifier(call.func) if isinstance(call, ast.Call) else ""


def _trains(word: str, ctx: Context) -> bool:
    if word == "parameters":
        return file_trains(ctx.module)
    return _TRAINS.search(word) is not None or _TRAINER.search(word) is not None
