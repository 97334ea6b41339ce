"""What the schema of an operator says about it, worked out once for each overload."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_leaves

from detlint.operators import load_operators

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from detlint.runtime.events import Value

_STATISTICS: Final = frozenset({"running_mean", "running_var"})
"""Batch norm in train mode writes its running statistics, although most of its schemas do not say so."""
_TRAINING: Final = ("training", "train", "use_input_stats")

_OWN: Final = ("aten", "prims", "prim")
"""Where torch defines its own operators, and tags those that draw."""

SCALARS: Final = frozenset({type(None), bool, int, float, str})
"""The types of most arguments that are no tensors: these are plain values already."""

_UNFILLED: Final = frozenset(
    name.replace("::", ".")
    for operator in load_operators()
    if operator.cause == "uninitialized"
    for name in operator.aten
)


@dataclass(frozen=True, slots=True)
class OverloadFacts:
    """`written` are the names of arguments that the operator writes to, `statistics` of those that it writes to
    in train mode, `defaults` is what a call may leave out.

    `draws` says that it may use a random generator: it is tagged so, or it is no operator of torch itself.
    """

    op: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, Value]
    written: frozenset[str]
    statistics: frozenset[str]
    unfilled: bool
    draws: bool

    def by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        names = self.parameters or tuple(f"argument {place}" for place in range(len(args)))
        given = dict(zip(names, args, strict=False))
        given.update(kwargs)
        return given

    def completed(self, arguments: dict[str, Value]) -> dict[str, Value]:
        """Add the defaults of what a call left out."""
        for name, value in self.defaults.items():
            arguments.setdefault(name, value)
        return arguments

    def written_by(self, arguments: Mapping[str, object]) -> tuple[str, ...]:
        """Name the arguments that a call with these arguments writes to."""
        if not self.written and not self.statistics:
            return ()
        training = any(arguments.get(name) is True for name in _TRAINING)
        names = self.written | self.statistics if training else self.written
        return tuple(name for name in arguments if name in names)


@cache
def facts_of(func: object) -> OverloadFacts:
    """Return the facts of an overload, or of a higher-order operator, which has no schema."""
    if not isinstance(func, torch._ops.OpOverload):
        return OverloadFacts(str(func), (), {}, frozenset(), frozenset(), unfilled=False, draws=True)
    parameters = func._schema.arguments
    return OverloadFacts(
        op=str(func),
        parameters=tuple(parameter.name for parameter in parameters),
        defaults={item.name: plain_value(item.default_value) for item in parameters if item.has_default_value()},
        written=frozenset(p.name for p in parameters if p.alias_info is not None and p.alias_info.is_write),
        statistics=frozenset(p.name for p in parameters if p.name in _STATISTICS)
        if "backward" not in str(func)
        else frozenset(),
        unfilled=str(func).rpartition(".")[0] in _UNFILLED,
        draws=torch.Tag.nondeterministic_seeded in func.tags or not is_own(func),
    )


def is_own(func: object) -> bool:
    """Is it an operator of torch itself, so that its schema tells what it writes to?"""
    return isinstance(func, torch._ops.OpOverload) and func.namespace in _OWN


def tensors_of(tree: object) -> list[torch.Tensor]:
    """Return the tensors of an argument or a result, each once."""
    leaves = (tree,) if isinstance(tree, torch.Tensor) else tree_leaves(tree)
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())


def plain_value(value: object) -> Value:
    """Turn an argument that is no tensor into a plain value: dtypes and the like by torch's own names."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain_value(item) for item in value)
    if isinstance(value, torch.Generator):
        return f"generator on {value.device}"
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return str(value)
    return str(value).removeprefix("torch.")
