"""Flags for determinism that are written to where nothing reads them: by a wrong name, or to a wrong backend."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from detlint.linter.analysis.attribute_writes import Write, attribute_writes
from detlint.linter.analysis.module import Module

CUDNN_DETERMINISTIC = "torch.backends.cudnn.deterministic"
# Flags of that name that there are besides (torch 2.13).
_OTHERS = ("torch.backends.mkldnn.deterministic",)
_LAST = CUDNN_DETERMINISTIC.rpartition(".")[2]
_LIKE = 0.85  # so much alike are a word and its misspelling


def stray_flags(module: Module) -> Iterator[Write]:
    """`cudnn.determinstic = True`, `torch.backends.cuda.deterministic = True`."""
    # Nobody gets the first letters wrong, and to compare words takes its time.
    written = [name for name in module.writes if name.startswith(_LAST[:2])]
    for write in attribute_writes(module, get_close_matches(_LAST, written, n=len(written) or 1, cutoff=_LIKE)):
        if write.name.startswith("torch.backends.") and write.name not in (CUDNN_DETERMINISTIC, *_OTHERS):
            yield write
