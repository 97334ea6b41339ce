"""What becomes of an array or a table whose entries stand in an order: meets it what stands beside, or a model?"""

from __future__ import annotations

import ast

from detlint.linter.analysis.made import made_of
from detlint.linter.analysis.values import Kind
from detlint.linter.order.form import Form, Trail
from detlint.linter.order.optimizers import only_steps
from detlint.linter.order.places import OrderPlaces
from detlint.linter.source.nodes import arguments_of, identifier

_LIBRARIES = ("pandas.", "geopandas.", "polars.")


class OrderArrays(OrderPlaces):
    """Answers about calls that are given an array, and about parts of a table."""

    def _is_column(self, attribute: ast.Attribute) -> bool:
        """`df.image`, `self.meta.path` of `self.meta = pandas.DataFrame(rows)`."""
        if attribute.attr in self.table.forms:
            return False
        words = identifier(attribute.value).lower().split("_")
        made = [value.node for value in self.inference.values(attribute.value)]
        names = [name for call in made if isinstance(call, ast.Call) for name in self.inference.callees(call)]
        return not self.table.tables.isdisjoint(words) or any(name.startswith(_LIBRARIES) for name in names)

    def _pairs_places(self, node: ast.expr, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`numpy.dot(answers, weights)` where weights have their own order, and answers have not."""
        if self.table.functions["pairing"].isdisjoint(names):
            return False
        return any(self.has_own_order(other) for other in arguments_of(call) if other is not node)

    def _numbers_nodes(self, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`networkx.to_numpy_array(graph)`; not with a `nodelist` of its own."""
        listed = len(call.args) > 1 or any(keyword.arg == "nodelist" for keyword in call.keywords)
        return not listed and not self.table.functions["numbering-nodes"].isdisjoint(names)

    def _is_given_columns(self, node: ast.expr, call: ast.Call, trail: Trail) -> bool:
        """`self.net(torch.cat([data[key] for key in keys], dim=-1))`: each column meets weights of its own."""
        if trail.form is not Form.SEQUENCE or {value.kind for value in self.inference.values(call.func)} != {
            Kind.MODULE
        }:
            return False
        joined = made_of(self.module, node) or [node]
        return any(isinstance(value, ast.Call) and self._joins_columns(value) for value in joined)

    def _optimizes(self, node: ast.expr, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`optimizer_class(weights, lr=rate)` of a class that a variable holds: optimizers number what they get."""
        if any(map(self.module.project.definition, names)):
            return False
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        return "lr" in named and node in (*call.args[:1], named.get("params"))

    def _only_steps(self, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`optimizer = Adam(weights)`, of which a function wants nothing but steps."""
        return any(name.startswith("torch.optim.") for name in names) and only_steps(call, self.module)

    def _joins_columns(self, call: ast.Call) -> bool:
        """`torch.cat(parts, dim=-1)`, `numpy.concatenate(parts, 1)`."""
        if self.table.functions["joining"].isdisjoint(self.inference.callees(call)):
            return False
        places = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg in ("dim", "axis"))]
        return any(ast.unparse(place) in ("1", "-1") for place in places)
