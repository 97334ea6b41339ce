"""What is called, going by its name: does it hold weights, and is what it gives new, or made of integers?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.nodes import identifier
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Methods of a batch that give one of its entries, or what stands in for it.
LOOK_UPS = frozenset({"get", "pop", "setdefault"})
# Endings of methods that give what an object holds: `net.named_parameters()`.
_HELD = ("parameters", "parameter", "modules", "children", "buffers", "items", "values")
_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in ("enumerate", "float", "int", "len", "list", "max", "min", "range", "reversed", "sum", "tuple", "zip")
)


def computes(name: str) -> bool:
    """Return whether what is called outside the project holds no weights: of builtins, torch, einops or math."""
    owner, _, last = name.rpartition(".")
    if last == "__call__":
        return gradient_table().weightless_layers.match(owner) is not None
    if name in _BUILTINS or owner in ("math", "einops", "torchvision.transforms.functional"):
        return True
    layer = owner.rpartition(".")[2][:1].isupper() and not owner.endswith(".Tensor")
    return name.startswith("torch.") and not layer and owner != "torch.nn.init" and last.islower()


def computes_anew(call: ast.Call, names: tuple[str, ...]) -> bool:
    """Does a call give new tensors, not those that a model or a list holds, nor a model: `self.teacher(x)`?"""
    last = identifier(call.func)
    held = last in LOOK_UPS or last.endswith(_HELD) or any(name.startswith("builtins.") for name in names)
    return not held and not last[:1].isupper()


def is_function(name: str) -> bool:
    """`torch.cat`, or a layer that is called; not `torch.Tensor.view` or `torch.nn.Conv2d.weight.view`."""
    return name.endswith(".__call__") or not any(part[:1].isupper() for part in name.split("."))


def gives_positions(call: ast.expr, ctx: Context) -> bool:
    """`values, places = scores.topk(k)`: the second result holds integers, whatever is known of the first."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    names = ctx.callees(call)
    ours = all(name.startswith("torch.") for name in names)
    return ours and call.func.attr in ctx.inference.types.with_positions
