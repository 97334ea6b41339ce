"""Dropout by hand that does not know whether the model trains: a mask that is drawn, and what it is multiplied with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.callers import is_set_from_outside
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.programs.both_modes import runs_in_both_modes
from detlint.linter.programs.dropout_rates import DROPS, is_stored_rate, rate_of_callers
from detlint.linter.programs.left_on import left_on
from detlint.linter.programs.training import asks_for_mode, trains
from detlint.linter.randomness.masks import Mask, masks, rate_leaves
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import identifier, walk

# Rates that go by what they are for, and what draws the masks.
_DROPPED = re.compile(r"(^|_)(drop|dropout|keep)(_|$)", re.IGNORECASE)
_MASKING = frozenset({"bernoulli", "bernoulli_", "rand", "rand_like"})
# What says of itself that it is random at inference too, or that it learns how much to drop.
_MEANT = re.compile(r"mc_?drop|\bmc\b|monte|bayes|concrete|uncertain|variational|always|test.time", re.IGNORECASE)
# Names of what makes data: augmentation goes on where nothing trains, if somebody calls it there.
_AUGMENTS = re.compile(r"augment|\btransforms?\b|corrupt|coarse|pixel|grid|random", re.IGNORECASE)


@check("DET202", nodes=(ast.FunctionDef,))
def handwritten_dropout_always_on(function: ast.FunctionDef, ctx: Context) -> Iterator[Finding]:
    """`mask = x.new_empty(x.shape).bernoulli_(1 - self.p)`, then `x * mask`, with no question for the mode."""
    owner = ctx.module.index.class_at(function)
    whole = owner or function
    named = DROPS.search(function.name) or (owner is not None and DROPS.search(owner.name))
    if not named and (owner is None or _MASKING.isdisjoint(ctx.module.calls) or not _is_layer(owner, ctx)):
        return
    if is_test_file(ctx.module) or trains(function) or _is_meant(whole, ctx):
        return
    if asks_for_mode(whole):
        yield from _by_hand_left_on(function, ctx) if owner is None or not _reads_own_mode(owner) else ()
        return
    drops = [
        mask
        for mask in _steady_masks(function, ctx)
        if named
        or any(_says_drop(leaf) for rate in mask.rates for leaf in rate_leaves(rate, ctx))
        or any(_is_made_up_for(rate, function) for rate in mask.rates)
    ]
    for mask in drops if drops and runs_in_both_modes(function, ctx) else ():
        yield ctx.finding(mask.draw, call="this hand-written dropout", state="nothing asks for the mode")


def _is_layer(owner: ast.ClassDef, ctx: Context) -> bool:
    return ctx.inference.is_module_class(ctx.module.qualified(owner))


def _says_drop(rate: ast.expr) -> bool:
    return _DROPPED.search(identifier(rate)) is not None


def _is_made_up_for(rate: ast.expr, function: ast.FunctionDef) -> bool:
    """`x * mask / (1 - self.p)`: only what drops divides by what is left, whatever the rate is called."""
    left = {ast.unparse(rate), f"1 - {ast.unparse(rate)}", f"1.0 - {ast.unparse(rate)}"}
    divisions = (part for part in walk(function) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div))
    return any(ast.unparse(division.right) in left for division in divisions)


def _reads_own_mode(owner: ast.ClassDef) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "training" for part in walk(owner))


def _steady_masks(function: FunctionNode, ctx: Context) -> Iterator[Mask]:
    """Yield the masks that a function draws with a rate that no mode decides about."""
    for mask in masks(function, ctx):
        leaves = [leaf for rate in mask.rates for leaf in rate_leaves(rate, ctx)]
        if leaves and all(_is_steady_number(leaf, ctx) for leaf in leaves):
            yield mask


def _by_hand_left_on(function: FunctionNode, ctx: Context) -> Iterator[Finding]:
    """`def drop_path(x, rate, training=True):` with a mask of its own, called from forward without the mode."""
    flags = [parameter.arg for parameter, default in parameters(function.args) if ctx.constant(default) is True]
    asked = (part for part in walk(function) if isinstance(part, ast.Name) and part.id in flags)
    flag = next((part for part in asked if asks_for_mode(part)), None)
    mask = next(_steady_masks(function, ctx), None) if flag is not None else None
    if mask is None:
        return
    for where, site in left_on(flag, ctx):
        place = site if where.module is ctx.module else mask.draw
        state = f"{ctx.line(site, where.module)} leaves the mode of training on"
        yield ctx.finding(place, call="this hand-written dropout", state=state)


def _is_meant(definition: ast.ClassDef | FunctionNode, ctx: Context) -> bool:
    """Does a layer say that it is to be random whatever the mode, or go by a name of what augments data?"""
    name = ctx.module.qualified(definition)
    said = f"{name} {ast.get_docstring(definition) or ''}"
    return _MEANT.search(said) is not None or _AUGMENTS.search(name) is not None


def _is_steady_number(rate: ast.expr, ctx: Context) -> bool:
    """Is it written out, stored by `__init__` for good, or passed so by a caller?"""
    if isinstance(rate, ast.Name):
        return all(rate_of_callers(binding, ctx) for binding in ctx.module.definitions(rate))
    if isinstance(rate, ast.Attribute):
        return not is_set_from_outside(rate.attr, ctx) and is_stored_rate(rate, ctx)
    return isinstance(rate, ast.Constant)
