"""Modules that a module keeps where torch does not look for them: in a plain list, tuple or dict.

Neither `eval()` nor `state_dict()` nor `to()` reaches what stands there, unless some code hands it on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from detlint.conditions import Truth
from detlint.linter.analysis.built import made_before_moves, runs_with_forward
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.only_values import only_value
from detlint.linter.modes.layers import ModelParts
from detlint.linter.modes.switches import switches_any
from detlint.linter.source.names import COMPREHENSIONS, FUNCTIONS, BindingKind
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk

_MAKERS = frozenset({"list", "tuple", "dict"})
_FILLING = frozenset({"append", "insert", "extend"})
_SWITCHES = frozenset({"train", "eval", "training"})
# What a class overrides to register or to name its modules itself.
_FINDING = frozenset({"__setattr__", "children", "named_children"})
# What looks at a list and hands nothing on.
_LOOKS = frozenset({"builtins.len", "builtins.isinstance", "builtins.bool", "builtins.print"})
_TESTS = (ast.Compare, ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp, ast.While, ast.Assert)


class PlainContainer:
    """An attribute of a module class, and what the class and its parents do with it.

    `is_kept_away` tells whether forward calls modules of it that depend on the mode, which nothing registers.
    """

    def __init__(self, info: ClassInfo, name: str, ctx: Context) -> None:
        self._info = info
        self._name = name
        self._ctx = ctx
        self._items: list[tuple[Context, ast.expr]] = []
        self._called = False

    @cached_property
    def is_plain(self) -> bool:
        """Is all that is written to the attribute a list, a tuple or a dict?"""
        writes = self._info.attributes[self._name]
        return all(write.method is not None and not write.index and self._take(write.value) for write in writes)

    @property
    def is_kept_away(self) -> bool:
        if not self.is_plain:
            return False
        ancestors = self._ctx.inference.mro(self._info)
        if any(not _FINDING.isdisjoint(ancestor.methods) for ancestor in ancestors):
            return False
        if any(self._name in ancestor.attributes for ancestor in ancestors if ancestor is not self._info):
            return False
        modules = dict.fromkeys(ancestor.module for ancestor in ancestors)
        uses = [(self._ctx.elsewhere(module), use) for module in modules for use in self._uses(module.index.names_used)]
        if not all(self._is_container_use(use, (), ctx) for ctx, use in uses if self._is_of_this(use, ctx)):
            return False
        hidden = len(self._items) == 1 and not any(self._is_repeated(item) for _, item in self._items)
        return self._called and not hidden and self._hold_modes()

    # --- what stands in it ----------------------------------------------------------------------------------------

    def _take(self, value: ast.expr) -> bool:
        """Note what a display or comprehension puts there; False for anything but plain containers."""
        if isinstance(value, (ast.List, ast.Tuple)):
            self._items += [(self._ctx, element) for element in value.elts]
        elif isinstance(value, ast.Dict):
            self._items += [(self._ctx, element) for element in value.values]
        elif isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            self._items.append((self._ctx, value.elt))
        elif isinstance(value, ast.DictComp):
            self._items.append((self._ctx, value.value))
        elif isinstance(value, ast.Name):
            return self._take_filled(value)
        elif isinstance(value, ast.Call) and getattr(value.func, "id", "") in _MAKERS:
            return all(map(self._take, value.args)) and not value.keywords
        else:
            return False
        return True

    def _take_filled(self, name: ast.Name) -> bool:
        """`layers = []`, `layers.append(nn.Dropout(0.1))`, and then `self.layers = layers`."""
        made = only_value(self._ctx.module, name)
        others = [use for use in self._ctx.module.index.uses_of(name) if use is not name]
        fills = [
            self._ctx.parent(parent) for use in others if isinstance(parent := self._ctx.parent(use), ast.Attribute)
        ]
        appended = [fill for fill in fills if isinstance(fill, ast.Call) and identifier(fill.func) == "append"]
        if not isinstance(made, (ast.List, ast.ListComp)) or len(appended) < len(others) or not self._take(made):
            return False
        self._items += [(self._ctx, fill.args[0]) for fill in appended if fill.args]
        return True

    def _is_repeated(self, item: ast.expr) -> bool:
        """May there be more than one of it? A list of one module is a known way to hide it on purpose."""
        for parent in self._ctx.ancestors(item):
            if isinstance(parent, (*COMPREHENSIONS, ast.For, ast.While)):
                return True
            if isinstance(parent, FUNCTIONS):
                return parent.name != "__init__"  # a method that adds one may be called again
        return False

    def _hold_modes(self) -> bool:
        """Does one of the items hold dropout or batch norm, and is each that has a name kept nowhere else?"""
        made = []
        for ctx, item in self._items:
            if isinstance(item, ast.Name):
                bindings = ctx.module.definitions(item)
                if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].value is None:
                    continue
                uses = [use for use in ctx.flow(item).uses(bindings[0]) if use is not item]
                if not all(_is_element_at_rest(use, ctx) for use in uses):
                    return False
                item = bindings[0].value
            made.append((ctx, made_before_moves(item)))
        return any(isinstance(call, ast.Call) and _depends_on_mode(call, ctx) for ctx, call in made)

    # --- what is done with it ---------------------------------------------------------------------------------------

    def _uses(self, names_used: dict[str, list[ast.AST]]) -> Iterator[ast.Attribute]:
        return (use for use in names_used.get(self._name, ()) if isinstance(use, ast.Attribute))

    def _is_of_this(self, use: ast.Attribute, ctx: Context) -> bool:
        """Is it this attribute? `self.layers` of a class that is no relative is another one."""
        owner = ctx.module.index.class_at(use)
        if owner is None or not is_own(use):
            return True
        around = ctx.inference.class_info(owner)
        return around in ctx.inference.mro(self._info) or self._info in ctx.inference.mro(around)

    def _is_container_use(self, use: ast.expr, place: tuple[int, ...], ctx: Context) -> bool:
        """Return whether a use of the container fills it, goes through it or takes of it, and registers nothing.

        `place` is where its elements stand in what a loop over `use` gives: (1,) in `enumerate(self.layers)`.
        """
        parent = ctx.parent(use)
        if isinstance(parent, ast.Assign) and use in parent.targets:
            return any(write.value is parent.value for write in self._info.attributes[self._name])
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Tuple):
            return all(self._is_unpacked(part, ctx) for part in parent.targets[0].elts)
        if isinstance(parent, ast.AugAssign):
            return parent.target is use and self._take(parent.value)
        if isinstance(parent, ast.Attribute):
            return self._is_method_use(parent, place, ctx)
        if isinstance(parent, ast.Subscript) and parent.value is use:
            return self._is_item_use(parent, place, ctx)
        if isinstance(parent, ast.Call) and use in parent.args:
            names = ctx.callees(parent)
            if "builtins.enumerate" in names:
                return self._is_container_use(parent, (1, *place), ctx)
            if "builtins.zip" in names:
                return self._is_container_use(parent, (parent.args.index(use), *place), ctx)
            if "builtins.reversed" in names:
                return self._is_container_use(parent, place, ctx)
            return not _LOOKS.isdisjoint(names)
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is use:
            return self._is_loop(parent, place, ctx)
        return isinstance(parent, _TESTS)

    def _is_method_use(self, attribute: ast.Attribute, place: tuple[int, ...], ctx: Context) -> bool:
        call = ctx.parent(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute:
            return False
        if attribute.attr in _FILLING and call.args:
            if attribute.attr == "extend":
                return self._take(call.args[0])
            self._items.append((ctx, call.args[-1]))
            return True
        if attribute.attr in ("values", "items"):
            return self._is_container_use(call, (1, *place) if attribute.attr == "items" else place, ctx)
        return attribute.attr == "keys"

    def _is_item_use(self, item: ast.Subscript, place: tuple[int, ...], ctx: Context) -> bool:
        if isinstance(item.slice, ast.Slice):
            return isinstance(item.ctx, ast.Load) and self._is_container_use(item, place, ctx)
        if isinstance(item.ctx, ast.Load):
            return self._is_element_use(item, ctx)
        statement = ctx.parent(item)
        if not isinstance(statement, ast.Assign):
            return False
        self._items.append((ctx, statement.value))
        return True

    def _is_loop(self, loop: ast.For | ast.comprehension, place: tuple[int, ...], ctx: Context) -> bool:
        target: ast.expr = loop.target
        for position in place:
            if not isinstance(target, ast.Tuple) or position >= len(target.elts):
                return False
            target = target.elts[position]
        body = ctx.parent(loop) if isinstance(loop, ast.comprehension) else loop
        if not isinstance(target, ast.Name) or body is None:
            return False
        names = (part for part in walk(body) if isinstance(part, ast.Name) and part.id == target.id)
        return all(self._is_element_use(name, ctx) for name in names if isinstance(name.ctx, ast.Load))

    def _is_unpacked(self, target: ast.expr, ctx: Context) -> bool:
        """`linear, drop = self.parts`: is each part only called under its name?"""
        bindings = ctx.module.index.bindings_of(target) if isinstance(target, ast.Name) else ()
        binding = next((each for each in bindings if each.node is target), None)
        return binding is not None and all(self._is_element_use(use, ctx) for use in ctx.flow(target).uses(binding))

    def _is_element_use(self, element: ast.expr, ctx: Context) -> bool:
        """Return whether a module of the container is only called or asked, not switched and not handed on."""
        call = ctx.parent(element)
        if isinstance(call, ast.Call) and call.func is element:
            function = ctx.function(call)
            self._called |= function is not None and runs_with_forward(function, ctx.module)
            return True
        binding = ctx.binding(element)
        if binding is not None:
            return all(self._is_element_use(use, ctx) for use in ctx.flow(element).uses(binding))
        return _is_element_at_rest(element, ctx)


def _is_element_at_rest(element: ast.expr, ctx: Context) -> bool:
    """`layer.weight`, `layer.parameters()`, `layer(x)`, `if layer is None`: not switched, and not handed on."""
    parent = ctx.parent(element)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _SWITCHES
    return isinstance(parent, _TESTS) or (isinstance(parent, ast.Call) and parent.func is element)


def _depends_on_mode(call: ast.Call, ctx: Context) -> bool:
    """Does a call make a module that holds dropout or batch norm, and leaves it as it is made?"""
    names = ctx.callees(call)
    if len(names) != 1 or any(identifier(argument) == "self" for argument in arguments_of(call)):
        return False  # a part that is given the whole may register itself
    found = ctx.module.project.definition(names[0])
    function = found is not None and isinstance(found[1], FUNCTIONS) and not switches_any(*found)
    made = function or ctx.inference.is_module_class(names[0])
    return made and ModelParts().made_by(ctx.module, call) is Truth.YES
