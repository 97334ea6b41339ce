"""What becomes of an order whose items are taken one by one: by a loop, by their position, by `pop()`."""

from __future__ import annotations

import ast
from dataclasses import replace

from detlint.linter.analysis.elements import gone_through
from detlint.linter.analysis.made import given_to, made_of
from detlint.linter.analysis.values import Kind
from detlint.linter.order.calls import OrderCalls
from detlint.linter.order.effects import LoopEffects
from detlint.linter.order.form import NUMBERING, PAIRING, Form, Trail, boxed, counted_up, leave_rest, unboxed
from detlint.linter.source.names import COMPREHENSIONS, FOR_LOOPS, FUNCTIONS, LOOPS, BindingKind
from detlint.linter.source.nodes import identifier, names_in

_MAX_STEPS = 3
_PICKING = frozenset({"choice", "choices", "integers", "randint", "sample"})


class OrderItems(OrderCalls):
    """Follows single items of an order."""

    def _subscript(self, node: ast.expr, parent: ast.Subscript, trail: Trail) -> str | None:
        if not isinstance(parent.ctx, ast.Load):
            return None
        if node is parent.slice:
            return self._index(parent, trail)
        if trail.form in (Form.SEQUENCE, Form.NESTED) and _adds_dimension(parent.slice):
            return self.destination(parent, boxed(trail))
        if trail.form is Form.NESTED:
            other = isinstance(parent.slice, ast.Constant) and trail.place not in (None, parent.slice.value)
            return None if other else self.destination(parent, unboxed(trail))
        if trail.form is not Form.SEQUENCE:
            return None
        index = parent.slice
        if not trail.subset and self._is_ranking(index):
            return None
        first = index.elts[:1] if isinstance(index, ast.Tuple) else []
        if _is_mask(index) or _names_columns(index) or any(map(_is_whole, first)):  # `waves[:, :length]`
            return self.destination(parent, trail)
        if isinstance(index, ast.Slice):
            whole = _is_whole(index) or self._is_rest(parent)
            parted = not (whole or self._is_chunk(parent))
            trail = replace(trail, behind=False)
            sliced = replace(trail, subset=True) if parted else trail
            found = self.destination(parent, leave_rest(trail) if parted and _leaves_rest(index) else sliced)
            return found if found or whole else self._by_position(parent, index, trail)
        if isinstance(index, ast.UnaryOp):
            index = index.operand
        if isinstance(index, ast.Constant) and isinstance(index.value, str):  # a column of a table
            return self.destination(parent, trail)
        if isinstance(index, ast.Constant):
            other = self._is_just_added(parent) or (trail.behind and parent.slice is index and index.value == 0)
            if not other and self._is_taken_off(parent):
                return self.taken_out(node, parent)
            return None if other else self.choice(node, parent)
        return self._by_position(parent, index, trail)

    def _is_ranking(self, index: ast.expr, steps: int = _MAX_STEPS) -> bool:
        """`np.argsort(scores)`, a variable that holds it, `i` of `for i in order`: whatever the order was before."""
        if isinstance(index, ast.Tuple):
            return bool(index.elts) and self._is_ranking(index.elts[0], steps)
        if isinstance(index, ast.Subscript):  # `order[::-1]`
            return isinstance(index.slice, ast.Slice) and self._is_ranking(index.value, steps)
        if isinstance(index, ast.Call):
            keyed = any(keyword.arg == "key" for keyword in index.keywords)
            return identifier(index.func) == "argsort" or (keyed and self.is_sorting(self.inference.callees(index)))
        made = self.module.definitions(index) if isinstance(index, ast.Name) and steps else ()
        kinds = (BindingKind.ASSIGN, BindingKind.ITERATION)
        values = [given_to(binding) for binding in made if binding.kind in kinds]
        return len(values) == len(made) == 1 and values[0] is not None and self._is_ranking(values[0], steps - 1)

    def _index(self, item: ast.Subscript, trail: Trail) -> str | None:
        """`scores[order]` is in that order, but not where it is stored under the same index."""
        if any(name.startswith("typing.") for name in self.inference.resolve(item.value)):
            return None
        statement = self.index.parents.get(item)
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        index = ast.dump(item.slice)
        if any(isinstance(target, ast.Subscript) and ast.dump(target.slice) == index for target in targets):
            return None
        around = self.index.parents.get(item)
        if isinstance(around, ast.Attribute) and around.attr == "columns":  # `table[names].columns`
            return self.destination(around, replace(trail, form=Form.SEQUENCE))
        return self.destination(item, replace(trail, form=Form.SEQUENCE))

    def _is_just_added(self, item: ast.Subscript) -> bool:
        """`paths.append(path)` and `paths[-1]` in one loop: that is `path`."""
        if ast.unparse(item.slice) != "-1":
            return False
        loop = next((parent for parent in self.index.ancestors(item) if isinstance(parent, ast.For)), None)
        return loop is not None and any(
            isinstance(call.func, ast.Attribute)
            and ast.unparse(call.func.value) == ast.unparse(item.value)
            and loop in self.index.ancestors(call)
            for call in self.index.calls_by_name.get("append", ())
        )

    def _is_taken_off(self, item: ast.Subscript) -> bool:
        """`node = todo[0]` in a loop that goes on with the rest: the next one, and no choice."""
        around = (parent for parent in self.index.ancestors(item) if isinstance(parent, (*FUNCTIONS, *LOOPS)))
        loop = next(around, None)
        text = ast.unparse(item.value)
        return isinstance(loop, ast.While) and ast.unparse(item) == f"{text}[0]" and _takes_off(loop, text)

    def _is_rest(self, item: ast.Subscript) -> bool:
        """`todo = todo[1:]` in a loop that takes up `todo[0]`: all that is left to go through."""
        loop = next((parent for parent in self.index.ancestors(item) if isinstance(parent, ast.While)), None)
        text = ast.unparse(item.value)
        if loop is None or ast.unparse(self.index.statement(item)) != f"{text} = {text}[1:]":
            return False
        return any(isinstance(part, ast.Subscript) and ast.unparse(part) == f"{text}[0]" for part in ast.walk(loop))

    def _by_position(self, item: ast.Subscript, index: ast.expr, trail: Trail) -> str | None:
        """`files[i]`, `files[i:i + 8]`: in a loop over the positions items follow the order as if it ran over them."""
        names = self._places_named(index)
        whole = Trail(gathered=trail.gathered, each_run=trail.each_run)
        if self._meets_another_listing(item):
            return PAIRING
        for parent in self.index.ancestors(item):
            if isinstance(parent, FUNCTIONS):
                asked = not isinstance(index, ast.Slice) and self.is_asked_for(index, item.value)
                return "the item at each index" if asked and not self.fills_view(item) else None
            if isinstance(parent, FOR_LOOPS) and names & names_in(parent.target):
                places = names | self.companions(parent.target, parent.iter, item.value)
                some = leave_rest(whole) if self._is_drawn_part(parent.iter, item.value) else whole
                return self._effects(parent, frozenset(), frozenset(places), some, (item,))
            if isinstance(parent, ast.While) and names & counted_up(ast.walk(parent)):
                return self._effects(parent, frozenset(), frozenset(names), whole, (item,))
            if isinstance(parent, (ast.ListComp, ast.GeneratorExp)):
                picked = parent.generators[0].iter
                part = _goes_in_steps(picked) or self._is_drawn_part(picked, item.value)
                return self.destination(parent, replace(whole, subset=part))
            if isinstance(parent, ast.DictComp) and names & names_in(parent.generators[0].target):
                return self._entry_by_position(item, parent, names)
        return None

    def _meets_another_listing(self, item: ast.Subscript) -> bool:
        """`images[i]` beside `masks[i]`, where each comes from a listing of its own."""
        listing = None if isinstance(item.slice, ast.Slice) else self.listing_of(item.value)
        if listing is None:
            return False
        place, counted = ast.dump(item.slice), self._counted_by(item)
        others = (
            self.listing_of(other.value)
            for other in self.index.of_type(ast.Subscript)
            if other is not item and ast.dump(other.slice) == place and self._counted_by(other) is counted
        )
        return any(other is not None and other is not listing for other in others)

    def _counted_by(self, item: ast.Subscript) -> ast.AST | None:
        """Return the loop that counts the places of items, or else the function that is given one."""
        names = self._places_named(item.slice)
        for parent in self.index.ancestors(item):
            loops = parent.generators if isinstance(parent, COMPREHENSIONS) else [parent]
            counted = (names_in(loop.target) for loop in loops if isinstance(loop, (*FOR_LOOPS, ast.comprehension)))
            if isinstance(parent, FUNCTIONS) or not names.isdisjoint(frozenset().union(*counted)):
                return parent
        return None

    def _is_drawn_part(self, places: ast.expr, sequence: ast.expr) -> bool:
        """`permutation[:count]`, `random.sample(range(len(paths)), count)`, a variable: drawn, and not all of them."""
        made = made_of(self.module, places)
        if len(made) == 1 and isinstance(made[0], (ast.Call, ast.Subscript)):
            return self._is_drawn_part(made[0], sequence)
        if isinstance(places, ast.Call):
            drawn = any(name.startswith(("random.", "numpy.random.")) for name in self.inference.callees(places))
            return drawn and identifier(places.func) in _PICKING
        part = isinstance(places, ast.Subscript) and isinstance(places.slice, ast.Slice)
        return part and not self._is_ranking(places) and self.is_asked_for(places, sequence)

    def _entry_by_position(self, item: ast.Subscript, made: ast.DictComp, names: set[str]) -> str | None:
        """`{folders[i]: i for i in range(len(folders))}`."""
        around = {item, *self.index.ancestors(item)}
        other = made.value if made.key in around else made.key
        return NUMBERING if names & names_in(other) else self.destination(made, Trail(Form.MAPPING))

    def _is_chunk(self, item: ast.Subscript) -> bool:
        """`files[i:i + 8]` in a loop over `i`: all of them have their turn."""
        names = self._places_named(item.slice)
        around = {item, *self.index.ancestors(item)}
        return any(
            isinstance(parent, FOR_LOOPS)
            and parent.iter not in around
            and not names.isdisjoint(names_in(parent.target))
            for parent in around
        )

    def _places_named(self, index: ast.expr) -> set[str]:
        """Return the names in an index; of `start` and `end` of a slice also those that they are worked out from."""
        found = [name for name in ast.walk(index) if isinstance(name, ast.Name)]
        made = [value for name in found for value in made_of(self.module, name)] if isinstance(index, ast.Slice) else []
        return {name.id for name in found}.union(*(names_in(value) for value in made if value is not None))

    def _loop(self, node: ast.expr, parent: ast.For, trail: Trail) -> str | None:
        if node is not parent.iter or trail.form is Form.TEXT:
            return None
        if trail.form is Form.NESTED:
            return self._inner(parent, trail)
        if trail.form is Form.SORTED_WALK or (trail.form is Form.WALK and self._sorts_folders(parent)):
            return self._names_of_walk(parent.target, parent, trail)
        positions = self.positions(parent.target, parent.iter) | self.partners(parent.target, parent.iter)
        found = self._effects(parent, names_in(parent.target) - positions, positions, trail)
        return self._names_of_walk(parent.target, parent, trail) if not found and trail.form is Form.WALK else found

    def _inner(self, loop: ast.For, trail: Trail) -> str | None:
        """The sequences inside a container, one after the other."""
        target = self._inner_name(loop)
        binding = self.binding_of(target) if target is not None else None
        return None if binding is None else self.binding(binding, None, unboxed(trail))

    def _inner_name(self, loop: ast.For | ast.comprehension) -> ast.Name | None:
        """Return what holds each sequence in turn: `files` in `for label, files in by_label.items()`."""
        source, place = gone_through(self.inference, loop.iter, (1,))
        target = loop.target
        if place == () and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        if isinstance(source, ast.Call) and self.sorts(source) and source.args:
            source = source.args[0]
        viewed = source.func.attr if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) else None
        if viewed in ("items", "values"):
            target = target.elts[-1] if isinstance(target, ast.Tuple) and viewed == "items" else target
        elif isinstance(source, ast.Call) and isinstance(target, ast.Tuple):  # `for rows, name in zip([a, b], names)`
            zipped = zip(target.elts, source.args, strict=False)
            target = next((part for part, given in zipped if isinstance(given, ast.List)), target)
        elif Kind.LIST not in {value.kind for value in self.inference.values(source)}:
            return None  # the keys of a dict, or what nobody knows
        return target if isinstance(target, ast.Name) else None

    def _effects(
        self,
        loop: ast.For | ast.AsyncFor | ast.While,
        elements: frozenset[str],
        positions: frozenset[str],
        trail: Trail,
        items: tuple[ast.expr, ...] = (),
    ) -> str | None:
        inner = replace(trail, form=Form.SEQUENCE)
        return LoopEffects(self, loop, elements, positions, items, inner).destination()

    def taken_out(self, node: ast.expr, call: ast.expr) -> str | None:
        """`todo.pop()`: in a loop that empties what it is taken from it is an iteration, elsewhere a choice."""
        statement = self.index.statement(call)
        names = {name for target in getattr(statement, "targets", ()) for name in names_in(target)}
        for parent in self.index.ancestors(call):
            if isinstance(parent, FUNCTIONS):
                break
            if isinstance(parent, ast.While) and _leaves_some(parent.test, node):
                return self.choice(node, call)
            if isinstance(parent, LOOPS):
                return self._effects(parent, frozenset(names), frozenset(), Trail(Form.SEQUENCE), (call,))
        return self.choice(node, call)

    def in_rounds(self, call: ast.Call, trail: Trail) -> str | None:
        """`ready, pending = ray.wait(pending)` in a loop: the rounds follow each other as what is ready comes."""
        statement = self.index.statement(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(target, ast.Tuple):
            return None
        around = (parent for parent in self.index.ancestors(call) if isinstance(parent, (*FUNCTIONS, *LOOPS)))
        loop = next(around, None)
        ready = names_in(target.elts[0])
        return None if loop is None or isinstance(loop, FUNCTIONS) else self._effects(loop, ready, frozenset(), trail)

    def _sorts_folders(self, loop: ast.For) -> bool:
        """Return whether a loop over os.walk sorts its folders in place, which fixes the order of the walk."""
        target = _counted(loop.target)
        if not isinstance(target, ast.Tuple) or len(target.elts) < 2 or not isinstance(target.elts[1], ast.Name):
            return False
        folders = target.elts[1].id
        names = [name for name in self.index.of_type(ast.Name) if name.id == folders]
        inside = [name for name in names if loop in self.index.ancestors(name)]
        return any(True for name in inside for _ in self.sorts_in_place(name))

    def _names_of_walk(self, target: ast.expr, loop: ast.AST, trail: Trail) -> str | None:
        """Follow the file names of one folder, the last of the three that os.walk gives."""
        target = _counted(target)
        if not isinstance(target, ast.Tuple) or len(target.elts) < 3 or not isinstance(target.elts[2], ast.Name):
            return None
        names = target.elts[2]
        inner = replace(trail, form=Form.SEQUENCE)
        loads = [
            node for node in self.index.of_type(ast.Name) if node.id == names.id and isinstance(node.ctx, ast.Load)
        ]
        inside = [node for node in loads if loop in self.index.ancestors(node)]
        if any(True for node in inside for _ in self.sorts_in_place(node)):
            return None
        return self.first(self.destination(node, inner) for node in inside)


def _adds_dimension(index: ast.expr) -> bool:
    """`image[None]`, `volume[None, None]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return bool(parts) and all(isinstance(part, ast.Constant) and part.value is None for part in parts)


def _is_mask(index: ast.expr) -> bool:
    """`table.score > 0`, `(a > 0) & (b > 0)`, `~(a > 0)`."""
    if isinstance(index, ast.BinOp):
        return _is_mask(index.left) and _is_mask(index.right)
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.op, ast.Invert) and _is_mask(index.operand)
    return isinstance(index, ast.Compare)


def _names_columns(index: ast.expr) -> bool:
    """`table[["path", "label"]]`."""
    names = index.elts if isinstance(index, ast.List) else []
    return bool(names) and all(isinstance(name, ast.Constant) and isinstance(name.value, str) for name in names)


def _is_whole(index: ast.expr) -> bool:
    """`[:]`."""
    return isinstance(index, ast.Slice) and index.lower is None and index.upper is None


def _leaves_rest(index: ast.Slice) -> bool:
    """`[:100]` and `[-100:]`, not `[rank::world]` or `[1:]` beside the first."""
    after_first = isinstance(index.lower, ast.Constant) and index.lower.value == 1
    return index.step is None and (index.lower is None or index.upper is None) and not after_first


def _goes_in_steps(places: ast.expr) -> bool:
    """`range(rank, len(names), world_size)`."""
    return isinstance(places, ast.Call) and getattr(places.func, "id", "") == "range" and len(places.args) == 3


def _takes_off(loop: ast.While, text: str) -> bool:
    """Does a loop do away with the first one of `todo`: `todo = todo[1:]`, `del todo[0]`, `todo.pop(0)`?"""
    removing = (f"{text} = {text}[1:]", f"del {text}[0]", f"{text}.pop(0)")
    return any(isinstance(part, ast.stmt) and ast.unparse(part) in removing for part in ast.walk(loop))


def _leaves_some(test: ast.expr, emptied: ast.expr) -> bool:
    """`while len(saved) > limit`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Gt, ast.GtE)):
        return False
    least = test.comparators[0]
    return ast.unparse(test.left) == f"len({ast.unparse(emptied)})" and not isinstance(least, ast.Constant)


def _counted(target: ast.expr) -> ast.expr:
    """Return `(folder, dirs, names)` of `for i, (folder, dirs, names) in enumerate(…)`."""
    parts = target.elts if isinstance(target, ast.Tuple) else []
    return parts[1] if len(parts) == 2 and isinstance(parts[1], ast.Tuple) else target
