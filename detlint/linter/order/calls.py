"""What calls make of the order of an argument."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import CHANGED_COPIES, parameter_given
from detlint.linter.analysis.made import made_of
from detlint.linter.analysis.testcode import is_test_file
from detlint.linter.analysis.values import Kind
from detlint.linter.order.form import (
    CHECKSUM,
    CHOICE,
    COLUMNS,
    KEYED,
    MAX_CALLS,
    NAMING,
    NUMBERING,
    PAIRING,
    SUM,
    WRITING,
    Entered,
    Form,
    Trail,
    as_sequence,
    leave_rest,
)
from detlint.linter.order.results import OrderResults
from detlint.linter.order.sums import averages_tensor
from detlint.linter.order.ties import leaves_ties
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module

_PASSING = ("Error", "Exception", "Warning", "Response", "Popen")  # objects that tell somebody something
_CLASSES = ("cls", "_class", "_type", "__class__")
_TELLING = frozenset({"builtins.str", "builtins.repr"})
_ADDING = frozenset({"operator.add", "operator.iadd", "operator.concat", "operator.iconcat"})


class OrderCalls(OrderResults):
    """Follows an order into calls; asks a tracer of its own for another module where they lead there."""

    def __init__(
        self,
        module: Module,
        seen: set[tuple[ast.AST, Form, bool, bool, int | str | None, int]] | None = None,
        source: ast.Call | None = None,
    ) -> None:
        super().__init__(module, source)
        self._seen = set() if seen is None else seen

    def of(self, module: Module) -> OrderCalls:
        """Return what follows the same order through another module."""
        return self if module is self.module else type(self)(module, self._seen)

    def _keyword(self, node: ast.expr, parent: ast.keyword, trail: Trail) -> str | None:
        call = self.index.parents[parent]
        if not isinstance(call, ast.Call) or self.is_searched_as(parent.arg, call):
            return None
        return self._argument(node, call, trail)

    def _argument(self, node: ast.expr, call: ast.Call, trail: Trail) -> str | None:
        if node is call.func:
            return None
        given, trail = trail, replace(trail, behind=False, place=None)
        names = tuple(name.removesuffix(".__init__") for name in self.inference.callees(call))
        names += tuple(self._bases(names))
        functions = self.table.functions
        if self.is_sorting(names) and leaves_ties(call, self.inference):
            return self._ties(node, call, names, trail)
        if self.is_sorting(names):
            if trail.form is Form.WALK:
                return self.destination(call, replace(trail, form=Form.SORTED_WALK))
            lists = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items"
            unsorted = trail.subset or (trail.form is Form.NESTED and lists)  # the lists inside stay as they are
            return self.destination(call, trail) if unsorted else None
        if trail.form is Form.NESTED and not trail.subset and self.settles_each(call, names):
            return None
        if self._numbers(node, call, names) or (trail.form is Form.GRAPH and self._numbers_nodes(call, names)):
            return NUMBERING
        if "builtins.zip" in names and self._pairs_entries(node, call):
            return PAIRING
        if self.pairs_listings(call, names):
            return "the pairs that zip() makes"
        if self._pairs_places(node, call, names):
            return PAIRING
        if self._is_given_columns(node, call, trail):
            return COLUMNS
        if trail.partial and not functions["mapping"].isdisjoint(names):
            return CHOICE
        if "builtins.print" in names:
            return WRITING  # what is printed for people to read was left out before
        if isinstance(node, ast.Starred) and "builtins.zip" in names:
            return self.destination(call, replace(trail, form=Form.NESTED))  # the order moves into the elements
        if self._joins(node, call, names) or (trail.form is Form.NESTED and self._flattens(node, names)):
            return self.destination(call, replace(trail, form=Form.SEQUENCE))
        if "builtins.dict" in names and isinstance(self.index.parents.get(node), ast.keyword):
            form = trail.form if trail.form is Form.MAPPING else Form.NESTED
            return self.destination(call, replace(trail, form=form))
        keyed = not {"builtins.dict", "collections.OrderedDict"}.isdisjoint(names)
        if keyed and (trail.form is Form.MAPPING or (trail.form is Form.NESTED and node in call.args)):
            return self.destination(call, trail)
        if keyed and trail.form is Form.SEQUENCE and node in call.args:  # `dict(zip(names, rows))`
            return self.destination(call, replace(trail, form=Form.MAPPING))
        if functions["adding"].intersection(names):
            reduced = self._reduced(node, identifier(call.func), trail)
            if reduced is not None:
                return reduced
        if functions["splitting"].intersection(names) and trail.form is Form.SEQUENCE:
            inside = self.destination(call, replace(trail, form=Form.NESTED, subset=True))
            return inside or self.destination(call, replace(trail, subset=True))  # the parts are in that order as well
        if functions["hashing"].intersection(names):
            return CHECKSUM
        if trail.form is Form.TEXT and trail.each_run and "os.path.join" in names:
            return self.destination(call, trail)
        if trail.form is Form.TEXT and trail.each_run and not functions["opening"].isdisjoint(names):
            return NAMING
        if not _TELLING.isdisjoint(names):
            found = self.destination(call, replace(trail, form=Form.TEXT))
            return found if found == CHECKSUM else None  # other text is for people, as a rule
        if "itertools.islice" in names and self._takes_first(call):
            return self.destination(call, leave_rest(trail))
        if functions["keying"].intersection(names) and node in call.args[:1]:
            return self.destination(call, replace(trail, form=Form.MAPPING))
        if functions["carrying"].intersection(names) or self.is_progress_bar(call):
            stacked = any(name.startswith("torch.") for name in names)  # what stands in a tensor is computed with
            held = trail if not functions["copying"].isdisjoint(names) else as_sequence(trail)
            return self.destination(call, replace(held, gathered=trail.gathered or stacked))
        if functions["receiving"].intersection(names) or self._keeps_items(names):
            return self._received(node, call, names, trail)
        registers = trail.form is Form.MAPPING and not functions["registering"].isdisjoint(names)
        if registers or (trail.form is Form.SEQUENCE and self._optimizes(node, call, names)):
            return "the order of the parameters"
        if isinstance(call.func, ast.Attribute):
            found = self._taken_by_method(node, call, call.func, trail)
            if found is not None:
                return found
        if trail.form is Form.GRAPH:
            return None
        if trail.form is Form.TEXT and self._makes_over(node, call):
            return self.destination(call, trail)
        record = replace(trail, place=given.place)
        found = self._through_function(node, call, names, record) or self._held(call, names, trail)
        entry = trail.form is Form.NESTED and isinstance(given.place, str)  # `options["images"] = images`
        unknown = found is None and (trail.gathered or trail.partial) and (trail.form is Form.SEQUENCE or entry)
        return self._worked_on(call, names) if unknown else found

    def _ties(self, node: ast.expr, call: ast.Call, names: tuple[str, ...], trail: Trail) -> str | None:
        """`sorted(words, key=len)` keeps those of one length as they were; `max(words, key=len)` takes the first."""
        if not {"builtins.min", "builtins.max"}.isdisjoint(names):
            return None if self.is_measured(call) else self.choice(node, call)
        cut = not {"heapq.nsmallest", "heapq.nlargest"}.isdisjoint(names)
        return self.destination(call, leave_rest(trail) if cut else as_sequence(trail))

    def _reduced(self, node: ast.expr, reduction: str, trail: Trail) -> str | None:
        """Return what a sum or a mean of all that stands in an order depends on: rounding, or which of it there is."""
        if trail.tensors or (trail.each_run and averages_tensor(self, node, reduction)):
            return SUM
        return CHOICE if trail.partial else None

    def _worked_on(self, call: ast.Call, names: tuple[str, ...]) -> str | None:
        """`images = processor.read(paths)`: a call that nothing is known of, and that gives something back."""
        word = identifier(call.func)
        if isinstance(self.index.parents.get(call), ast.Expr) or not word or self.table.asking.match(word):
            return None
        if word in self.table.methods["membership"] or not self.table.functions["membership"].isdisjoint(names):
            return None
        known = any(name.startswith(self.table.indifferent) or self.module.project.definition(name) for name in names)
        return None if known or is_test_file(self.module) else f"{word}()"

    def _held(self, call: ast.Call, names: tuple[str, ...], trail: Trail) -> str | None:
        """`return NodeOutput(images)`, `return super().load(files)`: what is made of it, or by the parent, holds it."""
        if not CHANGED_COPIES.isdisjoint(names):
            return self.destination(call, replace(trail, form=Form.NESTED))
        known = any(self.module.project.definition(name) is not None for name in names)
        if known or trail.form in (Form.MAPPING, Form.TEXT) or self.is_complaint(identifier(call.func)):
            return None
        if _makes_object(call, names) or self._asks_parent(call):
            return self.destination(call, replace(trail, form=Form.NESTED))
        return None

    def _asks_parent(self, call: ast.Call) -> bool:
        function = self.index.function_at(call)
        method = call.func
        if not isinstance(method, ast.Attribute) or not isinstance(method.value, ast.Call) or function is None:
            return False
        return identifier(method.value.func) == "super" and method.attr == function.name != "__init__"

    def _makes_over(self, node: ast.expr, call: ast.Call) -> bool:
        """`text = clean(text)`: what is still called the same still has its order."""
        statement = self.index.parents.get(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return isinstance(node, ast.Name) and any(isinstance(t, ast.Name) and t.id == node.id for t in targets)

    def _numbers(self, node: ast.expr, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`zip(words, range(n))` and `dict(enumerate(words))` number what they get."""
        if "builtins.zip" in names:
            return any(self._counts(other) for other in call.args if other is not node)
        made = made_of(self.module, node) or [node]
        counted = made[0] if "builtins.dict" in names and len(made) == 1 else None
        return isinstance(counted, ast.Call) and "builtins.enumerate" in self.inference.callees(counted)

    def _takes_first(self, call: ast.Call) -> bool:
        """`islice(paths, 100)`; in a loop each part has its turn."""
        around = (parent for parent in self.index.ancestors(call) if isinstance(parent, (*FUNCTIONS, ast.While)))
        return len(call.args) == 2 and not isinstance(next(around, None), ast.While)

    def _pairs_entries(self, node: ast.expr, zipped: ast.Call) -> bool:
        """`dict(zip(names, results))` where names have their own order, and results have not."""
        around = self.index.parents.get(zipped)
        if not isinstance(around, ast.Call) or "builtins.dict" not in self.inference.callees(around):
            return False
        others = [given for given in zipped.args if given is not node]
        return any(map(self.has_own_order, others)) and not self.has_own_order(node)

    def _counts(self, node: ast.expr, depth: int = 4) -> bool:
        """`range(n)`, `itertools.count()`, also as a list or under a name."""
        if isinstance(node, ast.Name):
            made = made_of(self.module, node)
            only = made[0] if len(made) == 1 and depth else None
            return isinstance(only, ast.Call) and self._counts(only, depth - 1)
        names = self.inference.callees(node) if isinstance(node, ast.Call) else ()
        if isinstance(node, ast.Call) and node.args and {"builtins.list", "builtins.tuple"}.intersection(names):
            return self._counts(node.args[0], depth)
        return not {"builtins.range", "itertools.count", "numpy.arange"}.isdisjoint(names)

    def _flattens(self, node: ast.expr, names: tuple[str, ...]) -> bool:
        """`chain(*listings)`, `chain.from_iterable(listings)`, `more_itertools.flatten(listings)`."""
        flattened = not self.table.functions["flattening"].isdisjoint(names)
        return flattened or (isinstance(node, ast.Starred) and "itertools.chain" in names)

    def _joins(self, node: ast.expr, call: ast.Call, names: tuple[str, ...]) -> bool:
        """`sum(lists, [])`, `functools.reduce(operator.add, lists)`: lists, one after the other in one."""
        if "builtins.sum" in names:
            start = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
            return node in call.args[:1] and any(isinstance(given, (ast.List, ast.Tuple)) for given in start)
        if "functools.reduce" not in names or node not in call.args[1:2]:
            return False
        step = call.args[0]
        adds = isinstance(step, ast.Lambda) and isinstance(step.body, ast.BinOp) and isinstance(step.body.op, ast.Add)
        return adds or not _ADDING.isdisjoint(self.inference.resolve(step))

    def _bases(self, names: Iterable[str]) -> Iterator[str]:
        """Yield what the classes of the project among the names derive from: a table of pandas, a data set of torch."""
        for info in map(self.inference.class_named, names):
            if info is not None:
                yield from self.inference.external_bases(info)

    def _keeps_items(self, names: Iterable[str]) -> bool:
        """`ImageDataset(files)`; of one of the project its own code tells."""
        if any(map(self.module.project.definition, names)):
            return False
        endings = self.table.receiving_endings
        return any(name.endswith(endings) and not name.startswith("builtins.") for name in names)

    def _received(self, node: ast.expr, call: ast.Call, names: tuple[str, ...], trail: Trail) -> str | None:
        if (trail.form is Form.MAPPING or self._only_steps(call, names)) and not trail.subset:
            return None
        if "builtins.next" in names:
            if trail.form is Form.WALK:
                return self.destination(call, replace(trail, form=Form.NESTED))
            if isinstance(node, ast.GeneratorExp) and isinstance(node.elt, ast.Constant):
                return None  # `next((True for name in names if fits(name)), False)`
            if trail.gathered and self.is_search(node):
                return None
            return self.choice(node, call)
        return f"{names[0].removeprefix('builtins.')}()"

    def _taken_by_method(self, node: ast.expr, call: ast.Call, method: ast.Attribute, trail: Trail) -> str | None:
        methods = self.table.methods
        if method.attr == "join" and self.inference.resolve(method) in (("builtins.str.join",), ()):
            return self.destination(call, replace(trail, form=Form.TEXT))
        if method.attr == "format" and self._is_text(method.value) and trail.form is not Form.MAPPING:  # by name
            return self.destination(call, replace(trail, form=Form.TEXT))
        if method.attr in methods["extending"] and trail.form is Form.SEQUENCE:
            return self.collected(method.value, call, trail)
        if trail.form is Form.SEQUENCE and self.adds_nodes(call):
            return self.collected(method.value, call, replace(trail, form=Form.GRAPH))
        if method.attr in methods["appending"]:
            if trail.form in KEYED and not trail.subset:
                return None  # a dict among others: the order of its keys is rarely anybody's
            return self.collected(method.value, call, replace(trail, form=Form.NESTED))
        if method.attr == "update" and self.is_checksum(method.value):
            return CHECKSUM
        changes = method.attr.partition("_")[0] == "update"  # `dataset.update_metadata({"scores": scores})`
        if changes and trail.form is Form.NESTED and isinstance(node, ast.Dict):
            return self.collected(method.value, call, trail)
        if method.attr in methods["writing"] and trail.form in (Form.TEXT, Form.SEQUENCE):
            return WRITING
        if method.attr in methods["mapping"] and call.args[1:2] == [node]:
            return CHOICE if trail.subset else self.destination(call, trail)
        if method.attr in methods["passing"] or (method.attr in methods["picking"] and trail.form is Form.SEQUENCE):
            return self.destination(call, trail)
        drawn = method.attr in methods["drawing"] and trail.form is Form.SEQUENCE and node in call.args[:1]
        if drawn or (method.attr in methods["keeping"] and trail.form is not Form.MAPPING):
            return f"{method.attr}()"
        return None

    def _is_text(self, node: ast.expr) -> bool:
        return {value.kind for value in self.inference.values(node)} == {Kind.STRING}

    def _through_function(self, node: ast.expr, call: ast.Call, names: tuple[str, ...], trail: Trail) -> str | None:
        """Follow an argument into the function of the project that gets it."""
        if trail.calls >= MAX_CALLS or isinstance(node, ast.Starred):
            return None
        for name in names:
            definition = self.module.project.definition(name)
            if definition is None:
                continue
            module, function = definition
            if isinstance(function, ast.ClassDef):
                info = module.inference.class_info(function)
                if "__iter__" in info.methods and "__getitem__" not in info.methods:
                    return self.destination(call, trail)  # a progress bar
                maker = next((each for each in module.inference.mro(info) if "__init__" in each.methods), None)
                if maker is None:
                    declares = any(isinstance(statement, ast.AnnAssign) for statement in function.body)
                    if declares and trail.form is not Form.MAPPING:
                        return self.destination(call, replace(trail, form=Form.NESTED, place=None))  # a field of it
                    continue
                module, function = maker.module, maker.methods["__init__"]
            is_method = module.index.class_at(function) is not None
            parameter = parameter_given(function, call, node, skip_self=is_method)
            if parameter is not None:
                tracer = self.of(module)
                entered = (*trail.entered, Entered(self, call, function))
                inner = replace(trail, calls=trail.calls + 1, entered=entered)
                found = tracer._parameter(function, parameter, inner)
                if found is not None:
                    return found
        return None

    def _parameter(self, function: FunctionNode, name: str, trail: Trail) -> str | None:
        binding = self.parameter(function, name)
        if binding is None:
            return None
        self._handed_in.add(binding.node)
        return self.binding(binding, None, trail)


def _makes_object(call: ast.Call, names: tuple[str, ...]) -> bool:
    """Is this the constructor of a class that cannot be read, or of one that a variable holds: `input_cls(files)`?"""
    name = identifier(call.func)
    if name.lower().endswith(_CLASSES) or (isinstance(call.func, ast.Call) and identifier(call.func.func) == "type"):
        return True
    builtin = any(each.startswith("builtins.") for each in names)
    return name[:1].isupper() and not name.isupper() and not builtin and not name.endswith(_PASSING)
