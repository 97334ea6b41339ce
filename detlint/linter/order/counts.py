"""Is what something is picked from known to hold one element? Then it has one order, and picking is no choice."""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from typing import TypeGuard

from detlint.linter.analysis.element_fills import put_in
from detlint.linter.analysis.element_sort import Move, Steps
from detlint.linter.analysis.made import given_to, made_of, target_of
from detlint.linter.analysis.returned import only_hands_on
from detlint.linter.order.form import CHOICE
from detlint.linter.order.questions import OrderQuestions
from detlint.linter.order.spares import is_taken_for_new_memory
from detlint.linter.programs.trial_runs import SHAPES
from detlint.linter.source.names import FUNCTIONS, LOOPS
from detlint.linter.source.nodes import holds_one, identifier, names_in, receiver_of

_AT_MOST_ONE = frozenset({(ast.Eq, 1), (ast.LtE, 1), (ast.Lt, 2)})
_RAISES = re.compile(r"(^|_)(raise|error|fail|exit|abort|fatal)(_|$)")
_SEVERAL = frozenset({(ast.NotEq, 1), (ast.Gt, 1), (ast.GtE, 2)})
_AT_LEAST_ONE = frozenset({(ast.GtE, 1), (ast.Lt, 1)})
_LEAVING = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_SETS = frozenset({"builtins.set", "builtins.frozenset"})
_MAKING_ARRAYS = ("array", "asarray")
_MAKING_PATHS = ("join", "str", "Path")
_PARTS_OF_PATHS = {"dirname": "parent", "splitext": "suffix"}
_LOOPS = (ast.For, ast.comprehension)
_ASKING = re.compile(r"(is|has)_|is[a-z]+$|hasattr$")
_READING = re.compile(r"(^|_|im|dcm)(read|open|load)(er)?(_|$)")
# Of an image, a volume, a table: what those of one series share.
_MEASURED = frozenset({"height", "width", "affine", "columns", "schema", "samplerate", "sampling_rate"})
_OF_SERIES = frozenset(
    {
        "Modality",
        "PatientID",
        "StudyInstanceUID",
        "SeriesInstanceUID",
        "PixelSpacing",
        "Rows",
        "Columns",
        "SliceThickness",
    }
)
_NAMES = ("name", "stem")
_NAMING = ("basename", "int", "str")
_MOST_STEPS = 4
_STOPPING = ("exit", "error", "fail")  # `sys.exit(…)`, `parser.error(…)`
# What is asked of one that holds of the others as well: they are files of one folder.
_FORMS = frozenset(
    {"builtins.len", "builtins.isinstance", "builtins.type", "os.path.exists", "os.path.isdir", "os.path.isfile"}
)


class OrderCounts(OrderQuestions):
    """Answers from how something is made, and from the tests of its length."""

    def is_only_element(self, node: ast.expr) -> bool:
        """Return whether it holds one by how it is written, or the code around counts it: `len(files) == 1`."""
        if self._is_written_with_one(node):
            return True
        held = _things_in(node)
        scope = self.index.function_at(node) or self.module.tree
        for compare in self.index.of_type(ast.Compare):
            if scope is not self.module.tree and scope not in self.index.ancestors(compare):
                continue
            if (
                (self._counts_one(compare, held) or self._names_one(compare, held))
                and not self._has_several(node, compare)
                and self._counts_for(node, compare)
                and self._is_left_to_one(node, compare)
            ):
                return True
        return False

    def _counts_one(self, compare: ast.Compare, held: set[str]) -> bool:
        """`len(files) > 1`."""
        sides = tuple(map(self._count, (compare.left, *compare.comparators)))
        counted = any(
            isinstance(side, ast.Call)
            and isinstance(side.func, ast.Name)
            and side.func.id == "len"
            and _things_in(side) <= held
            and _things_in(side)
            for side in sides
        )
        number = next((side.value for side in sides if isinstance(side, ast.Constant)), None)
        return counted and number in (1, 2) and (type(compare.ops[0]), number) not in _AT_LEAST_ONE

    def _names_one(self, compare: ast.Compare, held: set[str]) -> bool:
        """`found != {"tanh"}`, `found not in ({"tanh"}, {"relu"})`."""
        named = compare.comparators[0]
        several = isinstance(compare.ops[0], (ast.In, ast.NotIn)) and isinstance(named, (ast.Tuple, ast.List))
        sets = named.elts if several and isinstance(named, (ast.Tuple, ast.List)) else [named]
        single = bool(sets) and all(isinstance(each, ast.Set) and holds_one(each) for each in sets)
        asks = several or isinstance(compare.ops[0], (ast.Eq, ast.NotEq, ast.LtE))
        return single and asks and _things_in(compare.left) == held

    def _counts_for(self, node: ast.expr, compare: ast.Compare) -> bool:
        """Return whether a test is made wherever `node` stands, and not in a branch that passes it by."""
        around = set(self.index.ancestors(node))
        statement = self.index.statement(compare)
        for parent in self.index.ancestors(statement):
            if isinstance(parent, FUNCTIONS):
                return True
            if isinstance(parent, ast.If) and parent not in around and parent.orelse != [statement]:
                return False
            statement = parent if isinstance(parent, ast.stmt) else statement
        return True

    def _is_written_with_one(self, node: ast.expr) -> bool:
        """`{"mean"}`, `set(("mean",))`, or a variable that is made so and never added to."""
        if isinstance(node, ast.Call) and len(node.args) == 1 and _SETS.intersection(self.inference.callees(node)):
            node = node.args[0]
        if isinstance(node, (ast.Set, ast.List, ast.Tuple)):
            return holds_one(node)
        scope = self.index.scope_at(node).lookup(node.id) if isinstance(node, ast.Name) else None
        if scope is None or not isinstance(node, ast.Name):
            return False
        made = [given_to(binding) for binding in scope.bindings[node.id]]
        written = len(made) == len(scope.bindings[node.id]) and all(isinstance(value, ast.Set) for value in made)
        filled = list(put_in(self.index, node.id, scope.node, (Move.ITERATED,)))
        return self._is_filled_once(made, filled, scope.node) or (
            written and not filled and all(value is not None and self._is_written_with_one(value) for value in made)
        )

    def _is_filled_once(
        self, made: list[ast.expr | None], filled: list[tuple[ast.expr, Steps]], function: ast.AST
    ) -> bool:
        """`tags = set()`, and `tags.add(tag)` once and in no loop."""
        empty = all(isinstance(value, ast.Call) and not value.args and self._makes_set(value) for value in made)
        if not made or not empty or len(filled) != 1 or filled[0][1] or not isinstance(function, FUNCTIONS):
            return False
        around = takewhile(lambda parent: parent is not function, self.index.ancestors(filled[0][0]))
        return not any(isinstance(parent, (*LOOPS, *FUNCTIONS)) for parent in around)

    def _makes_set(self, call: ast.Call) -> bool:
        return not _SETS.isdisjoint(self.inference.callees(call))

    def _count(self, side: ast.expr) -> ast.expr:
        """`count` of `count = len(files)`: that."""
        made = made_of(self.module, side)
        value = made[0] if len(made) == 1 else None
        return value if isinstance(value, ast.Call) else side

    def _has_several(self, node: ast.expr, compare: ast.Compare) -> bool:
        """Return whether `node` stands where there is more than one: below `if len(files) > 1`."""
        branch = self.index.parents.get(compare)
        if not isinstance(branch, ast.If) or not isinstance(compare.ops[0], (ast.Gt, ast.GtE)):
            return False
        return any(statement in self.index.ancestors(node) for statement in branch.body)

    def _is_left_to_one(self, node: ast.expr, compare: ast.Compare) -> bool:
        """Return whether `node` stands where a test of an `if` leaves one: in its body, or after what leaves."""
        branch = self.index.statement(compare)
        if not isinstance(branch, ast.If) or branch.test not in (compare, *self.index.ancestors(compare)):
            return True
        around = {node, *self.index.ancestors(node)}
        asks_for_one = isinstance(compare.ops[0], (ast.Eq, ast.LtE, ast.Lt, ast.In))
        around_test = self.index.parents.get(compare)
        if isinstance(around_test, ast.UnaryOp) and isinstance(around_test.op, ast.Not):  # `if not len(files) == 1`
            asks_for_one = not asks_for_one
        kept, left = (branch.body, branch.orelse) if asks_for_one else (branch.orelse, branch.body)
        if around.intersection([branch.test, *kept]):
            return True
        return not around.intersection(left) and bool(left) and (_leaves(left[-1]) or _ends_there(left[-1]))

    def leaves_one(self, use: ast.expr) -> ast.stmt | None:
        """Return `if len(files) > 1: raise …` or `assert len(files) == 1`: what passes it by has one order.

        So `if not len(files) == 1: raise_log(error)`.
        """
        call = self.index.parents.get(use)
        compare = self.index.parents.get(call) if call is not None else None
        if not isinstance(call, ast.Call) or not isinstance(compare, ast.Compare) or compare.left is not call:
            return None
        if "builtins.len" not in self.inference.callees(call):
            return None
        number = getattr(compare.comparators[0], "value", None)
        asked = (type(compare.ops[0]), number)
        statement = self.index.parents.get(compare)
        if isinstance(statement, ast.UnaryOp) and isinstance(statement.op, ast.Not) and asked == (ast.Eq, 1):
            asked, statement = (ast.NotEq, 1), self.index.parents.get(statement)
        if isinstance(statement, ast.Assert):
            return statement if asked in _AT_MOST_ONE or _lists_no_more_than_one(compare) else None
        if isinstance(statement, ast.BoolOp) and isinstance(statement.op, ast.Or):
            statement = self.index.parents.get(statement)
        leaves = isinstance(statement, ast.If) and _ends_there(statement.body[-1])
        return statement if isinstance(statement, ast.If) and leaves and asked in _SEVERAL else None

    def choice(self, node: ast.expr, chosen: ast.expr) -> str | None:
        """`files[0]` decides nothing where there is one file, or where only its form is looked at."""
        chosen = self.index.with_choice(chosen)
        parent = self.index.parents.get(chosen)
        if isinstance(parent, (ast.Compare, ast.Expr)) or self.complains(node) or self.shown(chosen):
            return None
        if self._is_asked_for_form(chosen, self._shared_by(node)) or self.is_only_element(node):
            return None
        sought = isinstance(node, ast.GeneratorExp) and self._seeks_one(node)
        if sought or self._stands_for_all(node, chosen) or is_taken_for_new_memory(chosen, self.module):
            return None
        asked = parent if isinstance(parent, ast.Call) and parent.func is not chosen else None
        return None if asked is not None and not _FORMS.isdisjoint(self.inference.callees(asked)) else CHOICE

    def is_search(self, node: ast.expr) -> bool:
        """`next(name for name in names if fits(name))`: who ends at the first that fits is looking for one thing."""
        if isinstance(node, ast.GeneratorExp):
            return any(loop.ifs for loop in node.generators)
        return isinstance(node, ast.Call) and "builtins.filter" in self.inference.callees(node)

    def _seeks_one(self, generator: ast.GeneratorExp) -> bool:
        """`next(path for path in paths if step_of(path) == step)`: what has a name, or a number in it, is looked for.

        Not what shares a part of its name with others: `path.parent`, `path.suffix`, `name.split("_")[0]`.
        """
        loop = generator.generators[-1]
        tests = [part for test in loop.ifs for part in (test.values if _joins_all(test) else [test])]
        return any(
            self._names_element(side, names_in(loop.target))
            for test in tests
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)
            for side in (test.left, *test.comparators)
        )

    def _names_element(self, side: ast.expr, elements: frozenset[str]) -> bool:
        """`path`, `path.stem`, `int(path.stem)`, `step_of(path)` of a function of the project."""
        if isinstance(side, ast.Attribute):
            return side.attr in _NAMES and self._names_element(side.value, elements)
        if not isinstance(side, ast.Call):
            return isinstance(side, ast.Name) and side.id in elements
        own = any(map(self.module.project.definition, self.inference.callees(side)))
        whole = len(side.args) == 1 and not side.keywords and (own or identifier(side.func) in _NAMING)
        return whole and self._names_element(side.args[0], elements)

    def _stands_for_all(self, node: ast.expr, chosen: ast.expr) -> bool:
        """`if parts[0].shape[-1] < 0: parts = [fixed(part) for part in parts]`: one is asked what to do with all."""
        part: ast.AST = chosen
        parents = self.index.ancestors(chosen)
        parent = next(parents)
        while isinstance(parent, (ast.Attribute, ast.Subscript, ast.Compare, ast.BoolOp, ast.UnaryOp)) or (
            isinstance(parent, ast.Call) and (parent.func is part or _ASKING.match(identifier(parent.func)))
        ):
            part, parent = parent, next(parents)
        if not isinstance(parent, (ast.If, ast.IfExp)) or parent.test is not part:
            return False
        text = ast.unparse(node)
        branches = parent.body if isinstance(parent, ast.If) else [parent.body, parent.orelse]
        loops = (each for branch in branches for each in ast.walk(branch) if isinstance(each, _LOOPS))
        return any(ast.unparse(loop.iter) == text for loop in loops)

    def is_measured(self, chosen: ast.expr) -> bool:
        """`len(str(longest))`, also by a variable: the others that are as long would give the same."""
        chosen = self.index.with_choice(chosen)
        parent = self.index.parents.get(chosen)
        if isinstance(parent, ast.Call) and parent.func is not chosen:
            called = identifier(parent.func)
            return called == "len" or (called == "str" and self.is_measured(parent))
        target = target_of(chosen, self.index)
        binding = self.binding_of(target) if isinstance(target, ast.Name) else None
        if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
            return False
        uses = self.module.flow(binding.scope).uses(binding)
        return bool(uses) and all(map(self.is_measured, uses))

    def _is_asked_for_form(self, chosen: ast.expr, shared: frozenset[str], steps: int = _MOST_STEPS) -> bool:
        """`next(iter(weights)).device`, `weights[0][0].values.dtype`, which the others share; also by a variable."""
        chosen = self.index.with_choice(chosen)
        parent = self.index.parents.get(chosen)
        target = parent.optional_vars if isinstance(parent, ast.withitem) else target_of(chosen, self.index)
        if isinstance(target, ast.Name):
            binding = self.binding_of(target)
            if binding is None or not isinstance(binding.scope.node, FUNCTIONS) or not steps:
                return False
            uses = self.module.flow(binding.scope).uses(binding)
            return bool(uses) and all(self._leads_to_form(use, shared, steps - 1) for use in uses)
        if isinstance(parent, ast.Return):
            return bool(steps) and self._is_form_for_callers(parent, shared, steps - 1)
        return self._leads_to_form(chosen, shared, steps)

    def _is_form_for_callers(self, statement: ast.Return, shared: frozenset[str], steps: int) -> bool:
        """`def first_of(folder): return cv2.imread(glob(folder)[0])`, of which all callers ask for the form."""
        function = self.index.function_at(statement)
        calls = self.callers(function) if function is not None and only_hands_on(function) else []
        return bool(calls) and all(self._is_asked_for_form(call, shared, steps) for call in calls)

    def _leads_to_form(self, part: ast.expr, shared: frozenset[str], steps: int) -> bool:
        parent = self.index.parents.get(part)
        while isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is part:
            if _part_asked_for(parent) in shared:
                return True
            part, parent = parent, self.index.parents.get(parent)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Div, ast.Add)) and part is parent.right:
            return self._is_asked_for_form(parent, shared, steps)  # `folder / names[0]`
        if not isinstance(parent, ast.Call) or part is parent.func:
            return False
        called = identifier(parent.func)
        if called in _PARTS_OF_PATHS:
            return _PARTS_OF_PATHS[called] in shared and _takes_part(self.index.parents.get(parent), called)
        reads = called in (*_MAKING_PATHS, *_MAKING_ARRAYS) or _READING.search(called) is not None
        return reads and self._is_asked_for_form(parent, shared, steps)

    def _shared_by(self, node: ast.expr) -> frozenset[str]:
        """Return what all entries have in common as a rule: also their folder, unless folders are searched."""
        listing = self.listing_of(node)
        texts = [part.value for part in ast.walk(listing) if isinstance(part, ast.Constant)] if listing else []
        searched = listing is not None and (
            identifier(listing.func) in ("rglob", "walk") or any("*" in str(text).rpartition("/")[0] for text in texts)
        )
        return SHAPES | _MEASURED | _OF_SERIES | ({"suffix"} if searched else {"suffix", "parent"})


def _joins_all(test: ast.expr) -> TypeGuard[ast.BoolOp]:
    """`path.is_file() and path.stem == name`."""
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)


def _part_asked_for(parent: ast.Attribute | ast.Subscript) -> object:
    """`height` of `frame.height` and of `info["height"]`."""
    return parent.attr if isinstance(parent, ast.Attribute) else getattr(parent.slice, "value", None)


def _takes_part(around: ast.AST | None, called: str) -> bool:
    """`os.path.splitext(name)[1]`; the folder is all that `dirname` gives."""
    return called == "dirname" or (isinstance(around, ast.Subscript) and ast.unparse(around.slice) in ("1", "-1"))


def _things_in(node: ast.AST) -> set[str]:
    """Return the variables in an expression, attributes by their full name: `self.files`, of which `self` says nothing.

    What is called is none of them: neither `len` nor the method in `files.keys()`; nor is what a comprehension binds.
    """
    if isinstance(node, ast.Call):
        method = receiver_of(node)
        given = (method, *node.args, *(keyword.value for keyword in node.keywords))
        return {name for part in given if part is not None for name in _things_in(part)}
    if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return {ast.unparse(node)}
    found = {name for part in ast.iter_child_nodes(node) for name in _things_in(part)}
    return found - {name for loop in getattr(node, "generators", ()) for name in names_in(loop.target)}


def _leaves(statement: ast.stmt) -> bool:
    """`raise`, `return`, `sys.exit(1)`; also where all branches do."""
    if isinstance(statement, ast.If) and statement.orelse:
        return _leaves(statement.body[-1]) and _leaves(statement.orelse[-1])
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        return getattr(called, "attr", getattr(called, "id", "")) in _STOPPING
    return isinstance(statement, _LEAVING)


def _lists_no_more_than_one(compare: ast.Compare) -> bool:
    """`len(files) in [0, 1]`."""
    listed = compare.comparators[0]
    numbers = [getattr(each, "value", None) for each in getattr(listed, "elts", ())]
    return isinstance(compare.ops[0], ast.In) and bool(numbers) and {0, 1}.issuperset(numbers)


def _ends_there(statement: ast.stmt) -> bool:
    """`raise`, `return`, `raise_log(error)`, `parser.error(text)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    called = identifier(call.func) if isinstance(call, ast.Call) else ""
    return isinstance(statement, (ast.Raise, ast.Return)) or _RAISES.search(called) is not None
