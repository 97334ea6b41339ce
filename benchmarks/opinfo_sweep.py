"""Does the auditor run over every operator that torch tests, and report every one that draws random numbers?

Audits the first samples (float32, CPU) of each entry of torch's `op_db`, backward too where that is supported. Needs
`expecttest`, as torch's own tests do.

    python benchmarks/opinfo_sweep.py
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from itertools import islice

import torch
import torch.testing._internal.common_methods_invocations as invocations

import detlint
from detlint.errors import AuditError
from detlint.runtime.generators import read_generators
from detlint.runtime.randomness import moved

SAMPLES = 2


def draws(function: object, sample: detlint.Sample) -> bool:
    """Does a call really move torch's generator?"""
    before = read_generators()
    copy = sample.copied()
    function(*copy.args, **copy.kwargs)  # type: ignore[operator]
    return "cpu" in moved(before)


def main() -> int:
    warnings.simplefilter("ignore")
    # it freezes the generators around operators that draw, which would hide the draws from this script
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    drawing: set[str] = set()
    for op in invocations.op_db:
        if torch.float32 not in op.supported_dtypes("cpu"):
            outcomes["no float32 on the CPU"] += 1
            continue
        backward = op.supports_autograd
        for item in islice(op.sample_inputs("cpu", torch.float32, requires_grad=backward), SAMPLES):
            sample = detlint.Sample((item.input, *item.args), item.kwargs)
            try:
                drew = draws(op.op, sample)
            except Exception:
                outcomes["the operator itself raised"] += 1
                continue
            try:
                report = detlint.audit(op.op, sample, probes=("repeat",), backward=backward, runs=2)
            except AuditError as error:
                outcomes[f"AuditError: {str(error)[:60]}"] += 1
                continue
            except Exception as error:
                wrong.append(f"{op.formatted_name}: {error!r}")
                continue
            repeat = report.probes["repeat"]
            outcomes[repeat.verdict.value] += 1
            if repeat.verdict.value == "error":
                wrong.append(f"{op.formatted_name}: {repeat.reason}")
            if repeat.verdict.value not in ("bitwise", "error"):
                print(f"{op.formatted_name}: {repeat.cause}")
            if drew:
                drawing.add(op.formatted_name)
                if not any(event.rng for event in report.events):
                    wrong.append(f"{op.formatted_name}: draws, but no event says so")
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:5} {outcome}")
    print(f"{len(drawing)} operators draw random numbers; {len(wrong)} errors", *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
