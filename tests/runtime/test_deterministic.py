"""`deterministic()` makes real races bitwise and leaves no trace, whatever happens inside."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from detlint.errors import UsageError
from detlint.runtime.deterministic import DeterminismWarning, deterministic
from detlint.runtime.flags import read_flags

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

SIZE = 1_000_000


@pytest.fixture(autouse=True)
def _hash_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning about PYTHONHASHSEED has tests of its own."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(max(2, before))
    yield
    torch.set_num_threads(before)


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(0, 50, (SIZE,), generator=generator), torch.randn(SIZE, generator=generator)


def _index_put() -> torch.Tensor:
    index, values = _inputs()
    return torch.zeros(50).index_put_((index,), values, accumulate=True)


def _put() -> torch.Tensor:
    index, values = _inputs()
    return torch.zeros(50).put_(index, values, accumulate=True)


def _index_backward() -> torch.Tensor:
    index, values = _inputs()
    x = torch.zeros(50, requires_grad=True)
    (x[index] * values).sum().backward()
    assert x.grad is not None
    return x.grad


def _take_backward() -> torch.Tensor:
    index, values = _inputs()
    x = torch.zeros(50, requires_grad=True)
    (x.take(index) * values).sum().backward()
    assert x.grad is not None
    return x.grad


RACES = {
    "index_put_(accumulate=True)": _index_put,
    "put_(accumulate=True)": _put,
    "backward of x[idx]": _index_backward,
    "backward of take": _take_backward,
}


def _shows(race: Callable[[], torch.Tensor], runs: int) -> bool:
    first = race().numpy().tobytes()
    return any(race().numpy().tobytes() != first for _ in range(runs))


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("race", RACES.values(), ids=RACES.keys())
def test_a_race_becomes_bitwise(race: Callable[[], torch.Tensor]) -> None:
    if not _shows(race, runs=200):
        pytest.skip("the threads of this machine never overlapped: there is no race to remove")
    with deterministic():
        assert not _shows(race, runs=20)


def test_fresh_memory_is_filled() -> None:
    with deterministic():
        assert torch.empty(1000).isnan().all()


def _draws() -> tuple[float, float, float]:
    return float(torch.rand(())), float(np.random.rand()), random.random()


def test_all_generators_are_seeded() -> None:
    with deterministic(seed=3):
        first = _draws()
    with deterministic(seed=3):
        assert _draws() == first
    with deterministic(seed=4):
        assert all(other != one for other, one in zip(_draws(), first, strict=True))


def test_as_a_decorator_every_call_is_seeded_anew() -> None:
    @deterministic(seed=3)
    def draw() -> tuple[float, float, float]:
        assert torch.are_deterministic_algorithms_enabled()
        return _draws()

    assert draw() == draw()
    assert not torch.are_deterministic_algorithms_enabled()


def _everything() -> tuple[object, ...]:
    return (
        read_flags(),
        dict(os.environ),
        random.getstate(),
        str(np.random.get_state()),
        torch.get_rng_state().numpy().tobytes(),
        torch.initial_seed(),
    )


def _spoil() -> None:
    _draws()
    torch.backends.cudnn.benchmark = True
    torch.use_deterministic_algorithms(False)
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = "broken"


def _spoil_and_raise() -> None:
    _spoil()
    raise ZeroDivisionError


def test_everything_is_as_before() -> None:
    before = _everything()
    with deterministic():
        assert _everything() != before
        _spoil()
    assert _everything() == before


def test_everything_is_as_before_after_an_exception() -> None:
    before = _everything()
    with pytest.raises(ZeroDivisionError), deterministic():
        _spoil_and_raise()
    assert _everything() == before


def test_nested_blocks_restore_level_by_level() -> None:
    before = _everything()
    with deterministic(seed=1):
        outer = _everything()
        with deterministic(seed=2, warn_only=True):
            assert torch.get_deterministic_debug_mode() == 1
            _spoil()
        assert _everything() == outer
    assert _everything() == before


def test_settings_of_the_user_are_restored_not_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = True
    try:
        with deterministic():
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
            assert torch.get_deterministic_debug_mode() == 2
            assert not torch.backends.cudnn.benchmark
        assert torch.get_deterministic_debug_mode() == 1
        assert torch.backends.cudnn.benchmark
    finally:
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(False)


def test_operator_without_a_deterministic_form_raises_or_warns() -> None:
    index, values = _inputs()

    def put() -> None:
        torch.zeros(50).put_(index, values, accumulate=False)

    with deterministic(), pytest.raises(RuntimeError, match="deterministic"):
        put()
    with deterministic(warn_only=True), pytest.warns(UserWarning, match="deterministic"):
        put()


@pytest.mark.parametrize("seed", ["0", None, 1.5, True, print], ids=repr)
def test_a_seed_that_is_no_integer_is_one_clear_error(seed: object) -> None:
    with pytest.raises(UsageError, match="expected an int"), deterministic(seed):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_that_torch_does_not_take_is_one_clear_error(seed: int) -> None:
    with pytest.raises(UsageError, match="beyond what torch takes"):
        deterministic(seed)


def _generator() -> Iterator[int]:
    yield 1


async def _async() -> int:
    return 1


async def _async_generator() -> AsyncIterator[int]:
    yield 1


class _Class:
    pass


@pytest.mark.parametrize("decorated", [_generator, _async, _async_generator, _Class])
def test_what_does_not_run_while_it_is_called_is_refused(decorated: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match=decorated.__name__):
        deterministic(seed=3)(decorated)


def test_a_decorator_without_parentheses_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="with parentheses"):
        deterministic(_draws)  # type: ignore[arg-type]


def test_one_object_may_be_entered_again_and_within_itself() -> None:
    block, before = deterministic(seed=3), _everything()
    with block:
        first = _draws()
    with block, block:
        assert _draws() == first
    assert _everything() == before


@pytest.mark.parametrize("seed", [-1, 2**32 + 5, 2**63 - 1, 2**64 - 1, np.int64(3)])
def test_unusual_seeds_work(seed: int) -> None:
    with deterministic(seed):
        first = _draws()
    with deterministic(seed):
        assert _draws() == first


@pytest.fixture
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each warning is given once a process, and other tests may have had it."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setattr("detlint.runtime.deterministic._WARNED", set())


@pytest.mark.usefixtures("_nothing_said")
def test_hash_seed_that_is_too_late_is_a_warning_at_the_users_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with deterministic():
            assert os.environ["PYTHONHASHSEED"] == "0"  # for processes started inside
        with deterministic():
            """Said once a process."""
    assert [(warning.category, warning.filename) for warning in caught] == [(DeterminismWarning, __file__)]
    assert "PYTHONHASHSEED" not in os.environ


@pytest.mark.usefixtures("_nothing_said")
def test_a_warning_that_is_an_error_is_one_each_time() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(DeterminismWarning), deterministic():
                pass


def test_the_compilers_settings_leave_no_variable() -> None:
    code = "import os; before = dict(os.environ)\nfrom detlint import deterministic\nwith deterministic(): pass\n"
    subprocess.run([sys.executable, "-W", "ignore", "-c", f"{code}assert os.environ == before"], check=True)


@pytest.mark.usefixtures("_nothing_said")
def test_the_warning_of_a_decorator_is_at_the_call() -> None:
    with pytest.warns(DeterminismWarning) as caught:
        deterministic()(_draws)()
    assert [warning.filename for warning in caught] == [__file__]


def test_no_warning_where_python_was_started_with_a_hash_seed() -> None:
    code = "from detlint.runtime.deterministic import deterministic\nwith deterministic(): pass\n"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env={**os.environ, "PYTHONHASHSEED": "5"})


@pytest.mark.cuda
@pytest.mark.usefixtures("_nothing_said")
def test_workspace_that_is_too_late_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.cuda.init()
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with pytest.warns(DeterminismWarning, match="CUBLAS_WORKSPACE_CONFIG"), deterministic():
        pass
