"""What does a file do with an attribute that starts as fresh memory, as long as nothing fills all of it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from detlint.linter.memory.attribute_fates import fate_under_names, is_filled_where_given, run_by_constructor
from detlint.linter.memory.owners import is_inherited, is_kin, is_of_another, is_overridden, is_replaced
from detlint.linter.memory.resets import stands_in_forgotten_reset
from detlint.linter.memory.updates import (
    are_alternatives,
    is_made_of_itself,
    is_put_back,
    keeps_a_part,
    sets_nothing,
    updates,
)
from detlint.linter.memory.uses import Fate

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

_Read = tuple[ast.expr, ast.expr]  # the attribute, and what reads it, under another name maybe


class AttributeUses:
    """The uses of the attribute `name` of a class, which `made` makes.

    `trained`: it is a weight. `tended`: the class fills another weight of its own.
    """

    def __init__(
        self, name: str, made: ast.AST, owner: ast.ClassDef, ctx: Context, *, trained: bool, tended: bool
    ) -> None:
        self.updated = False  # from what it was before
        self._name, self._made, self._ctx = name, made, ctx
        self._info = ctx.inference.class_info(owner)
        self._trained, self._tended = trained, tended
        self._reads: list[_Read] = []
        self._constructing = ctx.module.project.once(run_by_constructor, self._info)
        self._is_written_later = False
        self._filled = not all(map(self._take, ctx.module.index.of_type(ast.Attribute)))

    def first_read(self) -> ast.expr | None:
        """Return the first expression that reads memory which nothing wrote, if there is one."""
        if self._filled:
            return None
        reads = self._reads
        if self._is_written_later:
            reads = [each for each in reads if self._is_read_by_constructor(each[0])]
        return reads[0][1] if reads else None

    def _take(self, node: ast.Attribute) -> bool:
        """Note a use; return whether it leaves something unwritten."""
        info, ctx = self._info, self._ctx
        if node.attr != self._name or is_of_another(node, info, ctx) or is_overridden(node, info, ctx):
            return True
        around = ctx.module.index.class_at(node)
        own = is_inherited(around, info, ctx) or (self._tended and is_kin(around, info, ctx))
        return self._take_load(node, own) if isinstance(node.ctx, ast.Load) else self._take_store(node, own)

    def _take_store(self, node: ast.Attribute, own: bool) -> bool:
        ctx, made = self._ctx, self._made
        replaced = sets_nothing(node, ctx) or are_alternatives(node, made, ctx)
        replaced = replaced or is_replaced(node, self._info, made, ctx)
        if not (node is made or replaced or keeps_a_part(node, self._name, ctx)):
            return self._is_later(node, own)
        if own and isinstance(ctx.parent(node), ast.AugAssign):
            self._reads.append((node, node))  # `self.total += rows` reads what is there
            self.updated = True
        return True

    def _take_load(self, node: ast.Attribute, own: bool) -> bool:
        name, ctx = self._name, self._ctx
        if stands_in_forgotten_reset(node, ctx):
            return True
        outcome, place = fate_under_names(node, ctx, trained=self._trained)
        if is_filled_where_given(node, outcome, ctx):
            return False
        out_of_itself = is_made_of_itself(node, name, ctx)
        self.updated |= out_of_itself or (outcome is Fate.READ and updates(place, name, ctx))
        if is_put_back(place, name, ctx) if outcome is Fate.STORED else outcome is Fate.WRITTEN and out_of_itself:
            return True
        if outcome in (Fate.WRITTEN, Fate.STORED):
            return self._is_later(node, own)
        if own and outcome in (Fate.READ, Fate.ADDED_TO):
            self._reads.append((node, place))
        return True

    def _is_later(self, node: ast.Attribute, own: bool) -> bool:
        """Is this a write of a method that the constructor does not lead to: `self.bank[at:] = rows` of each step?"""
        making, function = self._ctx.function(self._made), self._ctx.function(node)
        later = own and making in self._constructing and function not in self._constructing
        self._is_written_later |= later
        return later

    def _is_read_by_constructor(self, node: ast.expr) -> bool:
        """`self.bank = normalize(self.bank)` in a method that the constructor calls once it has made the memory."""
        ctx, made = self._ctx, self._made
        function = ctx.function(node)
        if function is ctx.function(made):
            return ctx.flow(made).path(made, node)
        return function in self._constructing
