"""What does one use do with an order: does it only fill, count or show, or handle each element for itself?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from detlint.conditions import Truth
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.made import target_of
from detlint.linter.analysis.values import Kind
from detlint.linter.order.destination import OrderTracer
from detlint.linter.order.own_names import is_run_for_each, made_names, stores_under_own_name
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import identifier, is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module


class OrderUses:
    """Answers about single uses in one file, without a look at what becomes of them elsewhere."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._tracer = OrderTracer(ctx.module)

    def _is_handled_alone(self, call: ast.Call, loop: ast.For, names: frozenset[str]) -> bool:
        """`separate(model, path)`, a function of the project that writes a file named after this one."""
        return stores_under_own_name(call, made_names(loop, names, self._ctx), self._ctx) is Truth.YES

    def _changes_itself(self, call: ast.Call, names: frozenset[str]) -> bool:
        """`metric.reset()`, `scorer.update(scores)`: the element, or a part of it, by what it is told of no other."""
        method = call.func
        if not isinstance(method, ast.Attribute) or method.attr not in self._tracer.table.methods["resetting"]:
            return False
        changed = method.value
        while isinstance(changed, ast.Attribute):
            changed = changed.value
        return isinstance(changed, ast.Name) and changed.id in names

    def _class_of(self, holder: ast.expr) -> ClassInfo | None:
        """Return the class of the project that an object is of: of `self`, and of what is known to be of one alone.

        What such a class inherits from elsewhere might read all of it, to save a config for example.
        """
        inference, owner = self._tracer.inference, self._tracer.index.class_at(holder)
        if isinstance(holder, ast.Name) and holder.id in ("self", "cls"):
            return inference.class_info(owner) if owner is not None else None
        held = [value for value in inference.values(holder) if value.kind is not Kind.NONE]
        found = [inference.class_named(value.type) for value in held]
        only = found[0] if len(found) == 1 else None
        if only is None or self._ctx.module.project.folder(self._ctx.module) is None:  # a lone file: others may read it
            return None
        return only if self._tracer.table.functions["bases"].issuperset(inference.external_bases(only)) else None

    def _asks_kind(self, call: ast.AST | None) -> bool:
        """`isinstance(names, str)`."""
        return isinstance(call, ast.Call) and "builtins.isinstance" in self._tracer.inference.callees(call)

    def _is_text(self, node: ast.expr) -> bool:
        """`if isinstance(names, str): names = [names]`: of one text nobody has put in order."""
        for test, holds in self._tracer.index.branches_around(node):
            if not holds or not isinstance(test, ast.Call) or not self._asks_kind(test):
                continue
            if isinstance(node, ast.Name) and ast.unparse(test.args[0]) == node.id:
                return "builtins.str" in self._tracer.inference.resolve(test.args[-1])
        return False

    def _updates_dict(self, call: ast.Call) -> bool:
        """`weights.update(shard)`: where the loop leads says whether anybody goes through what is in the dict."""
        filled = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "update" else None
        return filled is not None and {value.kind for value in self._tracer.inference.values(filled)} == {Kind.DICT}

    def _fills(self, method: ast.AST) -> TypeGuard[ast.Attribute]:
        """`names.append`, `names.extend`."""
        methods = self._tracer.table.methods
        return isinstance(method, ast.Attribute) and method.attr in methods["appending"] | methods["extending"]

    def _is_shown(self, container: ast.expr) -> bool:
        """Is a list only filled, asked whether it is empty, and shown to people?"""
        index = self._tracer.index
        scope = index.scope_at(container).lookup(container.id) if isinstance(container, ast.Name) else None
        if scope is None or not isinstance(container, ast.Name):
            return False
        others = [
            use
            for use in index.uses_in(scope, container.id)
            if not isinstance(index.parents[use], (ast.Attribute, ast.If))
        ]
        return bool(others) and all(map(self._tracer.shown, others))

    def _runs_for_each(self, given: ast.expr, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`pool.map(convert, files)`, of which nobody takes what it gives."""
        table = self._tracer.table
        maps = identifier(call.func) in table.methods["mapping"] or not table.functions["mapping"].isdisjoint(names)
        whole = self._tracer.index.parents.get(call)
        if isinstance(whole, ast.Call) and "builtins.list" in self._tracer.inference.callees(whole):
            whole = self._tracer.index.parents.get(whole)
        return (
            maps
            and call.args[1:2] == [given]
            and isinstance(whole, ast.Expr)
            and is_run_for_each(call.args[0], self._ctx)
        )

    def _asks_set(self, call: ast.Call) -> bool:
        """`known.update(names)` of a set, `self.assertLen(names, 2)` of a test."""
        tracer = self._tracer
        if identifier(call.func) in tracer.table.methods["asserting"] and is_own(call.func):
            return True
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in tracer.table.methods["membership"]:
            return False
        kinds = {value.kind for value in tracer.inference.values(call.func.value)}
        return kinds == {Kind.SET} or call.func.attr == "isin"

    def _run_by(self, call: ast.Call) -> Iterator[tuple[Module, FunctionNode]]:
        """Yield the functions of the project that a call runs: also the `__init__` of what it makes."""
        inference = self._ctx.inference
        yield from functions_called(inference, call)
        for info in filter(None, map(inference.class_named, inference.callees(call))):
            maker = next((each for each in inference.mro(info) if "__init__" in each.methods), None)
            if maker is not None:
                yield maker.module, maker.methods["__init__"]

    def _takes_up(self, use: ast.Attribute) -> bool:
        """Does a read do more than to count what is there, `len(data.names)`, and to add to it?"""
        tracer = self._tracer
        parent = tracer.index.parents.get(use)
        tested = isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert, ast.UnaryOp, ast.BoolOp))
        return not (
            tested
            or self._asks_kind(parent)
            or tracer.only_tests(use)
            or tracer.counts_entries(use)
            or tracer.only_fills(use)
        )

    def _reads_of(self, given: ast.expr) -> list[ast.expr]:
        """Return where a variable or an attribute of the object is read that an expression is assigned to."""
        index = self._tracer.index
        target = target_of(given, index)
        if isinstance(target, ast.Name):
            binding = self._tracer.binding_of(target)
            return [] if binding is None else list(self._tracer.module.flow(binding.scope).uses(binding))
        owner = index.class_at(given)
        own = [use for use in index.of_type(ast.Attribute) if is_own(use) and use.attr == identifier(target)]
        return [use for use in own if isinstance(use.ctx, ast.Load) and index.class_at(use) is owner]
