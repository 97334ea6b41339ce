"""A standalone script that shows a difference again, with made-up inputs where these do."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from detlint.errors import AuditError
from detlint.runtime.digests import is_plain
from detlint.runtime.flags import statements
from detlint.runtime.measure import same_bits
from detlint.runtime.repro import Call, Repro, shrunk

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAKERS: Final = '''\
def normal(seed, *size):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def integers(seed, low, high, *size):
    return torch.randint(low, high + 1, size, generator=torch.Generator().manual_seed(seed))


def stored(text, dtype, *size):
    return torch.frombuffer(bytearray(zlib.decompress(base64.b85decode(text))), dtype=dtype).reshape(size)


def laid_out(values, dtype, strides, offset, device):
    """Put values into memory of their own, at these strides."""
    size = [1 if step == 0 else extent for extent, step in zip(values.shape, strides)]
    reach = offset + 1 + sum((extent - 1) * step for extent, step in zip(size, strides))
    memory = torch.zeros(max(reach, 1), dtype=dtype, device=device)
    memory.as_strided(size, strides, offset).copy_(values[tuple(slice(extent) for extent in size)])
    return memory.as_strided(values.shape, strides, offset)
'''
"""How the script makes tensors; run here too, so that what was tested is what it does."""

_SCRIPT: Final = '''\
r"""{title}

Written by detlint. Exits with 1 where the difference shows, with 0 where it does not.
"""

import base64
import sys
import zlib

import torch
from torch.utils._pytree import tree_leaves


{makers}

{part}{calls}

def bits(tensors):
    return [tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors]


def same(one, two):
    return len(one) == len(two) and all(map(torch.equal, bits(one), bits(two)))


torch.set_num_threads({threads})
print("torch", torch.__version__, "with", torch.get_num_threads(), "threads")
first = one()
{compare}
if same(first, other):
    print("{op}: the same bits")
    sys.exit(0)
for place, (left, right) in enumerate(zip(first, other)):
    gap = (left.double() - right.double()).abs()
    print(f"{op}: result {{place}}: {{int((gap != 0).sum())}} of {{gap.numel()}} differ, by at most {{gap.max()}}")
sys.exit(1)
'''
_CALL: Final = """\
def {name}():
{settings}    with torch.no_grad():
        result = {function}({arguments})
    results = [tensor for tensor in tree_leaves(result) if isinstance(tensor, torch.Tensor)]
    return {counting}

"""
_PART: Final = """\
from torch import device, inf, nan  # noqa: E402  as generated code names them


{code}


compiled = torch.compile(part, backend={backend!r}{mode})


"""
"""A part of a graph, as torch.fx writes it, and its compiled form."""
_LIMIT: Final = 16_000_000
"""Bytes of inputs that are written into the script where made-up ones do not show the difference."""


def script(repro: Repro) -> str:
    """Make the calls small and write them down.

    Raises:
        AuditError: the operator or its inputs cannot be written down.
    """
    if not isinstance(repro.one.func, fx.GraphModule) and not str(repro.one.func).startswith(("aten.", "prims.")):
        name = str(repro.one.func)
        raise AuditError(f"{name}: it is no operator of torch itself, so no script can call it without your library")
    repro = shrunk(repro)
    for made_up in (True, False):
        sources = _Sources(repro, made_up=made_up)
        if made_up and (sources.unrelated or not sources.rebuilt().differs()):
            continue
        return sources.render()
    raise AssertionError


class _Sources:
    """Expressions that make the tensors of the calls."""

    def __init__(self, repro: Repro, *, made_up: bool) -> None:
        self._repro = repro
        self._made_up = made_up
        self.unrelated = False
        """Would made-up inputs of the two calls have nothing to do with each other?"""
        first = repro.one.tensors()
        values = [self._values(place, tensor) for place, tensor in enumerate(first)]
        self._texts = [list(map(_laid_out, values, first))]
        if repro.two is not None:
            self._texts.append(
                [self._second(place, tensor, first, values) for place, tensor in enumerate(repro.two.tensors())]
            )

    def rebuilt(self) -> Repro:
        """Return the calls with the tensors that the expressions make."""
        names: dict[str, Any] = {"torch": torch, "base64": base64, "zlib": zlib}
        exec(_MAKERS, names)

        def made(call: Call, texts: Sequence[str]) -> Call:
            return call.with_tensors([eval(text, names) for text in texts])

        one, *others = map(made, self._repro.calls(), self._texts)
        return Repro(self._repro.cause, one, *others)

    def render(self) -> str:
        """Return the script."""
        func = self._repro.one.func
        part = _part_of_graph(self._repro) if isinstance(func, fx.GraphModule) else ""
        calls = list(zip(("one", "two"), self._repro.calls(), self._texts, strict=False))
        compare = (
            "other = next((again for again in (one() for _ in range(1000)) if not same(first, again)), first)"
            if self._repro.two is None
            else "other = two()"
        )
        return _SCRIPT.format(
            title=self._repro.cause.replace('"""', "'"),
            makers=_MAKERS,
            part=part,
            calls="\n\n".join(_call(name, call, texts) for name, call, texts in calls),
            threads=torch.get_num_threads(),
            compare=compare,
            op="the part of the graph" if part else func,
        )

    def _values(self, place: int, tensor: torch.Tensor) -> str:
        if not is_plain(tensor):
            raise AuditError(f"argument {place} is a {tensor.layout} tensor: it cannot be written into a script")
        size = "".join(f", {extent}" for extent in tensor.shape)
        if self._made_up and tensor.is_floating_point():
            return f"normal({place}{size})"
        if self._made_up and tensor.numel() and not tensor.is_complex():
            whole = tensor.to(torch.int64)
            return f"integers({place}, {int(whole.min())}, {int(whole.max())}{size})"
        octets = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        if len(octets) > _LIMIT:
            raise AuditError(
                f"argument {place} has {len(octets):,} bytes, and made-up values do not show the difference: "
                "too much for a script"
            )
        return f"stored({base64.b85encode(zlib.compress(octets)).decode()!r}, {tensor.dtype}{size})"

    def _second(self, place: int, tensor: torch.Tensor, first: Sequence[torch.Tensor], values: Sequence[str]) -> str:
        """Make a tensor of the second call out of that of the first, where it is one of its parts."""
        if place < len(first):
            part = _part(first[place], tensor)
            if part is not None:
                return _laid_out(f"{values[place]}{_indexed(part)}", tensor)
            self.unrelated |= tensor.is_floating_point()
        return _laid_out(self._values(len(first) + place, tensor), tensor)


def _part(whole: torch.Tensor, part: torch.Tensor) -> tuple[slice, ...] | None:
    """Where in `whole` does `part` lie? () for all of it, None for nowhere."""
    if whole.dim() != part.dim() or whole.dtype != part.dtype:
        return None
    if whole.shape == part.shape:
        return () if same_bits(whole, part) else None
    room = tuple(slice(max(0, a - b + 1)) for a, b in zip(whole.shape, part.shape, strict=True))
    if not part.numel() or not whole[room].numel():
        return None
    for corner in (whole[room] == part[(0,) * part.dim()]).nonzero()[:64].tolist():
        window = tuple(slice(start, start + extent) for start, extent in zip(corner, part.shape, strict=True))
        if same_bits(whole[window].contiguous(), part.contiguous()):
            return window
    return None


def _indexed(window: Sequence[slice]) -> str:
    if not window:
        return ""
    return "[" + ", ".join(map(_slice, window)) + "]"


def _slice(part: slice) -> str:
    bounds = ["" if bound is None else str(bound) for bound in (part.start, part.stop)]
    return ":".join([*bounds, *([] if part.step is None else [str(part.step)])])


def _laid_out(values: str, tensor: torch.Tensor) -> str:
    offset = tensor.storage_offset() % 64  # what matters is the alignment
    device = str(tensor.device)
    return f"laid_out({values}, {tensor.dtype}, {tuple(tensor.stride())}, {offset}, {device!r})"


def _part_of_graph(repro: Repro) -> str:
    """Return the definition of the part and of its compiled form."""
    module, compiler = repro.one.func, repro.calls()[-1].compiler
    constants = [node.name for node in module.graph.nodes if node.op == "get_attr"]
    if constants:
        raise AuditError(f"the part of the graph that departs holds constants ({constants[0]}), which no script can")
    assert compiler is not None
    if not isinstance(compiler.backend, str):
        raise AuditError(f"{compiler}: the backend is a function of your program, which no script can call")
    return _PART.format(
        code=module.code.strip().replace("def forward(self, ", "def part(", 1),
        backend=compiler.backend,
        mode="" if compiler.mode == "default" else f", mode={compiler.mode!r}",
    )


def _call(name: str, call: Call, texts: Sequence[str]) -> str:
    leaves, tree = tree_flatten((call.args, call.kwargs))
    rest = iter(texts)
    args, kwargs = tree_unflatten(
        [_Text(next(rest)) if isinstance(leaf, torch.Tensor) else _Text(_literal(leaf)) for leaf in leaves], tree
    )
    if isinstance(call.func, fx.GraphModule):
        names = [node.name for node in call.func.graph.nodes if node.op == "placeholder"]
        function = "part" if call.compiler is None else "compiled"
    else:
        names = [argument.name for argument in call.func._schema.arguments]
        function = f"torch.ops.{call.func}"
    arguments = [f"{value!r},  # {name}" for name, value in zip(names, args, strict=False)]
    arguments += [f"{key}={value!r}," for key, value in kwargs.items()]
    lines = "".join(f"    {line}\n" for line in statements(call.flags))
    return _CALL.format(
        name=name,
        settings=lines,
        function=function,
        arguments="".join(f"\n            {argument}" for argument in arguments) + "\n        ",
        counting=f"[results[0]{_indexed(call.window)}]" if call.window else "results",
    )


class _Text:
    """Source that stands for itself within containers."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _literal(value: object) -> str:
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.layout, torch.memory_format)):
        text = repr(value)
        return f'float("{text}")' if text in ("inf", "-inf", "nan") else text
    raise AuditError(f"an argument of type {type(value).__name__} cannot be written into a script")
