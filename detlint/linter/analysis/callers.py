"""Who calls a function? Looked for in its own file first, then in every file of the project that mentions its name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from detlint.linter.analysis.calls import argument_of
from detlint.linter.analysis.outline import is_registered
from detlint.linter.analysis.program import outermost_definition
from detlint.linter.analysis.written_calls import started
from detlint.linter.source.names import FunctionNode, set_to
from detlint.linter.source.nodes import identifier, is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# A function called all over a project is called on all kinds of tensors; looking at every call would cost too much.
_MOST_CALLS = 16
_MOST_FILES = 13  # its own included
_MOST_FILES_SEARCHED = 64  # for an assignment, which a look at each tells
# Annotations, type tests and calls of a base class name a class without making or calling anything of it.
_TESTS = ("isinstance", "issubclass", "cast", "super")
# Bases of operators that bring their own derivative: their `forward` is called by their `apply`.
AUTOGRAD_FUNCTIONS = frozenset(
    {"torch.autograd.Function", "torch.autograd.function.Function", "torch.autograd.InplaceFunction"}
)

CallSite = tuple["Context", ast.Call]
Given = tuple[ast.expr, "Context"]


def calls_of(
    function: FunctionNode | ast.ClassDef, ctx: Context, *, handed: bool = False, derived: bool = False
) -> Iterator[CallSite | None]:
    """Yield each call of `function` in the project, those of its own file first; None for a use that is no call.

    The `forward` of a module is called where its instances are, that of an operator where its `apply` is. A function
    handed on as a value ends in None, since whoever gets it may call it with anything; so does one that too many files
    mention, and a class that others derive from, but where these are asked themselves (`derived`).
    """
    owner = ctx.module.index.class_at(function)
    if function.name in ("forward", "__call__") and owner is not None:
        applied = not AUTOGRAD_FUNCTIONS.isdisjoint(ctx.inference.external_bases(ctx.inference.class_info(owner)))
        yield from _calls_of_apply(owner, ctx) if applied else _calls_of_instances(owner, ctx)
        return
    qualified = ctx.module.qualified(function)
    yield from _calls_in(function, qualified, ctx, free=owner is None, handed=handed, derived=derived)
    local = ctx.module.index.function_at(function) is not None
    if not local and not function.name.startswith("__"):
        for other in mentioning(function.name, ctx):
            if other is None:
                yield None
                return
            yield from _calls_in(function, qualified, other, free=owner is None, handed=handed, derived=derived)


def results_of(function: FunctionNode, ctx: Context) -> Iterator[tuple[Context, ast.expr] | None]:
    """Yield each expression that is what `function` gives: its calls, or what reads it where it is a property."""
    owner = ctx.module.index.class_at(function)
    info = ctx.inference.class_info(owner) if owner is not None else None
    is_property = info is not None and ctx.inference.property_of(info, function.name) is not None
    yield from _reads_of(function, ctx) if is_property else calls_of(function, ctx)


def given_on(value: ast.expr, ctx: Context) -> list[tuple[Context, ast.expr]]:
    """Return the calls of `make` for the `x` of its `return x`: what they give is the value itself.

    Empty where it goes another way, where nothing in the project calls the function, and where others may do so.
    """
    parent = ctx.parent(value)
    function = ctx.function(parent) if isinstance(parent, ast.Return) else None
    results = list(results_of(function, ctx)) if function is not None else []
    known = [result for result in results if result is not None]
    return known if len(known) == len(results) else []


def _reads_of(function: FunctionNode, ctx: Context) -> Iterator[tuple[Context, ast.expr] | None]:
    """Yield where the project reads a property, also of something unknown; None where too many files mention it."""
    qualified = ctx.module.qualified(function)
    for read in reads_of_attributes(function.name, ctx):
        names = read[0].resolve(read[1]) if read is not None else ()
        if not names or qualified in names:
            yield read


def reads_of_attributes(name: str, ctx: Context) -> Iterator[tuple[Context, ast.Attribute] | None]:
    """Yield where the project reads an attribute of this name of anything; None where too many files mention it."""
    for where in (ctx, *mentioning(name, ctx)):
        if where is None:
            yield None
            return
        for use in uses_named(where, name):
            if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Load):
                yield where, use


def given_by_callers(function: FunctionNode, parameter: str, ctx: Context) -> Iterator[Given | None]:
    """Yield what each call of `function` in the project passes for a parameter; None where that is not written out."""
    for site in calls_of(function, ctx):
        given = argument_of(function, parameter, site[1], skip_self=True) if site is not None else None
        yield (given, site[0]) if site is not None and given is not None else None


def all_callers_give(
    function: FunctionNode, parameter: str, ctx: Context, holds: Callable[[ast.expr, Context], bool]
) -> bool:
    """Does something hold for what every call of `function` passes for a parameter, and is there a call?"""
    called = False
    for given in given_by_callers(function, parameter, ctx):
        if given is None or not holds(*given):
            return False
        called = True
    return called


def is_all_over(function: FunctionNode, ctx: Context) -> bool:
    """Return whether too many files of the project mention the name of a function for its calls to be looked at."""
    return next(mentioning(function.name, ctx), ctx) is None


def is_used_elsewhere(name: str, ctx: Context) -> bool:
    """Return whether another file of the project uses the variable `name` of this one; no where too many mention it."""
    qualified = f"{ctx.module.name}.{name}"
    for other in mentioning(name, ctx):
        if other is None:
            return False
        if any(qualified in other.resolve(use) for use in uses_named(other, name)):
            return True
    return False


def read_elsewhere(name: str, module: Module) -> Iterator[tuple[Module, ast.expr]]:
    """Yield where other files of the project read the variable `name` of a module; not where too many mention it."""
    search = module.project.search(name, module, _MOST_FILES)
    for path in (search.found or ()) if search is not None else ():
        other = module.project.at(path) if path != module.source.path else None
        for use in other.index.names_used.get(name, ()) if other is not None else ():
            if other is None or not isinstance(use, (ast.Name, ast.Attribute)) or not isinstance(use.ctx, ast.Load):
                continue
            if f"{module.name}.{name}" in other.inference.resolve(use):
                yield other, use


def is_set_from_outside(attribute: str, ctx: Context) -> bool:
    """Return whether another file of the project sets an attribute of this name of something that is not `self`.

    No where too many files mention it.
    """
    return next(sets_from_outside(attribute, ctx), None) is not None


def sets_from_outside(attribute: str, ctx: Context) -> Iterator[tuple[Context, ast.Attribute]]:
    """Yield where other files of the project set an attribute of this name of something that is not `self`.

    Up to the point where too many mention it.
    """
    for other in mentioning(attribute, ctx, _MOST_FILES_SEARCHED):
        if other is None:
            return
        for use in uses_named(other, attribute) if attribute in other.module.writes else ():
            own = isinstance(use, ast.Attribute) and isinstance(use.value, ast.Name) and use.value.id in ("self", "cls")
            if isinstance(use, ast.Attribute) and isinstance(use.ctx, ast.Store) and not own:
                yield other, use


def users_of(node: ast.AST, ctx: Context) -> Iterator[Context]:
    """Yield the project's files that use what the top of the module names around `node`, and those that use these.

    That is a function, a class or a variable. What is handed to an object as it is defined is used by whoever imports
    its file. Names that too many files mention lead no further.
    """
    seen: set[tuple[str, str]] = set()
    pending = [(ctx, node)]
    while pending:
        where, place = pending.pop(0)
        if _is_registered(place, where):
            yield from importers(where)
        name = _name_at_top(place, where)
        if not name or (where.module.name, name) in seen:
            continue
        seen.add((where.module.name, name))
        qualified = f"{where.module.name}.{name}"
        for other in (where, *mentioning(name, where)):
            for use in _uses_of_import(other, name) if other is not None else ():
                if other is not None and qualified in other.resolve(use):
                    yield other
                    pending.append((other, use))


def _is_registered(node: ast.AST, ctx: Context) -> bool:
    """Is the outermost definition around `node` handed to an object of the file as it is made?"""
    definition = outermost_definition(ctx.module, node)
    return definition is not None and is_registered(definition, ctx.module.index)


def importers(ctx: Context) -> Iterator[Context]:
    """Yield the project's files that import a file, and those that import these."""
    seen, pending = {ctx.module.name}, [ctx]
    for imported in pending:  # grows on the way
        for other in mentioning(imported.module.name.rpartition(".")[2], imported):
            if other is not None and other.module.name not in seen and imported.module in other.module.imports:
                seen.add(other.module.name)
                pending.append(other)
                yield other


def _name_at_top(node: ast.AST, ctx: Context) -> str:
    """Return the name that the module gives to the outermost statement around `node`, or nothing."""
    definition = outermost_definition(ctx.module, node)
    if definition is not None:
        return definition.name
    statement = ctx.statement(node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) and isinstance(ctx.parent(statement), ast.Module) else ""


def _uses_of_import(ctx: Context, name: str) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the uses of a name, under `Network` too after `from models import Net as Network`."""
    yield from uses_named(ctx, name)
    for bound, bindings in ctx.module.index.root.bindings.items():
        if bound != name and any(isinstance(b.node, ast.alias) and b.node.name == name for b in bindings):
            yield from uses_named(ctx, bound)


def uses_named(ctx: Context, name: str) -> Iterator[ast.Name | ast.Attribute]:
    uses = ctx.module.index.names_used.get(name, ())
    return (use for use in uses if isinstance(use, (ast.Name, ast.Attribute)))


def _calls_in(
    function: FunctionNode | ast.ClassDef, qualified: str, ctx: Context, *, free: bool, handed: bool, derived: bool
) -> Iterator[CallSite | None]:
    """Yield the calls that one file makes; a method of something unknown may be the one that is meant.

    `free`: the function stands in no class, so `self.fill` of another class is what that one keeps.
    """
    index = ctx.module.index
    found = 0
    for use in _uses_of_import(ctx, function.name):
        names = ctx.resolve(use)
        if qualified not in names and (names or isinstance(use, ast.Name) or (free and is_own(use))):
            continue
        called = _launched(use, ctx)
        parent = ctx.parent(called)
        found += 1
        if isinstance(function, ast.ClassDef) and (only_names(use, ctx) or (derived and _is_base(use, parent))):
            continue
        start = started(ctx.module, use) if handed else None
        if start is not None and found <= _MOST_CALLS:
            yield ctx, start
        elif not isinstance(parent, ast.Call) or parent.func is not called or found > _MOST_CALLS:
            yield None
        elif function not in index.ancestors(parent):
            yield ctx, parent


def _is_base(use: ast.expr, parent: ast.AST | None) -> bool:
    """`class Words(Rows):`."""
    return isinstance(parent, ast.ClassDef) and use in parent.bases


def _launched(use: ast.expr, ctx: Context) -> ast.expr:
    """Return the `kernel[grid]` of `kernel[grid](x)`, which calls a kernel of Triton or Numba; else the use itself."""
    launcher = ctx.parent(use)
    if isinstance(launcher, ast.Subscript) and launcher.value is use and isinstance(ctx.parent(launcher), ast.Call):
        return launcher
    return use


def _calls_of_instances(owner: ast.ClassDef, ctx: Context) -> Iterator[CallSite | None]:
    """Yield the calls of what the project makes of a class, None where an instance goes another way."""
    qualified = ctx.module.qualified(owner)
    for where in (ctx, *mentioning(owner.name, ctx)):
        if where is None:
            yield None
            return
        yield from _calls_of_instances_in(where, owner, qualified)


def _calls_of_instances_in(ctx: Context, owner: ast.ClassDef, qualified: str) -> Iterator[CallSite | None]:
    called = f"{qualified}.__call__"
    made: set[str] = set()
    for use in uses_named(ctx, owner.name):
        if qualified not in ctx.resolve(use):
            continue
        parent = ctx.parent(use)
        if isinstance(parent, ast.Call) and parent.func is use:
            names = {identifier(target) for target in set_to(ctx.chained(parent), ctx.module.index.parents)}
            made |= names
            if not names:
                yield None
        elif not only_names(use, ctx):
            yield None
    for name in sorted(made):
        calls = [call for call in ctx.module.index.calls_by_name.get(name, ()) if called in ctx.callees(call)]
        calls += _calls_of_sequences(name, ctx)
        yield from ((ctx, call) for call in calls)
        if not calls:
            yield None


def _calls_of_apply(owner: ast.ClassDef, ctx: Context) -> Iterator[CallSite | None]:
    """Yield the calls `Scale.apply(x)` of an operator, also under the name of `scale = Scale.apply`."""
    qualified = ctx.module.qualified(owner)
    for where in (ctx, *mentioning(owner.name, ctx)):
        if where is None:
            yield None
            return
        for use in uses_named(where, owner.name):
            if qualified not in where.resolve(use) or only_names(use, where):
                continue
            method = where.parent(use)
            user = where.parent(method) if isinstance(method, ast.Attribute) and method.attr == "apply" else None
            if isinstance(user, ast.Call) and user.func is method:
                yield where, user
            elif isinstance(user, ast.Assign) and len(user.targets) == 1 and isinstance(user.targets[0], ast.Name):
                yield from _calls_of_variable(user.targets[0], where)
            else:
                yield None


def _calls_of_variable(variable: ast.Name, ctx: Context) -> Iterator[CallSite | None]:
    """Yield the calls of what a file keeps in a variable, those of other files included; None where it is handed on."""
    qualified = f"{ctx.module.name}.{variable.id}"
    for where in (ctx, *mentioning(variable.id, ctx)):
        if where is None:
            yield None
            return
        for use in uses_named(where, variable.id):
            own = isinstance(use, ast.Name) and any(b.node is variable for b in where.module.definitions(use))
            if isinstance(use.ctx, ast.Store) or not (own if where is ctx else qualified in where.resolve(use)):
                continue
            call = where.parent(use)
            yield (where, call) if isinstance(call, ast.Call) and call.func is use else None


def _calls_of_sequences(first: str, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls of `self.encoder = nn.Sequential(spectrum, pool)`, which give `spectrum` what they are given."""
    for made in ctx.module.index.calls_by_name.get("Sequential", ()):
        target = ctx.parent(made)
        if made.args and identifier(made.args[0]) == first and isinstance(target, ast.Assign):
            names = {identifier(each) for each in target.targets}
            calls = (call for name in sorted(names) for call in ctx.module.index.calls_by_name.get(name, ()))
            yield from (call for call in calls if "torch.nn.Sequential.__call__" in ctx.callees(call))


def only_names(use: ast.AST, ctx: Context) -> bool:
    """Does the expression stand in an annotation, or in a test of a type?"""
    child = use
    for parent in ctx.ancestors(use):
        if isinstance(parent, ast.Call):
            return getattr(parent.func, "id", "") in _TESTS
        if isinstance(parent, (ast.arg, ast.AnnAssign)):
            return parent.annotation is child
        if isinstance(parent, ast.stmt):
            return getattr(parent, "returns", None) is child
        child = parent
    return False


def mentioning(name: str, ctx: Context, at_most: int = _MOST_FILES) -> Iterator[Context | None]:
    """Yield the contexts of the project's other files that hold the word `name`; None where there are too many."""
    module = ctx.module
    search = module.project.search(name, module, at_most)
    if search is None:
        return
    if search.found is None:
        yield None
        return
    for path in search.found:
        other = module.project.at(path) if path != module.source.path else None
        if other is not None:
            yield ctx.elsewhere(other)
