"""Is an attribute that starts as fresh memory ever initialised? Looks at its class and at the file around it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.fresh_memory import Fate, fate

if TYPE_CHECKING:
    from detlint.linter.context import Context

# Models of such bases are made to be loaded.
_LOADED = re.compile(r"(PreTrainedModel|PretrainedModel|ModelMixin|HubMixin)$")
# Code of such names initialises or loads every parameter of a module, whatever they are called.
_INITIALISES = re.compile(
    r"^_*(init|initiali[sz]e|reset|load)|init_weights|_init|from_pretrained|load_state_dict|post_init|reset_param|"
    r"named_parameters|state_dict|from_checkpoint",
    re.IGNORECASE,
)
_ALL_PARAMETERS = frozenset({"parameters", "named_parameters", "apply", "modules", "named_modules", "setattr"})


def unwritten_attribute(name: str, made: ast.AST, ctx: Context) -> ast.expr | None:
    """Return the expression that reads the attribute `name` of the class around `made`, if nothing ever writes it."""
    index = ctx.module.index
    owner = index.class_at(made)
    if owner is None or _is_initialised_elsewhere(owner, ctx):
        return None
    read: ast.expr | None = None
    for node in index.of_type(ast.Attribute):
        if node.attr != name:
            continue
        if not isinstance(node.ctx, ast.Load):
            if node is not made and not _keeps_a_part(node, name, ctx):
                return None
            continue
        outcome, place = fate(node, ctx)
        if outcome in (Fate.WRITTEN, Fate.STORED):
            return None
        if outcome is Fate.READ and read is None and index.class_at(node) is owner:
            read = place
    return read


def _keeps_a_part(target: ast.Attribute, name: str, ctx: Context) -> bool:
    """`self.mean = 0.9 * self.mean + …` starts from what is there."""
    statement = ctx.statement(target)
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AugAssign):
        return True
    return isinstance(value, ast.expr) and any(
        isinstance(part, ast.Attribute) and part.attr == name for part in ast.walk(value)
    )


def _is_initialised_elsewhere(owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether the file holds code that may initialise any attribute: an init hook, a checkpoint, a loop."""
    index = ctx.module.index
    inference = ctx.inference
    info = inference.class_info(owner)
    bases_known = inference.external_bases(info) or not info.node.bases
    if not bases_known or any(base != "torch.nn.Module" for base in inference.external_bases(info)):
        return True
    bases = (base for other in index.of_type(ast.ClassDef) for base in other.bases)
    if any(_LOADED.search(name) for base in bases for name in (*ctx.resolve(base), ast.unparse(base))):
        return True
    names = {function.name for function in index.of_type(ast.FunctionDef)} | set(index.calls_by_name)
    return bool(_ALL_PARAMETERS.intersection(index.calls_by_name)) or any(
        _INITIALISES.search(name) and name != "__init__" for name in names
    )
