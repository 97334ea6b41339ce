"""Rewrites of statements: values get names, conditions and loops take another form."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .trees import Fresh, Function, Rewritten, assign, blocks, first_place, is_docstring, load, names_in, statements

_Change = Callable[[ast.stmt, Fresh], list[ast.stmt] | None]


def _each(tree: ast.Module, change: _Change) -> Rewritten:
    """Put what `change` gives in the place of each statement outside of class bodies; None leaves it as it is."""
    fresh = Fresh(tree)
    for owner, name, block in blocks(tree):
        changed = [(change(statement, fresh), statement) for statement in block]
        setattr(owner, name, [part for parts, old in changed for part in ([old] if parts is None else parts)])
    return Rewritten(tree)


def staged_return(tree: ast.Module) -> Rewritten:
    """`return f(x)` becomes `result = f(x)`, `return result`."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        value = statement.value if isinstance(statement, ast.Return) else None
        if value is None or isinstance(value, (ast.Name, ast.Constant)):
            return None
        name = fresh("result")
        return [assign(name, value), ast.Return(load(name))]

    return _each(tree, change)


def _call_of(statement: ast.stmt) -> ast.Call | None:
    """Return the call that a statement makes first, if that is not the one of a base class."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr, ast.Return, ast.AugAssign)) else None
    return value if isinstance(value, ast.Call) and "super()" not in ast.unparse(value) else None


def named_argument(tree: ast.Module) -> Rewritten:
    """`f(g(x))` becomes `value = g(x)`, `f(value)`."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        call = _call_of(statement)
        if call is None or not call.args or not isinstance(call.args[0], (ast.Call, ast.BinOp, ast.Subscript)):
            return None
        name = fresh("value")
        given, call.args[0] = call.args[0], load(name)
        return [assign(name, given), statement]

    return _each(tree, change)


def named_receiver(tree: ast.Module) -> Rewritten:
    """`f(x).g()` becomes `part = f(x)`, `part.g()`."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        call = _call_of(statement)
        if call is None or not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Call):
            return None
        name = fresh("part")
        receiver, call.func.value = call.func.value, load(name)
        return [assign(name, receiver), statement]

    return _each(tree, change)


def named_iterable(tree: ast.Module) -> Rewritten:
    """`for x in f():` becomes `entries = f()`, `for x in entries:`; so in comprehensions."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        value = statement.value if isinstance(statement, (ast.Assign, ast.Return)) else None
        comprehension = value.generators[0] if isinstance(value, (ast.ListComp, ast.DictComp)) else None
        holder = statement if isinstance(statement, ast.For) else comprehension
        if holder is None or not isinstance(holder.iter, (ast.Call, ast.BinOp, ast.Set, ast.SetComp)):
            return None
        name = fresh("entries")
        iterable, holder.iter = holder.iter, load(name)
        return [assign(name, iterable), statement]

    return _each(tree, change)


def paired(tree: ast.Module) -> Rewritten:
    """`a = f()`, `b = g()` become `a, b = f(), g()`."""
    for owner, name, block in blocks(tree):
        merged: list[ast.stmt] = []
        for statement in block:
            before = merged[-1] if merged else None
            if _is_single(statement) and before is not None and _is_single(before) and _is_apart(before, statement):
                targets = [before.targets[0], statement.targets[0]]
                values: list[ast.expr] = [before.value, statement.value]
                merged[-1] = ast.Assign([ast.Tuple(targets, ast.Store())], ast.Tuple(values, ast.Load()))
            else:
                merged.append(statement)
        setattr(owner, name, merged)
    return Rewritten(tree)


def _is_single(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Name, ast.Attribute))


def _is_apart(first: ast.stmt, second: ast.stmt) -> bool:
    """Does the second assignment read nothing that the first one sets, not even by a method of it?"""
    assert isinstance(first, ast.Assign)
    assert isinstance(second, ast.Assign)
    return ast.unparse(first.targets[0]).split(".")[0] not in names_in(second.value)


def negated(tree: ast.Module) -> Rewritten:
    """`if c: a else: b` becomes `if not c: b else: a`, and so do conditional expressions."""
    for node in ast.walk(tree):
        chained = isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        if (isinstance(node, ast.If) and node.orelse and not chained) or isinstance(node, ast.IfExp):
            node.test, node.body, node.orelse = ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body
    return Rewritten(tree)


def without_early_exit(tree: ast.Module) -> Rewritten:
    """`if c: return a` before a rest becomes `if c: return a else: rest`."""
    for owner, name, block in blocks(tree):
        for place, node in enumerate(block[:-1]):
            leaves = isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Return, ast.Raise, ast.Continue))
            if isinstance(node, ast.If) and leaves and not node.orelse:
                node.orelse = block[place + 1 :]
                setattr(owner, name, block[: place + 1])
                break
    return Rewritten(tree)


def as_expression(tree: ast.Module) -> Rewritten:
    """`if c: x = a else: x = b` becomes `x = a if c else b`."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        if not isinstance(statement, ast.If) or not len(statement.body) == len(statement.orelse) == 1:
            return None
        first, second = statement.body[0], statement.orelse[0]
        if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
            return None
        if [ast.unparse(target) for target in first.targets] != [ast.unparse(target) for target in second.targets]:
            return None
        return [ast.Assign(first.targets, ast.IfExp(statement.test, first.value, second.value))]

    return _each(tree, change)


def as_branches(tree: ast.Module) -> Rewritten:
    """`x = a if c else b` becomes `if c: x = a else: x = b`."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        choice = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(choice, ast.IfExp):
            return None
        taken, other = (ast.Assign(statement.targets, value) for value in (choice.body, choice.orelse))
        return [ast.If(choice.test, [taken], [other])]

    return _each(tree, change)


def optional(tree: ast.Module) -> Rewritten:
    """`x = f()` becomes `x = f() if WANTED else None`: what holds where it is wanted holds."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        call = _call_of(statement) if isinstance(statement, ast.Assign) else None
        if call is None or not isinstance(statement, ast.Assign):
            return None
        return [ast.Assign(statement.targets, ast.IfExp(load("WANTED"), call, ast.Constant(None)))]

    result = _each(tree, change)
    place = first_place(tree)
    tree.body[place:place] = statements('import os\nWANTED = os.environ.get("WANTED") != "no"')
    return result


def as_loop(tree: ast.Module) -> Rewritten:
    """`xs = [f(a) for a in items if c]` becomes a loop that appends."""

    def change(statement: ast.stmt, fresh: Fresh) -> list[ast.stmt] | None:
        value = statement.value if isinstance(statement, (ast.Assign, ast.Return)) else None
        if not isinstance(value, ast.ListComp) or len(value.generators) != 1:
            return None
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if target is not None and not isinstance(target, ast.Name):
            return None
        name = target.id if target is not None else fresh("items")
        generator = value.generators[0]
        if name in names_in(value):
            return None
        body: list[ast.stmt] = [ast.Expr(ast.Call(ast.Attribute(load(name), "append", ast.Load()), [value.elt], []))]
        for condition in reversed(generator.ifs):
            body = [ast.If(condition, body, [])]
        loop = ast.For(generator.target, generator.iter, body, [])
        returned = [ast.Return(load(name))] if isinstance(statement, ast.Return) else []
        return [assign(name, ast.List([], ast.Load())), loop, *returned]

    return _each(tree, change)


def as_comprehension(tree: ast.Module) -> Rewritten:
    """A loop that only appends to a list made before it becomes a comprehension."""
    for owner, name, block in blocks(tree):
        merged: list[ast.stmt] = []
        for statement in block:
            made = _comprehension(merged[-1], statement) if merged else None
            merged[-1:] = [made] if made is not None else [*merged[-1:], statement]
        setattr(owner, name, merged)
    return Rewritten(tree)


def _comprehension(before: ast.stmt, loop: ast.stmt) -> ast.stmt | None:
    empty = isinstance(before, ast.Assign) and isinstance(before.value, ast.List) and not before.value.elts
    if not isinstance(before, ast.Assign) or not empty or not isinstance(loop, ast.For) or len(loop.body) != 1:
        return None
    inner, conditions = loop.body[0], []
    if isinstance(inner, ast.If) and not inner.orelse and len(inner.body) == 1:
        inner, conditions = inner.body[0], [inner.test]
    call = inner.value if isinstance(inner, ast.Expr) else None
    appends = f"{ast.unparse(before.targets[0])}.append"
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != appends or loop.orelse:
        return None
    generator = ast.comprehension(loop.target, loop.iter, conditions, 0)
    return ast.Assign(before.targets, ast.ListComp(call.args[0], [generator]))


def _around_bodies(tree: ast.Module, text: str) -> Rewritten:
    """Put a compound statement, written out as `text`, around the bodies of functions, behind calls of base classes."""
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        start = next(
            (
                place
                for place, statement in enumerate(node.body)
                if not is_docstring(statement) and "super()" not in ast.unparse(statement)
            ),
            len(node.body),
        )
        (around,) = statements(text)
        assert isinstance(around, (ast.Try, ast.With))
        if node.body[start:]:
            around.body = node.body[start:]
            node.body[start:] = [around]
    return Rewritten(tree)


def under_try(tree: ast.Module) -> Rewritten:
    """Bodies of functions stand under a `try` that only tells of an interrupt."""
    return _around_bodies(tree, 'try:\n    pass\nexcept KeyboardInterrupt:\n    print("interrupted")\n    raise')


def under_with(tree: ast.Module) -> Rewritten:
    """Bodies of functions stand under a `with` that quiets warnings."""
    result = _around_bodies(tree, "with warnings.catch_warnings():\n    pass")
    tree.body.insert(first_place(tree), statements("import warnings")[0])
    return result


def with_progress(tree: ast.Module) -> Rewritten:
    """Loops show a bar: `for x in tqdm(items):`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            node.iter = ast.Call(load("tqdm"), [node.iter], [])
    tree.body.insert(first_place(tree), statements("from tqdm import tqdm")[0])
    return Rewritten(tree)


STATEMENTS: dict[str, Callable[[ast.Module], Rewritten | None]] = {
    "staged-return": staged_return,
    "named-argument": named_argument,
    "named-receiver": named_receiver,
    "named-iterable": named_iterable,
    "paired": paired,
    "negated": negated,
    "without-early-exit": without_early_exit,
    "as-expression": as_expression,
    "as-branches": as_branches,
    "optional": optional,
    "as-loop": as_loop,
    "as-comprehension": as_comprehension,
    "under-try": under_try,
    "under-with": under_with,
    "with-progress": with_progress,
}
