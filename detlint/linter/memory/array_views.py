"""Is an expression the memory of another one, seen as an array of the CPU, and does a function give that back?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.memory.host_copies import VIEWS
from detlint.linter.memory.moves import waits

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

# The same memory for code of the CPU alone, which reads it later, and what else gives no copy of it.
ARRAYS = frozenset({"numpy", "data_ptr"})
SEEN_AS = frozenset(
    {"torch.from_numpy", "torch.as_tensor", "torch.asarray", "numpy.asarray", "numpy.frombuffer", "builtins.memoryview"}
)


def is_given_back(node: ast.expr, call: ast.Call, ctx: Context) -> bool:
    """`as_array(host)` of a function of the project that returns what it is given at once: `return host.numpy()`."""
    for module, function in functions_called(ctx.inference, call):
        parameter = parameter_given(function, call, node, skip_self=isinstance(call.func, ast.Attribute))
        inside = ctx.elsewhere(module)
        results = [statement.value for statement in module.flow(module.index.scopes[function]).returns()]
        given = [result for result in results if result is not None and gives_back(result, parameter, inside)]
        if given and not waits(function):
            return True
    return False


def gives_back(result: ast.expr, parameter: str | None, ctx: Context) -> bool:
    """`return host.view(-1).numpy()`, `return np.asarray(host)`: what is returned is the same memory."""
    if not isinstance(ctx.parent(result), ast.Return):
        return False
    while isinstance(result, ast.Call):
        if isinstance(result.func, ast.Attribute) and result.func.attr in VIEWS | ARRAYS:
            result = result.func.value
        elif result.args and SEEN_AS.intersection(ctx.callees(result)):
            result = result.args[0]
        else:
            break
    return isinstance(result, ast.Name) and result.id == parameter
