"""Is a parameter what a whole model is given? Then it needs no gradient: by the class, or by what stands beside it.

A layer of a library may stand anywhere in a model, so nothing is told by its position in the code alone.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own, walk
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# A class that more files mention may stand in another model.
_MOST_FILES = 16
# The folder of what configurations build networks on, and how they come to know of it.
_BACKBONES = "backbones"
_REGISTERING = frozenset({"register", "register_module"})
# What a class is put around, by the name under which it keeps it.
_MODEL = "model"
_CONVOLUTIONS = frozenset({"torch.nn.Conv2d", "torch.nn.Conv3d"})


def is_model_input(parameter: ast.arg, function: FunctionNode, ctx: Context) -> bool:
    """Return whether a parameter is what a model starts from, or the truth that its loss compares with."""
    if _is_predicted(parameter.arg, function) or _is_beside_results(parameter.arg, function):
        return True
    owner = ctx.module.index.class_at(function)
    if owner is None:
        return False
    if _is_given_from_outside(parameter, function, owner, ctx):
        return True
    if _is_beside_steps(parameter, function) and not _is_held(owner, ctx):
        return True
    if not _starts_there(parameter, function):
        return False
    if _is_whole(owner, ctx) or _is_backbone(owner, ctx) or _is_put_around_model(owner, function, ctx):
        return True
    judges = gradient_table().judging_classes.search(owner.name) is not None
    return not judges and (_is_grey(parameter, function) or _starts_from_data(owner, ctx))


def is_judged(parameter: ast.arg, function: FunctionNode, ctx: Context) -> bool:
    """Is it what a discriminator judges, or one of two that a loss compares: `forward(self, img1, img2)`?"""
    owner = ctx.module.index.class_at(function)
    table = gradient_table()
    if owner is None or function.name != "forward" or not table.judging_classes.search(owner.name):
        return False
    if _is_beside_results(parameter.arg, function):
        return False
    if not table.losses.search(owner.name):
        return _starts_there(parameter, function)
    pair = function.args.args[1:3]
    stems = {argument.arg.rstrip("0123456789") for argument in pair}
    return parameter in pair and len(pair) == 2 and len(stems) == 1


def _starts_there(parameter: ast.arg, function: FunctionNode) -> bool:
    """Is it the first argument of a method that a model is entered by?"""
    return gradient_table().entry_methods.match(function.name) is not None and parameter in function.args.args[1:2]


def _is_predicted(name: str, function: FunctionNode) -> bool:
    """Does the function hold a prediction of what a parameter names: `predict_pitch` beside `pitch`?"""
    predicted = re.compile(rf"pred(ict|icted)?_{re.escape(name)}|{re.escape(name)}_(pred|preds|predictions?)")
    return any(isinstance(part, ast.Name) and predicted.fullmatch(part.id) for part in walk(function))


def _is_beside_results(name: str, function: FunctionNode) -> bool:
    """`forward(self, outputs, inputs)` of a loss: what went into the model stands beside what came out of it."""
    table = gradient_table()
    named = [argument.arg for argument, _ in parameters(function.args)]
    return table.given.search(name) is not None and any(table.results.search(other) for other in named)


def _is_beside_steps(parameter: ast.arg, function: FunctionNode) -> bool:
    """`forward(self, x, timesteps, low_res)`: what takes noise away is told the step, and starts from what is noised.

    What another model makes of a text or an image has a name of its own: `context`.
    """
    table = gradient_table()
    told = any(table.denoising.search(argument.arg) for argument, _ in parameters(function.args))
    return told and function.name == "forward" and not table.features.search(parameter.arg)


def _is_grey(parameter: ast.arg, function: FunctionNode) -> bool:
    """`x.repeat(1, 3, 1, 1)`: three equal channels are a grey image."""
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in ("repeat", "expand")
        and getattr(part.func.value, "id", "") == parameter.arg
        and [getattr(size, "value", -1) for size in part.args] in ([1, 3, 1, 1], [-1, 3, -1, -1])
        for part in walk(function)
    )


def _is_whole(owner: ast.ClassDef, ctx: Context) -> bool:
    """Does a framework hand batches to the class, going by its base?"""
    bases = ctx.inference.external_bases(ctx.inference.class_info(owner))
    return any(gradient_table().whole_models.search(base) for base in bases)


def _is_backbone(owner: ast.ClassDef, ctx: Context) -> bool:
    """`@MODELS.register_module()` in `backbones/resnet.py`: configurations put it where the data comes in."""
    made = (part.func if isinstance(part, ast.Call) else part for part in owner.decorator_list)
    return any(identifier(part) in _REGISTERING for part in made) and ctx.module.path.parent.name == _BACKBONES


def _is_put_around_model(owner: ast.ClassDef, function: FunctionNode, ctx: Context) -> bool:
    """`self.model = model` of a class that no other holds, and `forward` runs it: what it is given is for that model.

    Layers in a row are called so too, and are no model to be put around.
    """
    if not any(is_own(part) and identifier(part) == _MODEL for part in walk(function)):
        return False
    kept = list(ctx.inference.attribute_writes(ctx.inference.class_info(owner), _MODEL))
    values = (value for cls, write in kept for value in ctx.elsewhere(cls.module).values(write.value))
    return bool(kept) and not any(value.type.startswith("torch.nn.") for value in values) and not _is_held(owner, ctx)


def _is_given_from_outside(parameter: ast.arg, function: FunctionNode, owner: ast.ClassDef, ctx: Context) -> bool:
    """Is it for a model that is loaded by itself, and that no other model of the project holds?

    What another model computed goes by names of its own: `forward(self, inputs_embeds)`.
    """
    table = gradient_table()
    if function.name != "forward" or table.features.search(parameter.arg):
        return False
    info = ctx.inference.class_info(owner)
    bases = [*(cls.name for cls in ctx.inference.mro(info)), *ctx.inference.external_bases(info)]
    return any(map(table.published_models.search, bases)) and not _is_held(owner, ctx)


def _is_held(owner: ast.ClassDef, ctx: Context) -> bool:
    """Does another module of the project name a class? Of one that many files mention that is taken for granted."""
    search = ctx.module.project.search(owner.name, ctx.module, _MOST_FILES)
    if search is not None and search.found is None:
        return True
    others = [ctx.module.project.at(path) for path in search.found or ()] if search is not None else []
    return any(
        around is not owner and module.inference.is_module_class(module.qualified(around))
        for module in dict.fromkeys((ctx.module, *others))
        for use in module.index.names_used.get(owner.name, ())
        if (around := module.index.class_at(use)) is not None
    )


def _starts_from_data(owner: ast.ClassDef, ctx: Context) -> bool:
    """Does a constructor name the channels of images, use tools for images, or load the weights of a whole network?"""
    table = gradient_table()
    made = ctx.inference.class_info(owner).methods.get("__init__")
    if made is None:
        return False
    for argument, default in parameters(made.args):
        if not table.image_channels.match(argument.arg):
            continue
        given = _given(argument.arg, made, owner, ctx)
        if isinstance(default, ast.Constant) and default.value in (1, 3):
            return not any(_are_features(passed, ctx) for passed in given)
        if given and all(ctx.constant(passed) in (1, 3) for passed in given):
            return True
    for call in (node for node in walk(made) if isinstance(node, ast.Call)):
        names = ctx.callees(call)
        if any(table.image_makers.match(name) for name in names):
            return True
        loads = isinstance(call.func, ast.Attribute) and call.func.attr in table.loading_methods
        if loads or _loads(call, owner, ctx):
            return True
        if _CONVOLUTIONS.intersection(names) and _takes_image(call, ctx):
            return True
    return False


def _takes_image(convolution: ast.Call, ctx: Context) -> bool:
    """`nn.Conv2d(3, 64, 7)`; one channel that stays one is no image, but a map that is smoothed or made of features."""
    channels = [ctx.constant(size) for size in convolution.args[:2]]
    return channels[:1] in ([1], [3]) and channels != [1, 1]


def _loads(call: ast.Call, owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.load_pretrained()`, a method of the class that loads its own weights."""
    method = ctx.inference.class_info(owner).methods.get(identifier(call.func)) if is_own(call.func) else None
    calls = (part for part in walk(method) if isinstance(part, ast.Call)) if method is not None else ()
    return any(is_own(part.func) and identifier(part.func) in gradient_table().loading_methods for part in calls)


def _given(name: str, made: FunctionNode, owner: ast.ClassDef, ctx: Context) -> list[ast.expr]:
    """Return what the file passes for an argument of a constructor."""
    calls = ctx.module.index.calls_by_name.get(owner.name, ())
    given = (argument_of(made, name, call, skip_self=True) for call in calls)
    return [passed for passed in given if passed is not None]


def _are_features(channels: ast.expr, ctx: Context) -> bool:
    """`Patches()` with three channels by default, and `Patches(in_chans=dims[0])` further inside the same network?"""
    return ctx.constant(channels) not in (1, 3) and not gradient_table().image_channels.match(identifier(channels))
