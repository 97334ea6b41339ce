"""Does a call give memory with elements that nobody wrote: `torch.empty(3)`, `torch.Tensor(3, 4)`?"""

from __future__ import annotations

import ast
import re

from detlint.linter.analysis.context import Call, Context
from detlint.linter.analysis.values import Kind
from detlint.linter.indices.no_elements import has_no_elements
from detlint.linter.programs.meta_device import has_form_alone
from detlint.linter.source.nodes import identifier, walk

_CONSTRUCTORS = re.compile(r"^torch\.(cuda\.)?\w*Tensor$")
# What takes sizes: functions where more than one argument is given, and layers.
_FACTORIES = re.compile(r"^torch\.((cuda\.)?\w*Tensor|empty|zeros|ones|randn?)$")
_SIZED = re.compile(r"^torch\.nn\.(Linear|Bilinear|Conv\w+|Embedding|LayerNorm|BatchNorm\w+|LSTM|GRU|RNN)$")
_SIZE_NAME = re.compile(r"(^|_|\.)(num|n|in|out)_\w+[^_]$|(^|_|\.)(dim|size|channels|units|width|heads|hidden)$")
_OBJECTS = frozenset({"builtins.object", "numpy.object_", "numpy.object"})
_BEFORE_BUFFER = 2  # `numpy.ndarray(shape, dtype, buffer)`
# What takes whole numbers only, and what those are called that lists of data never are.
_COUNTED = frozenset({"builtins.range", "torch.arange", "torch.randperm", "numpy.arange"})
_COUNT_NAME = re.compile(r"^n$|(^|_)(num|n)_\w+[^s]s$|(^|_)(batch|hidden|vocab|embed|embedding)_(size|dim)$")
# What several sizes are called: `torch.FloatTensor(*shape)`.
_SHAPE_NAME = re.compile(r"(^|_)(shape|sizes?|dims?)$")


def is_fresh(call: Call, ctx: Context) -> bool:
    """Return whether the call gives memory with elements that nobody wrote."""
    node = call.node
    if has_form_alone(node, ctx, call.written) or has_no_elements(node, ctx) or _stands_for_a_shape(node, ctx):
        return False
    if call.name.startswith("numpy."):
        return not (_is_given_memory(call) or _is_placeholder(node) or _holds_objects(node, ctx))
    if _CONSTRUCTORS.match(call.name) or call.name == "torch.Tensor.new":
        return takes_sizes(node, ctx)
    return not call.name.endswith(".resize_") or _grows(node, ctx)


def _is_given_memory(call: Call) -> bool:
    """`np.ndarray(shape, buffer=shared.buf)`: what is there already."""
    named = any(keyword.arg in ("buffer", None) for keyword in call.node.keywords)
    return call.name == "numpy.ndarray" and (named or len(call.node.args) > _BEFORE_BUFFER)


def _is_placeholder(node: ast.Call) -> bool:
    """`labels = np.ndarray([])`, of no dimension, until there are some."""
    shape = node.args[0] if node.args else None
    return isinstance(shape, ast.List) and not shape.elts


def _holds_objects(node: ast.Call, ctx: Context) -> bool:
    """`np.empty(n, dtype=object)` holds None everywhere."""
    named = [keyword.value for keyword in node.keywords if keyword.arg == "dtype"]
    return any(
        not _OBJECTS.isdisjoint(ctx.resolve(dtype)) or ctx.constant(dtype) in ("object", "O")
        for dtype in (*named, *node.args[1:2])
    )


def _grows(node: ast.Call, ctx: Context) -> bool:
    """`torch.empty(0).resize_(n, 4)`: other tensors may just get another shape."""
    resized = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    made = [value.node for value in ctx.values(resized)]
    return any(isinstance(part, ast.Call) and (not part.args or has_no_elements(part, ctx)) for part in made)


def _stands_for_a_shape(node: ast.Call, ctx: Context) -> bool:
    """`torch.empty(1).expand(n, m)`: places that are one and the same in memory are not there to be filled."""
    view = ctx.parent(node)
    return isinstance(view, ast.Attribute) and view.attr in ("expand", "expand_as")


def takes_sizes(node: ast.Call, ctx: Context) -> bool:
    """Return whether a constructor is given sizes: `torch.Tensor(3, 4)`, `torch.Tensor(x.size())`; or data."""
    if not node.args or node.keywords:
        return not node.args and [keyword.arg for keyword in node.keywords] == ["size"]
    if len(node.args) > 1:
        return not any(isinstance(argument, (ast.List, ast.Tuple)) for argument in node.args)
    only = node.args[0]
    if isinstance(only, ast.Starred):
        return _SHAPE_NAME.search(identifier(only.value)) is not None or _gives_sizes(only.value)
    if _gives_sizes(only):
        return True
    values = ctx.values(only)
    if all(value.kind is Kind.NUMBER and value.dtype != "float" for value in values):
        return True
    return all(value.kind in (Kind.NUMBER, Kind.UNKNOWN) for value in values) and _is_size(only, node, ctx)


def _gives_sizes(node: ast.expr) -> bool:
    """`x.size()`, `x.size(0)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size"


def _is_size(node: ast.expr, made: ast.Call, ctx: Context) -> bool:
    """Is a variable no data? The function counts with it, uses it as one size of several, or gives it to a layer.

    Or it is called after a size that a weight has: `nn.Parameter(torch.Tensor(out_features))`, or after a number.
    """
    function = ctx.function(node)
    if not isinstance(node, (ast.Name, ast.Attribute)) or function is None:
        return False
    binding = ctx.binding(made)
    uses = list(ctx.flow(made).uses(binding)) if binding is not None else [made]
    text, user = ast.unparse(node), ctx.parent(uses[0]) if len(uses) == 1 else None
    if _SIZE_NAME.search(text) and isinstance(user, ast.Call) and "torch.nn.Parameter" in ctx.callees(user):
        return True
    if _COUNT_NAME.search(text):
        return True
    calls = (part for part in walk(function) if isinstance(part, ast.Call))
    return any(
        any(ast.unparse(argument) == text for argument in call.args[:2])
        and any(_takes_number(name, call) for name in ctx.callees(call))
        for call in calls
    )


def _takes_number(name: str, call: ast.Call) -> bool:
    """`range(n)`, `nn.Linear(n, m)`, `torch.zeros(n, m)`."""
    return name in _COUNTED or bool(_SIZED.match(name)) or (bool(_FACTORIES.match(name)) and len(call.args) > 1)
