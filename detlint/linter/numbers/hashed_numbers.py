"""Numbers that texts get by their hash: `hash(token) % bins` is another row of an embedding in every process."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.randomness.repeatable import hash_varies
from detlint.linter.source.nodes import identifier

# Shares of work, and names of files: whichever it is, the results are the same.
_OF_NO_MATTER = re.compile(
    r"client|server|shard|worker|rank|lock|queue|host|replica|rout|port|slot|cache|key|color|colour|name|dispatch|hash__|_id$|"
    r"^id$|path|file|dir|partition|overflow|pool|stripe|pid|bucket_of",
    re.IGNORECASE,
)
_ALWAYS_SAME = re.compile(r"(^|_)(stable|consistent|deterministic|reproducible|repeatable)_", re.IGNORECASE)
_TELLING = frozenset({"print", "debug", "info", "warning", "log"})
_TAKES = (ast.Mod, ast.BitAnd)
_BYTES = frozenset({"dumps", "encode", "tobytes", "read_bytes", "join", "str", "repr", "format"})


def hashed_numbers(module: Module) -> Iterator[ast.Call]:
    """Yield each `hash(text)` of a file that picks a number for more than names and work.

    A remainder is taken of it, or the function promises a stable number.
    """
    for call in module.index.calls_by_name.get("hash", ()):
        if "builtins.hash" not in module.inference.callees(call) or len(call.args) != 1:
            continue
        if not _is_text(module, call.args[0]):
            continue
        if _is_promised(module, call) or any(_picks(module, part) for part in _remainders(module, call)):
            yield call


def _is_promised(module: Module, call: ast.Call) -> bool:
    """`def stable_hash(name): return hash(name) & 0xFFFF`: the function says that it always gives the same number."""
    function = module.index.function_at(call)
    return function is not None and _ALWAYS_SAME.search(function.name) is not None


def _remainders(module: Module, call: ast.Call) -> Iterator[ast.BinOp]:
    """Yield `hash(x) % n`, `abs(hash(x)) % n`, `hash(x) & mask`, and `h % n` after `h = hash(x)`."""
    number, parent = call, module.index.parents.get(call)
    if isinstance(parent, ast.Call) and identifier(parent.func) in ("abs", "int"):
        number, parent = parent, module.index.parents.get(parent)
    if isinstance(parent, ast.BinOp):
        if isinstance(parent.op, _TAKES) and parent.left is number:
            yield parent
    elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        flow = module.flow_at(call)
        bound = [b for b in flow.scope.bindings.get(parent.targets[0].id, ()) if b.value is parent.value]
        for use in (use for binding in bound for use in flow.uses(binding)):
            taken = module.index.parents.get(use)
            if isinstance(taken, ast.BinOp) and isinstance(taken.op, _TAKES) and taken.left is use:
                yield taken


def _is_text(module: Module, value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and identifier(value.func) in _BYTES:
        return True
    return not isinstance(value, ast.Tuple) and hash_varies(module, value)


def _picks(module: Module, remainder: ast.BinOp) -> bool:
    """Does the number go to data, as far as names say?"""
    function = module.index.function_at(remainder)
    if function is not None and _OF_NO_MATTER.search(function.name):
        return False
    for parent in module.index.ancestors(remainder):
        if isinstance(parent, (ast.JoinedStr, ast.FormattedValue)):
            return False
        if isinstance(parent, ast.Subscript) and _OF_NO_MATTER.search(ast.unparse(parent.value)):
            return False
        if isinstance(parent, ast.Assign):
            named = any(_OF_NO_MATTER.search(identifier(target)) for target in parent.targets)
            return not named and not _is_only_written(module, parent)
        if isinstance(parent, ast.stmt):
            break
    if isinstance(parent, ast.If) and all(map(_only_tells, (*parent.body, *parent.orelse))):
        return False
    return _OF_NO_MATTER.search(ast.unparse(remainder.right)) is None


def _is_only_written(module: Module, statement: ast.Assign) -> bool:
    """`number = hash(name) % 1000`, and `f"constant_{number}"` is all that is made of it."""
    uses = [use for target in statement.targets if isinstance(target, ast.Name) for use in module.index.uses_of(target)]
    parents = [module.index.parents.get(use) for use in uses if isinstance(use.ctx, ast.Load)]
    return bool(parents) and all(isinstance(parent, ast.FormattedValue) for parent in parents)


def _only_tells(statement: ast.stmt) -> bool:
    """`print("adding", name)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and identifier(call.func) in _TELLING
