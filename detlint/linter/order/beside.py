"""Does a body put an element together with what stands at the same place of another sequence?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.made import made_of, written
from detlint.linter.analysis.values import Kind
from detlint.linter.order.form import NUMBERING, PAIRING, RANKS
from detlint.linter.order.parts import LoopParts
from detlint.linter.source.nodes import arguments_of, identifier, walk

_WITH_PLACES = {Kind.LIST, Kind.ARRAY, Kind.TENSOR}
_MAKING_KEYS = frozenset({"collections.defaultdict", "collections.Counter"})


class LoopPartners(LoopParts):
    """Answers about calls that bring both together."""

    def _brought_together(self, call: ast.Call) -> str | None:
        if self._changes_partner(call) or self._applies_partner(call) or self._takes_next(call):
            return PAIRING
        return RANKS if self._meets_ranks(call) else None

    def _set_together(self, target: ast.expr, value: ast.expr) -> str | None:
        """`rows[i].answer = answer` of a row that stands at the same place, `answer["part"] = i`."""
        if self._is_partner(target) and self._has_element(value):
            return PAIRING
        part_of_element = isinstance(target, (ast.Attribute, ast.Subscript)) and self._has_element(target.value)
        return NUMBERING if part_of_element and self._is_numbered(value) else None

    def _is_there_already(self, target: ast.Subscript) -> bool:
        """`parts[name] = compiled(parts[name])`: a key that is read keeps its place, unless reading makes it."""
        inference = self._places.inference
        made = [value.node for value in inference.values(target.value) if isinstance(value.node, ast.Call)]
        if any(not _MAKING_KEYS.isdisjoint(inference.callees(call)) for call in made):
            return False
        text = ast.unparse(target)
        uses = (part for part in walk(self._body) if isinstance(part, ast.Subscript) and ast.unparse(part) == text)
        order = sorted((self._index.statement(use).lineno, isinstance(use.ctx, ast.Store)) for use in uses)
        return bool(order) and not order[0][1]

    def _is_place_beside(self, places: ast.expr) -> bool:
        """`shard_of[name] = i` next to `shards.append(load(path))`: all numbers are for is `shards[shard_of[name]]`."""
        if not isinstance(places, ast.Name):
            return False
        filled = {
            identifier(part.func.value)
            for part in self._nodes
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "append"
        }
        read = [use for use in self._index.uses_of(places) if not self._only_asks(use)]
        items = [self._index.parents.get(self._index.parents[use]) for use in read]
        return bool(items) and all(
            isinstance(item, ast.Subscript)
            and item.slice is self._index.parents[use]
            and isinstance(item.value, ast.Name)
            and item.value.id in filled
            for use, item in zip(read, items, strict=True)
        )

    def _only_asks(self, use: ast.expr) -> bool:
        """`name in shard_of`, `shard_of.keys()`, which say nothing of the numbers; or an entry is stored."""
        parent = self._index.parents.get(use)
        if isinstance(parent, ast.Attribute) and parent.attr == "keys":
            return True
        stored = isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)
        return stored or isinstance(parent, ast.Compare)

    def _changes_partner(self, call: ast.Call) -> bool:
        """`row.tags.update(answer)`, `row.set_answer(answer)`, `setattr(row, "answer", answer)`."""
        function = call.func
        if isinstance(function, ast.Attribute):
            changes = function.attr.partition("_")[0] in self._places.table.methods["changing"]
            partner = function.value if changes else None
        else:
            partner = call.args[0] if identifier(function) == "setattr" and call.args else None
        if partner is None or not any(map(self._has_element, arguments_of(call))):
            return False
        return self._is_partner(partner) or is_name_of(partner, self._positions)

    def _applies_partner(self, call: ast.Call) -> bool:
        """`self.layers[i](graph[name])`, `layer(graph[name])` of a layer that stands at the same place."""
        layer = call.func
        numbered = isinstance(layer, ast.Subscript) and self._is_numbered(layer.slice) and self._is_module(layer.value)
        return (numbered or is_name_of(layer, self._positions)) and any(map(self._has_element, arguments_of(call)))

    def meets_next(self, expression: ast.expr) -> bool:
        """`{name: next(colors) for name in names}`, where the value is worked out for each element."""
        return any(isinstance(part, ast.Call) and self._takes_next(part) for part in ast.walk(expression))

    def _takes_next(self, call: ast.Call) -> bool:
        """`styles[name] = next(colors)` of what is gone through beside the loop: each element gets what is its turn."""
        beside = call.args[0] if call.args else None
        if not isinstance(beside, (ast.Name, ast.Attribute)) or not self._is_outside(beside):
            return False
        met = self._has_element(self._index.statement(call))
        return met and "builtins.next" in self._places.inference.callees(call)

    def _meets_ranks(self, call: ast.Call) -> bool:
        """`dist.all_reduce(totals[name])`: what the ranks add up comes from calls in the same place of their orders.

        Each has an order of its own of a set; files are listed in one order by all that run on a machine.
        """
        table = self._places.table
        gathers = identifier(call.func) in table.methods["gathering"] or not table.functions["gathering"].isdisjoint(
            self._places.inference.callees(call)
        )
        return self.each_run and gathers and any(map(self._has_element, arguments_of(call)))

    def _lies_in_file(self, array: ast.expr) -> bool:
        """`tokens = numpy.memmap(path, mode="w+")`, `images = file.create_dataset("images", shape)`."""
        made = [written(value, self._places.module)[0] for value in made_of(self._places.module, array) if value]
        filing = self._places.table.methods["filing"]
        return any(isinstance(value, ast.Call) and identifier(value.func) in filing for value in made)

    def _has_places(self, container: ast.expr) -> bool:
        """`answers = [None] * count`, `[Answer() for _ in names]`: each is stored at its place, whenever it comes."""
        if any(isinstance(value, (ast.BinOp, ast.ListComp)) for value in made_of(self._places.module, container)):
            return True
        kinds = {value.kind for value in self._places.inference.values(container)}
        return bool(kinds) and kinds <= _WITH_PLACES

    def _makes_module(self, node: ast.expr) -> bool:
        """Return whether an expression constructs a new module, and does not wrap one that is there already."""
        made, module = written(node, self._places.module)
        inference = module.inference
        return isinstance(made, ast.Call) and any(map(inference.is_module_class, inference.callees(made)))

    def _is_module(self, node: ast.expr) -> bool:
        return {value.kind for value in self._places.inference.values(node)} == {Kind.MODULE}


def is_name_of(value: ast.expr, names: frozenset[str]) -> bool:
    """Is this a variable of one of these names?"""
    return isinstance(value, ast.Name) and value.id in names


def is_entry(value: ast.expr) -> bool:
    """`yield from weights.items()`, `yield name, weights[name]`: whoever takes them goes by the name.

    So for `yield name, getattr(state, name)`.
    """
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr == "items"
    if not isinstance(value, ast.Tuple) or len(value.elts) != 2 or not isinstance(value.elts[0], ast.Name):
        return False
    name, held = value.elts[0].id, value.elts[1]
    key = held.slice if isinstance(held, ast.Subscript) else None
    if isinstance(held, ast.Call) and isinstance(held.func, ast.Attribute) and held.func.attr in ("pop", "get_tensor"):
        key = held.args[0] if held.args else None
    elif isinstance(held, ast.Call) and identifier(held.func) == "getattr":
        key = held.args[1] if len(held.args) > 1 else None
    return isinstance(key, ast.Name) and key.id == name
