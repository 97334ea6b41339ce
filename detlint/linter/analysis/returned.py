"""What does a function of the project give back, as it is written in its `return` statements?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.names import FUNCTIONS

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context


def returned_by(names: tuple[str, ...], ctx: Context) -> list[tuple[ast.expr, Context]] | None:
    """Return each expression that a called function returns, with the context of its file; [] where that is nothing.

    `names` are what the call may refer to. None if that is not a function of the project, and no other.
    """
    definitions = [ctx.module.project.definition(name) for name in names]
    if len(definitions) != 1 or definitions[0] is None or not isinstance(definitions[0][1], FUNCTIONS):
        return None
    inside = ctx.elsewhere(definitions[0][0])
    statements = inside.module.flow(inside.module.index.scopes[definitions[0][1]]).returns()
    return [(statement.value, inside) for statement in statements if statement.value is not None]
