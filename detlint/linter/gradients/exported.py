"""Is code there for graphs that are exported, and run elsewhere without gradients: to ONNX, or to TorchScript?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.gradients.served import uses_of_definition
from detlint.linter.programs.training import trains
from detlint.linter.source.names import FUNCTIONS

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

_EXPORTING = "torch.onnx.is_in_onnx_export"
_EXPORT = re.compile(r"(^|_)(export|onnx|coreml|tflite|tensorrt|trt|openvino|torchscript)(_|$)")


def is_exported(node: ast.AST, ctx: Context) -> bool:
    """`if torch.onnx.is_in_onnx_export():`, `def forward_export(self, x):`, and layers that only those make."""
    function = ctx.function(node)
    if function is not None and _EXPORT.search(function.name):
        return True
    owner = ctx.module.index.class_at(node)
    if owner is not None and ctx.module.project.once(_is_only_made_to_export, (ctx.module, owner)):
        return True
    return any(
        holds and isinstance(test, ast.Call) and _EXPORTING in ctx.callees(test)
        for test, holds in ctx.module.index.conditions_around(node)
    )


def _is_only_made_to_export(part: tuple[Module, ast.ClassDef]) -> bool:
    """Does the project name a layer only where functions make it that export: `jit.script(Scores(model))`?"""
    module, owner = part
    uses = list(uses_of_definition(module, owner))
    return bool(uses) and all(use is not None and _is_made_to_export(*use) for use in uses)


def _is_made_to_export(module: Module, use: ast.AST) -> bool:
    made = module.index.parents.get(use)
    function = next((each for each in module.index.ancestors(use) if isinstance(each, FUNCTIONS)), None)
    called = isinstance(made, ast.Call) and made.func is use
    return called and function is not None and _EXPORT.search(function.name) is not None and not trains(function)
