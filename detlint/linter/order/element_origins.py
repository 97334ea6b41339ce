"""Are the elements of a collection numbers, or things that are hashed anew in each process?

Follows them back to where they are made: through variables, what is put into containers, annotations, arguments that
callers pass and values that functions return.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of
from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.element_fills import may_be, put_in
from detlint.linter.analysis.element_sort import Move, Sort, Steps, as_tuple, documented, together
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.order.asked import Asked
from detlint.linter.order.declared import declared, declared_attribute, is_record, is_tuple_type, sort_of_class
from detlint.linter.order.element_uses import elements_of, is_part_of_array, loads, sort_of_use
from detlint.linter.order.own_hashes import hashed_parts, hashes_itself
from detlint.linter.order.takers import uses_of
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import arguments_of, is_own
from detlint.linter.tables.elements import element_table

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context


_MOST_STEPS = 4
_MOST_QUESTIONS = 200
_MOST_CALLERS = 2
_OBJECTS = {Kind.STRING, Kind.INSTANCE, Kind.MODULE, Kind.FUNCTION, Kind.CLASS, Kind.TENSOR}
_OF_NUMBERS = (ast.FloorDiv, ast.Pow, ast.LShift, ast.RShift)  # what no text, set or path knows
_NUMBERS = {Kind.NUMBER, Kind.BOOL, Kind.ARRAY}


class ElementOrigins:
    """Answers for one set."""

    def __init__(self, ctx: Context, asked: Asked | None = None) -> None:
        self._ctx = ctx
        self._index = ctx.module.index
        self._table = element_table()
        self.asked = Asked() if asked is None else asked

    def of(self, node: ast.expr, steps: Steps = (), callers: int = 0) -> Sort:
        """Return the sort of an expression, or of what `steps` lead to inside it."""
        key = (node, steps)
        if key in self.asked.sorts:
            return self.asked.sorts[key]
        if len(steps) > _MOST_STEPS or len(self.asked.sorts) > _MOST_QUESTIONS:
            return Sort.UNKNOWN
        self.asked.sorts[key] = Sort.UNKNOWN  # what is made of itself adds nothing
        found = self._by_kind(node, steps)
        if found is Sort.UNKNOWN:
            found = self._by_form(node, steps, callers)
        self.asked.sorts[key] = found
        return found

    def _by_kind(self, node: ast.expr, steps: Steps) -> Sort:
        """What local typing knows already."""
        values = [value for value in self._ctx.values(node) if value.kind is not Kind.NONE]
        kinds = {value.kind for value in values}
        if kinds == {Kind.TENSOR}:
            return Sort.TENSORS  # iterating over one gives others
        if kinds == {Kind.STRING} or (not steps and kinds and kinds <= _OBJECTS):
            return Sort.UNKNOWN if any(map(self._hashes_itself, values)) else Sort.HASHED
        numeric = all(value.dtype not in (None, "object") for value in values)
        if kinds == {Kind.ARRAY}:
            return Sort.NUMBERS if numeric or not steps else Sort.UNKNOWN
        return Sort.NUMBERS if not steps and kinds and kinds <= _NUMBERS else Sort.UNKNOWN

    def _hashes_itself(self, value: Value) -> bool:
        """A `Fraction`, or an instance of a class of the project that says how it is hashed, or of a data class."""
        if value.type in self._table.functions["numbers"]:
            return True
        info = self._ctx.inference.class_named(value.type) if value.kind is Kind.INSTANCE else None
        return info is not None and hashes_itself(info)

    def _by_form(self, node: ast.expr, steps: Steps, callers: int) -> Sort:
        if isinstance(node, ast.Name):
            return self._name(node, steps, callers)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, steps, callers)
        if isinstance(node, ast.Call):
            return self._call(node, steps, callers)
        if isinstance(node, ast.Subscript):
            return self._item(node, steps, callers)
        if isinstance(node, (ast.BinOp, ast.BoolOp, ast.IfExp)):
            return self._combination(node, steps, callers)
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return self.of(node.value, steps, callers)
        return self._display(node, steps, callers)

    def _note(self, name: str, steps: Steps) -> None:
        """Remember a name, unless it is one of records: `rows` says nothing of `row["label"]`."""
        taken = [step for step in steps if not isinstance(step, Move)]
        if steps[-1:] == (Move.LOOKED_UP,) and (len(steps) > 1 or not name.endswith("s")):
            return  # `item[key] for item in items`: what a key leads to is called otherwise
        if not taken or (self._table.names_alike(name) and not any(isinstance(step, str) for step in taken)):
            self.asked.names.append(name)

    def _combination(self, node: ast.BinOp | ast.BoolOp | ast.IfExp, steps: Steps, callers: int) -> Sort:
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OF_NUMBERS):
            return Sort.NUMBERS
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and steps:
            return self._left_of(node.left, [node.right], steps, callers)
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        else:
            parts = node.values if isinstance(node, ast.BoolOp) else [node.left, node.right]
        return together(self.of(part, steps, callers) for part in parts)

    def _left_of(self, whole: ast.expr, without: Iterable[ast.expr], steps: Steps, callers: int) -> Sort:
        """Of a difference only elements of its left side stay; the right side tells of them where that does not."""
        found = self.of(whole, steps, callers)
        return together(self.of(part, steps, callers) for part in without) if found is Sort.UNKNOWN else found

    def _display(self, node: ast.expr, steps: Steps, callers: int) -> Sort:
        rest = steps[1:]
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            if not steps:
                return as_tuple(self.of(part, (), callers) for part in node.elts)
            place = steps[0]
            parts = node.elts[place : place + 1] if isinstance(place, int) else node.elts
            return together(self.of(part, steps if isinstance(part, ast.Starred) else rest, callers) for part in parts)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and steps:
            return self.of(node.elt, rest, callers)
        if isinstance(node, ast.DictComp) and steps:
            return self.of(node.key if steps[0] is Move.ITERATED else node.value, rest, callers)
        if isinstance(node, ast.Dict) and steps:
            pairs = zip(node.keys, node.values, strict=True)
            held = [key if steps[0] is Move.ITERATED else value for key, value in pairs if may_be(key, steps[0])]
            return together(self.of(part, rest, callers) for part in held if part is not None)
        return Sort.UNKNOWN

    def _item(self, node: ast.Subscript, steps: Steps, callers: int) -> Sort:
        if isinstance(node.slice, ast.Slice):
            return self.of(node.value, steps, callers)
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(index, str):
            self.asked.keys.append(index)
            return self.of(node.value, (index, *steps), callers)
        found = self.of(node.value, (index if isinstance(index, int) else Move.LOOKED_UP, *steps), callers)
        # Of an array or a table it may be a part: `pairs[mask]`.
        return self.of(node.value, steps, callers) if found is Sort.UNKNOWN and steps else found

    # --- variables ------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name, steps: Steps, callers: int) -> Sort:
        self._note(node.id, steps)
        bindings = self._ctx.module.definitions(node)
        made = together(self._bound(binding, steps, callers) for binding in bindings)
        if any(binding.kind is BindingKind.IMPORT for binding in bindings):
            made = together(self._of_value(value, steps, callers) for value in self._ctx.values(node))
        if made is Sort.UNKNOWN and not steps:
            loops = [binding for binding in bindings if binding.kind is BindingKind.ITERATION]
            reads = ((loop, load) for loop in loops for load in loads(loop.name, loop.scope.node))
            # The name may stand for something else further down.
            made = self.by_use(load for loop, load in reads if loop in self._ctx.module.definitions(load))
        scope = self._index.scope_at(node).lookup(node.id)
        if made is Sort.HASHED or not steps or scope is None:
            return made
        made = together((made, self._filled(node, scope.node, steps, callers)))
        if made is Sort.UNKNOWN and steps == (Move.ITERATED,):  # `[label.lower() for label in labels]` beside
            made = self.by_use(element for use in uses_of(node, self._ctx) for element in elements_of(use, self._ctx))
        return made

    def _bound(self, binding: Binding, steps: Steps, callers: int) -> Sort:
        annotation = self._index.annotations.get(binding.node) if isinstance(binding.node, ast.Name) else None
        if annotation is not None:
            sort = declared(annotation, steps, self._ctx.module)
            if sort is not Sort.UNKNOWN:
                return sort
        if isinstance(binding.node, ast.arg):
            return self._parameter(binding.node, binding, steps, callers)
        if binding.value is None:
            return Sort.UNKNOWN
        if binding.kind is BindingKind.ITERATION:
            return self.of(binding.value, (Move.ITERATED, *binding.index, *steps), callers)
        return self.of(binding.value, (*binding.index, *steps), callers)

    def by_use(self, places: Iterable[ast.expr]) -> Sort:
        """What is done with an element: `[(a, b) for a, b in spans if a != -1]`, `word.strip()`, `counts[word]`."""
        read = list(places)
        found = together(sort_of_use(place, self._ctx) for place in read)
        return found if found is not Sort.UNKNOWN else together(map(self._by_others, read))

    def _by_others(self, place: ast.expr) -> Sort:
        """What it is looked up among: the keys of a dict, other elements."""
        parent = self._ctx.parent(place)
        if isinstance(parent, ast.Subscript) and parent.slice is place:
            kinds = {value.kind for value in self._ctx.values(parent.value)}
            return self.of(parent.value, (Move.ITERATED,)) if kinds == {Kind.DICT} else Sort.UNKNOWN
        if not isinstance(parent, ast.Compare) or parent.left is not place:
            return Sort.UNKNOWN
        other = parent.comparators[0]
        if isinstance(parent.ops[0], (ast.Eq, ast.NotEq)):
            aside = Asked(self.asked.sorts)  # its name says nothing of these
            return ElementOrigins(self._ctx, aside).of(other, ())
        return self.of(other, (Move.ITERATED,)) if isinstance(parent.ops[0], (ast.In, ast.NotIn)) else Sort.UNKNOWN

    def _parameter(self, node: ast.arg, binding: Binding, steps: Steps, callers: int) -> Sort:
        if node.annotation is not None:
            sort = declared(node.annotation, steps, self._ctx.module)
            if sort is not Sort.UNKNOWN:
                return sort
        described = documented(node.arg, binding.scope.node, steps)
        if described is not Sort.UNKNOWN:
            return described
        default = Sort.UNKNOWN if binding.value is None else self.of(binding.value, steps, callers)
        function = binding.scope.node
        if default is not Sort.UNKNOWN or not isinstance(function, FUNCTIONS) or callers >= _MOST_CALLERS:
            return default
        method = self._index.class_at(function) is not None
        found: list[Sort] = []
        for site in calls_of(function, self._ctx):
            if site is None:
                break
            ctx, call = site
            passed = argument_of(function, node.arg, call, skip_self=method)
            if passed is not None:
                found.append(self._in(ctx).of(passed, steps, callers + 1))
        return together(found)

    def _attribute(self, node: ast.Attribute, steps: Steps, callers: int) -> Sort:
        if not steps and node.attr in self._table.attributes["texts"]:
            return Sort.HASHED
        if not steps and node.attr in self._table.attributes["hashed_by_value"]:
            return Sort.NUMBERS
        if steps and steps[0] is not Move.ITERATED and node.attr in self._table.attributes["of_numbers"]:
            return Sort.NUMBERS
        passing = node.attr in ("values", "index", "T", "data")
        if not passing:
            self._note(node.attr, steps)
        found = [self._of_value(value, steps, callers) for value in self._ctx.values(node)]
        found.append(declared_attribute(node, steps, self._ctx.module))
        owner = self._index.class_at(node)
        if owner is not None and is_own(node):
            if steps:
                found.append(self._filled(node, owner, steps, callers))
        elif passing:
            found.append(self.of(node.value, steps, callers))
        return together(found)

    def _of_value(self, value: Value, steps: Steps, callers: int) -> Sort:
        """A value that another expression makes, in whatever file."""
        if value.module is None:
            return Sort.UNKNOWN
        there = self._in(self._ctx.elsewhere(value.module))
        if isinstance(value.node, ast.arg):
            return there._passed(value.node, steps, callers)
        return there.of(value.node, steps, callers) if isinstance(value.node, ast.expr) else Sort.UNKNOWN

    def _passed(self, node: ast.arg, steps: Steps, callers: int) -> Sort:
        """A parameter that was kept: `self.words = words`."""
        function = self._index.parents[self._index.parents[node]]
        bindings = self._index.scopes[function].bindings[node.arg]
        return together(self._bound(binding, steps, callers) for binding in bindings if binding.node is node)

    def _in(self, ctx: Context) -> ElementOrigins:
        return self if ctx.module is self._ctx.module else ElementOrigins(ctx, self.asked)

    # --- what is put into containers ------------------------------------------------------------------------------

    def _filled(self, container: ast.Name | ast.Attribute, place: ast.AST, steps: Steps, callers: int) -> Sort:
        """What is put into a container of a function, or of a class."""
        listed = {value.kind for value in self._ctx.values(container)} == {Kind.LIST}
        found = list(put_in(self._index, ast.unparse(container), place, steps, listed=listed))
        self.asked.elements.extend(put.id for put, taken in found if not taken and isinstance(put, ast.Name))
        return together(self.of(put, taken, callers) for put, taken in found)

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, steps: Steps, callers: int) -> Sort:
        names = self._ctx.callees(node)
        functions = self._table.functions
        if not any(isinstance(step, str) for step in steps):  # what they give has no keys that one could write out
            for key, sort in (("numbers", Sort.NUMBERS), ("texts", Sort.HASHED)):
                if functions[key].intersection(names):
                    return sort
        if node.args:
            if functions["passing"].intersection(names):
                return self.of(node.args[0], steps, callers)
            if functions["flattening"].intersection(names):
                return self.of(node.args[0], (Move.ITERATED, *steps), callers)
            if steps and steps[0] is Move.ITERATED and names:
                found = self._iterator(node, names[0], steps[1:], callers)
                if found is not None:
                    return found
        found = together(self._returned(name, steps, callers) for name in names)
        if found is Sort.UNKNOWN and not steps:
            found = self._record(node, names, callers)
        if found is Sort.UNKNOWN and isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, steps, callers)
        return found

    def _record(self, node: ast.Call, names: Iterable[str], callers: int) -> Sort:
        """`Edge(source, target)` of a named tuple, by what its fields are declared to be, or else by what is given."""
        infos = [info for info in map(self._ctx.inference.class_named, names) if info is not None]
        sorts = [sort if (sort := sort_of_class(info)) is not Sort.UNKNOWN else self._hashed(info) for info in infos]
        self.asked.by_value.extend(info.name for info, sort in zip(infos, sorts, strict=True) if sort is Sort.NUMBERS)
        told = set(sorts) - {Sort.UNKNOWN}
        if not told and (any(map(is_record, infos)) or is_tuple_type(node.func, self._ctx.module)):
            sorts = [as_tuple(self.of(given, (), callers) for given in arguments_of(node))]
        return together(sorts)

    def _hashed(self, info: ClassInfo) -> Sort:
        """By what the number is made of that `__hash__` gives."""
        aside = Asked(self.asked.sorts)  # the names of its parts say nothing of the objects
        there = ElementOrigins(self._ctx.elsewhere(info.module), aside)
        return as_tuple(there.of(part, steps) for part, steps in hashed_parts(info))

    def _iterator(self, node: ast.Call, name: str, rest: Steps, callers: int) -> Sort | None:
        """What iterating over `zip(…)`, `map(…)` and their like gives; None where it is none of them."""
        if name == "builtins.enumerate":
            if rest[:1] == (0,):
                return Sort.NUMBERS
            return self.of(node.args[0], (Move.ITERATED, *rest[1:]), callers) if rest else Sort.UNKNOWN
        if name == "builtins.zip":
            if not rest:
                return as_tuple(self.of(given, (Move.ITERATED,), callers) for given in node.args)
            place = rest[0]
            given = node.args[place : place + 1] if isinstance(place, int) else node.args
            return together(self.of(part, (Move.ITERATED, *rest[1:]), callers) for part in given)
        if name in ("itertools.chain", "itertools.product", "itertools.combinations", "itertools.permutations"):
            inner = (Move.ITERATED, *(rest if name == "itertools.chain" else rest[1:]))
            return together(
                self.of(part, (Move.ITERATED, *inner) if isinstance(part, ast.Starred) else inner, callers)
                for part in node.args
            )
        if name == "functools.reduce" and len(node.args) > 1:
            return self.of(node.args[1], (Move.ITERATED, Move.ITERATED, *rest), callers)
        if name == "builtins.filter" and len(node.args) == 2:
            return self.of(node.args[1], (Move.ITERATED, *rest), callers)
        return self._mapped(node, rest, callers) if name == "builtins.map" and len(node.args) == 2 else None

    def _mapped(self, node: ast.Call, rest: Steps, callers: int) -> Sort:
        function = node.args[0]
        if isinstance(function, ast.Lambda):
            return self.of(function.body, rest, callers)
        for name in self._ctx.resolve(function):
            if name in ("builtins.int", "builtins.float", "builtins.len", "builtins.ord"):
                return Sort.NUMBERS
            if name == "builtins.str" or name.startswith(("builtins.str.", "os.path.")):
                return Sort.HASHED
            if name in ("builtins.tuple", "builtins.frozenset"):
                return self.of(node.args[1], (Move.ITERATED, Move.ITERATED, *rest[1:]), callers)
        return together(self._returned(name, rest, callers) for name in self._ctx.resolve(function))

    def _method(self, node: ast.Call, method: ast.Attribute, steps: Steps, callers: int) -> Sort:
        methods, owner, rest = self._table.methods, method.value, steps[1:]
        if method.attr in methods["numbers"]:
            return Sort.NUMBERS
        if method.attr in methods["texts"]:
            return Sort.HASHED
        if method.attr in methods["passing"]:
            if method.attr == "difference":
                return self._left_of(owner, node.args, steps, callers)
            given = node.args if method.attr in ("union", "intersection") else []
            found = together(self.of(part, steps, callers) for part in (owner, *given))
            listed = method.attr == "tolist" and (found is Sort.TENSORS or is_part_of_array(owner))
            return Sort.NUMBERS if listed else found
        if method.attr == "values" and steps:
            return self.of(owner, (Move.LOOKED_UP, *rest), callers)
        if method.attr == "items" and len(steps) > 1:
            inner = {0: (Move.ITERATED, *steps[2:]), 1: (Move.LOOKED_UP, *steps[2:])}.get(steps[1])  # type: ignore[arg-type]
            return self.of(owner, inner, callers) if inner is not None else Sort.UNKNOWN
        if method.attr in ("get", "pop", "setdefault", "popleft"):
            default = [self.of(given, steps, callers) for given in node.args[1:2]]
            key = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(key, str):
                self.asked.keys.append(key)
            entry = key if isinstance(key, (int, str)) else Move.LOOKED_UP
            return together([self.of(owner, (entry, *steps), callers), *default])
        if Move.LOOKED_UP not in steps:
            self._note(method.attr, steps)
        return Sort.UNKNOWN

    def _returned(self, name: str, steps: Steps, callers: int) -> Sort:
        module, function = self._ctx.module.project.definition(name) or (None, None)
        if module is None or not isinstance(function, FUNCTIONS):
            return Sort.UNKNOWN
        there = self._in(self._ctx.elsewhere(module))
        if Move.LOOKED_UP not in steps:
            self._note(function.name, steps)
        if function.returns is not None:
            sort = declared(function.returns, steps, module)
            if sort is not Sort.UNKNOWN:
                return sort
        statements = module.flow(module.index.scopes[function]).returns()
        return together(there.of(each.value, steps, callers) for each in statements if each.value is not None)
