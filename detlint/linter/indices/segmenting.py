"""Models of libraries that give a class for each pixel: `smp.Unet("resnet34")`, `deeplabv3_resnet50()(x)["out"]`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.only_values import only_value

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_GIVES_SCORES = re.compile(r"segmentation_models_pytorch\.[A-Z]\w*")
# These give a dictionary, with scores under each of these keys.
_GIVES_ENTRIES = re.compile(r"torchvision\.models\.segmentation\.(\w+\.)?(deeplabv3|fcn|lraspp)_\w+")
_KEYS = ("out", "aux")


def gives_pixel_scores(model: ast.expr, ctx: Context) -> bool:
    """Return whether a model gives scores of shape (N, C, H, W): `smp.Unet(classes=4).to(device)`, also by a name."""
    made = _made(model, ctx)
    # With these it gives scores of the whole image besides.
    beside = any(keyword.arg in ("aux_params", None) for keyword in made.keywords) if made is not None else True
    return made is not None and not beside and any(map(_GIVES_SCORES.fullmatch, ctx.callees(made)))


def is_entry_of_scores(entry: ast.Subscript, ctx: Context) -> bool:
    """`out["out"]` after `out = model(x)`, of a model of torchvision."""
    called = only_value(ctx.module, entry.value) if isinstance(entry.value, ast.Name) else entry.value
    made = _made(called.func, ctx) if isinstance(called, ast.Call) else None
    known = made is not None and any(map(_GIVES_ENTRIES.fullmatch, ctx.callees(made)))
    return known and getattr(entry.slice, "value", None) in _KEYS


def _made(model: ast.expr, ctx: Context) -> ast.Call | None:
    """Return the call that makes a model which a name or an attribute keeps, moved or wrapped perhaps."""
    made = only_value(ctx.module, model) if isinstance(model, (ast.Name, ast.Attribute)) else model
    types = ctx.inference.types
    while isinstance(made, ast.Call):
        if isinstance(made.func, ast.Attribute) and made.func.attr in types.module_methods:
            made = made.func.value
        elif made.args and not types.wrappers.isdisjoint(ctx.callees(made)):
            made = made.args[0]
        else:
            return made
    return None
