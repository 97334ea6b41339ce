"""What is known about memory: which digest a piece of it has, who wrote it last, whether it was ever written.

Inputs of an operator are mostly outputs of earlier ones, so their digests are remembered instead of computed
again. A piece of memory is named by its storage, which stays unique while a weak reference to it is held, and
by the region that a tensor covers. Any write forgets all regions of its storage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import torch

from detlint.runtime.digests import Digester, is_plain
from detlint.runtime.events import TensorMeta

if TYPE_CHECKING:
    from collections.abc import Iterable

    from detlint.runtime.events import Digest

_Region: TypeAlias = tuple[object, ...]
_Look: TypeAlias = tuple[object, ...]

_SWEEP: Final = 8
"""Storages that died are forgotten once that many new ones were met. The record of a dead storage stays in the
heap as long as it is remembered, and records that lie between large tensors keep their memory from being used
again: with 512, BERT-base needed up to a fifth more memory at its peak."""


@dataclass(slots=True)
class Block:
    """One storage. `holder` is torch's weak pointer to it; `unfilled` the event that left it unwritten.

    `digests` are those of its regions, `views` the descriptions of tensors that lie in it, by how they look.
    """

    holder: int
    origin: int | None = None
    unfilled: int | None = None
    digests: dict[_Region, Digest] = field(default_factory=dict)
    views: dict[_Look, TensorMeta] = field(default_factory=dict)

    def forget(self) -> None:
        """Its content, or what is to be said of it, changed."""
        self.digests.clear()
        self.views.clear()


class Memory:
    """Describes tensors as `TensorMeta`, and remembers what it learns of them; holds no tensor.

    `canonical` digests do not depend on strides (see `Digester`).
    """

    def __init__(self, *, canonical: bool = False) -> None:
        self.canonical = canonical
        self._digester = Digester(canonical=canonical)
        self._blocks: dict[int, Block] = {}
        self._lasting: set[int] = set()
        self._passing: list[int] = []
        self._next_sweep = _SWEEP

    def __del__(self) -> None:
        for block in self._blocks.values():
            _release(block)

    def block(self, tensor: torch.Tensor) -> Block | None:
        """Return what is known of the storage that the tensor lies in; None if it does not lie in one."""
        if not _has_storage(tensor):
            return None
        storage = tensor.untyped_storage()
        key = storage._cdata
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = Block(cast("int", storage._weak_ref()))
            if key not in self._lasting:
                self._passing.append(key)
            if len(self._passing) >= self._next_sweep:
                self._sweep()
        return found

    def read(self, tensor: torch.Tensor, block: Block | None) -> TensorMeta:
        """Describe an argument; its bytes are digested only where no earlier event told their digest."""
        if block is None:
            return describe(tensor, self._digester.digest(tensor))
        look = (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
        meta = block.views.get(look)
        if meta is None:
            meta = block.views[look] = describe(tensor, self._digest(tensor, block), block.origin, block.unfilled)
        return meta

    def _digest(self, tensor: torch.Tensor, block: Block) -> Digest | None:
        if block.unfilled is not None and block.unfilled == block.origin:
            return None  # nothing was written to it yet
        region = self._region(tensor)
        digest = block.digests.get(region)
        if digest is None:
            digest = self._digester.digest(tensor)
            if digest is not None:
                block.digests[region] = digest
        return digest

    def view(self, tensor: torch.Tensor, block: Block, base: TensorMeta) -> TensorMeta:
        """Describe a view of what `base` describes: where it cannot be looked up, its digest is derived."""
        if block.unfilled is not None:  # what it shows may not have been written yet: not to be compared
            return describe(tensor, None, block.origin, block.unfilled)
        if base.digest is not None and not self.canonical:
            region = self._region(tensor)
            if region not in block.digests:
                block.digests[region] = self._digester.derive(base.digest, region)
        return self.read(tensor, block)

    def write(self, tensor: torch.Tensor, block: Block | None, event: int, *, filled: bool) -> TensorMeta:
        """Describe what `event` wrote or returned anew; unless `filled`, the content is arbitrary."""
        if block is None:
            return describe(tensor, self._digester.digest(tensor) if filled else None)
        block.forget()
        block.origin = event
        if not filled:
            block.unfilled = event
        elif block.unfilled is not None and _covers_storage(tensor):
            block.unfilled = None
        return self.read(tensor, block)

    def keep_only(self, tensors: Iterable[torch.Tensor]) -> None:
        """Forget all storages but those of `tensors`, and who wrote those: the next pass begins."""
        kept = self._lasting = {tensor.untyped_storage()._cdata for tensor in tensors if _has_storage(tensor)}
        for key in [key for key in self._blocks if key not in kept]:
            _release(self._blocks.pop(key))
        self._passing, self._next_sweep = [], _SWEEP
        for block in self._blocks.values():
            if block.origin is not None:  # written during the last pass, and put back since
                block.forget()
            block.origin = block.unfilled = None

    def settle(self) -> dict[Digest, Digest]:
        """Wait for the devices; return what the negative tickets that stand for digests turn out to be."""
        tickets = self._digester.fetch()
        for block in self._blocks.values() if tickets else ():
            block.digests = {part: tickets.get(digest, digest) for part, digest in block.digests.items()}
            block.views.clear()
        return tickets

    def _sweep(self) -> None:
        """Forget what died of the storages that the pass made; the more live, the later the next time."""
        alive = []
        for key in self._passing:
            if torch.UntypedStorage._expired(self._blocks[key].holder):
                _release(self._blocks.pop(key))
            else:
                alive.append(key)
        self._passing = alive
        self._next_sweep = _SWEEP + 2 * len(alive)

    def _region(self, tensor: torch.Tensor) -> _Region:
        """Name the part of the storage that a tensor covers, so that equal names mean equal digests."""
        size = tensor.element_size()
        if tensor.is_contiguous() or (not self.canonical and _is_dense(tensor)):
            return (tensor.storage_offset() * size, tensor.numel() * size)
        return (tensor.storage_offset() * size, tuple(tensor.shape), tensor.stride(), size)


def describe(
    tensor: torch.Tensor, digest: Digest | None, origin: int | None = None, unfilled: int | None = None
) -> TensorMeta:
    """Describe any tensor."""
    layout = tensor.layout
    strided = layout is torch.strided and not tensor.is_nested
    return TensorMeta(
        shape=tuple(tensor.shape) if not tensor.is_nested else (),
        dtype=_NAMES[tensor.dtype],
        device=str(tensor.device),
        strides=tensor.stride() if strided else None,
        layout="strided" if strided else "nested" if tensor.is_nested else str(layout).removeprefix("torch."),
        requires_grad=tensor.requires_grad,
        digest=digest,
        origin=origin,
        unfilled=unfilled,
    )


class _Names(dict[torch.dtype, str]):
    def __missing__(self, dtype: torch.dtype) -> str:
        name = self[dtype] = str(dtype).removeprefix("torch.")
        return name


_NAMES: Final = _Names()


def _has_storage(tensor: torch.Tensor) -> bool:
    """Does the tensor lie in one plain piece of memory that can be named?"""
    return is_plain(tensor) and not tensor.is_meta


def _release(block: Block) -> None:
    torch.UntypedStorage._free_weak_ref(block.holder)  # type: ignore[no-untyped-call]


def _is_dense(tensor: torch.Tensor) -> bool:
    """Do the elements fill a stretch of memory, each place once?"""
    reach = 1
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if step != reach:
                return False
            reach *= size
    return True


def _covers_storage(tensor: torch.Tensor) -> bool:
    return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes() and _is_dense(tensor)
