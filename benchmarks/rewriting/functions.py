"""Rewrites of functions: what a call makes comes out of a helper, functions move into classes and other files."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable

from .trees import (
    Fresh,
    Renamed,
    Rewritten,
    behind_imports,
    blocks,
    definitions,
    first_place,
    free_functions,
    is_docstring,
    is_import,
    load,
    names_in,
    names_of_module,
    statements,
    stored_in,
)

_BUILT_IN = frozenset(dir(builtins))
# What cannot move into another function as it stands.
_BOUND = (ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.NamedExpr, ast.Starred, ast.comprehension)
_TIMED = """
import functools
import time


def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        print(function.__name__, time.perf_counter() - start)
        return result

    return inner
"""


def _helpers(tree: ast.Module, barred: frozenset[str] = frozenset()) -> list[ast.stmt]:
    """Turn each call whose result is given a name into one of a function that returns it; return these functions.

    Not a call that needs one of the barred names.
    """
    known, fresh = names_of_module(tree) | _BUILT_IN, Fresh(tree)
    helpers: list[ast.stmt] = []
    for _, _, block in blocks(tree):
        for statement in block:
            call = statement.value if isinstance(statement, ast.Assign) else None
            if not isinstance(statement, ast.Assign) or not isinstance(call, ast.Call) or not _can_move(call):
                continue
            if barred & names_in(call):
                continue
            free = sorted(names_in(call) - known)
            name = fresh("make")
            helpers += statements(f"def {name}({', '.join(free)}):\n    return {ast.unparse(call)}")
            statement.value = ast.Call(load(name), [load(each) for each in free], [])
    return helpers


def _can_move(call: ast.Call) -> bool:
    bound = any(isinstance(part, _BOUND) for part in ast.walk(call)) or not {"self", "super"}.isdisjoint(names_in(call))
    return not bound and all(keyword.arg is not None for keyword in call.keywords)


def through_helper(tree: ast.Module) -> Rewritten | None:
    """`x = f(a)` becomes `x = make(a)`, and `make` returns `f(a)`."""
    helpers = _helpers(tree)
    place = behind_imports(tree)
    tree.body[place:place] = helpers
    return Rewritten(tree) if helpers else None


def through_other_file(tree: ast.Module) -> Rewritten | None:
    """The same with the helpers in another file."""
    imports = [copy.deepcopy(node) for node in tree.body if is_import(node)]
    helpers = _helpers(tree, frozenset(node.name for node in definitions(tree)))
    if not helpers:
        return None
    names = [ast.alias(helper.name) for helper in helpers if isinstance(helper, ast.FunctionDef)]
    tree.body.insert(behind_imports(tree), ast.ImportFrom("extracted", names, 0))
    return Rewritten(tree, {"extracted.py": ast.Module([*imports, *helpers], [])})


def in_other_file(tree: ast.Module) -> Rewritten | None:
    """Functions and classes that a program uses move into another file."""
    imports = [node for node in tree.body if is_import(node)]
    if any(isinstance(node, ast.ImportFrom) and node.level for node in imports):
        return None
    everything = definitions(tree)
    others = [node for node in tree.body if node not in everything]
    variables = set().union(*map(stored_in, others)) if others else set()
    moved = [node for node in everything if node.name != "main" and not node.name.startswith("test")]
    moved = [node for node in moved if not node.decorator_list and variables.isdisjoint(names_in(node))]
    names = {node.name for node in everything}
    while any(kept := [node for node in moved if names_in(node) & (names - {each.name for each in moved})]):
        moved = [node for node in moved if node not in kept]
    if not moved or all(is_import(node) or is_docstring(node) for node in tree.body if node not in moved):
        return None
    parts = ast.Module([*copy.deepcopy(imports), *moved], [])
    tree.body = [node for node in tree.body if node not in moved]
    tree.body.insert(behind_imports(tree), ast.ImportFrom("parts", [ast.alias(node.name) for node in moved], 0))
    return Rewritten(tree, {"parts.py": parts})


def as_methods(tree: ast.Module) -> Rewritten | None:
    """Functions become methods of one object."""
    if any("self" in names_in(function) for function in free_functions(tree)):
        return None
    return _into_class(tree, inside="self", outside="worker", static=False)


def as_static_methods(tree: ast.Module) -> Rewritten | None:
    """Functions become static methods of a class."""
    return _into_class(tree, inside="Tools", outside="Tools", static=True)


def _into_class(tree: ast.Module, inside: str, outside: str, *, static: bool) -> Rewritten | None:
    functions = free_functions(tree)
    names = {function.name for function in functions}
    if not names or names & stored_in(tree) or {"worker", "Tools", "Worker"} & names_in(tree):
        return None
    within = Renamed({name: f"{inside}.{name}" for name in names})
    without = Renamed({name: f"{outside}.{name}" for name in names})
    place = tree.body.index(functions[0])
    for function in functions:
        within.visit(function)
        if static:
            function.decorator_list = [load("staticmethod")]
        else:
            function.args.args.insert(0, ast.arg("self"))
    text = "class Tools:\n    pass" if static else "class Worker:\n    pass\nworker = Worker()"
    made = statements(text)
    assert isinstance(made[0], ast.ClassDef)
    made[0].body = [*functions]
    rest = [(at, without.visit(node)) for at, node in enumerate(tree.body) if node not in functions]
    tree.body = [
        *(node for at, node in rest if at < place),
        *made,
        *(node for at, node in rest if at > place),
    ]
    return Rewritten(tree)


def in_main(tree: ast.Module) -> Rewritten | None:
    """What a script does moves into `main()`, called under a guard."""
    made = statements('def main():\n    pass\n\n\nif __name__ == "__main__":\n    main()')
    assert isinstance(made[0], ast.FunctionDef)
    return _work_into(tree, made, made[0])


def under_guard(tree: ast.Module) -> Rewritten | None:
    """What a script does moves under a main guard."""
    made = statements('if __name__ == "__main__":\n    pass')
    assert isinstance(made[0], ast.If)
    return _work_into(tree, made, made[0])


def _work_into(tree: ast.Module, made: list[ast.stmt], holder: ast.FunctionDef | ast.If) -> Rewritten | None:
    kept = [node for node in tree.body if is_import(node) or is_docstring(node) or node in definitions(tree)]
    work = [node for node in tree.body if node not in kept]
    guarded = any("__name__" in ast.unparse(node) for node in work)
    variables = set().union(*map(stored_in, work)) if work else set()
    hidden = isinstance(holder, ast.FunctionDef) and any(variables & names_in(node) for node in definitions(tree))
    if not work or guarded or hidden or any(node.name == "main" for node in definitions(tree)):
        return None
    holder.body = work
    tree.body = [*kept, *made]
    return Rewritten(tree)


def decorated(tree: ast.Module) -> Rewritten | None:
    """Functions are decorated by one that tells how long they take."""
    functions = free_functions(tree)
    for function in functions:
        function.decorator_list = [load("timed")]
    place = behind_imports(tree)
    tree.body[place:place] = statements(_TIMED)
    return Rewritten(tree) if functions else None


def logged(tree: ast.Module) -> Rewritten:
    """Functions tell that they begin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            start = int(is_docstring(node.body[0]))
            node.body[start:start] = statements(f'logger.debug("%s begins", "{node.name}")')
    place = first_place(tree)
    tree.body[place:place] = statements("import logging\nlogger = logging.getLogger(__name__)")
    return Rewritten(tree)


FUNCTIONS: dict[str, Callable[[ast.Module], Rewritten | None]] = {
    "through-helper": through_helper,
    "through-other-file": through_other_file,
    "in-other-file": in_other_file,
    "as-methods": as_methods,
    "as-static-methods": as_static_methods,
    "in-main": in_main,
    "under-guard": under_guard,
    "decorated": decorated,
    "logged": logged,
}
