"""Is a tensor there for its form alone: on the meta device, or in its stead where work is said to be there?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.guards import is_settled
from detlint.linter.programs.devices import device_around, named_device
from detlint.linter.programs.off_cuda import device_asked
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import arguments_of, decorating, identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_META = "meta"
# What torch calls registering a function that works out the form of a result.
_FOR_FORMS = frozenset({"register_fake", "register_meta", "impl_abstract"})


def has_form_alone(made: ast.Call, ctx: Context, written: ast.Call | None = None) -> bool:
    """`torch.rand(8, device="meta")`, `torch.rand(8).to("meta")`, and what is made under `if get_device() == "meta":`.

    What a graph is traced with there need not be on that device itself. Where one tensor is there, another is made on a
    real device to take its place, and has values. `written` is the call with its options in full.
    """
    device = next((word.value for word in (written or made).keywords if word.arg == "device"), None)
    where = named_device(device, ctx) if device is not None else device_around(made, ctx)
    return (
        where == _META
        or _is_moved_there(made, ctx)
        or _runs_on_forms(made, ctx)
        or is_settled(made, lambda test, holds: _is_meta(test, holds, device, ctx), ctx)
    )


def _runs_on_forms(made: ast.Call, ctx: Context) -> bool:
    """`@op.register_fake`, `@torch.library.impl(library, "op", "Meta")`, `op.register_fake(form_of_result)`.

    What stands in such a function is run to learn the form of what the real one gives.
    """
    return any(
        any(_registers(decorator, ctx) for decorator in function.decorator_list)
        or any(_is_registered(use, ctx) for use in ctx.module.index.names_used.get(function.name, ()))
        for function in ctx.ancestors(made)
        if isinstance(function, FUNCTIONS)
    )


def _registers(decorator: ast.expr, ctx: Context) -> bool:
    given = arguments_of(decorator) if isinstance(decorator, ast.Call) else []
    for_meta = any(isinstance(word := ctx.constant(each), str) and word.lower() == _META for each in given)
    return identifier(decorating(decorator)) in _FOR_FORMS or for_meta


def _is_registered(use: ast.AST, ctx: Context) -> bool:
    call = ctx.parent(use)
    return isinstance(call, ast.Call) and call.func is not use and _registers(call, ctx)


def _is_moved_there(made: ast.Call, ctx: Context) -> bool:
    method = ctx.parent(made)
    moved = ctx.parent(method) if isinstance(method, ast.Attribute) else None
    moves = isinstance(moved, ast.Call) and moved.func is method and identifier(method) == "to"
    return isinstance(moved, ast.Call) and moves and any(ctx.constant(place) == _META for place in arguments_of(moved))


def _is_meta(test: ast.expr, holds: bool, device: ast.expr | None, ctx: Context) -> bool:
    """`x.is_meta`, `device.type == "meta"`; not `device.type != "meta"`, nor `device in ("cpu", "meta")`.

    Another `device` that a tensor is then made on is a real one.
    """
    if isinstance(test, ast.Attribute):
        return holds and test.attr == "is_meta" and _is_left_there(test.value, device)
    found = device_asked(test, ctx) if isinstance(test, ast.Compare) else None
    if found is None:
        return False
    asked, words, alike = found
    at_work = not isinstance(asked, ast.Attribute) or bool(ctx.resolve(asked))
    return alike is holds and words == [_META] and (at_work or _is_left_there(asked, device))


def _is_left_there(asked: ast.expr, device: ast.expr | None) -> bool:
    """`device=x.device` where `x.device.type` is asked for."""
    return device is None or (isinstance(device, ast.Attribute) and _tensor(device) == _tensor(asked))


def _tensor(asked: ast.expr) -> str:
    """Return `x` of `x.device.type`."""
    while isinstance(asked, ast.Attribute) and asked.attr in ("type", "device"):
        asked = asked.value
    return ast.unparse(asked)
