"""What does tracing and digesting cost? Plain pass, detlint's tracer and torch's DebugMode with hashes, side by side.

Two more show what no tracer of this kind can go below: a dispatch mode that does nothing, and one that digests what
each operator returned and keeps no record of it. Each round runs all of them, one after the other; the least and the
median time of all rounds are shown, and the peak memory of a whole `repeat` audit against that of plain passes: the
median of several processes of each kind, since how the heap is split differs from process to process. Last, what each
probe costs as a multiple of a plain pass: one that found a difference runs the model and the operator again to
explain it.

    python benchmarks/audit.py --rounds 10
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertModel, ResNetConfig, ResNetForImageClassification

import detlint
from detlint.runtime.digests import digest_bytes, in_memory_order
from detlint.runtime.memory import Memory
from detlint.runtime.overloads import tensors_of
from detlint.runtime.tracer import Tracer


def resnet50() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    return ResNetForImageClassification(ResNetConfig()).eval(), {"pixel_values": torch.randn(4, 3, 224, 224)}


def bert_base() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    return BertModel(BertConfig()).eval(), {"input_ids": torch.randint(0, 30000, (4, 128))}


MODELS = {"ResNet-50 4x3x224x224": resnet50, "BERT-base 4x128": bert_base}


def probes(name: str, wanted: list[str] | str, plain_rounds: int = 5) -> None:
    """Print what each probe costs on a model."""
    torch.manual_seed(0)
    model, sample = MODELS[name]()
    times = []
    with torch.no_grad():
        for _ in range(plain_rounds + 1):
            start = time.perf_counter()
            model(**sample)
            times.append(time.perf_counter() - start)
    plain = statistics.median(times[1:])
    for probe, result in detlint.audit(model, sample, probes=wanted).probes.items():
        runs = f"{result.runs} runs" if result.runs else result.reason
        print(f"{name:22} {probe:10} {result.seconds / plain:7.1f} x plain pass  {result.verdict.value:15} {runs}")


class BareMode(TorchDispatchMode):
    """Sees each operator and does nothing about it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class DigestsAlone(BareMode):
    """Digests what each operator returned."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for tensor in tensors_of(result):
            digest_bytes(in_memory_order(tensor))
        return result


def ways(model: torch.nn.Module, sample: dict[str, torch.Tensor]) -> dict[str, Callable[[], object]]:
    memory = Memory()

    def plain() -> None:
        model(**sample)

    def traced() -> None:
        memory.keep_only((*model.parameters(), *model.buffers()))
        with Tracer([model], memory=memory) as tracer:
            model(**sample)
        tracer.trace()

    def bare_mode() -> None:
        with BareMode():
            model(**sample)

    def digests_alone() -> None:
        with DigestsAlone():
            model(**sample)

    def debug_mode() -> None:
        with DebugMode(), DebugMode.log_tensor_hashes(hash_inputs=True):
            model(**sample)

    return {
        "plain": plain,
        "bare mode": bare_mode,
        "digests alone": digests_alone,
        "detlint": traced,
        "DebugMode": debug_mode,
    }


def measure(name: str, rounds: int) -> None:
    torch.manual_seed(0)
    model, sample = MODELS[name]()
    functions = ways(model, sample)
    seconds: dict[str, list[float]] = {way: [] for way in functions}
    with torch.no_grad():
        for function in functions.values():
            function()
        for _ in range(rounds):
            for way, function in functions.items():
                start = time.perf_counter()
                function()
                seconds[way].append(time.perf_counter() - start)
    least, middle = min(seconds["plain"]), statistics.median(seconds["plain"])
    for way, times in seconds.items():
        median = statistics.median(times)
        print(f"{name:22} {way:13} least {min(times):7.4f} s ({min(times) / least:4.2f} x)", end="")
        print(f"  median {median:7.4f} s ({median / middle:4.2f} x)")


def peak(name: str, audited: bool) -> int:
    """Peak memory of the process in kB, after three plain runs or a `repeat` audit of three runs."""
    torch.manual_seed(0)
    model, sample = MODELS[name]()
    if audited:
        assert detlint.audit(model, sample, probes=("repeat",)).ok
    else:
        detlint.audit  # noqa: B018 - what is imported counts on both sides
        with torch.no_grad():
            for _ in range(3):
                model(**sample)
    return _peak_of_this_process()


def _peak_of_this_process() -> int:
    # On Linux ru_maxrss starts from the peak of the process that started this one; VmHWM does not.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def compare_peaks(name: str, processes: int) -> None:
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        peaks = pool.starmap(peak, [(name, False), (name, True)] * processes, chunksize=1)
    plain, audited = statistics.median(peaks[::2]), statistics.median(peaks[1::2])
    print(f"{name:22} peak memory, median of {processes}: ", end="")
    print(f"plain {plain / 1024:.0f} MB, audited {audited / 1024:.0f} MB ({audited / plain - 1:+.1%}), ", end="")
    print(f"at most {max(peaks[::2]) / 1024:.0f} MB and {max(peaks[1::2]) / 1024:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=5, help="processes of each kind whose peaks are measured")
    parser.add_argument("--only", default="", help="run only models whose names begin so")
    parser.add_argument("--probes", nargs="*", help="which probes' costs to show; all if left out, none if empty")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in [name for name in MODELS if name.startswith(options.only)]:
        if options.rounds:
            measure(name, options.rounds)
        if options.processes:
            compare_peaks(name, options.processes)
        if options.probes != []:
            probes(name, options.probes or "all")


if __name__ == "__main__":
    main()
