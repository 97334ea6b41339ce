"""Is anything seen of what a program computes? One that prints shapes and times shows the same with any draws."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from detlint.linter.analysis.module import Module
from detlint.linter.programs.trial_runs import SHAPES
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.randomness import load_sources

_DEPTH = 3  # of functions that call each other
_STEPS = 4
_TELLING = frozenset({"print", "debug", "info", "warning", "warn", "error", "log", "pprint"})
_ASKING_SYSTEM = ("time.", "os.")  # for the time, the number of the process, the number of cores
_DRAWING = frozenset({"show", "imshow"})  # `figure = mesh.show()`
_FORMS = frozenset({"len", "type", "isinstance", "id", "size", "dim", "numel", "element_size", "nelement", "keys"})
_WORDED = frozenset({"format", "str", "repr", "list", "tuple", "round", "int", "float", "join", "enumerate", "range"})
_NAMED = SHAPES | {"__name__", "__class__", "nbytes"}
_QUIET = (
    *("torch.", "warnings.", "numpy.random.", "random.", "time.", "gc.", "sys.path.", "logging.", "os.environ"),
    *("builtins.next", "builtins.list.", "builtins.dict.", "builtins.set."),
)
_GRADIENTS = frozenset({"backward", "zero_grad"})  # kept where they are, for others to show
# Comparisons that last bits do not decide; methods that go through a model by name.
_ROUGH = frozenset({"allclose", "isclose"})
_BY_NAME = frozenset({"named_buffers", "named_children", "named_modules", "named_parameters"})
_PARTS = (ast.BinOp, ast.Tuple, ast.List, ast.Compare, ast.UnaryOp, ast.BoolOp, ast.IfExp, ast.Starred, ast.JoinedStr)


def shows_forms_only(module: Module, code: Iterable[ast.AST]) -> bool:
    """Return whether code prints forms and times and no more, writes no file, draws no picture and checks nothing.

    What a call gives may be kept in variables; a call for its effect alone has to be known to be quiet. Code that
    prints nothing at all may be there for an effect that nobody sees here.
    """
    nodes = [node for body in code for node in walk(body)]
    tells = any(isinstance(node, ast.Call) and tells_people(module, node) for node in nodes)
    return tells and not any(_shows(module, node) for node in nodes)


def tells_times_only(module: Module, code: Iterable[ast.AST]) -> bool:
    """Return whether code takes the time, and it and what it leads to in its file print forms and times and no more."""
    if not _imports_clock(module):
        return False
    bodies, tells, times = [*code], False, False
    for body in bodies:  # grows on the way
        for node in walk(body):
            if _shows(module, node):
                return False
            if isinstance(node, ast.Call):
                tells = tells or tells_people(module, node)
                times = times or _reads_clock(module, node)
                bodies += [found for found in led_to(module, node) if found not in bodies]
    return tells and times


def _imports_clock(module: Module) -> bool:
    modules = [alias.name for statement in module.index.of_type(ast.Import) for alias in statement.names]
    return "time" in [*modules, *(statement.module for statement in module.index.of_type(ast.ImportFrom))]


def led_to(module: Module, call: ast.Call) -> Iterator[ast.AST]:
    """Yield the functions and classes of the file that a call leads to."""
    for name in module.inference.callees(call):
        owner, found = module.project.definition(name) or (None, None)
        if owner is module and found is not None:
            yield found


def _shows(module: Module, node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return not _tells_form(module, node.test)
    if not isinstance(node, ast.Call):
        return False
    if tells_people(module, node):
        return not all(_tells_form(module, given) for given in arguments_of(node))
    if _writes(module, node) or identifier(node.func) in _DRAWING:
        return True
    names = module.inference.callees(node)
    definitions = [found for found in map(module.project.definition, names) if found is not None]
    functions = [(owner, found) for owner, found in definitions if isinstance(found, FUNCTIONS)]
    if not isinstance(module.index.parents.get(node), ast.Expr):
        return not all(_is_quiet(owner, found, _DEPTH) for owner, found in functions)
    if functions:
        return not all(_is_quiet(owner, found, _DEPTH) for owner, found in functions)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _GRADIENTS:
        return False
    return not definitions and not (names and all(name.startswith(_QUIET) for name in names))


def tells_people(module: Module, call: ast.Call) -> bool:
    """`print(x)`, `logger.info(x)`."""
    if isinstance(call.func, ast.Name):
        asked = call.func.id == "print"
        return (asked and "builtins.print" in module.inference.callees(call)) or call.func.id == "pprint"
    return identifier(call.func) in _TELLING and "warnings.warn" not in module.inference.callees(call)


def _writes(module: Module, call: ast.Call) -> bool:
    if identifier(call.func) == "open" and "builtins.open" in module.inference.callees(call):
        modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        return not all(isinstance(mode, ast.Constant) and str(mode.value).startswith("r") for mode in modes)
    return isinstance(call.func, ast.Attribute) and call.func.attr in load_sources().smoke_test.writes


def _is_quiet(module: Module, function: ast.AST, depth: int) -> bool:
    """Does a function of the project print, log and write nothing, and neither what it calls?"""
    if not depth:
        return False
    for node in walk(function):
        if not isinstance(node, ast.Call):
            continue
        if tells_people(module, node) and not all(_tells_form(module, given) for given in arguments_of(node)):
            return False
        if _writes(module, node):
            return False
        for name in module.inference.callees(node):
            owner, found = module.project.definition(name) or (None, None)
            called = owner is not None and isinstance(found, FUNCTIONS) and found is not function
            if called and owner is not None and found is not None and not _is_quiet(owner, found, depth - 1):
                return False
    return True


def _tells_form(module: Module, node: ast.expr, steps: int = _STEPS) -> bool:
    """`out.shape`, `len(rows)`, `f"{time.time() - start:.2f} s"`: does a text say nothing of what values are?"""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Attribute):
        return node.attr in _NAMED
    if isinstance(node, (ast.Subscript, ast.FormattedValue)):
        return _tells_form(module, node.value, steps)
    if isinstance(node, _PARTS):
        return all(_tells_form(module, p, steps) for p in ast.iter_child_nodes(node) if isinstance(p, ast.expr))
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _tells_form(module, node.elt, steps)
    if isinstance(node, ast.Call):
        return _gives_form(module, node, steps)
    made = module.definitions(node) if isinstance(node, ast.Name) and steps else ()
    return bool(made) and all(
        _counts(module, binding) or (binding.value is not None and _tells_form(module, binding.value, steps - 1))
        for binding in made
    )


def _counts(module: Module, binding: Binding) -> bool:
    """`i` of `for i, batch in enumerate(loader)`, `name` of `for name, weight in model.named_parameters()`."""
    first = binding.kind is BindingKind.ITERATION and binding.index == (0,)
    if not first or not isinstance(binding.value, ast.Call):
        return False
    return identifier(binding.value.func) in _BY_NAME or "builtins.enumerate" in module.inference.callees(binding.value)


def _gives_form(module: Module, call: ast.Call, steps: int) -> bool:
    last = identifier(call.func)
    if (
        last in _FORMS
        or last in _ROUGH
        or any(name.startswith(_ASKING_SYSTEM) for name in module.inference.callees(call))
    ):
        return True
    return last in _WORDED and all(_tells_form(module, given, steps) for given in arguments_of(call))


def _reads_clock(module: Module, call: ast.Call) -> bool:
    return any(name.startswith("time.") for name in module.inference.callees(call))
