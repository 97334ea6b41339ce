"""Does a sort leave elements in the order in which they came? By length alone it does, where two are of one length."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.inference import Inference

_TRUTHS = frozenset({"startswith", "endswith", "isdigit", "isupper", "islower", "isinstance", "bool", "is_dir"})
_COUNTS = frozenset({"len", "count"})
_ENDINGS = frozenset({"suffix", "suffixes"})
_COUNTERS = frozenset({"collections.Counter"})


def leaves_ties(call: ast.Call, inference: Inference) -> bool:
    """Is the key of a sort, or of a `max`, one that many elements share: their length, how often they come, a test?"""
    key = next((keyword.value for keyword in call.keywords if keyword.arg == "key"), None)
    if isinstance(key, ast.Lambda):
        return _is_shared(key.body, inference)
    if isinstance(key, ast.Attribute):  # `words.count`, `frequency.get`
        return key.attr == "count" or (key.attr in ("get", "__getitem__") and _is_counter(key.value, inference))
    return isinstance(key, ast.Name) and "builtins.len" in inference.resolve(key)


def _is_shared(key: ast.expr, inference: Inference) -> bool:
    """`-len(word)`, `frequency[word]`, `path.suffix == ".pt"`, `(path.suffix, len(path.name))`."""
    if isinstance(key, ast.UnaryOp):
        return isinstance(key.op, ast.Not) or _is_shared(key.operand, inference)
    if isinstance(key, ast.Tuple):
        return bool(key.elts) and all(_is_shared(part, inference) for part in key.elts)
    if isinstance(key, ast.BoolOp):
        return all(_is_shared(part, inference) for part in key.values)
    if isinstance(key, ast.IfExp):
        return all(_is_shared(part, inference) for part in (key.body, key.orelse))
    if isinstance(key, ast.Call):
        if identifier(key.func) in _COUNTS | _TRUTHS:
            return True
        return isinstance(key.func, ast.Attribute) and key.func.attr == "get" and _is_counter(key.func.value, inference)
    if isinstance(key, ast.Subscript):
        return _is_counter(key.value, inference)
    return isinstance(key, (ast.Compare, ast.Constant)) or (isinstance(key, ast.Attribute) and key.attr in _ENDINGS)


def _is_counter(mapping: ast.expr, inference: Inference) -> bool:
    """`frequency` of `frequency = Counter(words)`, and of a dict of numbers that are counted up."""
    made = [value.node for value in inference.values(mapping)]
    calls = [node for node in made if isinstance(node, ast.Call)]
    return (
        bool(calls)
        and len(calls) == len(made)
        and all(not _COUNTERS.isdisjoint(inference.callees(node)) for node in calls)
    )
