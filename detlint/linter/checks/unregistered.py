"""Layers that no switch of the mode reaches: their module does not know of them, or keeps the switch to itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.conditions import Truth
from detlint.findings import Finding
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.layers import ModelParts
from detlint.linter.modes.unregistered import PlainContainer
from detlint.linter.source.names import LOOPS, FunctionNode, parameters
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk

_SWITCHES = frozenset({"train", "eval"})
_WHOLE = "super()"
# Methods that reach all parts of a module.
_FOR_ALL = frozenset({"super", "apply", "children", "modules", "named_children", "named_modules"})
_MODES = frozenset({"mode", "training", "is_train"})


@check("DET203", nodes=(ast.ClassDef,))
def modules_in_plain_container(owner: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
    """`self.blocks = [Block() for _ in range(6)]`, where blocks hold dropout and forward calls them."""
    info = ctx.inference.class_info(owner)
    containers = {name: held for name in info.attributes if (held := PlainContainer(info, name, ctx)).is_plain}
    if not containers or not ctx.inference.is_module_class(info.name) or is_test_file(ctx.module):
        return
    for name, container in containers.items():
        if container.is_kept_away and not _has_switch_of_its_own(info):
            yield ctx.finding(
                ctx.statement(info.attributes[name][0].value),
                layer=f"the modules in self.{name}",
                reason="a plain list, tuple or dict registers nothing",
            )


def _has_switch_of_its_own(info: ClassInfo) -> bool:
    """`def train(self, mode)`, which may go through the list; `self.eval()` of `nn.Module` does not."""
    ancestors = info.module.inference.mro(info)
    return any(not _SWITCHES.isdisjoint(ancestor.methods) for ancestor in ancestors)


@check("DET203", nodes=(ast.ClassDef,))
def mode_not_handed_on(owner: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
    """A `train(mode)` of its own that never calls the one of `nn.Module`: `eval()` is `train(False)`.

    Or one that switches a part to train mode whatever it is asked. One that does nothing, or calls `self.eval()`, keeps
    a frozen model in its mode on purpose.
    """
    method = next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "train"), None)
    mode = [parameter.arg for parameter, _ in parameters(method.args)][1:] if method is not None else []
    if method is None or len(mode) != 1 or mode[0] not in _MODES or is_test_file(ctx.module):
        return
    kept, left = next(_kept_in_train_mode(method), ""), next(_parts_left_out(method, owner, ctx), "")
    if kept:
        reason = f"train() is overwritten, and calls {kept}.train() whatever the mode"
        kept = kept if kept != _WHOLE else f"the layers of {owner.name}"
    elif left:
        reason = "train() is overwritten, and hands the mode on to other parts alone"
    elif _does_something(method) and not _hands_on(method, mode[0]):
        reason = "train() is overwritten, and never calls super().train(mode)"
    else:
        return
    info = ctx.inference.class_info(owner)
    if ctx.inference.is_module_class(info.name) and ModelParts().of_class(info) is not Truth.NO:
        yield ctx.finding(method, layer=kept or left or f"the layers of {owner.name}", reason=reason)


def _kept_in_train_mode(method: ast.FunctionDef) -> Iterator[str]:
    """Yield the `self.encoder` of a step `self.encoder.train()`, or `super()`, before any branch of the method."""
    for step in method.body:
        call = step.value if isinstance(step, ast.Expr) else None
        switch = call.func if isinstance(call, ast.Call) and not arguments_of(call) else None
        model = switch.value if isinstance(switch, ast.Attribute) and switch.attr == "train" else None
        if model is not None and (is_own(model) or ast.unparse(model) == _WHOLE):
            yield ast.unparse(model)
        elif not isinstance(step, (ast.Expr, ast.Assign, ast.AnnAssign)):
            return


def _parts_left_out(method: ast.FunctionDef, owner: ast.ClassDef, ctx: Context) -> Iterator[str]:
    """Yield the `self.encoder` that a method leaves out which switches parts one by one, and calls nothing for all.

    Not one that something else in the class switches.
    """
    if any(isinstance(part, (*LOOPS, ast.comprehension, ast.If)) for part in walk(method)):
        return
    switches = [part for part in walk(owner) if isinstance(part, ast.Call) and identifier(part.func) in _SWITCHES]
    switched = {ast.unparse(call.func.value) for call in switches if isinstance(call.func, ast.Attribute)}
    inside = [part for part in walk(method) if isinstance(part, ast.Call)]
    if _FOR_ALL.intersection(identifier(call.func) for call in inside) or not set(switches).intersection(inside):
        return
    for name, writes in ctx.inference.class_info(owner).attributes.items():
        made = [write.value for write in writes if isinstance(write.value, ast.Call) and not write.index]
        parts = (ModelParts(functional=False).made_by(ctx.module, call) for call in made)
        if f"self.{name}" not in switched and len(made) == len(writes) == 1 and Truth.YES in parts:
            yield f"self.{name}"


def _does_something(method: FunctionNode) -> bool:
    return any(not isinstance(step, (ast.Return, ast.Pass, ast.Raise)) for step in method.body[_documented(method) :])


def _documented(method: FunctionNode) -> bool:
    return ast.get_docstring(method) is not None


def _hands_on(method: FunctionNode, mode: str) -> bool:
    """Does a method set `training`, switch something to the mode, or give the mode to anything?"""
    for part in walk(method):
        if isinstance(part, ast.Attribute) and part.attr == "training" and isinstance(part.ctx, ast.Store):
            return True
        if isinstance(part, ast.Call):
            switched = identifier(part.func)
            given = any(
                isinstance(name, ast.Name) and name.id == mode for value in arguments_of(part) for name in walk(value)
            )
            if given or switched == "train" or (switched == "eval" and ast.unparse(part.func) == "self.eval"):
                return True
    return False
