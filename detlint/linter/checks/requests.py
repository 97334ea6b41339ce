"""Seeded programs that never ask for deterministic algorithms (DET407)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.findings import Finding
from detlint.linter.context import Context
from detlint.linter.devices import uses_cuda
from detlint.linter.names import FUNCTIONS
from detlint.linter.program import Program, calls_named
from detlint.linter.registry import check_file
from detlint.linter.seeding import Seed, seeding_of
from detlint.linter.testcode import is_test_file
from detlint.linter.training import trains

_WORK = re.compile(
    r"(^|_)(train|fit|finetune|eval|evaluate|validate|test|infer|inference|predict|generate|sample)(_|$)"
)
_SEEDS = re.compile(r"seed|random|determin|reproduc|setup|init|prepare|environment", re.IGNORECASE)
_INFERS = ("torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled")
_OPTIMIZES = "torch.optim."
_CALL_DEPTH = 4


@check_file("DET407")
def determinism_not_requested(ctx: Context) -> Iterator[Finding]:
    """Silent where anything in the program sets determinism, on or off, and where it cannot all be read."""
    if ctx.program is None or is_test_file(ctx.module) or not uses_cuda(ctx):
        return
    work = _work(ctx)
    if not work:
        return
    seeding = seeding_of(ctx.program)
    explicit = [seed for seed in seeding.of("torch") if seed.seeder is None or not seed.seeder.implicit]
    if explicit and not seeding.mentions_determinism:
        place = _place(explicit, ctx, ctx.program)
        if place is not None:
            yield ctx.finding(place, work=work)


def _work(ctx: Context) -> str:
    """Return what the file does with a model: "trains", "infers", or nothing."""
    module = ctx.module
    if trains(module.tree):
        return "trains"
    inferring = False
    for call in module.index.of_type(ast.Call):
        names = ctx.callees(call)
        if any(name.startswith(_OPTIMIZES) for name in names):
            return "trains"
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if _WORK.search(last) and any(module.project.definition(name) is not None for name in names):
            return "trains" if "train" in last or "fit" in last else "infers"
        if any(name.startswith("lightning.pytorch.Trainer.") for name in names):
            return "trains"
        inferring |= any(name in _INFERS for name in names)
    return "infers" if inferring else ""


def _place(seeds: list[Seed], ctx: Context, program: Program) -> ast.Call | None:
    """Return the first seed of this file, or the first call in it that leads to a seed in another one."""
    own = [seed.node for seed in seeds if seed.module is ctx.module]
    return own[0] if own else _call_leading_to(seeds, ctx, program)


def _call_leading_to(seeds: list[Seed], ctx: Context, program: Program) -> ast.Call | None:
    """A library that seeds somewhere deep inside is not this program seeding: the helpers have to say so by name."""
    wanted = {
        (seed.module, function)
        for seed in seeds
        if (function := seed.module.index.function_at(seed.node)) is not None
    }
    for _ in range(_CALL_DEPTH):
        callers = set()
        for owner, function in sorted(wanted, key=lambda found: (found[0].name, found[1].lineno)):
            if not _SEEDS.search(function.name):
                continue
            qualified = owner.qualified(function)
            for module in program.modules:
                for call in calls_named(module, (function.name,)):
                    if qualified not in module.inference.callees(call):
                        continue
                    if module is ctx.module:
                        return call
                    inside = module.index.function_at(call)
                    if isinstance(inside, FUNCTIONS):
                        callers.add((module, inside))
        wanted = callers
    return None
