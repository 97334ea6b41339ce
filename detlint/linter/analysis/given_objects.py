"""Which objects of the project's classes do callers give a function: `fit(Net(), data)` of `def fit(model, data):`?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.source.names import FUNCTIONS

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference
    from detlint.linter.analysis.module import Module
    from detlint.linter.source.names import Binding

# Of a function that more files mention, or more calls are named like, nobody can say what it is given.
_MOST_FILES = 6
_MOST_CALLS = 16


def objects_given(inference: Inference, node: ast.arg, binding: Binding) -> Iterator[Value]:
    """Yield what calls in the project pass for a parameter, as far as these are objects of its own classes.

    Calls out of sight may pass anything else. What runs a model gives it data.
    """
    function = binding.scope.node
    if not isinstance(function, FUNCTIONS) or function.name == "forward":
        return
    owner = inference.index.class_at(function)
    called = owner if owner is not None and function.name == "__init__" else function
    if called.name.startswith("__"):
        return
    qualified = inference.module.qualified(called)
    for module, call in _calls(called.name, inference.module):
        given = argument_of(function, node.arg, call, skip_self=owner is not None)
        if given is None or qualified not in module.inference.callees(call):
            continue
        for value in module.inference.values(given):
            if value.kind in (Kind.INSTANCE, Kind.MODULE) and inference.class_named(value.type) is not None:
                yield inference.made(value.kind, node, value.type)


def _calls(name: str, home: Module) -> list[tuple[Module, ast.Call]]:
    """Return the calls in the project that are named so; none where there are too many."""
    search = home.project.search(name, home, _MOST_FILES)
    others = [home.project.at(path) for path in (search.found or ()) if path != home.path] if search is not None else []
    calls = [(module, call) for module in (home, *others) for call in module.index.calls_by_name.get(name, ())]
    return calls if len(calls) <= _MOST_CALLS else []
