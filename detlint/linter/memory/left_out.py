"""Is the code that initialises an attribute left out, by default, by a choice, or for what is loaded later?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.unpassed import optional_in
from detlint.linter.programs.left_on import takes_default
from detlint.linter.source.names import FunctionNode, parameters, run_by
from detlint.linter.source.nodes import identifier, is_own, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from detlint.linter.analysis.context import Context

# What is run once, before anything is read.
_SETS_UP = re.compile(r"^_*(init|reset)")
# Flags of constructors that say whether a model is initialised at all, or is going to be loaded.
_SAYS_IF_AT_ALL = re.compile(
    r"(^|_)(re)?(init(iali[sz]e|iali[sz]ation)?|load(ed|ing)?|pretrained|checkpoint|meta|lazy|defer(red)?)(_|$)"
)
# What a checkpoint brings back.
_SAVED = frozenset({"Parameter", "Buffer", "register_parameter", "register_buffer"})
# Flags that say whether there is anything to initialise, or whether something else does.
_SAYS_WHETHER = re.compile(r"init|load|pretrain|train|first|meta|fit|ready|done|seen|reset|resum|rank|skip|defer|lazy")


def is_left_out_by_default(place: ast.expr, owner: ast.ClassDef, ctx: Context) -> bool:
    """`if self.fill is not None: self.fill(self.bias)` where the constructor has `fill=None`."""
    filler = ast.unparse(place.func) if isinstance(place, ast.Call) else None
    tests = (parent for parent in ctx.ancestors(place) if isinstance(parent, ast.If) and not parent.orelse)
    if filler is None or not any(_is_given(parent.test, filler) for parent in tests):
        return False
    constructor = run_by(owner)
    if constructor is None:
        return False
    nothing = {
        argument.arg
        for argument, default in parameters(constructor.args)
        if isinstance(default, ast.Constant) and default.value is None
    }
    kept = {
        ast.unparse(target)
        for part in walk(constructor)
        if isinstance(part, ast.Assign) and getattr(part.value, "id", "") in nothing
        for target in part.targets
    }
    return filler in kept or (filler in nothing and ctx.function(place) is constructor)


def _is_given(test: ast.expr, name: str) -> bool:
    """`fill`, `fill is not None`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        test = test.left
    return ast.unparse(test) == name


def is_written_by_choice(node: ast.Attribute, made: ast.AST, ctx: Context) -> bool:
    """`if self.centered: nn.init.zeros_(self.mean)` in a reset, of a mean that is there in any case."""
    choices, function = _choices(node, ctx), ctx.function(node)
    if len(choices) != 1 or _choices(made, ctx) or function is None or not _SETS_UP.search(function.name):
        return False
    test = choices[0].test
    if not choices[0].orelse and _may_be_left_out(test, function, ctx):
        return True
    flag = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    chosen = (is_own(flag) or isinstance(flag, ast.Name)) and not _SAYS_WHETHER.search(identifier(flag))
    return chosen and not choices[0].orelse and identifier(flag) != node.attr


def _may_be_left_out(test: ast.expr, function: FunctionNode, ctx: Context) -> bool:
    """`if vectors is not None` of a parameter that is None by default, where not every caller gives it."""
    asked = test.left if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) else None
    if not isinstance(asked, ast.Name) or optional_in(asked, ctx) is not function or _SAYS_WHETHER.search(asked.id):
        return False
    owner = ctx.module.index.class_at(function)
    called = owner if function.name == "__init__" and owner is not None else function
    sites = list(calls_of(called, ctx))
    return not sites or any(
        site is not None and takes_default(site[1]) and argument_of(function, asked.id, site[1], skip_self=True) is None
        for site in sites
    )


def tests_left_to_loading(writes: Sequence[ast.expr], read: ast.expr, ctx: Context) -> Iterator[ast.If]:
    """Yield the `if config.perform_initialization:` around writes, where what is read then is a weight.

    So is `if fill:` of a parameter that is True unless somebody asks not to fill: a checkpoint is to bring the weight.
    """
    function = ctx.function(read)
    if function is None or not _SETS_UP.search(function.name) or not _is_saved(read, ctx):
        return
    for write in writes:
        for choice in _choices(write, ctx):
            if not choice.orelse and _says_if_at_all(choice.test, ctx):
                yield choice


def _says_if_at_all(test: ast.expr, ctx: Context) -> bool:
    """`perform_initialization`, `not skip_init`; a default in sight has to be the one that fills."""
    denied = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    flag = test.operand if isinstance(test, ast.UnaryOp) and denied else test
    bindings = ctx.module.definitions(flag) if isinstance(flag, ast.Name) else ()
    defaults = [each.value.value for each in bindings if isinstance(each.value, ast.Constant)]
    if any(isinstance(default, bool) for default in defaults):
        return all(default is not denied for default in defaults)
    return isinstance(flag, (ast.Name, ast.Attribute)) and bool(_SAYS_IF_AT_ALL.search(identifier(flag)))


def _is_saved(read: ast.expr, ctx: Context) -> bool:
    """`self.rate = nn.Parameter(rate.log())`, also under a name: `rate = rate.log()` before that."""
    statement = ctx.statement(read)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [target for target in targets if isinstance(target, ast.Name)]
    bindings = [bound for name in names for bound in ctx.module.index.bindings_of(name) if bound.node is name]
    uses = [read, *(use for binding in bindings for use in ctx.flow(read).uses(binding))]
    return any(
        isinstance(around, ast.Call) and identifier(around.func) in _SAVED
        for use in uses
        for around in ctx.ancestors(use)
    )


def is_read_in_any_case(node: ast.expr, written: ast.Attribute, ctx: Context) -> bool:
    """Is an attribute read on no condition that has to do with the one on which it is written?"""
    names = {identifier(part) for choice in _choices(written, ctx) for part in walk(choice.test)} - {"", "self"}
    tests = (around.test for around in ctx.ancestors(node) if isinstance(around, (ast.If, ast.IfExp)))
    return all(names.isdisjoint(map(identifier, walk(test))) for test in tests)


def _choices(node: ast.AST, ctx: Context) -> list[ast.If]:
    return [around for around in ctx.ancestors(node) if isinstance(around, ast.If)]
