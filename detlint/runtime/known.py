"""Values under fake tensors: what follows from the token ids, masks and flags of a sample, and from them alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from detlint.errors import AuditError
from detlint.runtime.frames import user_line
from detlint.runtime.overloads import facts_of, tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

_MOST: Final = 1 << 20
"""Elements of the largest tensor whose values are kept: room for token ids and masks, not for a model."""

_EXPECTED: Final = {"aten.any": False, "aten.all": True}
"""What a check over unknown values is taken to say: nothing is infinite, everything is finite."""


@dataclass(frozen=True, slots=True)
class _Value:
    """The real tensor behind a fake one; `expected` if it rests on what is expected of unknown values."""

    tensor: torch.Tensor
    expected: bool = False


class KnownValues(TorchDispatchMode):
    """Computes real values beside fake ones wherever all tensors of a call are known and small.

    So a model can ask: is there padding, is the mask full, how long is the longest sequence? Parameters and
    floating tensors of the sample stay unknown, and so does what depends on them: there a check is taken to pass and
    a mask to select everything, as a router may every expert. Lies below the tracer and above the fake tensors.

    Raises:
        AuditError: the model asks for a value that is not known; names operator and line.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values: MutableMapping[torch.Tensor, _Value] = WeakTensorKeyDictionary()
        self._stale: dict[int, torch.UntypedStorage] = {}
        self._expectations: dict[str, None] = {}

    @property
    def expectations(self) -> tuple[str, ...]:
        """Return the lines that went on by such an expectation, each once."""
        return tuple(self._expectations)

    def keep(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        """Remember a tensor of the sample, unless it is large or holds floats."""
        if _is_small(real) and not real.is_meta and (real.numel() == 1 or not _is_fractional(real)):
            self._values[fake] = _Value(real.detach().clone())

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, facts = kwargs or {}, facts_of(func)
        values = {id(tensor): self._value(tensor) for tensor in tensors_of((args, kwargs))}
        known = {key: value.tensor for key, value in values.items() if value is not None}
        expected = any(value.expected for value in values.values() if value is not None)
        computable = len(known) == len(values) and not facts.draws and not facts.unfilled
        try:
            result = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            line = user_line() or "a line outside of files"
            if not computable and func is torch.ops.aten.nonzero.default and _is_small(args[0]):
                known, expected = {id(args[0]): _filled(args[0], True)}, True
            elif not computable:
                raise AuditError(
                    f"the model asks for a value at {line} ({facts.op}) that only a real run has: "
                    "audit it with execute=True, or a smaller model of the same kind"
                ) from None
            if expected:
                self._expectations[str(line)] = None
            real = _computed(func, args, kwargs, known)
            result = tree_map_only(torch.Tensor, lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype), real)
            self._note(result, real, expected)
            return result
        if computable and all(_is_small(tensor) for tensor in tensors_of(result)):
            self._note(result, _computed(func, args, kwargs, known), expected)
            return result
        given = facts.by_name(args, kwargs)
        self._forget(tensor for name in facts.written_by(given) for tensor in tensors_of(given[name]))
        check = _EXPECTED.get(facts.op.rpartition(".")[0])
        if check is not None and _is_small(result):
            self._values[result] = _Value(_filled(result, check), expected=True)
        return result

    def _value(self, tensor: torch.Tensor) -> _Value | None:
        """Return what is known of an argument; the model's own small constants are known, in a copy."""
        value = self._values.get(tensor)
        if value is None and not isinstance(tensor, FakeTensor) and not tensor.is_meta and _is_small(tensor):
            with torch._C._DisableTorchDispatch():
                value = self._values[tensor] = _Value(tensor.detach().clone())
        if value is None or value.tensor.untyped_storage()._cdata in self._stale:
            return None
        return value

    def _note(self, fake: object, real: object, expected: bool) -> None:
        for one, two in zip(tree_leaves(fake), tree_leaves(real), strict=True):
            if isinstance(one, torch.Tensor):
                self._values[one] = _Value(two, expected)

    def _forget(self, written: Iterable[torch.Tensor]) -> None:
        """Something unknown was written to these: all that shares their memory is unknown from now on."""
        for tensor in written:
            value = self._values.get(tensor)
            if value is not None:  # the storage is held, so that no other can have its address
                storage = value.tensor.untyped_storage()
                self._stale[storage._cdata] = storage


def _computed(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: Mapping[int, torch.Tensor]) -> Any:
    """Run an operator on the values of its arguments."""
    real_args, real_kwargs = tree_map_only(torch.Tensor, lambda tensor: known[id(tensor)], (args, dict(kwargs)))
    with torch._C._DisableTorchDispatch():
        return func(*real_args, **real_kwargs)


def _filled(like: torch.Tensor, flag: bool) -> torch.Tensor:
    with torch._C._DisableTorchDispatch():
        return torch.full(like.shape, flag)


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.numel() <= _MOST


def _is_fractional(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
