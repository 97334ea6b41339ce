"""Small questions about the code through which an order passes: is it sorted, shown, the only element?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeGuard

from detlint.linter.analysis.made import given_to, made_of, written
from detlint.linter.analysis.program import calls_named
from detlint.linter.order.form import KEEPING_ORDER, KeptIn
from detlint.linter.order.ties import leaves_ties
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode
from detlint.linter.source.nodes import decorating, identifier, names_in
from detlint.linter.tables.order import listings, order_table
from detlint.randomness import load_sources

if TYPE_CHECKING:
    from detlint.linter.analysis.flow import Flow
    from detlint.linter.analysis.module import Module

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_ENDINGS = ("", "s", "es", "d", "ed")
_CHOSEN = ("value", "index", "default")  # before anybody has chosen in a menu
_SHOWING = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})


class OrderQuestions:
    """Answers from one module and the table of orders."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.index = module.index
        self.inference = module.inference
        self.table = order_table()

    def first(self, answers: Iterable[str | None]) -> str | None:
        """Return the first answer; one that others can be asked about only where there is no other."""
        kept: str | None = None
        for answer in answers:
            if answer is not None and not isinstance(answer, KeptIn):
                return answer
            kept = kept or answer
        return kept

    def is_complaint(self, name: str) -> bool:
        """`missing_keys`, `unexpectedKeys`, `duplicates`: not `extract_words`, which says something else than extra.

        And not `drop_duplicates`, which gives what is left.
        """
        parts = [part.lower() for part in _WORD.findall(name)]
        if parts and parts[0] in self.table.cleaning:
            return False
        return any(
            part.startswith(word) and part[len(word) :] in _ENDINGS for part in parts for word in self.table.complaints
        )

    def is_duration(self, name: str) -> bool:
        """`total_time`, `latency`."""
        return not self.table.durations.isdisjoint(part.lower() for part in _WORD.findall(name))

    def complains(self, node: ast.expr) -> bool:
        """`missing.pop()` of a variable or an attribute that is named as a complaint."""
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return self.is_complaint(name)

    def is_lookup(self, name: str) -> bool:
        """Return whether a list of that name is one of names of code, which is searched and not computed with."""
        return name.lower().endswith(self.table.lookups)

    def is_searched_as(self, keyword: str | None, call: ast.Call) -> bool:
        """`LoraConfig(target_modules=names)`; what the project makes of such a list itself is followed there."""
        own = (self.module.project.definition(name) for name in self.inference.callees(call))
        return self.is_lookup(keyword or "") and not any(own)

    def is_lookup_key(self, key: ast.expr | None) -> bool:
        """`"target_modules"`, as the key of an entry."""
        return isinstance(key, ast.Constant) and isinstance(key.value, str) and self.is_lookup(key.value)

    def is_complaint_key(self, key: ast.expr | None) -> bool:
        """`"error"`, as the key of an entry."""
        return isinstance(key, ast.Constant) and isinstance(key.value, str) and self.is_complaint(key.value)

    def loads_by_name(self, function: str) -> bool:
        """`load_state_dict`, `load_param_states`: tensors go where their names say."""
        words = [part.lower() for part in _WORD.findall(function)]
        return words[:1] == ["load"] and not self.table.keyed.isdisjoint(words)

    def adds_command(self, function: str) -> bool:
        """`add_parser`, `register_subcommand`: a command line lists what it knows, and is told which by name."""
        words = [part.lower() for part in _WORD.findall(function)]
        return words[:1] in (["add"], ["register"]) and not self.table.commands.isdisjoint(words)

    def is_menu(self, function: str) -> bool:
        """`add_dropdown`, `QComboBox`, `self.model_dropdown`: people choose in it by name."""
        return self.table.menus.search(function) is not None

    def fills_view(self, node: ast.AST) -> bool:
        """Does it stand in a model of Qt? A view asks that for what to show in each row, and people choose there."""
        owner = self.index.class_at(node)
        bases = self.inference.external_bases(self.inference.class_info(owner)) if owner is not None else ()
        return any(base.rpartition(".")[2] in self.table.views for base in bases)

    def fills_page(self, function: FunctionNode) -> bool:
        """`@callback(Output("files", "options"), …)`: what it returns is shown in a browser."""
        showing = self.table.functions["showing"]
        around = map(decorating, function.decorator_list)
        return any(not showing.isdisjoint(self.inference.resolve(decorator)) for decorator in around)

    def adds_nodes(self, call: ast.Call) -> bool:
        """`graph.add_nodes_from(names)` of a graph of networkx."""
        return not self.table.functions["growing"].isdisjoint(self.inference.callees(call))

    def is_checksum(self, node: ast.expr) -> bool:
        """`digest` of `digest = hashlib.md5()`."""
        return any(value.type in self.table.functions["hashing"] for value in self.inference.values(node))

    def gives_handle(self, node: ast.expr) -> TypeGuard[ast.Call]:
        """`module.register_forward_hook(record)`, of which only a handle is left."""
        method = node.func if isinstance(node, ast.Call) else None
        return isinstance(method, ast.Attribute) and method.attr in self.table.methods["hooking"]

    def is_progress_bar(self, call: ast.Call) -> bool:
        """`pbar(results)` of a variable that nothing is known about but its name."""
        name = call.func.id.lower() if isinstance(call.func, ast.Name) else ""
        return not self.inference.callees(call) and any(word in name for word in self.table.progress)

    def shown(self, node: ast.AST, through: bool = True) -> bool:
        """Return whether the value goes into a message, a log or an exception, which only people read.

        `through` follows it through one variable: not what a function of the project tells of its work with it.
        """
        function = self.index.function_at(node)
        if function is not None and function.name in self.table.descriptions:
            return True
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, ast.Raise) or (isinstance(parent, ast.Assert) and child is not parent.test):
                return True
            if isinstance(parent, ast.stmt):
                return through and self._makes_message(parent)
            if isinstance(parent, ast.Call) and child is not parent.func:
                if self._shows(parent, child):
                    return True
                through = through and not any(map(self.module.project.definition, self.inference.callees(parent)))
            child = parent
        return False

    def _makes_message(self, statement: ast.stmt) -> bool:
        """`message += f"such as {names[0]}"`, where all that is done with it is to raise or to show it."""
        if not isinstance(statement, (ast.Assign, ast.AugAssign)):
            return False
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        target = targets[0]
        binding = self.binding_of(target) if isinstance(target, ast.Name) and len(targets) == 1 else None
        if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
            return False
        flow = self.module.flow(binding.scope)
        made = (use for each in (binding, *self.made_longer(binding, flow)) for use in flow.uses(each))
        uses = [use for use in made if not self._asks_whether_set(use)]
        return bool(uses) and all(self.shown(use, through=False) for use in uses)

    def made_longer(self, binding: Binding, flow: Flow) -> Iterator[Binding]:
        """Yield what the variable is after `names += ["unknown"]` or `images /= 255`: elements stay where they are."""
        # A function that says `global` binds a name of the module.
        same = binding.scope.bindings.get(binding.name, ()) if binding.kind is BindingKind.ASSIGN else ()
        others = [each.node for each in same if each is not binding and each.kind is not BindingKind.AUGMENTED]
        for each in same:
            statement = self.index.parents.get(each.node)
            keeps = isinstance(statement, ast.AugAssign) and isinstance(statement.op, KEEPING_ORDER)
            if keeps and flow.path(binding.node, each.node, avoiding=others):
                yield each

    def _asks_whether_set(self, use: ast.expr) -> bool:
        """`if clash is None`."""
        parent = self.index.parents.get(use)
        return isinstance(parent, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in parent.ops)

    def _shows(self, call: ast.Call, given: ast.AST) -> bool:
        """Is it for people: a line of a log, or a menu in which they choose by name?"""
        if isinstance(call.func, ast.Attribute) and call.func.attr in _SHOWING:
            return True
        keyword = given.arg if isinstance(given, ast.keyword) else None
        if keyword == "choices" and identifier(call.func) == "add_argument":
            return True
        names = self.inference.callees(call)
        owner = identifier(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        makers = (name.rpartition(".")[0].rpartition(".")[2] for name in names)  # `Combobox` of `Combobox.add_item`
        if any(map(self.is_menu, (identifier(call.func), owner, *makers))) and not any(
            map(self.module.project.definition, names)
        ):
            return keyword not in _CHOSEN
        if not self.table.functions["showing"].isdisjoint(names):
            return keyword not in _CHOSEN
        if isinstance(call.func, ast.Attribute) and call.func.attr == "write" and self._is_bar(call.func.value):
            return True
        return "warnings.warn" in names or ("builtins.print" in names and self.printed_to(call) is None)

    def _is_bar(self, node: ast.expr) -> bool:
        """`tqdm` of `tqdm.write(line)`, and `bar` of `bar = tqdm(files)`: lines above a progress bar."""
        made = made_of(self.module, node)
        names = [name for value in made if isinstance(value, ast.Call) for name in self.inference.callees(value)]
        return any(name.startswith("tqdm.") for name in names or self.inference.resolve(node))

    def printed_to(self, call: ast.Call) -> ast.expr | None:
        """Return the file that `print(…, file=…)` writes to; None where people read it."""
        for keyword in call.keywords:
            names = self.inference.resolve(keyword.value) if keyword.arg == "file" else ("sys.stdout",)
            if not any(name.startswith("sys.") for name in names):
                return keyword.value
        return None

    def is_asked_for(self, index: ast.expr, sequence: ast.expr, depth: int = 3) -> bool:
        """Return whether a position in `sequence` comes from a parameter or from a random draw, variables followed.

        Positions are no masks: `table[table.label == label]` asks for no position.
        """
        if isinstance(index, ast.IfExp):  # the test asks for nothing
            return any(self.is_asked_for(branch, sequence, depth) for branch in (index.body, index.orelse))
        parts = list(ast.walk(index))
        if any(isinstance(part, ast.Compare) for part in parts):
            return False
        own = names_in(sequence)
        for part in parts:
            if isinstance(part, ast.Call) and any(map(load_sources().draws.get, self.inference.callees(part))):
                return True
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                bindings = self.module.definitions(part)
                if any(binding.kind is BindingKind.PARAMETER for binding in bindings):
                    return True
                assigned = [given_to(binding) for binding in bindings if binding.kind is BindingKind.ASSIGN]
                values = [value for value in assigned if value is not None] if part.id not in own and depth else []
                if any(map(self._is_chosen_by_people, values)):
                    continue
                if any(self.is_asked_for(value, sequence, depth - 1) for value in values):
                    return True
        return False

    def _is_chosen_by_people(self, value: ast.expr) -> bool:
        """`menu.show()` of `menu = TerminalMenu(names)`: they choose by name what they are shown."""
        asked = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
        made = made_of(self.module, asked) if asked is not None else []
        menus = self.table.functions["showing"]
        return any(isinstance(menu, ast.Call) and not menus.isdisjoint(self.inference.callees(menu)) for menu in made)

    def listing_of(self, node: ast.expr, depth: int = 4) -> ast.Call | None:
        """Return the call that lists what a sequence holds: of `sorted(names)`, of `[load(name) for name in names]`."""
        if isinstance(node, ast.Name):
            made = made_of(self.module, node)
            only = made[0] if len(made) == 1 else None
            return self.listing_of(only, depth - 1) if depth and isinstance(only, (ast.Call, ast.ListComp)) else None
        if isinstance(node, ast.ListComp):
            return self.listing_of(node.generators[0].iter, depth)
        if not isinstance(node, ast.Call):
            return None
        names = self.inference.callees(node)
        if node.args and not {"builtins.sorted", "builtins.list"}.isdisjoint(names):
            return self.listing_of(node.args[0], depth)
        inner, module = written(node, self.module)
        listed = inner is not node and depth and OrderQuestions(module).listing_of(inner, depth - 1) is not None
        return node if listed or not listings().isdisjoint(names) else None

    def sorts(self, call: ast.Call) -> bool:
        """Return whether a call gives its argument in a fixed order, as a function of the project may that sorts."""
        names = self.inference.callees(call)
        sorting = self.is_sorting(names) or any(map(self._is_defined_to_sort, names))
        return sorting and not leaves_ties(call, self.inference)

    def settles_each(self, call: ast.Call, names: Iterable[str]) -> bool:
        """`map(max, zip(*rows))`, `map(sorted, groups)`: of each sequence that stands inside no order is left."""
        if "builtins.map" not in names or not call.args:
            return False
        functions = self.table.functions
        settling = functions["sorting"] | functions["membership"]
        return not settling.isdisjoint(self.inference.resolve(call.args[0]))

    def is_sorting(self, names: Iterable[str]) -> bool:
        """Return whether a function is one of those that the table says sort."""
        return not self.table.functions["sorting"].isdisjoint(names)

    def _is_defined_to_sort(self, name: str) -> bool:
        """`def natural(names): return sorted(names, key=digits)`, and nothing else is returned."""
        module, function = self.module.project.definition(name) or (None, None)
        if module is None or not isinstance(function, FUNCTIONS):
            return False
        returned = [node.value for node in module.flow(module.index.scopes[function]).returns()]
        return bool(returned) and all(
            isinstance(value, ast.Call)
            and value.args
            and isinstance(value.args[0], ast.Name)
            and self.is_sorting(module.inference.callees(value))
            and not leaves_ties(value, module.inference)
            for value in returned
        )

    def positions(self, target: ast.expr, iterable: ast.expr) -> frozenset[str]:
        """Return the names that hold the running number of an `enumerate`."""
        made = made_of(self.module, iterable)
        call = made[0] if len(made) == 1 else iterable  # `numbered = enumerate(names)`
        while isinstance(call, ast.Call):
            inner, module = written(call, self.module)
            if isinstance(inner, ast.Call) and "builtins.enumerate" in module.inference.callees(inner):
                first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and target.elts else None
                return frozenset({first.id}) if isinstance(first, ast.Name) else frozenset()
            call = call.args[0] if call.args else None
        return frozenset()

    def is_parameter(self, value: ast.expr) -> bool:
        """Return whether a variable is what the caller gives, and nothing else."""
        bindings = self.module.definitions(value) if isinstance(value, ast.Name) else ()
        return bool(bindings) and all(binding.kind is BindingKind.PARAMETER for binding in bindings)

    def parameter(self, function: FunctionNode, name: str) -> Binding | None:
        """Return what binds a parameter of a function of this file."""
        bindings = self.index.scopes[function].bindings[name]
        return next((binding for binding in bindings if binding.kind is BindingKind.PARAMETER), None)

    def callers(self, function: FunctionNode) -> list[ast.Call]:
        """Return the calls of a function of this file, those from inside itself left out."""
        qualified = self.module.qualified(function)
        return [
            call
            for call in calls_named(self.module, (function.name,))
            if function not in self.index.ancestors(call) and qualified in self.inference.callees(call)
        ]

    def sorted_at_once(self, call: ast.Call) -> bool:
        parent = self.index.parents.get(call)
        return isinstance(parent, ast.Call) and self.sorts(parent)

    def sorts_in_place(self, use: ast.expr) -> Iterator[ast.AST]:
        """Yield the node that puts the list or mapping `use` in order in place."""
        parent = self.index.parents.get(use)
        if isinstance(parent, ast.Attribute) and parent.attr in self.table.methods["sorting"]:
            call = self.index.parents[parent]
            if not (isinstance(call, ast.Call) and leaves_ties(call, self.inference)):
                yield call
        elif isinstance(parent, ast.Call) and parent.args[:1] == [use]:
            if "builtins.list.sort" in self.inference.callees(parent):  # `list.sort(names)`
                yield parent
        elif isinstance(parent, ast.Subscript) and parent.value is use:
            if isinstance(parent.ctx, ast.Store):
                statement = self.index.parents.get(parent)
                value = statement.value if isinstance(statement, ast.Assign) else None
                if value is not None and self._sorts_itself(value, use):
                    yield parent
            else:
                yield from self.sorts_in_place(parent)

    def _sorts_itself(self, value: ast.expr, use: ast.expr) -> bool:
        """`names[:] = sorted(…)`, `names[:] = [name for name in sorted(names) if name in wanted]`."""
        if isinstance(value, ast.Call) and self.sorts(value):
            return True
        text = ast.unparse(use)
        calls = [part for part in ast.walk(value) if isinstance(part, ast.Call) and self.sorts(part)]
        return any(ast.unparse(argument) == text for call in calls for argument in call.args)

    def unless_turned_off(self, node: ast.AST) -> ast.If | None:
        """Return the `if sort:` around `node` where `sort` is a parameter that is True by default."""
        for parent in self.index.ancestors(node):
            if isinstance(parent, FUNCTIONS):
                return None
            if isinstance(parent, ast.If) and isinstance(parent.test, ast.Name):
                bindings = self.module.definitions(parent.test)
                defaults = [b.value for b in bindings if b.kind is BindingKind.PARAMETER]
                if any(isinstance(default, ast.Constant) and default.value is True for default in defaults):
                    return parent
        return None

    def is_off_by_default(self, node: ast.AST) -> bool:
        """Does `node` stand under `if seed is not None:` or `if sort:`, of a parameter by which it is passed by?"""
        tests = ((self._by_default(test), holds) for test, holds in self.index.branches_around(node))
        return any(given is not None and given is not holds for given, holds in tests)

    def _by_default(self, test: ast.expr) -> bool | None:
        """Return what a test of a parameter gives where the caller does not say; None of another test."""
        named = test.left if isinstance(test, ast.Compare) else test
        bindings = self.module.definitions(named) if isinstance(named, ast.Name) else ()
        only = bindings[0] if len(bindings) == 1 else None
        if only is None or only.kind is not BindingKind.PARAMETER or not isinstance(only.value, ast.Constant):
            return None
        if not isinstance(test, ast.Compare):
            return bool(only.value.value)
        if not isinstance(test.ops[0], (ast.Is, ast.IsNot)) or ast.unparse(test.comparators[0]) != "None":
            return None
        return (only.value.value is None) is isinstance(test.ops[0], ast.Is)

    def binding_of(self, target: ast.Name) -> Binding | None:
        owner = self.index.scope_at(target).lookup(target.id)
        found = owner.bindings.get(target.id, ()) if owner is not None else ()
        return next((binding for binding in found if binding.node is target), None)

    def is_zip(self, statement: ast.AST) -> bool:
        value = getattr(statement, "value", None)
        names = self.inference.callees(value) if isinstance(value, ast.Call) else ()
        return not {"builtins.zip", "builtins.map"}.isdisjoint(names)
