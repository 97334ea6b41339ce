"""CPU cases behind the table's measured claims: what differs, what does not, each run again and again.

A case is a function that makes its inputs once, from a fixed seed, and returns the thing to repeat. The inputs are
large enough for two threads to share the work: torch's grain size is 32,768 elements.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from detlint.operators import Operator

Run = Callable[[], torch.Tensor]

RUNS = 50
TRIES = 10
SIZE = 1_000_000
SLOTS = 50


@dataclass(frozen=True, slots=True)
class Case:
    """A run to repeat. `entry` is the table's entry that it confirms; None: nothing may differ here."""

    name: str
    entry: str | None
    make: Callable[[], Run]
    compiled: bool = False


def measure(operators: tuple[Operator, ...], *, compiled: bool) -> Iterator[str]:
    """Yield one line for each case that does not behave as the table says."""
    known = {operator.name: operator for operator in operators}
    cases = [case for case in CASES if compiled or not case.compiled]
    claimed = {operator.name for operator in operators if operator.evidence == "measured" and "cpu" in operator.devices}
    tried = {case.entry for case in CASES}
    for name in sorted(claimed - tried):
        yield f"{name}: claims a CPU measurement, but no case measures it"
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")  # quantized tensors are deprecated
    for case in cases:
        free = results(case.make(), RUNS)
        print(f"{free:3d} of {RUNS}  {case.name}")
        if case.entry is None:
            if free > 1:
                yield f"{case.name}: {free} results in {RUNS} runs, but no entry says so"
            continue
        tries = 1
        while free == 1 and tries < TRIES:  # some races show once in a hundred runs
            free, tries = results(case.make(), RUNS), tries + 1
        if free == 1:
            yield f"{case.name}: one result in {tries * RUNS} runs, but {case.entry} says it differs"
        flagged = under_flag(case)
        if flagged != known[case.entry].with_flag:
            yield f"{case.name}: {flagged} under the flag, but {case.entry} says {known[case.entry].with_flag}"


def results(run: Run, runs: int) -> int:
    """How many different byte strings do `runs` runs give?"""
    return len({hashlib.sha256(run().contiguous().view(torch.uint8).numpy().tobytes()).digest() for _ in range(runs)})


def under_flag(case: Case) -> str:
    """What does the case do under use_deterministic_algorithms(True)? The answer is a word of the table."""
    torch.use_deterministic_algorithms(True)
    try:
        return "deterministic" if results(case.make(), 20) == 1 else "unaffected"
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        return "error"
    finally:
        torch.use_deterministic_algorithms(False)
        torch.compiler.reset()


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _values(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(*size, generator=_generator()).to(dtype)


def _index(size: int = SIZE, slots: int = SLOTS) -> torch.Tensor:
    return torch.randint(slots, (size,), generator=_generator())


def _in_place(change: Callable[[torch.Tensor], object], *size: int, dtype: torch.dtype = torch.float32) -> Run:
    def run() -> torch.Tensor:
        out = torch.zeros(*size, dtype=dtype)
        change(out)
        return out

    return run


def _gradient(use: Callable[[torch.Tensor], torch.Tensor], *size: int) -> Run:
    upstream = use(torch.zeros(*size)).detach()
    upstream.copy_(_values(*upstream.shape))

    def run() -> torch.Tensor:
        leaf = torch.zeros(*size, requires_grad=True)
        (gradient,) = torch.autograd.grad(use(leaf), leaf, upstream)
        return gradient

    return run


def index_put_accumulate(dtype: torch.dtype = torch.float32, size: int = SIZE) -> Run:
    index, values = _index(size), _values(size, dtype=dtype)
    return _in_place(lambda out: out.index_put_((index,), values, accumulate=True), SLOTS, dtype=dtype)


def index_put_duplicates() -> Run:
    index, values = _index(), _values(SIZE)
    return _in_place(lambda out: out.index_put_((index,), values), SLOTS)


def index_put_mask() -> Run:
    mask = _values(SIZE) > 0.5
    values = _values(int(mask.sum()))
    return _in_place(lambda out: out.index_put_((mask,), values), SIZE)


def put_accumulate() -> Run:
    index, values = _index(), _values(SIZE)
    return _in_place(lambda out: out.put_(index, values, accumulate=True), SLOTS)


def put_overwrite() -> Run:
    index, values = _index(), _values(SIZE)
    return _in_place(lambda out: out.put_(index, values), SLOTS)


def index_copy_duplicates() -> Run:
    index, values = _index(20_000), _values(20_000, 64)
    return _in_place(lambda out: out.index_copy_(0, index, values), SLOTS, 64)


def index_add() -> Run:
    index, values = _index(20_000), _values(20_000, 64)
    return _in_place(lambda out: out.index_add_(0, index, values), SLOTS, 64)


def scatter_add() -> Run:
    index, values = _index(), _values(SIZE)
    return _in_place(lambda out: out.scatter_add_(0, index, values), SLOTS)


def scatter_reduce(reduce: str) -> Callable[[], Run]:
    def make() -> Run:
        index, values = _index(), _values(SIZE)
        return _in_place(lambda out: out.scatter_reduce_(0, index, values, reduce), SLOTS)

    return make


def scatter_duplicates() -> Run:
    index, values = _index(), _values(SIZE)
    return _in_place(lambda out: out.scatter_(0, index, values), SLOTS)


def getitem_backward() -> Run:
    index = _index(20_000)
    return _gradient(lambda leaf: leaf[index], SLOTS, 64)


def take_backward() -> Run:
    index = _index()
    return _gradient(lambda leaf: leaf.take(index), SLOTS)


def index_select_backward() -> Run:
    index = _index(20_000)
    return _gradient(lambda leaf: leaf.index_select(0, index), SLOTS, 64)


def gather_backward() -> Run:
    index = _index()
    return _gradient(lambda leaf: leaf.gather(0, index), SLOTS)


def embedding_backward() -> Run:
    index = _index(20_000)
    return _gradient(lambda weight: torch.nn.functional.embedding(index, weight), SLOTS, 64)


def grid_sample_backward() -> Run:
    grid = _values(1, 256, 256, 2) * 2 - 1
    return _gradient(lambda image: torch.nn.functional.grid_sample(image, grid, align_corners=False), 1, 8, 16, 16)


def interpolate_backward(mode: str) -> Callable[[], Run]:
    def make() -> Run:
        return _gradient(lambda image: torch.nn.functional.interpolate(image, size=(301, 301), mode=mode), 1, 8, 33, 33)

    return make


def max_unpool() -> Run:
    indices, values = _index(SIZE).view(1, 1, 1000, 1000), _values(1, 1, 1000, 1000)
    return lambda: torch.nn.functional.max_unpool2d(values, indices, [2, 2])


def cumsum() -> Run:
    values = _values(SIZE)
    return lambda: values.cumsum(0)


def bincount_weights() -> Run:
    index, values = _index(), _values(SIZE)
    return lambda: torch.bincount(index, values)


def sort_ties(pick: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Run]:
    def make() -> Run:
        values = _index(SIZE, 5).float()
        return lambda: pick(values)

    return make


def attention_backward() -> Run:
    other = _values(2, 4, 512, 32)
    return _gradient(lambda query: torch.nn.functional.scaled_dot_product_attention(query, other, other), 2, 4, 512, 32)


def convolution_backward() -> Run:
    image = _values(4, 8, 64, 64)
    return _gradient(lambda weight: torch.nn.functional.conv2d(image, weight), 16, 8, 3, 3)


def matrix_product() -> Run:
    left, right = _values(64, 100_000), _values(100_000, 64)
    return lambda: left @ right


def fourier() -> Run:
    values = _values(64, 4096)
    return lambda: torch.view_as_real(torch.fft.rfft(values))


def eigenvalues() -> Run:
    values = _values(200, 200)
    return lambda: torch.linalg.eigh(values + values.T).eigenvectors


def uninitialized() -> Run:
    count = iter(range(1_000_000))

    def run() -> torch.Tensor:
        dirt = torch.full((1000,), float(next(count)))
        del dirt  # its memory is handed out again
        return torch.empty(1000)

    return run


def quantized_resize() -> Run:
    count = iter(range(1_000_000))

    def run() -> torch.Tensor:
        dirt = torch.full((1000,), next(count) % 120 + 1, dtype=torch.uint8)
        small = torch.quantize_per_tensor(torch.zeros(4), 0.1, 0, torch.quint8)
        del dirt
        return small.resize_(1000).int_repr()

    return run


def compiled(change: Callable[..., torch.Tensor], *inputs: Callable[[], torch.Tensor]) -> Callable[[], Run]:
    def make() -> Run:
        function, arguments = torch.compile(change), [each() for each in inputs]
        return lambda: function(*arguments)

    return make


def compiled_gradient(use: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[], Run]:
    def make() -> Run:
        index, function = _index(20_000), torch.compile(use)
        return _gradient(lambda leaf: function(leaf, index), SLOTS, 64)

    return make


def _rows() -> torch.Tensor:
    return _values(20_000, 64)


def _row_index() -> torch.Tensor:
    return _index(20_000)


CASES = [
    Case("index_put_(accumulate=True), float32", "index-put-accumulate-cpu", index_put_accumulate),
    Case("put_(accumulate=True), float32", "put-accumulate-cpu", put_accumulate),
    Case("x[index] backward", "getitem-backward-cpu", getitem_backward),
    Case("take backward", "take-backward-cpu", take_backward),
    Case("index_put_, duplicates", "index-put-duplicates", index_put_duplicates),
    Case("index_copy_, duplicates", "index-copy-duplicates", index_copy_duplicates),
    Case("put_, duplicates", "put-overwrite", put_overwrite),
    Case("max_unpool2d, duplicates", "max-unpool", max_unpool),
    Case("empty", "uninitialized", uninitialized),
    Case("quantized resize_", "quantized-resize", quantized_resize),
    Case("index_put_(accumulate=True), float64", None, lambda: index_put_accumulate(torch.float64)),
    Case("index_put_(accumulate=True), bfloat16", None, lambda: index_put_accumulate(torch.bfloat16)),
    Case("index_put_(accumulate=True), 20,000 elements", None, lambda: index_put_accumulate(size=20_000)),
    Case("index_put_, mask", None, index_put_mask),
    Case("index_add_", None, index_add),
    Case("scatter_add_", None, scatter_add),
    *(Case(f"scatter_reduce_({each!r})", None, scatter_reduce(each)) for each in ("sum", "mean", "prod", "amax")),
    Case("scatter_, duplicates", None, scatter_duplicates),
    Case("index_select backward", None, index_select_backward),
    Case("gather backward", None, gather_backward),
    Case("embedding backward", None, embedding_backward),
    Case("grid_sample backward", None, grid_sample_backward),
    *(Case(f"interpolate({each!r}) backward", None, interpolate_backward(each)) for each in ("bilinear", "bicubic")),
    Case("cumsum", None, cumsum),
    Case("bincount with weights", None, bincount_weights),
    Case("sort, ties", None, sort_ties(lambda values: values.sort().indices)),
    Case("topk, ties", None, sort_ties(lambda values: values.topk(100).indices)),
    Case("mode, ties", None, sort_ties(lambda values: values.view(1000, 1000).mode(1).indices)),
    Case("median, ties", None, sort_ties(lambda values: values.view(1000, 1000).median(1).indices)),
    Case("kthvalue, ties", None, sort_ties(lambda values: values.view(1000, 1000).kthvalue(500).indices)),
    Case("attention backward", None, attention_backward),
    Case("conv2d backward", None, convolution_backward),
    Case("matrix product", None, matrix_product),
    Case("rfft", None, fourier),
    Case("eigh", None, eigenvalues),
    Case(
        "compiled index_add",
        "compiled-index-add",
        compiled(lambda i, v: v.new_zeros(SLOTS, 64).index_add(0, i, v), _row_index, _rows),
        compiled=True,
    ),
    Case(
        "compiled index_put(accumulate=True)",
        "compiled-index-put",
        compiled(lambda i, v: v.new_zeros(SLOTS, 64).index_put((i,), v, accumulate=True), _row_index, _rows),
        compiled=True,
    ),
    Case(
        "compiled scatter, duplicates",
        "compiled-scatter-duplicates",
        compiled(lambda i, v: v.new_zeros(SLOTS).scatter(0, i, v), _index, lambda: _values(SIZE)),
        compiled=True,
    ),
    Case(
        "compiled index_select backward",
        "compiled-index-select-backward",
        compiled_gradient(lambda leaf, index: leaf.index_select(0, index)),
        compiled=True,
    ),
    Case(
        "compiled embedding backward",
        "compiled-embedding-backward",
        compiled_gradient(lambda leaf, index: torch.nn.functional.embedding(index, leaf)),
        compiled=True,
    ),
    Case(
        "compiled scatter_add",
        None,
        compiled(lambda i, v: v.new_zeros(SLOTS).scatter_add(0, i, v), _index, lambda: _values(SIZE)),
        compiled=True,
    ),
]
