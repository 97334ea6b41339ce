"""What is taken for a layer, or for a model of torchvision, by the name that it is looked up or called by."""

from __future__ import annotations

import ast

from detlint.linter.analysis.module import Module
from detlint.linter.source.nodes import identifier

# How names of what makes layers end: `norm_layer(8)`, `props["dropout_op"](p=0.1)`, `backbone_fn(deploy)`.
_MAKES_LAYERS = ("_layer", "_cls", "_op", "_fn", "norm", "block")
# What these make depends on no mode: `act_layer()`, `init_fn(weight)`.
_MAKES_OTHERS = ("act", "conv", "linear", "nonlin", "loss", "init")


def from_torchvision_by_name(module: Module, call: ast.Call) -> bool:
    """`models.__dict__[name]()` and `getattr(models, name)()`: most models of torchvision normalise batches."""
    return "torchvision.models" in looked_up_in(module, call.func)


def is_layer_by_name(module: Module, call: ast.Call) -> bool:
    """`getattr(nn, kind)(8, 8, dropout=0.1)`, at once or through a variable."""
    function = call.func
    values = [binding.value for binding in module.definitions(function)] if isinstance(function, ast.Name) else []
    return any("torch.nn" in looked_up_in(module, place) for place in (function, *filter(None, values)))


def looked_up_in(module: Module, node: ast.expr) -> tuple[str, ...]:
    """Return what `getattr(models, name)` and `models.__dict__[name]` take something of by its name."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
        return module.inference.resolve(node.value.value)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and node.args:
        return module.inference.resolve(node.args[0])
    return ()


def may_make_a_layer(call: ast.Call) -> bool:
    """`Block(…)`, `norm_layer(…)`, `props["norm_op"](…)`, `build_encoder(…)` of no known origin."""
    function = call.func
    key = function.slice if isinstance(function, ast.Subscript) else None
    name = str(key.value) if isinstance(key, ast.Constant) else identifier(function)
    if isinstance(function, ast.Attribute) and name[:1].islower():
        return name.startswith(("from_", "create_", "build", "make_", "load_")) and name != "load_state_dict"
    makes = name.endswith(_MAKES_LAYERS) and not name.startswith(_MAKES_OTHERS)
    return name[:1].isupper() or makes or name.startswith(("build", "make_"))
