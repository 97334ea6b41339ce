"""Is a buffer pinned memory of the host, which a device copies into while the CPU goes on?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.as_called import functions_meant
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.returned import made_results
from detlint.linter.memory.host_copies import is_on, made_of
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# They take out of a container what was put there before.
_TAKING = frozenset({"pop", "popleft", "popitem", "get_nowait"})
_STEPS = 3  # of functions that hand buffers on


def is_pinned(buffer: ast.expr, ctx: Context, steps: int = _STEPS) -> bool:
    """Return whether a buffer is host memory that a device can copy into while the CPU goes on, or holds such.

    So is what a pool of the project gives, `pool.take(x)`, if it makes such memory where none was given back.
    """
    made = made_of(buffer, ctx)
    if made and all(_makes_pinned(node, ctx) for node in made):
        return True
    given = [
        (arm, inside) for arm, inside in _given(buffer, ctx) if identifier(getattr(arm, "func", None)) not in _TAKING
    ]
    return bool(steps and given) and all(is_pinned(arm, inside, steps - 1) for arm, inside in given)


def _given(buffer: ast.expr, ctx: Context) -> Iterator[tuple[ast.expr, Context]]:
    """Yield what a call of the project may give, as it returns it."""
    call = only_value(ctx.module, buffer) if isinstance(buffer, ast.Name) else buffer
    for inside, function in functions_meant(call, ctx) if isinstance(call, ast.Call) else ():
        for result in made_results(inside.module, function):
            yield from ((arm, inside) for arm in _arms(result, inside.module))


def _arms(result: ast.expr | None, module: Module) -> Iterator[ast.expr]:
    """Yield `spares.pop()` and `torch.empty(n)` of `spares.pop() if spares else torch.empty(n)`, also under a name."""
    known = only_value(module, result) if isinstance(result, ast.Name) else None
    made = known if known is not None else result
    if isinstance(made, ast.IfExp):
        yield from _arms(made.body, module)
        yield from _arms(made.orelse, module)
    elif made is not None:
        yield made


def _makes_pinned(node: ast.AST | None, ctx: Context) -> bool:
    if isinstance(node, (ast.ListComp, ast.DictComp)):
        return _makes_pinned(node.elt if isinstance(node, ast.ListComp) else node.value, ctx)
    if isinstance(node, (ast.List, ast.Dict)):
        held = node.elts if isinstance(node, ast.List) else node.values
        return bool(held) and all(_makes_pinned(part, ctx) for part in held)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "pin_memory":
        return True
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    pinned = given.get("pin_memory")
    return pinned is not None and (is_on(pinned, ctx) or _asks_for_device(pinned, ctx))


def _asks_for_device(test: ast.expr, ctx: Context) -> bool:
    """`values.is_cuda`, `torch.cuda.is_available()`, `device != "cpu"`: true wherever a copy takes its time."""
    if isinstance(test, ast.Name):
        made = [binding.value for binding in ctx.module.definitions(test)]
        return (
            len(made) == 1
            and isinstance(made[0], (ast.Attribute, ast.Call, ast.Compare))
            and (_asks_for_device(made[0], ctx))
        )
    if isinstance(test, ast.Compare):
        asked = (type(test.ops[0]), getattr(test.comparators[0], "value", None))
        return ast.unparse(test.left).endswith(("type", "device")) and asked in ((ast.Eq, "cuda"), (ast.NotEq, "cpu"))
    if isinstance(test, ast.Call):
        return "torch.cuda.is_available" in ctx.callees(test)
    return isinstance(test, ast.Attribute) and test.attr == "is_cuda"
