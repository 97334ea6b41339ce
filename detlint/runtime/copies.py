"""Copies of tensors that keep strides, offsets and aliasing."""

from __future__ import annotations

import copy
from typing import TypeVar, cast

import torch
from torch.utils._pytree import tree_map

from detlint.runtime.digests import is_plain

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
