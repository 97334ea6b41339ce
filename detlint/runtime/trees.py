"""Nests of values that go into a model and come out of it: what they hold, and the same nest of other values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield what a nest of mappings, sequences, dataclasses and pytree nodes holds, with its path."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, (list, tuple)):
        names = getattr(tree, "_fields", None)
        for place, value in enumerate(tree):
            yield from leaves(value, f"{path}.{names[place]}".lstrip(".") if names else f"{path}[{place}]")
    elif _is_record(tree):
        for item in fields(tree):
            yield from leaves(getattr(tree, item.name), f"{path}.{item.name}".lstrip("."))
    else:
        nodes, _ = tree_flatten_with_path(tree)
        if len(nodes) == 1 and nodes[0][1] is tree:
            yield path, tree
        else:  # a container that its library registered with pytree
            for keys, value in nodes:
                yield from leaves(value, path + "".join(map(str, keys)))


def tensors_by_path(tree: object, path: str = "") -> dict[str, torch.Tensor]:
    """Return the tensors of a nest by path; of equal paths the later ones get a prime."""
    found: dict[str, torch.Tensor] = {}
    for place, leaf in leaves(tree, path):
        if isinstance(leaf, torch.Tensor):
            found[free_path(place, found)] = leaf
    return found


def free_path(path: str, taken: Mapping[str, object]) -> str:
    """Return a path that is not taken yet: equal ones, as of keys 1 and "1", get a prime."""
    while path in taken:
        path += "'"
    return path


def mapped(tree: Any, change: Callable[[Any], object]) -> Any:
    """Return a nest like `tree`, of containers of its own, that holds `change(leaf)` in the place of each leaf.

    The leaves are those of `leaves`, in the same order.
    """

    def changed(node: Any) -> object:
        """Containers that pytree does not know are copied, and filled anew."""
        if isinstance(node, Mapping):
            return _filled(node, {key: mapped(value, change) for key, value in node.items()})
        if isinstance(node, list):
            return _filled(node, dict(enumerate([mapped(value, change) for value in node])))
        if isinstance(node, tuple):
            made = getattr(type(node), "_make", type(node))  # with names, the class takes its items one by one
            return made([mapped(value, change) for value in node])
        if _is_record(node):
            twin = copy.copy(node)
            for item in fields(node):  # a frozen one too, and fields that its constructor does not take
                object.__setattr__(twin, item.name, mapped(getattr(node, item.name), change))
            return twin
        return change(node)

    return tree_map(changed, tree)


def _filled(container: Any, items: Mapping[Any, object]) -> object:
    twin = copy.copy(container)
    for key, value in items.items():
        twin[key] = value
    return twin


def _is_record(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, (type, torch.nn.Module))
