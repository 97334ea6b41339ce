"""Are numbers float32 because nobody said otherwise? Asked where no dtype is in sight of what is compared."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from detlint.linter.analysis.context import Context
from detlint.linter.analysis.taken import made_by
from detlint.linter.analysis.written_here import written_out
from detlint.linter.numbers.computed import is_computed
from detlint.linter.source.nodes import walk

# Words of files whose numbers may have another dtype.
_SPEAKING = ("float64", "double", "complex128", "set_default", "gradcheck", "f64", "fp64")
# What NumPy makes is float64, and so is what torch makes of that.
_MAKING = tuple(
    f"numpy.{name}"
    for name in ("random", "array", "linspace", "logspace", "arange", "ones", "zeros", "full", "eye", "load")
)
_OF_FLOAT64 = (*_MAKING, "sklearn.", "pandas.", "scipy.io.", "scipy.stats.")
_TAKING_OFF = ("numpy", "detach", "cpu", "item", "tolist")
_SETTER = "set_default_dtype"
_MOST_FILES = 1


def has_default_dtype(sides: Iterable[ast.expr], ctx: Context) -> bool:
    """`torch.fft.irfft(spectrum).numpy()`, where neither file nor project speaks of double precision."""
    computed = [side for side in sides if is_computed(ctx.module, side)]
    if not any(_is_of_torch(side, ctx) for side in computed):
        return False
    text = ctx.module.source.text
    if any(word in text for word in _SPEAKING) or _is_made_by_numpy(computed[0], ctx):
        return False
    search = ctx.module.project.search(_SETTER, ctx.module, _MOST_FILES)
    return search is None or search.found == ()


def _is_of_torch(side: ast.expr, ctx: Context) -> bool:
    """Did torch work it out, as far as its own functions and what only tensors can do tell?"""
    return any(
        (isinstance(call.func, ast.Attribute) and call.func.attr in _TAKING_OFF)
        or any(name.startswith("torch.") for name in ctx.callees(call))
        for call in made_by(ctx.module, side)
    )


def _is_made_by_numpy(side: ast.expr, ctx: Context) -> bool:
    """Does the function around draw or write arrays of its own? Others are worked out from what it has."""
    function = ctx.function(side)
    calls = (part for part in walk(function) if isinstance(part, ast.Call)) if function is not None else ()
    made = [part for call in calls for part in (call, written_out(ctx.module, call)) if isinstance(part, ast.Call)]
    return any(name.startswith(_OF_FLOAT64) for call in made for name in ctx.callees(call))
