"""How many dimensions does a tensor have? Told from how it is reshaped, unpacked, indexed, or which layer made it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.resolution import instance_attribute
from detlint.linter.analysis.returned import returned_by
from detlint.linter.analysis.table_calls import calls_by_table
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.indices.segmenting import gives_pixel_scores, is_entry_of_scores
from detlint.linter.source.names import FUNCTIONS, BindingKind
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_MAX_STEPS = 16
_SAME = frozenset(
    {
        "float",
        "half",
        "long",
        "int",
        "bool",
        "to",
        "cuda",
        "cpu",
        "contiguous",
        "detach",
        "clone",
        "transpose",
        "softmax",
    }
    | {"log_softmax", "relu", "sigmoid", "tanh", "type", "double", "log", "exp", "clamp", "type_as"}
)
_REDUCING = frozenset({"argmax", "argmin", "sum", "mean", "prod", "amax", "amin", "logsumexp", "any", "all"})
_SIZED = frozenset({"view", "reshape", "permute", "expand", "repeat", "new_zeros", "new_ones", "new_empty"})
_SAME_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}" for name in ("softmax", "log_softmax", "relu", "gelu", "dropout", "sigmoid", "linear")
) | frozenset(
    f"torch.{name}"
    for name in (
        *("softmax", "log_softmax", "sigmoid", "relu", "log", "exp", "clamp", "abs", "sqrt"),
        *("argsort", "cumsum", "flip", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"),
    )
)
_REARRANGING = frozenset({"einops.rearrange", "einops.reduce", "einops.repeat"})
# Layers and functions of a kind of data; some of one dimension take rows as well.
_SPATIAL = re.compile(
    r"torch\.nn\.(functional\.)?((Adaptive|Fractional|Lazy)?(Avg|Max|LP)?(Conv|ConvTranspose|Pool)[123]d"
    r"|(BatchNorm|InstanceNorm)[23]d|Upsampling(Bilinear|Nearest)2d|(Zero|Reflection|Replication|Constant)Pad[23]d|(conv|conv_transpose|(adaptive_)?(avg|max)_pool)[123]d)"
)
_SAME_LAYERS = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("Linear", "LayerNorm", "Dropout", "Identity", "Softmax", "LogSoftmax", "Sigmoid", "Tanh"),
        *("ReLU", "ReLU6", "LeakyReLU", "ELU", "GELU", "SiLU", "PReLU", "Mish", "Hardswish", "Softplus"),
    )
)
_BY_LAYER = {"1d": 3, "2d": 4, "3d": 5}
_BY_MODE = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
# A target of this name holds a class for every pixel: batch, height, width.
_PIXELS = re.compile(
    r"(^|_)(masks?|seg|segmentations?|segs|semantic|pixel_labels?|label_maps?|labelmaps?)(_|\d|$)", re.IGNORECASE
)


def dimensions(node: ast.expr, ctx: Context, steps: int = _MAX_STEPS) -> int | None:
    """Return the number of dimensions of a tensor expression, or None where that cannot be told."""
    if steps == 0:
        return None
    asked = _asked(node, ctx) if isinstance(node, (ast.Name, ast.Attribute)) else None
    if asked is not None:
        return asked
    if isinstance(node, ast.Name):
        return _of_name(node, ctx, steps)
    if isinstance(node, ast.Attribute):
        kept = only_value(ctx.module, node)
        return dimensions(kept, ctx, steps - 1) if kept is not None else None
    if isinstance(node, ast.Call):
        return _of_call(node, ctx, steps)
    if isinstance(node, ast.Subscript):
        return _of_item(node, ctx, steps)
    if isinstance(node, ast.BinOp):
        sides = [dimensions(side, ctx, steps - 1) for side in (node.left, node.right)]
        return max((side for side in sides if side is not None), default=None)
    return None


def names_pixels(node: ast.expr, ctx: Context, calls: int = 1) -> bool:
    """Return whether a target is named after segmentation: `true_masks`, `batch["mask"]`, `seg_label.long()`.

    The target of a function may be so where it is called: `class_loss(logits, change_mask)`.
    """
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            node = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if isinstance(node.slice.value, str):
                return bool(_PIXELS.search(node.slice.value))
            node = node.value
        else:
            break
    if isinstance(node, (ast.Name, ast.Attribute)) and _PIXELS.search(identifier(node)):
        return True
    passed = _passed_for(node, ctx) if isinstance(node, ast.Name) and calls else ()
    return any(names_pixels(argument, inside, calls - 1) for argument, inside in passed)


def _passed_for(name: ast.Name, ctx: Context) -> Iterator[tuple[ast.expr, Context]]:
    """Yield what calls in the project pass for a parameter."""
    found = ctx.module.definitions(name)
    function = found[0].scope.node if len(found) == 1 and found[0].kind is BindingKind.PARAMETER else None
    if not isinstance(function, FUNCTIONS):
        return
    by_table = ((ctx.elsewhere(module), call) for module, call in calls_by_table(ctx.module, function))
    for site in (*calls_of(function, ctx), *by_table):
        if site is not None:
            inside, call = site
            argument = argument_of(function, name.id, call, skip_self=True)
            if argument is not None:
                yield argument, inside


def _asked(node: ast.expr, ctx: Context) -> int | None:
    """Return what a condition around says: `if logits.dim() == 2:`, `assert x.ndim == 4`, `len(x.shape) == 3`."""
    text = ast.unparse(node)
    measures = (f"{text}.dim()", f"{text}.ndim", f"{text}.ndimension()", f"len({text}.shape)", f"len({text}.size())")
    for test, holds in ctx.module.index.facts_around(node):
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and ast.unparse(test.left) in measures:
            number = ctx.constant(test.comparators[0])
            same = isinstance(test.ops[0], ast.Eq if holds else ast.NotEq)
            if same and isinstance(number, int):
                return number
    return None


def _of_name(node: ast.Name, ctx: Context, steps: int) -> int | None:
    bindings = ctx.module.definitions(node)
    found: set[int | None] = set()
    for binding in bindings:  # of several, each takes a step, so that there are never many of them
        told = binding.value is not None and not binding.index and isinstance(ctx.parent(binding.node), ast.Assign)
        known = dimensions(binding.value, ctx, max(steps - len(bindings), 0)) if told and binding.value else None
        found.add(known)
        if known is None or len(found) > 1:
            break
    only = found.pop() if len(found) == 1 else None
    if only is None:
        only = _unpacked(node, ctx)
    return _of_passed(node, ctx, steps) if only is None else only


def _of_passed(name: ast.Name, ctx: Context, steps: int) -> int | None:
    """Return what all calls in sight give for a parameter: `loss(net(x), y)` of `def loss(logits, target):`."""
    passed = list(_passed_for(name, ctx))
    return _agreed(dimensions(argument, inside, max(steps - len(passed), 1) - 1) for argument, inside in passed)


def _unpacked(node: ast.Name, ctx: Context) -> int | None:
    """`n, c, h, w = x.shape` in the same function."""
    function = ctx.function(node)
    for statement in ctx.module.index.of_type(ast.Assign):
        target = statement.targets[0]
        if not isinstance(target, ast.Tuple) or any(isinstance(e, ast.Starred) for e in target.elts):
            continue
        value = statement.value
        if isinstance(value, ast.Call) and not value.args:
            value = value.func
        if (
            isinstance(value, ast.Attribute)
            and value.attr in ("shape", "size")
            and isinstance(value.value, ast.Name)
            and value.value.id == node.id
            and ctx.function(statement) is function
        ):
            return len(target.elts)
    return None


def _of_call(node: ast.Call, ctx: Context, steps: int) -> int | None:
    names = ctx.callees(node)
    if any(name in ("torch.nn.functional.interpolate", "torch.nn.functional.upsample") for name in names):
        return _of_scaled(node, node, ctx, steps)
    if any(_SPATIAL.fullmatch(name) for name in names):
        return _BY_LAYER.get(names[0][-2:])
    if _REARRANGING.intersection(names):
        return _rearranged(node, ctx, steps)
    if "torch.einsum" in names:
        return _summed(node, ctx)
    if _SAME_FUNCTIONS.intersection(names):
        return dimensions(node.args[0], ctx, steps - 1) if node.args else None
    layers = [value for value in ctx.values(node.func) if value.kind is Kind.MODULE]
    if layers and all(layer.type.startswith("torch.nn.") for layer in layers):
        return _agreed(_of_layer(layer, node, ctx, steps) for layer in layers)
    given = returned_by(tuple(re.sub(r"\.__call__$", ".forward", name) for name in names), ctx)
    if given is not None:
        return _agreed(dimensions(value, inside, steps - 1) for value, inside in given)
    if not names and gives_pixel_scores(node.func, ctx):
        return _BY_LAYER["2d"]
    if isinstance(node.func, ast.Name):
        return _agreed(_of_handed_models(node.func, node, ctx, steps))
    if isinstance(node.func, ast.Attribute) and not any(name.startswith("torch.nn.") for name in names):
        return _of_method(node, node.func, ctx, steps)
    return None


def _agreed(answers: Iterable[int | None]) -> int | None:
    found = set(answers)
    return found.pop() if len(found) == 1 else None


def _of_handed_models(name: ast.Name, call: ast.Call, ctx: Context, steps: int) -> Iterator[int | None]:
    """Yield what `net(x)` gives for each model that callers of the function around hand it as `net`."""
    for argument, inside in _passed_for(name, ctx):
        if gives_pixel_scores(argument, inside):
            yield _BY_LAYER["2d"]
            continue
        for model in inside.values(argument):
            if model.kind is not Kind.MODULE:
                yield None
            elif model.type.startswith("torch.nn."):
                yield _of_layer(model, call, ctx, steps - 1)
            else:
                forward = tuple(instance_attribute(inside.inference, model.type, "forward"))
                given = returned_by(forward, inside) or ()
                yield _agreed(dimensions(value, where, steps - 1) for value, where in given)


def _of_scaled(made: ast.Call, call: ast.Call, ctx: Context, steps: int) -> int | None:
    """Return what `F.interpolate(x, mode="bilinear")` gives: its mode may tell; `made` is what the mode is given to."""
    mode = next((keyword.value for keyword in made.keywords if keyword.arg == "mode"), None)
    told = _BY_MODE.get(str(ctx.constant(mode)))
    return told if told is not None or not call.args else dimensions(call.args[0], ctx, steps - 1)


def _of_method(node: ast.Call, function: ast.Attribute, ctx: Context, steps: int) -> int | None:
    name = function.attr
    if name in _SIZED:
        sizes = node.args
        if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
            sizes = sizes[0].elts
        known = sizes and not any(isinstance(size, ast.Starred) for size in sizes)
        return len(sizes) if known and (len(sizes) > 1 or ctx.is_kind(sizes[0], Kind.NUMBER) is Truth.YES) else None
    if name == "flatten":
        start = ctx.constant(node.args[0]) if len(node.args) == 1 else 0 if not node.args else None
        return start + 1 if isinstance(start, int) and start >= 0 else None
    before = dimensions(function.value, ctx, steps - 1)
    if before is None and name == "transpose":
        return _swapped(node, ctx)
    if before is None or name in _SAME:
        return before
    if name == "unsqueeze":
        return before + 1
    if name == "squeeze":
        return before - 1 if node.args else None
    reduced = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("dim", "axis"))]
    if name not in _REDUCING or len(node.args) + len(node.keywords) != 1 or len(reduced) != 1:
        return None
    return before - (len(reduced[0].elts) if isinstance(reduced[0], (ast.Tuple, ast.List)) else 1)


def _swapped(node: ast.Call, ctx: Context) -> int | None:
    """`x.transpose(1, 2)` has three dimensions at least, and hardly ever more without a word of the others."""
    swapped = [ctx.constant(axis) for axis in node.args]
    counted = [axis for axis in swapped if isinstance(axis, int) and axis >= 0]
    return max(counted) + 1 if len(counted) == len(swapped) == 2 and max(counted) > 1 else None


def _of_layer(layer: Value, call: ast.Call, ctx: Context, steps: int) -> int | None:
    """Return the dimensions of what a layer of torch gives: those of its kind, or of what it is called with."""
    if _SPATIAL.fullmatch(layer.type):
        return _BY_LAYER.get(layer.type[-2:])
    if layer.type in _SAME_LAYERS:
        return dimensions(call.args[0], ctx, steps - 1) if call.args else None
    made = layer.node
    if layer.type == "torch.nn.Upsample" and isinstance(made, ast.Call):
        return _of_scaled(made, call, ctx, steps)
    if layer.type != "torch.nn.Sequential" or not isinstance(made, ast.Call) or layer.module is None:
        return None
    for part in reversed(made.args):
        for value in layer.module.inference.values(part):
            if value.kind is not Kind.MODULE or value.type not in _SAME_LAYERS:
                return _of_layer(value, call, ctx, steps - 1) if value.kind is Kind.MODULE and steps > 1 else None
    return None


def _rearranged(node: ast.Call, ctx: Context, steps: int) -> int | None:
    """`rearrange(x, "b n ... -> b (...) n")`: one for each axis or group of them on the right."""
    pattern = ctx.constant(node.args[1]) if len(node.args) > 1 else None
    if not isinstance(pattern, str) or "->" not in pattern:
        return None
    before, after = (re.findall(r"\([^()]*\)|\w+|\.\.\.", side) for side in pattern.split("->", 1))
    if "..." not in after:
        return len(after)
    known = dimensions(node.args[0], ctx, steps - 1) if "..." in before else None
    return None if known is None else known - len(before) + len(after)


def _summed(node: ast.Call, ctx: Context) -> int | None:
    """`torch.einsum("bij, bjk -> bik", x, y)`."""
    pattern = ctx.constant(node.args[0]) if node.args else None
    if not isinstance(pattern, str) or "->" not in pattern or "..." in pattern:
        return None
    return len(pattern.partition("->")[2].replace(" ", ""))


def _of_item(node: ast.Subscript, ctx: Context, steps: int) -> int | None:
    """A list of rows, or a mask of them, leaves as many dimensions as there were."""
    if is_entry_of_scores(node, ctx):
        return _BY_LAYER["2d"]
    before = dimensions(node.value, ctx, steps - 1)
    if before is None:
        return None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...):
            continue
        value = ctx.constant(part)
        if value is None:
            before += 1
        elif isinstance(value, int):
            before -= 1
        elif dimensions(part, ctx, steps - 1) != 1:
            return None
    return before
