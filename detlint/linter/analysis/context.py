"""What a check sees: a call with its arguments, and answers about the code around it.

A check gets a `Call` (or a syntax node, or nothing) and a `Context`, and yields findings:

    @check("DET202")
    def functional_dropout_always_on(call: Call, ctx: Context) -> Iterator[Finding]:
        training = call.argument("training")
        if ctx.truth(training.value) is Truth.YES:
            yield ctx.finding(call.node, call=call.name, state="True")

It never touches suppression, files or printing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from detlint.conditions import Truth
from detlint.findings import Finding, Related
from detlint.linter.analysis.flow import Flow
from detlint.linter.analysis.inference import Inference
from detlint.linter.analysis.program import Program, library_of, program_of
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.source.names import Binding, FunctionNode
from detlint.rulebook import Rule, Trigger

if TYPE_CHECKING:
    from detlint.config import Config
    from detlint.linter.analysis.module import Module
    from detlint.linter.analysis.repairs import Repair

MISSING = object()


@dataclass(frozen=True, slots=True)
class Argument:
    """What a call passes for one parameter.

    `value` is the expression, written in the call or (then `is_default`) parsed from the trigger's signature. It is
    None where the call passes nothing and there is no default, and where `*args` or `**kwargs` hide it (`hidden`).
    """

    value: ast.expr | None
    is_default: bool = False
    hidden: bool = False

    @property
    def given(self) -> bool:
        """Whether the call writes the argument out."""
        return self.value is not None and not self.is_default


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of a rule's triggers. `name` is the qualified name that matched.

    `written` is the call with arguments that stand elsewhere (see `written_out`), where there are any. `passed` is what
    callers may hand on to it by name, where all of that is known (see `call_of`): the literal that they all give, or
    None. Where it is not known, `**` hides any.
    """

    node: ast.Call
    trigger: Trigger
    written: ast.Call | None = None
    passed: Mapping[str, ast.expr | None] | None = None

    @property
    def name(self) -> str:
        return self.trigger.name

    @property
    def is_method(self) -> bool:
        """Whether the trigger is a method named on its class and the call stands on an instance."""
        owner = self.trigger.name.rpartition(".")[0].rpartition(".")[2]
        return owner[:1].isupper() and isinstance(self.node.func, ast.Attribute)

    def argument(self, name: str) -> Argument:
        """Return what the call passes for a parameter of the trigger: keyword, position, or the signature's default."""
        call = self.written or self.node
        for keyword in call.keywords:
            if keyword.arg == name:
                return Argument(keyword.value)
        parameters = self.trigger.parameters
        position = next((i for i, p in enumerate(parameters) if p.name == name), None)
        if position is None:
            return Argument(None, hidden=self._may_spread(name))
        plain = next((i for i, value in enumerate(call.args) if isinstance(value, ast.Starred)), len(call.args))
        if not parameters[position].keyword_only:
            if position < plain:
                return Argument(call.args[position])
            # A star reaches neither what a keyword names nor what comes after it.
            named = {keyword.arg for keyword in call.keywords}
            end = next((i for i, p in enumerate(parameters) if p.name in named), len(parameters))
            if plain < len(call.args) and position < end:
                return Argument(None, hidden=True)
        if self._may_spread(name):
            return Argument(None, hidden=True)
        default = parameters[position].default
        return Argument(None) if default is None else Argument(default_expression(default), is_default=True)

    def _may_spread(self, name: str) -> bool:
        """May `**options` pass an argument of this name?"""
        if self.passed is not None:
            return name in self.passed
        return any(keyword.arg is None for keyword in (self.written or self.node).keywords)


@lru_cache(maxsize=512)
def default_expression(text: str) -> ast.expr:
    """Return the default of a parameter, as a signature of the tables spells it, as an expression."""
    return ast.parse(text, mode="eval").body


class Context:
    """Answers questions about one file under one rule, and builds the rule's findings."""

    def __init__(self, module: Module, rule: Rule, facts: FileFacts) -> None:
        self.module = module
        self.rule = rule
        self.config = facts.config
        self._facts = facts

    # --- the file -------------------------------------------------------------------------------------------------

    @property
    def inference(self) -> Inference:
        return self.module.inference

    @property
    def program(self) -> Program | None:
        """The program that this file is, or None for library code."""
        return self._facts.program

    @property
    def program_or_library(self) -> Program:
        """The program that this file is; library code stands for itself and for what imports it."""
        return self._facts.program or self.module.project.once(library_of, self.module)

    def elsewhere(self, module: Module) -> Context:
        """Return the context of another file of the project, under the same rule and settings."""
        if module is self.module:
            return self
        return Context(module, self.rule, FileFacts(module, self.config, self._facts.with_fixes))

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node right around `node`."""
        return self.module.index.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around `node`, the nearest first."""
        return self.module.index.ancestors(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that `node` stands in."""
        return self.module.index.statement(node)

    def function(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function whose body holds `node`, or None at module or class level."""
        return self.module.index.function_at(node)

    def flow(self, node: ast.AST) -> Flow:
        """Return the control flow of the function or module body that `node` is evaluated in."""
        return self.module.flow_at(node)

    # --- names and values -----------------------------------------------------------------------------------------

    def resolve(self, node: ast.expr) -> tuple[str, ...]:
        """Return the qualified names that an expression may refer to (see `Inference.resolve`)."""
        return self.inference.resolve(node)

    def callees(self, call: ast.Call) -> tuple[str, ...]:
        """Return the qualified names that a call may call (see `Inference.callees`)."""
        return self.inference.callees(call)

    def values(self, node: ast.expr) -> tuple[Value, ...]:
        """Return what an expression can be (see `Inference.values`)."""
        return self.inference.values(node)

    def is_kind(self, node: ast.expr, kind: Kind) -> Truth:
        """Is every possible value of the expression of this kind (yes), none (no), or can that not be told?"""
        kinds = {value.kind for value in self.values(node)}
        if kinds == {kind}:
            return Truth.YES
        return Truth.UNKNOWN if kind in kinds or Kind.UNKNOWN in kinds else Truth.NO

    def is_tensor(self, node: ast.expr) -> bool:
        """Is there evidence that the expression is a tensor, and none that it is something else?"""
        kinds = {value.kind for value in self.values(node)} - {Kind.UNKNOWN, Kind.NONE}
        return kinds == {Kind.TENSOR}

    def constant(self, node: ast.expr | None) -> object:
        """Return the literal that an expression always is, through variables and attributes; MISSING where unknown."""
        if node is None:
            return MISSING
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            inner = self.constant(node.operand)
            if inner is MISSING:
                return MISSING
            if isinstance(node.op, ast.Not):
                return not inner
            return -inner if isinstance(inner, (int, float)) else MISSING
        found = {
            (type(value.node.value), value.node.value) if isinstance(value.node, ast.Constant) else (None, MISSING)
            for value in self.values(node)
        }
        return found.pop()[1] if len(found) == 1 and not self.is_counted(node) else MISSING

    def is_counted(self, node: ast.expr) -> bool:
        """Return whether an expression is an attribute that changes in steps: `self.count`, after `self.count += 1`."""
        if not isinstance(node, ast.Attribute):
            return False
        changes = self.module.index.attribute_changes.get(node.attr, ())
        return any(isinstance(self.parent(change), ast.AugAssign) for change in changes)

    def truth(self, node: ast.expr | None) -> Truth:
        """Is the expression always true, never, or can that not be told?"""
        value = self.constant(node)
        if value is MISSING:
            return Truth.UNKNOWN
        return Truth.YES if value else Truth.NO

    def chained(self, node: ast.expr) -> ast.expr:
        """Return what methods called on a node one after the other give: the whole of `node.to(device).eval()`."""
        while isinstance(method := self.parent(node), ast.Attribute) and isinstance(
            call := self.parent(method), ast.Call
        ):
            node = call
        return node

    def binding(self, node: ast.expr) -> Binding | None:
        """Return the binding made by `name = <node>`, a walrus or `name, other = <node>, …`, or None.

        So is `name = <node> if wanted else None`.
        """
        whole = self.module.index.with_choice(node)
        parent = self.parent(whole)
        targets: Sequence[ast.expr] = ()
        if isinstance(parent, ast.Tuple) and isinstance(statement := self.parent(parent), ast.Assign):
            position = next(place for place, element in enumerate(parent.elts) if element is whole)
            unpacking = [target.elts for target in statement.targets if isinstance(target, ast.Tuple)]
            targets = [elements[position] for elements in unpacking if len(elements) == len(parent.elts)]
        elif isinstance(parent, ast.Assign) and parent.value is whole:
            targets = parent.targets
        elif isinstance(parent, ast.NamedExpr) and parent.value is whole:
            targets = (parent.target,)
        for target in targets:
            if isinstance(target, ast.Name):
                return next((b for b in self.module.index.bindings_of(target) if b.node is target), None)
        return None

    def line(self, node: ast.AST, module: Module | None = None) -> str:
        """Return where a node is, for messages: `line 3`, `line 3 of cell 2`, `line 3 of other.py`."""
        source = self.module.source if module is None else module.source
        place = source.location(node)
        cell = "" if place.cell is None else f" of cell {place.cell}"
        file = "" if source is self.module.source else f" of {source.display}"
        return f"line {place.line}{cell}{file}"

    # --- findings -------------------------------------------------------------------------------------------------

    def finding(
        self,
        node: ast.AST,
        *,
        remedy: str = "",
        passes: tuple[str, ...] | None = None,
        devices: tuple[str, ...] | None = None,
        related: Sequence[tuple[Module, ast.AST, str]] = (),
        repair: Repair | None = None,
        **placeholders: object,
    ) -> Finding:
        """Return a finding of the rule at `node`; `placeholders` fill the rule's message.

        `repair` is what would mend it (see `repairs`).
        """
        source = self.module.source
        finding = self.rule.finding(source.location(node), remedy=remedy, **placeholders)
        return replace(
            finding,
            passes=finding.passes if passes is None else passes,
            devices=finding.devices if devices is None else devices,
            related=tuple(Related(module.source.location(place), text) for module, place, text in related),
            fix=repair.fix(source) if repair is not None and self._facts.with_fixes else None,
        )


class FileFacts:
    """What all rules share about one file."""

    def __init__(self, module: Module, config: Config, with_fixes: bool) -> None:
        self._module = module
        self.config = config
        self.with_fixes = with_fixes

    @cached_property
    def program(self) -> Program | None:
        return self._module.project.once(_program, (self._module, self.config))


def _program(asked: tuple[Module, Config]) -> Program | None:
    """Return `program_of` a file under a configuration: of several contexts of one file the same."""
    return program_of(*asked)
