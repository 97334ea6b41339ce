"""Copies of tensors that keep strides, offsets and aliasing."""

from __future__ import annotations

import copy
from typing import Any, TypeVar, cast

import torch
from torch.utils._pytree import tree_map

from detlint.runtime.digests import is_plain
from detlint.runtime.overloads import facts_of, is_own, tensors_of

Tree = TypeVar("Tree")


class Copier:
    """Copies tensors; those that share a storage share one in the copy too, as in `x.add_(x)`."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy one tensor; the copy requires gradients where the original does, and is a leaf."""
        if is_plain(tensor) and not tensor.is_meta:
            twin = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            twin.set_(self._storage(tensor), tensor.storage_offset(), tensor.shape, tensor.stride())
        else:
            twin = tensor.detach().clone()
        return twin.requires_grad_(tensor.requires_grad)

    def tree(self, tree: Tree) -> Tree:
        """Copy all tensors in containers known to pytree; everything else is passed on as it is."""
        return cast("Tree", tree_map(lambda leaf: self.tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf, tree))

    def for_call(
        self, func: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copy what a call can write to, and what shares memory with that; the rest is passed on as it is.

        Of torch's own operators the schema tells what that is; others could write to anything.
        """
        if not is_own(func):
            return self.tree((args, kwargs))
        facts = facts_of(func)
        given = facts.by_name(args, kwargs)
        written = [tensor for name in facts.written_by(given) for tensor in tensors_of(given[name])]
        if not all(is_plain(tensor) for tensor in written):
            return self.tree((args, kwargs))
        storages = {tensor.untyped_storage()._cdata for tensor in written}

        def copied(leaf: object) -> object:
            if not isinstance(leaf, torch.Tensor) or not is_plain(leaf):
                return leaf
            return self.tensor(leaf) if leaf.untyped_storage()._cdata in storages else leaf

        return cast("tuple[tuple[Any, ...], dict[str, Any]]", tree_map(copied, (args, kwargs)))

    def values(self, tree: Tree) -> Tree:
        """Copy tensors and whatever else the containers hold; modules are passed on."""
        return cast("Tree", tree_map(self._value, tree))

    def _value(self, leaf: object) -> object:
        if isinstance(leaf, torch.Tensor):
            return self.tensor(leaf)
        return leaf if isinstance(leaf, torch.nn.Module) or callable(leaf) else copy.deepcopy(leaf)

    def _storage(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        storage = tensor.untyped_storage()
        found = self._storages.get(storage._cdata)
        if found is None:
            found = self._storages[storage._cdata] = storage.clone()  # type: ignore[no-untyped-call]
        return found
