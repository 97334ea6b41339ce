"""The arguments of a recorded operator, as the conditions of the tables ask about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from detlint.conditions import UNKNOWN, Truth
from detlint.runtime.events import OpEvent, TensorMeta

if TYPE_CHECKING:
    from detlint.runtime.events import Value

_WORKED_ON = ("self", "input", "grad_output", "grad_out")


class EventArguments:
    """Answers `detlint.conditions.Arguments` from one event.

    `input` is the tensor the operator works on; every other name is a parameter of its schema.
    """

    def __init__(self, event: OpEvent) -> None:
        self._values = event.arguments
        self._first = event.inputs[0] if event.inputs else None

    def has(self, name: str) -> bool:
        return name == "input" or name in self._values

    def literal(self, name: str) -> object:
        value = self._value(name)
        return UNKNOWN if _holds_tensor(value) else value

    def given(self, name: str) -> Truth:
        return Truth.of(self._value(name) is not None)

    def tensor(self, name: str) -> Truth:
        return Truth.of(isinstance(self._value(name), TensorMeta))

    def dtype(self, name: str) -> str | None:
        meta = self._meta(name)
        return None if meta is None else meta.dtype

    def ndim(self, name: str) -> int | None:
        meta = self._meta(name)
        return None if meta is None else len(meta.shape)

    def numel(self, name: str) -> int | None:
        meta = self._meta(name)
        return None if meta is None else meta.numel

    def length(self, name: str) -> int | None:
        value = self._value(name)
        return len(value) if isinstance(value, tuple) else None

    def layout(self, name: str) -> str | None:
        meta = self._meta(name)
        if meta is None:
            return None
        return "sparse" if meta.layout.startswith("sparse") else "strided"

    def distinct(self, name: str) -> Truth:
        """A mask and a single index name every place once; of other indices the content is not recorded."""
        indices = _metas(self._value(name))
        if indices and all(index.dtype == "bool" or index.numel == 1 for index in indices):
            return Truth.YES
        return Truth.UNKNOWN

    def same(self, name: str, other: str) -> bool:
        return False  # what is equal is known by its value

    def fact(self, name: str) -> Truth:
        """A trace is of eager code: what torch.compile makes of it never reaches a dispatch mode."""
        return Truth.NO if name == "compiled" else Truth.UNKNOWN

    def _value(self, name: str) -> Value:
        if name == "input":
            for candidate in _WORKED_ON:
                if isinstance(self._values.get(candidate), TensorMeta):
                    return self._values[candidate]
            return self._first
        return self._values.get(name)

    def _meta(self, name: str) -> TensorMeta | None:
        value = self._value(name)
        return value if isinstance(value, TensorMeta) else None


def _metas(value: Value) -> tuple[TensorMeta, ...]:
    items = value if isinstance(value, tuple) else (value,)
    return tuple(item for item in items if isinstance(item, TensorMeta))


def _holds_tensor(value: Value) -> bool:
    return isinstance(value, TensorMeta) or (isinstance(value, tuple) and any(map(_holds_tensor, value)))
