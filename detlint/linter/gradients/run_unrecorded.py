"""Does a project run a part of its models only where gradients are turned off, whatever else it trains?

`self.vocoder = Vocoder()` in a model, and `self.vocoder(x)` under inference_mode wherever the project calls it.
"""

from __future__ import annotations

import ast

from detlint.linter.analysis.project import Module
from detlint.linter.gradients.served import uses_of_definition
from detlint.linter.programs.evaluation import without_gradients
from detlint.linter.source.nodes import identifier, is_own

# Files that may call a part by its name; a name that more hold is that of any part.
_MOST_FILES = 8
# What is asked of a part, or done to it, that runs none of it.
_NOT_RUNNING = frozenset({"eval", "load_state_dict", "device", "dtype"})


def is_only_run_unrecorded(part: tuple[Module, ast.ClassDef]) -> bool:
    """Return whether models keep a layer under names whose calls in the project all drop gradients, and there are some.

    One use that keeps it another way, or hands it on, and nothing is known.
    """
    module, owner = part
    names: set[str] = set()
    for use in uses_of_definition(module, owner):
        name = _kept_as(*use) if use is not None else ""
        if not name:
            return False
        names.add(name)
    return bool(names) and _calls_itself_unrecorded(owner, module) and all(_is_run_so(name, module) for name in names)


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


def _is_run_so(name: str, module: Module) -> bool:
    search = module.project.search(name, module, _MOST_FILES)
    if search is None or search.found is None:
        return False
    calls = 0
    for path in search.found:
        other = module.project.at(path)
        for use in other.index.names_used.get(name, ()):
            if not isinstance(use, ast.Attribute) or isinstance(use.ctx, ast.Store):
                continue
            parent = other.index.parents.get(use)
            if isinstance(parent, ast.Attribute) and parent.attr in _NOT_RUNNING:
                continue
            if not without_gradients(other, use):
                return False
            calls += isinstance(parent, ast.Call) and parent.func is use
    return calls > 0
