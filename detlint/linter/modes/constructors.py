"""Which calls may have made a model? Looked for behind variables, parameters, attributes and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.calls_elsewhere import called_elsewhere
from detlint.linter.analysis.module import Module
from detlint.linter.modes.kept_elsewhere import origins
from detlint.linter.modes.layers import LOADS_INSTANCE
from detlint.linter.modes.lists import held_in, taken_in_turn
from detlint.linter.modes.names import Key, given_to
from detlint.linter.modes.paths import Modes
from detlint.linter.modes.switches import switched
from detlint.linter.modes.taken_parts import Part, taken_part
from detlint.linter.source.names import FUNCTIONS, BindingKind, FunctionNode


class Constructors:
    """The answers for the models of one module; asks the same of other modules where functions lead there.

    With `near`, what other files hand to a function of this one is not looked for, which takes a search of the project.
    """

    def __init__(self, modes: Modes, *, near: bool = False) -> None:
        self._modes = modes
        self._near = near
        self._seen: set[tuple[Module, Key]] = set()
        self._entered: set[ast.AST] = set()

    def of_key(self, key: Key) -> Iterator[tuple[Module, ast.Call]]:
        """Yield the calls that may have made what a variable holds, each with the module that it stands in."""
        module = self._modes.module
        if (module, key) in self._seen:
            return
        self._seen.add((module, key))
        for value in self._modes.items_of(key):
            yield from self.of_expression(value, ())
        if isinstance(key.owner, ast.ClassDef):
            for ancestor in module.inference.mro(module.inference.class_info(key.owner)):
                for write in ancestor.attributes.get(key.name, ()):
                    yield from self._peer(ancestor.module).of_expression(write.value, write.index)
            maker = self._modes.made_at_first_use(key.owner, key.name)
            for statement in module.flow(module.index.scopes[maker]).returns() if maker is not None else ():
                if statement.value is not None:
                    yield from self.of_expression(statement.value, ())
            return
        for binding in module.index.scopes[key.owner].bindings.get(key.name, ()):
            if binding.kind is BindingKind.PARAMETER and isinstance(key.owner, FUNCTIONS):
                for other, _, given in self._given(key.owner, key.name):
                    yield from self._peer(other).of_expression(given, ())
            elif turns := taken_in_turn(binding):
                for each in turns:
                    yield from self.of_expression(each, ())
            elif binding.value is not None:
                yield from self.of_expression(binding.value, binding.index)

    def of_expression(self, node: ast.expr, index: tuple[int, ...]) -> Iterator[tuple[Module, ast.Call]]:
        """Yield the calls that may have made what an expression gives (at `index` of a tuple)."""
        module = self._modes.module
        node = self._modes.unwrapped(node)
        if isinstance(node, ast.IfExp):
            yield from self.of_expression(node.body, index)
            yield from self.of_expression(node.orelse, index)
        elif isinstance(node, ast.Tuple) and index and index[0] < len(node.elts):
            yield from self.of_expression(node.elts[index[0]], index[1:])
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            key = self._modes.key(node)
            if key is not None:
                yield from self.of_key(key)
            elif taken := taken_part(module, node):
                yield from self._of_part(taken)
            elif isinstance(node, ast.Attribute) and not self._near:
                yield from self._of_kept(node)
        elif isinstance(node, ast.Call):
            yield from self._of_call(module, node, index)
        elif not index:
            for part in held_in(node):
                yield from self.of_expression(part, ())

    def _of_part(self, part: Part) -> Iterator[tuple[Module, ast.Call]]:
        """`net.encoder`, and what that may be of where the part cannot be told."""
        if part.attribute:
            yield from self._peer(part.info.module).of_key(Key(part.info.node, part.attribute))
        else:
            yield from self.of_expression(part.whole, ())

    def _of_kept(self, node: ast.Attribute) -> Iterator[tuple[Module, ast.Call]]:
        """`averaged.shadow`: what another object keeps there."""
        for origin in origins(self._modes, node):
            if origin.node not in self._entered:
                self._entered.add(origin.node)
                yield from self._peer(origin.module).of_expression(origin.node, origin.place)

    def _of_call(self, module: Module, node: ast.Call, index: tuple[int, ...]) -> Iterator[tuple[Module, ast.Call]]:
        if switched(node) is not None and isinstance(node.func, ast.Attribute):
            yield from self.of_expression(node.func.value, index)
            return
        part = taken_part(module, node)
        if part is not None:
            yield from self._of_part(part)
            return
        given = self._modes.handed_back(node, index)
        same = given if given is not None else self._modes.copied(node)
        if same is not None:
            yield from self.of_expression(same, index if given is None else ())
            return
        made = list(functions_called(module.inference, node))
        if not made:
            yield from self._of_given_class(module, node) or [(module, node)]
        for other, function in made:
            if function in self._entered:
                continue
            self._entered.add(function)
            peer = self._peer(other)
            for statement in other.flow(other.index.scopes[function]).returns():
                if statement.value is not None:
                    yield from peer.of_expression(statement.value, index)

    def _of_given_class(self, module: Module, node: ast.Call) -> list[tuple[Module, ast.Call]]:
        """Return `Net(config)` for the `cls(config)` of a helper that callers give `Net`; nothing where none does.

        So `Net.load_from_checkpoint(path)`.
        """
        function = module.index.function_at(node)
        loads = isinstance(node.func, ast.Attribute) and node.func.attr == LOADS_INSTANCE
        called = node.func.value if loads and isinstance(node.func, ast.Attribute) else node.func
        if function is None or not isinstance(called, ast.Name):
            return []
        bindings = module.definitions(called)
        if not bindings or any(
            binding.kind is not BindingKind.PARAMETER or binding.scope.node is not function for binding in bindings
        ):
            return []
        found: list[tuple[Module, ast.Call]] = []
        for other, call, given in self._given(function, called.id):
            own = other is module  # what a helper of another file passes on has no meaning in this one
            maker = ast.Attribute(given, LOADS_INSTANCE, ast.Load()) if loads else given
            made = ast.Call(maker, node.args if own else [], node.keywords if own else [])
            other.graft(ast.copy_location(made, call), node if own else call)
            found.append((other, made))
        return found

    def _given(self, function: FunctionNode, parameter: str) -> Iterator[tuple[Module, ast.Call, ast.expr]]:
        """Yield what the calls of a function pass for a parameter: those of its own file, or else of the project."""
        module = self._modes.module
        calls = [(module, call) for call in self._modes.callers(function)]
        for other, call in calls or (() if self._near else called_elsewhere(module, function)):
            given = given_to(function, parameter, call)
            if given is not None:
                yield other, call, given

    def _peer(self, module: Module) -> Constructors:
        if module is self._modes.module:
            return self
        other = Constructors(self._modes.peer(module), near=self._near)
        other._seen, other._entered = self._seen, self._entered
        return other
