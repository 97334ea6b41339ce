"""Layers that their module does not know of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.registry import check
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.modes.layers import switches_itself
from detlint.linter.modes.unregistered import PlainContainer


@check("DET203", nodes=(ast.ClassDef,))
def modules_in_plain_container(owner: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
    """`self.blocks = [Block() for _ in range(6)]`, where blocks hold dropout and forward calls them."""
    info = ctx.inference.class_info(owner)
    containers = {name: held for name in info.attributes if (held := PlainContainer(info, name, ctx)).is_plain}
    if not containers or not ctx.inference.is_module_class(info.name) or is_test_file(ctx.module):
        return
    for name, container in containers.items():
        if container.is_kept_away and not switches_itself(info):
            yield ctx.finding(
                ctx.statement(info.attributes[name][0].value),
                layer=f"the modules in self.{name}",
                reason="a plain list, tuple or dict registers nothing",
            )
