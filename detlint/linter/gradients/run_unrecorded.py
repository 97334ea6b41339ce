"""Does a project run a part of its models only where gradients are turned off or in eval mode, whatever else it trains?

`self.vocoder = Vocoder()` in a model, and `self.vocoder(x)` under inference_mode wherever the project calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.module import Module
from detlint.linter.gradients.branches import is_unrecorded
from detlint.linter.gradients.frozen import is_frozen
from detlint.linter.gradients.provenance import is_data
from detlint.linter.gradients.served import uses_of_definition
from detlint.linter.gradients.unapplied import is_of_another
from detlint.linter.programs.gradients_off import without_gradients
from detlint.linter.source.nodes import arguments_of, identifier, is_own
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# Files that may call a part by its name; a name that more hold is that of any part.
_MOST_FILES = 24
_FORWARD = ("forward", "__call__")
# Layers within layers that are asked about, from the inside out.
_MAX_LAYERS = 3
# What is asked of a part, or done to it, that runs none of it.
_NOT_RUNNING = frozenset(
    {"eval", "load_state_dict", "device", "dtype", "parameters", "named_parameters", "requires_grad_"}
)


@dataclass(frozen=True, slots=True)
class Part:
    """A layer that is asked about. The answer is the same for every rule that asks, in whatever context."""

    owner: ast.ClassDef
    ctx: Context = field(compare=False)
    steps: int = _MAX_LAYERS


def is_only_run_unrecorded(part: Part) -> bool:
    """Return whether models keep a layer under names whose calls in the project all drop gradients, and there are some.

    One that they freeze may be called on data. One use that keeps it another way, or hands it on, and nothing is known.
    """
    owner, module = part.owner, part.ctx.module
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
        and all(_is_run_so(name, keeper, part) for (name, _), keeper in kept.items())
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


def _is_run_so(name: str, keeper: ClassInfo, part: Part) -> bool:
    runs = 0
    for inside in _that_may_run(name, keeper, part.ctx):
        if inside is None:
            return False
        for use in inside.module.index.names_used.get(name, ()):
            if not isinstance(use, ast.Attribute) or isinstance(use.ctx, ast.Store):
                continue
            if is_of_another(use, inside.module, keeper) or _runs_nothing(use, inside, part):
                continue
            if not _is_unrecorded(use, name, keeper, inside, part.steps - 1):
                return False
            parent = inside.parent(use)
            runs += isinstance(parent, ast.Call) or identifier(parent) == "forward"
    return runs > 0


def _that_may_run(name: str, keeper: ClassInfo, ctx: Context) -> Iterator[Context | None]:
    """Yield the files that may run what a class keeps under a name; None where too many may.

    What goes by a common name, such as `model`, is run by files that name the class which keeps it.
    """
    project = ctx.module.project
    for word in (name, keeper.node.name):
        search = project.search(word, ctx.module, _MOST_FILES)
        if search is None or search.found is not None:
            yield from (ctx.elsewhere(project.at(path)) for path in (search.found if search is not None else ()) or ())
            return
    yield None


def _runs_nothing(use: ast.Attribute, ctx: Context, part: Part) -> bool:
    """`self.head.eval()`, `if self.head is not None:`, `self.head.sparse_forward(x)`: is no `forward` run?"""
    parent = ctx.parent(use)
    if isinstance(parent, ast.Compare):
        return all(isinstance(other, ast.Constant) for other in parent.comparators)
    if not isinstance(parent, ast.Attribute) or parent.attr in _FORWARD:
        return False
    statement = ctx.module.index.statement(use)
    called = statement.value if isinstance(statement, ast.Expr) else None
    moved = isinstance(called, ast.Call) and called.func is parent and parent.attr in ctx.inference.types.module_methods
    return moved or parent.attr in _NOT_RUNNING or _holds(part, parent.attr)


def _holds(part: Part, name: str) -> bool:
    """Has a layer a method or an attribute of a name?"""
    inference = part.ctx.inference
    info = inference.class_info(part.owner)
    methods = any(name in cls.methods for cls in inference.mro(info))
    return methods or next(iter(inference.attribute_writes(info, name)), None) is not None


def _is_unrecorded(use: ast.Attribute, name: str, keeper: ClassInfo, ctx: Context, steps: int) -> bool:
    """Is a part run without gradients, or what it gives detached at once? One that is frozen may be run on data."""
    if without_gradients(ctx.module, use) or is_unrecorded(use, ctx) or _is_within_such(use, ctx, steps):
        return True
    call = ctx.parent(use)
    if not isinstance(call, ast.Call) or call.func is not use:
        return False
    if identifier(ctx.parent(call)) in gradient_table().cutting_methods and isinstance(ctx.parent(call), ast.Attribute):
        return True
    given = arguments_of(call)
    return bool(given) and is_frozen(name, keeper) and all(is_data(passed, ctx) for passed in given)


def _is_within_such(use: ast.Attribute, ctx: Context, steps: int) -> bool:
    """Does it stand in the `forward` of a layer that is itself only run without gradients?"""
    function, owner = ctx.function(use), ctx.module.index.class_at(use)
    if steps == 0 or owner is None or function is None or function.name != "forward":
        return False
    layer = ctx.inference.is_module_class(ctx.module.qualified(owner))
    return layer and ctx.module.project.once(is_only_run_unrecorded, Part(owner, ctx, steps))
