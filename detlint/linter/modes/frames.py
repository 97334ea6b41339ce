"""A function that is being read for one call of it, and expressions whose names mean something there."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from detlint.linter.analysis.calls import argument_of
from detlint.linter.source.names import FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.module import Module

MAX_DEPTH = 12  # calls within calls that are read


class Closure(NamedTuple):
    """An expression with the file it stands in, and the frame of the function it stands in where that is known."""

    node: ast.expr
    module: Module
    frame: Frame | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A constructor or function that is being read, or a lambda, the call that runs it, and the frame of that call.

    `module` is that of the function, `at` that of the call, None where nobody can ask what is given.
    """

    function: FunctionNode | ast.Lambda
    call: ast.Call | None
    caller: Frame | None
    module: Module
    at: Module | None = None

    @property
    def depth(self) -> int:
        """How many calls within each other are read."""
        return 1 + (self.caller.depth if self.caller is not None else 0)

    def given(self, name: str) -> Closure | None:
        """Return what a parameter is: what the call passes, else its default; None where that cannot be told."""
        default = next((value for argument, value in parameters(self.function.args) if argument.arg == name), None)
        by_default = Closure(default, self.module) if default is not None else None
        if self.call is None:
            return by_default
        given = argument_of(self.function, name, self.call, skip_self=True)
        if given is not None:
            return self._passed(given)
        if any(isinstance(argument, ast.Starred) for argument in self.call.args):
            return None
        spread = _spread(self.call)
        if not spread:
            return by_default
        return self.caller._handed_on(spread, name, by_default) if self.caller is not None else None

    def _passed(self, given: ast.expr) -> Closure | None:
        can_ask = self.at is not None or isinstance(given, ast.Constant)
        return Closure(given, self.at or self.module, self.caller) if can_ask else None

    def _handed_on(self, spread: list[ast.expr], name: str, default: Closure | None) -> Closure | None:
        """Return what a keyword argument is that the function takes into its `**kwargs` and hands on.

        It is the default where nobody passes one.
        """
        kept = self.function.args.kwarg
        if self.call is None or kept is None or [getattr(value, "id", "") for value in spread] != [kept.arg]:
            return None
        own = any(argument.arg == name for argument, _ in parameters(self.function.args))
        given = next((keyword.value for keyword in self.call.keywords if keyword.arg == name and not own), None)
        if given is not None:
            return self._passed(given)
        outer = _spread(self.call)
        if outer and not own:
            return self.caller._handed_on(outer, name, default) if self.caller is not None else None
        return default if _is_only_spread(self.function, kept.arg) else None

    def names(self) -> list[str]:
        """Return what the call gives by name or leaves at a default: parameters, and keywords that are taken along."""
        keywords = self.call.keywords if self.call is not None else []
        named = [argument.arg for argument, _ in parameters(self.function.args)]
        return [*named, *(keyword.arg for keyword in keywords if keyword.arg is not None)]


def constructors_of(
    classes: Sequence[ClassInfo], call: ast.Call | None, caller: Frame | None, at: Module | None
) -> dict[ClassInfo, Frame]:
    """Return a frame for each class of an object's that has a constructor, of which `call` makes it.

    `classes` are in the order of their inheritance. A base class gets what the class before hands on, as in
    `super().__init__(norm=None)`, and what the call gives where no such call is written out.
    """
    frames: dict[ClassInfo, Frame] = {}
    made: list[Frame] = []  # grows, and belongs to each of its frames
    for info in classes:
        built = info.methods.get("__init__")
        if built is None:
            continue
        before = made[-1] if made else None
        handed = _base_made(before.function) if before is not None else None
        if before is not None and handed is not None:
            frame = Frame(built, handed, before, info.module, before.module)
        else:
            frame = Frame(built, call, caller, info.module, at)
        made.append(frame)
        _objects(info.module)[frame] = made
        frames[info] = frame
    return frames


def frame_of_call(
    module: Module, function: FunctionNode, call: ast.Call, caller: Frame | None, at: Module | None
) -> Frame:
    """Return the frame of a function of `module`; a method that an object calls on itself belongs to that object."""
    frame = Frame(function, call, caller, module, at)
    if is_own(call.func) and caller is not None:
        _objects(module)[frame] = constructors(caller)
    return frame


def constructors(frame: Frame) -> list[Frame]:
    """Return the frames of the constructors of the object that a method or constructor belongs to."""
    return _objects(frame.module).get(frame, [frame])


def _objects(module: Module) -> dict[Frame, list[Frame]]:
    """Return the constructors of the objects that are read, for the frames of their methods.

    They stand apart from the frames, which would refer back to themselves otherwise.
    """
    return module.project.once(_none_yet, None)


def _none_yet(_: None) -> dict[Frame, list[Frame]]:
    return {}


def _base_made(constructor: ast.AST) -> ast.Call | None:
    """Return `super().__init__(8)` of a constructor."""
    for part in walk(constructor):
        if isinstance(part, ast.Call) and identifier(part.func) == "__init__" and isinstance(part.func, ast.Attribute):
            around = part.func.value
            if isinstance(around, ast.Call) and identifier(around.func) == "super":
                return part
    return None


def _spread(call: ast.Call) -> list[ast.expr]:
    """Return what a call is given behind `**`."""
    return [keyword.value for keyword in call.keywords if keyword.arg is None]


def _is_only_spread(function: ast.AST, options: str) -> bool:
    """`**kwargs`, to which nothing is added on the way."""
    uses = [part for part in walk(function) if isinstance(part, ast.Name) and part.id == options]
    spread = [part.value for part in walk(function) if isinstance(part, ast.keyword) and part.arg is None]
    return all(use in spread for use in uses)
