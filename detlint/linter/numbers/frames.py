"""Where an expression stands: its module, and what the calls under way give the parameters there."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.written_here import made_here
from detlint.linter.source.names import Binding, BindingKind, FunctionNode


@dataclass(frozen=True, slots=True)
class Placed:
    """An expression, and the frame in which its names mean something."""

    frame: Frame
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Frame:
    """A module, or a function of it that runs: `given` are the arguments of its parameters, each in its own frame.

    `running` are that function and those that led there: one that calls itself tells nothing new.
    """

    module: Module
    given: Mapping[ast.AST, Placed] = field(default_factory=dict)
    running: frozenset[FunctionNode] = frozenset()

    def within(self, owner: Module, function: FunctionNode, call: ast.Call) -> Frame:
        """Return the frame of `function`, which stands in `owner`, as `call` of this frame runs it."""
        signature = function.args
        given: dict[ast.AST, Placed] = {}
        for parameter in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs):
            argument = argument_of(function, parameter.arg, call, skip_self=True)
            if argument is not None:
                given[parameter] = Placed(self, argument)
        return Frame(owner, given, self.running | {function})

    def meant_by(self, binding: Binding) -> Placed | None:
        """Return what a name is bound to: what is written, or what a parameter is given here."""
        if binding.kind is BindingKind.PARAMETER:
            return self.given.get(binding.node)
        value = made_here(self.module, binding) if binding.kind is BindingKind.ASSIGN else None
        return Placed(self, value) if value is not None else None
