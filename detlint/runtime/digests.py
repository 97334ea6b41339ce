"""Exact digests of tensors: 128 bits that change with any bit, any order, any sign of zero, any NaN payload.

On the CPU the bytes are hashed where they lie, at the speed of memory. On a device the digest is computed
there by exact integer arithmetic, whose sums do not depend on order, and fetched once at the end of a pass.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import torch
import xxhash
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from detlint.runtime.events import Digest

_PIECE: Final = 1 << 22  # bytes of a large CPU tensor that one thread digests: fewer are not worth waking it for
_CHUNK: Final = 1 << 21  # words of a device tensor mixed at a time: bounds the scratch memory to a few 16 MB blocks
_LANES: Final = (
    (-7046029254386353131, -4417276706812531889, 1609587929392839161),
    (-3335678366873096957, -8796714831421723037, 7046029288634856825),
)
_MASK: Final = (1 << 64) - 1
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_MOCKS: Final = frozenset({"meta", "xla", "lazy"})


class Digester:
    """Digests tensors; those of device tensors stay there, as negative tickets, until `fetch`.

    `canonical` digests elements in logical order, so that equal values in different strides have equal digests;
    without it they are digested in memory order, which needs no copy for any dense tensor.
    """

    def __init__(self, *, canonical: bool = False) -> None:
        self.canonical = canonical
        self._pending: dict[Digest, torch.Tensor | tuple[Digest, object]] = {}
        self._tickets = 0

    def digest(self, tensor: torch.Tensor) -> Digest | None:
        """Return the digest of the content, a negative ticket for it, or None where there is no content."""
        if is_fake(tensor) or tensor.device.type in _MOCKS:
            return None
        if is_plain(tensor):
            freed = tensor.numel() > 0 and tensor.data_ptr() == 0  # a storage that was resized to nothing
            return None if freed else self._strided(tensor)
        return self._combined(list(_parts(tensor)))

    def _strided(self, tensor: torch.Tensor) -> Digest:
        words = tensor.contiguous() if self.canonical else in_memory_order(tensor)
        if tensor.device.type == "cpu":
            return digest_bytes(words)
        return self._ticket(device_digest(words))

    def derive(self, digest: Digest, what: object) -> Digest:
        """Return the digest of something that follows from content with `digest` and from `what` alone."""
        return combine(digest, what) if digest >= 0 else self._ticket((digest, what))

    def _ticket(self, pending: torch.Tensor | tuple[Digest, object]) -> Digest:
        self._tickets += 1
        self._pending[-self._tickets] = pending
        return -self._tickets

    def _combined(self, parts: list[torch.Tensor | str]) -> Digest:
        digests = [part if isinstance(part, str) else self._strided(part) for part in parts]
        if all(isinstance(digest, str) or digest >= 0 for digest in digests):
            return combine(*digests)
        lanes = [self._pending[digest] for digest in digests if isinstance(digest, int) and digest < 0]
        together = self._ticket(device_digest(torch.cat([lane for lane in lanes if isinstance(lane, torch.Tensor)])))
        return self.derive(together, [digest for digest in digests if isinstance(digest, str) or digest >= 0])

    def fetch(self) -> dict[Digest, Digest]:
        """Wait for the devices and return what each ticket since the last call stands for."""
        on_device = {ticket: item for ticket, item in self._pending.items() if isinstance(item, torch.Tensor)}
        fetched = _on_cpu(on_device)
        for ticket, item in self._pending.items():
            if isinstance(item, tuple):  # derived from an older ticket, so in this order
                fetched[ticket] = combine(fetched[item[0]], item[1])
        self._pending.clear()
        return fetched


def is_fake(tensor: torch.Tensor) -> bool:
    """Does the tensor pretend, with no memory of its own (fake tensors, functorch wrappers)?"""
    if type(tensor) in _PLAIN:
        return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))
    return isinstance(tensor, torch._subclasses.FakeTensor)


def is_plain(tensor: torch.Tensor) -> bool:
    """Do the bytes of its memory say all there is to say?"""
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_nested)
        and not tensor._is_zerotensor()
    )


def digest_bytes(tensor: torch.Tensor) -> Digest:
    """Digest the memory of a contiguous CPU tensor, whatever its dtype."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return xxhash.xxh3_128_intdigest(b"")
    start = tensor.data_ptr()
    if size < 2 * _PIECE:
        return _digest_memory(start, size)
    # pieces of one size on any machine, so that digests of records can be compared
    offsets = range(0, size, _PIECE)
    return combine(*_threads().map(lambda at: _digest_memory(start + at, min(_PIECE, size - at)), offsets))


def _digest_memory(address: int, size: int) -> Digest:
    return xxhash.xxh3_128_intdigest((ctypes.c_char * size).from_address(address))


THREADS: Final = "detlint-digest"
"""How the names of threads begin that only digest."""


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """Threads for large tensors: one alone does not use all of the memory's speed."""
    return ThreadPoolExecutor(torch.get_num_threads(), THREADS)


os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork


def combine(*parts: object) -> Digest:
    """Digest of several digests or texts, in order."""
    return xxhash.xxh3_128_intdigest(repr(parts).encode())


def device_digest(tensor: torch.Tensor) -> torch.Tensor:
    """Two int64 lanes on the tensor's device that change with any bit or order of a contiguous tensor.

    Each lane mixes every 8-byte word with its position through a bijection and adds up modulo 2**64: one changed
    word always changes the sum, and the order in which a device adds integers does not.
    """
    words = _words(tensor)
    size = tensor.numel() * tensor.element_size()  # the last word is filled up with zeros
    sums = torch.full((len(_LANES),), size, dtype=torch.int64, device=tensor.device)
    for start in range(0, words.numel(), _CHUNK):
        chunk = words[start : start + _CHUNK]
        place = torch.arange(start + 1, start + 1 + chunk.numel(), device=tensor.device)
        sums += torch.stack([_mix(chunk, place, *constants).sum() for constants in _LANES])
    return sums


def _mix(words: torch.Tensor, place: torch.Tensor, a: int, b: int, c: int) -> torch.Tensor:
    mixed = place * a
    mixed ^= words
    mixed *= b
    mixed ^= (mixed >> 32) & 0xFFFFFFFF  # a logical shift: the arithmetic one would not be a bijection
    mixed *= c
    mixed ^= (mixed >> 29) & 0x7FFFFFFFF
    mixed *= a
    return mixed


def _words(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    octets = flat.view(torch.uint8) if flat.numel() else flat.new_empty(0, dtype=torch.uint8)
    rest = -octets.numel() % 8
    if rest or octets.storage_offset() % 8:
        octets = torch.nn.functional.pad(octets, (0, rest)) if rest else octets.clone()
    return octets.view(torch.int64)


def _on_cpu(pending: dict[Digest, torch.Tensor]) -> dict[Digest, Digest]:
    """Fetch with one transfer a device."""
    fetched: dict[Digest, Digest] = {}
    for device in dict.fromkeys(lanes.device for lanes in pending.values()):
        here = {ticket: lanes for ticket, lanes in pending.items() if lanes.device == device}
        rows = torch.stack(list(here.values())).tolist()
        for ticket, (high, low) in zip(here, rows, strict=True):
            fetched[ticket] = (high & _MASK) << 64 | (low & _MASK)
    return fetched


def in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor with the elements in the order of memory: a view if dense, else a copy.

    Dimensions with stride 0 (`expand`) count once.
    """
    if tensor.is_contiguous():
        return tensor
    dense = permuted_to_dense(tensor)
    return tensor.contiguous() if dense is None else dense.contiguous()


def permuted_to_dense(tensor: torch.Tensor) -> torch.Tensor | None:
    """Order dimensions by stride, expanded ones taken once; None where elements overlap otherwise."""
    dims = [(step, size) for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1 and step]
    dims.sort(reverse=True)
    reach = 1
    for step, size in reversed(dims):
        if step < reach:
            return None
        reach = step * size
    return tensor.as_strided([size for _, size in dims], [step for step, _ in dims], tensor.storage_offset())


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor | str]:
    """Take a tensor of any layout apart into plain strided tensors, and texts for what else tells it apart."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        yield repr((type(tensor).__name__, names))
        for name in names:
            yield from _parts(getattr(tensor, name))
    elif tensor.is_quantized:
        yield tensor.int_repr()
        if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            yield repr((tensor.q_scale(), tensor.q_zero_point()))
        else:
            yield tensor.q_per_channel_scales()
            yield tensor.q_per_channel_zero_points()
    elif tensor.layout is torch.sparse_coo:
        yield f"sparse_coo {tensor.is_coalesced()}"
        yield tensor._indices()
        yield tensor._values()
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield str(tensor.layout)
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield str(tensor.layout)
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    elif tensor.is_nested:
        yield "nested"
        yield from tensor.unbind()
    elif tensor.layout is not torch.strided:
        yield tensor.to_dense()
    elif tensor._is_zerotensor():  # autograd's promise of zeros, without memory
        yield f"zeros {tuple(tensor.shape)}"
    elif tensor.is_conj() or tensor.is_neg():
        yield tensor.resolve_conj().resolve_neg().as_subclass(torch.Tensor)
    else:  # a subclass without inner tensors
        yield tensor.as_subclass(torch.Tensor)
