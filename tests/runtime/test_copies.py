"""Copies of what a call can write to, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from detlint.runtime.copies import Copier

aten = torch.ops.aten


def for_call(func: object, *args: Any) -> list[Any]:
    copied, _ = Copier().for_call(func, args, {})
    return list(copied)


def test_what_is_only_read_is_passed_on() -> None:
    x, y = torch.ones(3), torch.ones(3)
    assert [a is b for a, b in zip(for_call(aten.add.Tensor, x, y), (x, y), strict=True)] == [True, True]


def test_what_is_written_is_copied_with_all_that_shares_its_memory() -> None:
    memory, y = torch.arange(6.0), torch.ones(3)
    x, overlapping = memory[:3], memory[2:5]
    one, (two, three) = for_call(aten._foreach_add_.List, [x], [overlapping, y])
    one = one[0]
    assert three is y
    one += 10
    assert memory.tolist() == [0, 1, 2, 3, 4, 5]
    assert two.tolist() == [12, 3, 4]


@pytest.mark.parametrize("training", [True, False])
def test_statistics_are_written_in_train_mode(training: bool) -> None:
    x, mean, variance = torch.randn(4, 2), torch.zeros(2), torch.ones(2)
    copied = for_call(aten.native_batch_norm.default, x, None, None, mean, variance, training, 0.1, 1e-5)
    assert copied[0] is x
    assert [copied[3] is mean, copied[4] is variance] == [not training] * 2


def test_functions_of_others_can_write_to_anything() -> None:
    x = torch.ones(3)
    (copied,) = for_call(lambda x: x.add_(1), x)
    assert copied is not x
    assert torch.equal(copied, x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex128])
def test_of_a_large_storage_only_the_part_that_is_seen_is_copied(dtype: torch.dtype) -> None:
    memory = torch.arange(1_000_000).to(dtype)
    rows = memory.view(1000, 1000)[3:5, ::2]
    copied = Copier().tensor(rows)
    assert torch.equal(copied, rows)
    assert copied.stride() == rows.stride()
    assert copied.untyped_storage().nbytes() <= 2000 * memory.element_size() + 512
    assert (copied.data_ptr() - rows.data_ptr()) % 64 == (-memory.data_ptr() + copied.untyped_storage().data_ptr()) % 64
    copied.zero_()
    assert torch.equal(memory, torch.arange(1_000_000).to(dtype))


def test_tensors_far_apart_in_one_storage_share_one_in_the_copy() -> None:
    memory = torch.arange(10_000.0)
    one, two, none = Copier().tree([memory[5000:5010], memory[5005:5020], memory[9999:9999]])
    assert one.untyped_storage()._cdata == two.untyped_storage()._cdata
    assert none.numel() == 0
    one.zero_()
    assert two.tolist() == [0.0] * 5 + [float(number) for number in range(5010, 5020)]
