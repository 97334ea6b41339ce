"""Programs that are fixed, before and after."""

from __future__ import annotations

from pathlib import Path

from detlint.config import ConfigResolver
from detlint.linter.fixing import FixedFile, fix_paths

LISTING = "import os\n\ndef files(root):\n    return list(os.listdir(root))\n"
FIXED = LISTING.replace("list(os.listdir(root))", "sorted(os.listdir(root))")
DROPOUT = """
import torch.nn as nn
import torch.nn.functional as F

class Block(nn.Module):
    def forward(self, x):
        return F.dropout(  # {comment}
            x,
            0.1,
        )
"""
MENDED = DROPOUT.replace("            0.1,\n", "            0.1,\n            training=self.training,\n")


def fixes(*paths: Path, unsafe: bool = True) -> list[FixedFile]:
    resolver = ConfigResolver(isolated=True)
    return list(fix_paths([str(path) for path in paths], resolver=resolver, unsafe=unsafe).files)


def fix(path: Path, *, unsafe: bool = True) -> bytes:
    for fixed in fixes(path, unsafe=unsafe):
        fixed.write()
    return path.read_bytes()
