"""Does a project run a part of its models only where gradients are turned off or in eval mode, whatever else it trains?

`self.vocoder = Vocoder()` in a model, and `self.vocoder(x)` under inference_mode wherever the project calls it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.project import Module
from detlint.linter.gradients.branches import is_unrecorded
from detlint.linter.gradients.frozen import is_frozen
from detlint.linter.gradients.provenance import is_data
from detlint.linter.gradients.served import uses_of_definition
from detlint.linter.gradients.unapplied import is_of_another
from detlint.linter.programs.evaluation import without_gradients
from detlint.linter.source.nodes import arguments_of, identifier, is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Files that may call a part by its name; a name that more hold is that of any part.
_MOST_FILES = 24
# What is asked of a part, or done to it, that runs none of it.
_NOT_RUNNING = frozenset(
    {"eval", "load_state_dict", "device", "dtype", "parameters", "named_parameters", "requires_grad_"}
)


@dataclass(frozen=True, slots=True)
class Part:
    """A layer that is asked about. The answer is the same for every rule that asks, in whatever context."""

    owner: ast.ClassDef
    ctx: Context = field(compare=False)


def is_only_run_unrecorded(part: Part) -> bool:
    """Return whether models keep a layer under names whose calls in the project all drop gradients, and there are some.

    One that they freeze may be called on data. One use that keeps it another way, or hands it on, and nothing is known.
    """
    ctx, owner, module = part.ctx, part.owner, part.ctx.module
    kept: dict[tuple[str, str], ClassInfo] = {}
    for use in uses_of_definition(module, owner):
        name = _kept_as(*use) if use is not None else ""
        keeper = use[0].index.class_at(use[1]) if use is not None else None
        if not name or use is None or keeper is None:
            return False
        info = use[0].inference.class_info(keeper)
        kept[name, info.name] = info
    return (
        bool(kept)
        and _calls_itself_unrecorded(owner, module)
        and all(_is_run_so(name, keeper, ctx) for (name, _), keeper in kept.items())
    )


def _kept_as(module: Module, use: ast.AST) -> str:
    """Return `vocoder` for the class in `self.vocoder = Vocoder(80)`."""
    made = module.index.parents.get(use)
    target = module.index.parents.get(made) if isinstance(made, ast.Call) and made.func is use else None
    kept = isinstance(target, ast.Assign) and len(target.targets) == 1 and is_own(target.targets[0])
    return identifier(target.targets[0]) if isinstance(target, ast.Assign) and kept else ""


def _calls_itself_unrecorded(owner: ast.ClassDef, module: Module) -> bool:
    """Do other methods of a layer run its `forward`, if at all, without gradients?"""
    calls = (call for name in ("self", "forward") for call in module.index.calls_by_name.get(name, ()))
    own = (call for call in calls if owner in module.index.ancestors(call))
    return all(without_gradients(module, call) for call in own if _is_of_self(call.func))


def _is_of_self(function: ast.expr) -> bool:
    """`self(x)`, `self.forward(x)`."""
    return (isinstance(function, ast.Name) and function.id == "self") or is_own(function)


def _is_run_so(name: str, keeper: ClassInfo, ctx: Context) -> bool:
    search = ctx.module.project.search(name, ctx.module, _MOST_FILES)
    if search is None or search.found is None:
        return False
    calls = 0
    for inside in (ctx.elsewhere(ctx.module.project.at(path)) for path in search.found):
        other = inside.module
        for use in other.index.names_used.get(name, ()):
            if not isinstance(use, ast.Attribute) or isinstance(use.ctx, ast.Store):
                continue
            if is_of_another(use, other, keeper):
                continue
            parent = other.index.parents.get(use)
            if isinstance(parent, ast.Attribute) and parent.attr in _NOT_RUNNING:
                continue
            called = isinstance(parent, ast.Call) and parent.func is use
            if not without_gradients(other, use) and not is_unrecorded(use, inside):
                given = arguments_of(parent) if isinstance(parent, ast.Call) and called else []
                if not given or not is_frozen(name, keeper) or not all(is_data(part, inside) for part in given):
                    return False
            calls += called
    return calls > 0
