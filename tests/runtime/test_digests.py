"""A digest changes with any bit, any order, any sign of zero and any NaN payload, and with nothing else."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from detlint.runtime import digests
from detlint.runtime.digests import Digester, device_digest, digest_bytes, in_memory_order

DIGESTS: dict[str, Callable[[torch.Tensor], object]] = {
    "host": digest_bytes,
    "device": lambda tensor: tuple(device_digest(tensor).tolist()),
}
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8)
BYTES = st.binary(min_size=8, max_size=400).map(lambda data: data[: len(data) // 8 * 8])


def tensor_of(data: bytes, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=dtype)


LARGE = 2**21 + 3
"""Elements of four bytes that are digested in two pieces of 4 MiB and the rest."""


@pytest.mark.parametrize("place", [0, 2**20 - 1, 2**20, 2**21 - 1, 2**21, LARGE - 1])
def test_every_part_of_a_large_tensor_counts(place: int) -> None:
    tensor = torch.arange(LARGE, dtype=torch.int32)
    before = digest_bytes(tensor)
    assert digest_bytes(tensor.clone()) == before
    tensor[place] += 1
    assert digest_bytes(tensor) != before


def test_pieces_of_a_large_tensor_are_told_apart() -> None:
    tensor = torch.arange(2**21, dtype=torch.int32)
    assert digest_bytes(tensor) != digest_bytes(tensor.roll(2**20))


def test_digests_of_large_tensors_do_not_depend_on_the_number_of_threads() -> None:
    found, before = set(), torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        digests._threads.cache_clear()  # they are as many as torch has when they start
        found.add(digest_bytes(torch.arange(LARGE, dtype=torch.int32)))
        assert digests._threads()._max_workers == threads
    torch.set_num_threads(before)
    digests._threads.cache_clear()
    assert len(found) == 1


@pytest.mark.parametrize("how", DIGESTS)
@settings(max_examples=60, deadline=None)
@given(data=BYTES, dtype=st.sampled_from(DTYPES), place=st.integers(0))
def test_a_changed_bit_changes_the_digest(how: str, data: bytes, dtype: torch.dtype, place: int) -> None:
    digest = DIGESTS[how]
    changed = bytearray(data)
    changed[place // 8 % len(data)] ^= 1 << place % 8
    assert digest(tensor_of(data, dtype)) != digest(tensor_of(bytes(changed), dtype))


@pytest.mark.parametrize("how", DIGESTS)
@settings(max_examples=60, deadline=None)
@given(data=BYTES, dtype=st.sampled_from(DTYPES), places=st.tuples(st.integers(0), st.integers(0)))
def test_a_swap_of_unequal_elements_changes_the_digest(
    how: str, data: bytes, dtype: torch.dtype, places: tuple[int, int]
) -> None:
    one = tensor_of(data, dtype)
    first, second = (place % one.numel() for place in places)
    order = list(range(one.numel()))
    order[first], order[second] = order[second], order[first]
    two = one[torch.tensor(order)]
    same = bytes(one.view(torch.uint8)) == bytes(two.view(torch.uint8))
    assert (DIGESTS[how](one) == DIGESTS[how](two)) is same


@pytest.mark.parametrize("how", DIGESTS)
@pytest.mark.parametrize(
    ("one", "two"),
    [
        pytest.param([0.0], [-0.0], id="sign-of-zero"),
        pytest.param([1.0, -2.0], [-1.0, 2.0], id="signs"),
        pytest.param([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], id="flipped"),
        pytest.param([5.0, 5.0], [7.0, 7.0], id="pairs-that-cancel-in-xor"),
        pytest.param([0.0], [0.0, 0.0], id="more-zeros"),
    ],
)
def test_what_norms_and_xors_miss(how: str, one: list[float], two: list[float]) -> None:
    assert DIGESTS[how](torch.tensor(one)) != DIGESTS[how](torch.tensor(two))


@pytest.mark.parametrize("how", DIGESTS)
def test_nan_payloads_differ_and_equal_nans_agree(how: str) -> None:
    nans = [struct.pack("<I", 0x7FC00000 + payload) for payload in (0, 1)]
    plain, other = (tensor_of(nan * 4, torch.float32) for nan in nans)
    assert DIGESTS[how](plain) != DIGESTS[how](other)
    assert DIGESTS[how](plain) == DIGESTS[how](plain.clone())


def test_device_digest_goes_over_its_chunks_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.arange(1000)
    whole = device_digest(tensor)
    monkeypatch.setattr("detlint.runtime.digests._CHUNK", 64)
    assert torch.equal(device_digest(tensor), whole)
    assert not torch.equal(device_digest(tensor.roll(64)), whole)


def make(kind: str) -> torch.Tensor:
    torch.manual_seed(0)
    base = torch.randn(4, 6)
    return {
        "bfloat16": lambda: base.to(torch.bfloat16),
        "bool": lambda: base > 0,
        "complex": lambda: torch.complex(base, base.flip(0)),
        "conjugate": lambda: torch.complex(base, base).conj(),
        "negative view": lambda: torch.complex(base, base).conj().imag,
        "zero-size": lambda: base[:0],
        "scalar": lambda: base.sum(),
        "gaps": lambda: base[::2, 1:5],
        "transposed": lambda: base.t(),
        "expanded": lambda: base[0].expand(4, 6),
        "offset": lambda: base.flatten()[1:],
        "overlapping": lambda: base.as_strided((3, 3), (1, 1)),
        "channels last": lambda: torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "sparse coo": lambda: torch.relu(base).to_sparse(),
        "sparse csr": lambda: torch.relu(base).to_sparse_csr(),
        "sparse csc": lambda: torch.relu(base).to_sparse_csc(),
        "sparse bsr": lambda: torch.relu(base).to_sparse_bsr((2, 2)),
        "quantized": lambda: torch.quantize_per_tensor(base, 0.1, 3, torch.qint8),
        "quantized by channel": lambda: torch.quantize_per_channel(
            base, torch.full((4,), 0.1), torch.zeros(4, dtype=torch.int64), 0, torch.qint8
        ),
        "nested": lambda: torch.nested.nested_tensor([base[0], base[1, :2]]),
        "jagged": lambda: torch.nested.nested_tensor([base[0], base[1, :2]], layout=torch.jagged),
        "promised zeros": lambda: torch._efficientzerotensor((4,)),
        "parameter": lambda: torch.nn.Parameter(base),
    }[kind]()


UNSIGNED = ("zero-size", "bool", "nested", "jagged", "promised zeros")
KINDS = (
    "bfloat16", "bool", "complex", "conjugate", "negative view", "zero-size", "scalar", "gaps", "transposed",
    "expanded", "offset", "overlapping", "channels last", "sparse coo", "sparse csr", "sparse csc", "sparse bsr",
    "quantized", "quantized by channel", "nested", "jagged", "parameter", "promised zeros",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("canonical", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tensor_has_a_repeatable_digest(kind: str, canonical: bool) -> None:
    digests = {Digester(canonical=canonical).digest(make(kind)) for _ in range(3)}
    assert len(digests) == 1
    assert None not in digests


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in UNSIGNED])
def test_every_kind_of_tensor_has_a_digest_of_its_content(kind: str) -> None:
    one = make(kind)
    if one.layout is not torch.strided:
        two = type(one).neg(one)
    elif one.is_quantized:
        two = torch.quantize_per_tensor(one.dequantize() + 1, 0.1, 3, torch.qint8)
    else:
        two = one.detach().clone().neg()
    assert Digester().digest(one) != Digester().digest(two)


def test_quantized_tensors_differ_by_their_scale() -> None:
    one = torch._make_per_tensor_quantized_tensor(torch.arange(4, dtype=torch.int8), 0.1, 0)
    two = torch._make_per_tensor_quantized_tensor(torch.arange(4, dtype=torch.int8), 0.2, 0)
    assert Digester().digest(one) != Digester().digest(two)


@pytest.mark.parametrize("kind", ["transposed", "channels last", "gaps", "expanded", "offset", "conjugate"])
def test_canonical_digests_do_not_depend_on_strides(kind: str) -> None:
    tensor = make(kind)
    plain = tensor.resolve_conj().clone(memory_format=torch.contiguous_format)
    canonical = Digester(canonical=True)
    assert canonical.digest(plain.resolve_conj()) == canonical.digest(tensor.resolve_conj())


def test_dense_tensors_are_digested_where_they_lie() -> None:
    for kind in ("transposed", "channels last", "expanded"):
        tensor = make(kind)
        assert in_memory_order(tensor).data_ptr() == tensor.data_ptr(), kind


def test_tensors_without_memory_have_no_digest() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    assert Digester().digest(fake) is None
    assert Digester().digest(torch.ones(3, device="meta")) is None
    freed = torch.ones(3)
    freed.untyped_storage().resize_(0)
    assert Digester().digest(freed) is None


def test_tickets_are_settled_once_and_in_any_mixture() -> None:
    """What CUDA tensors go through, played with tensors of the CPU."""
    one, two = Digester(), Digester()
    for digester in (one, two):
        ticket = digester._ticket(device_digest(torch.arange(5)))
        derived = digester.derive(ticket, "view")
        again = digester.derive(derived, "view")
        fetched = digester.fetch()
        assert sorted(fetched) == [again, derived, ticket]
        assert all(digest >= 0 for digest in fetched.values())
        assert len(set(fetched.values())) == 3
        assert digester.fetch() == {}
        digester.last = fetched[again]  # type: ignore[attr-defined]
    assert one.last == two.last  # type: ignore[attr-defined]
