"""Copies of tensors that keep strides, offsets and aliasing."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import torch
from torch.utils._pytree import tree_map

from detlint.runtime.digests import is_plain
from detlint.runtime.overloads import facts_of, is_own, tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterable

Tree = TypeVar("Tree")


_ALIGNMENT: Final = 512
"""Bytes: copies begin at such an address, and the originals' distance from one stays, since kernels go by it."""


class Copier:
    """Copies tensors; those that share a storage share one in the copy too, as in `x.add_(x)`.

    Of a storage no more is copied than the part that `tensors`, which are to be copied together, lie in.
    """

    def __init__(self, tensors: Iterable[torch.Tensor] = ()) -> None:
        self._spans: dict[int, tuple[int, int]] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._note(tensors)

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy one tensor; the copy requires gradients where the original does, and is a leaf."""
        if _has_memory(tensor):
            storage, start = self._storage(tensor)
            offset = tensor.storage_offset() - start // tensor.element_size()
            twin = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            twin.set_(storage, offset, tensor.shape, tensor.stride())
        else:
            twin = tensor.detach().clone()
        return twin.requires_grad_(tensor.requires_grad)

    def tree(self, tree: Tree) -> Tree:
        """Copy all tensors in containers known to pytree; everything else is passed on as it is."""
        self._note(tensors_of(tree))
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
        self._note(tensors_of((args, kwargs)))

        def copied(leaf: object) -> object:
            if not isinstance(leaf, torch.Tensor) or not is_plain(leaf):
                return leaf
            return self.tensor(leaf) if leaf.untyped_storage()._cdata in storages else leaf

        return cast("tuple[tuple[Any, ...], dict[str, Any]]", tree_map(copied, (args, kwargs)))

    def value(self, leaf: object) -> object:
        """Copy a tensor, or whatever else it is; modules and functions are passed on."""
        if isinstance(leaf, torch.Tensor):
            return self.tensor(leaf)
        return leaf if isinstance(leaf, torch.nn.Module) or callable(leaf) else copy.deepcopy(leaf)

    def _note(self, tensors: Iterable[torch.Tensor]) -> None:
        """Widen the parts that are to be copied by what these tensors cover."""
        for tensor in tensors:
            if _has_memory(tensor):
                key, (start, stop) = tensor.untyped_storage()._cdata, _span(tensor)
                first, last = self._spans.get(key, (start, stop))
                self._spans[key] = (min(first, start), max(last, stop))

    def _storage(self, tensor: torch.Tensor) -> tuple[torch.UntypedStorage, int]:
        """Return the copy of the part of a storage that is wanted, and at which byte it begins there."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            if key not in self._spans:
                self._note([tensor])
            octets = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._storages[key] = octets[slice(*self._spans[key])].clone().untyped_storage()
        return self._storages[key], self._spans[key][0]


def _has_memory(tensor: torch.Tensor) -> bool:
    return is_plain(tensor) and not tensor.is_meta


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """From which byte of its storage to which does a tensor reach? The first one is aligned."""
    size, first = tensor.element_size(), int(tensor.storage_offset())
    reach = sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride(), strict=True))
    last = first + reach + 1 if tensor.numel() else first
    return first * size // _ALIGNMENT * _ALIGNMENT, last * size
