"""Is a program only a quick look at what its file defines?

Many library files end in a main guard that builds a model, calls it on random numbers and prints shapes. No result of
that is kept. A file without models shows what it computes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from detlint.linter.analysis.calls import returned
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.outline import is_main_guard
from detlint.linter.analysis.program import executes, in_package
from detlint.linter.analysis.values import Kind
from detlint.linter.programs.training import training_steps
from detlint.linter.programs.unseen import led_to, shows_forms_only, tells_times_only
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import arguments_of, identifier, walk
from detlint.randomness import load_sources

_EXAMPLES = frozenset({"example", "examples", "tutorial", "tutorials", "scripts", "experiments", "demo", "demos"})
_LOADS = "load_state_dict"


def is_smoke_test(module: Module) -> bool:
    """Return whether all that a file executes is a main guard that tries a model of the file out, or makes objects.

    So is one that only shows the forms of what it made, as of the items of a data set, or stops in a debugger to look
    at it, and any program that only tells how long something takes.
    """
    guards = _guards(module)
    if not is_trial(module):
        if module.source.is_notebook:  # which shows the values of what stands in a line of its own
            return False
        executed = [node for node in module.tree.body if not isinstance(node, (*FUNCTIONS, ast.ClassDef))]
        return tells_times_only(module, executed) or (not guards and shows_forms_only(module, executed))
    if _defines_model(module) or _runs_tests(module, guards) or all(map(_only_makes, guards)):
        return True
    if all(_ends_in_debugger(module, guard) for guard in guards):
        return True
    return shows_forms_only(module, guards)


def is_trial(module: Module) -> bool:
    """Return whether all that a file executes is a main guard that tries something out.

    In a package that is any guard that reads no command line, hands over to no `main()`, does not train and save, nor
    train as one of the package's examples, and prints something or writes no files; a model that was trained before is
    as good. So is one that runs tests of the file alone. Elsewhere the file has to define models and the guard to do
    nothing but build, call and show them.
    """
    guards = _guards(module)
    others = [node for node in module.tree.body if node not in guards]
    if not guards or any(executes(module, node) for node in others):
        return False
    calls = [call for guard in guards for call in _calls(guard)]
    if in_package(module):
        if _runs_tests(module, guards):
            return True
        learned = any(map(training_steps, guards)) or any(identifier(call.func) == _LOADS for call in calls)
        if learned and (_is_example(module) or any(_writes(module, call) for call in calls)):
            return False
        shows = any("builtins.print" in module.inference.callees(call) for call in calls)
        deeper = (part for call in calls for part in _demonstrated(module, call))
        if any(_hands_over(module, call) for call in (*calls, *deeper)):
            return False
        return shows or not any(_writes_files(module, call) for call in calls)
    return _defines_model(module) and all(_is_harmless(module, call) for call in calls)


def _runs_tests(module: Module, guards: list[ast.If]) -> bool:
    """`test_gradients()`, and all that stands beside it: functions of the file that are given nothing, and assert."""
    done = [getattr(statement, "value", None) for guard in guards for statement in guard.body]
    called = [node.func.id for node in done if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    plain = all(isinstance(node, ast.Call) and not arguments_of(node) for node in done)
    if not plain or len(called) < len(done) or not all(name.startswith("test_") for name in called):
        return False
    tests = [node for node in module.tree.body if isinstance(node, FUNCTIONS) and node.name in called]
    return any(isinstance(part, ast.Assert) for test in tests for part in walk(test))


def _is_example(module: Module) -> bool:
    return any(not _EXAMPLES.isdisjoint(folder.split("_")) for folder in module.name.split(".")[:-1])


def _guards(module: Module) -> list[ast.If]:
    return [node for node in module.tree.body if isinstance(node, ast.If) and is_main_guard(node)]


def _only_makes(guard: ast.If) -> bool:
    """`_ = DataModule()`: does nothing draw here but constructors?"""
    return all(isinstance(call.func, ast.Name) and call.func.id[:1].isupper() for call in _calls(guard))


def _ends_in_debugger(module: Module, guard: ast.If) -> bool:
    """`pdb.set_trace()`, with nothing printed before: somebody looks at what was made, and leaves."""
    last = guard.body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    prints = any("builtins.print" in module.inference.callees(each) for each in _calls(guard))
    if not isinstance(call, ast.Call) or prints:
        return False
    return identifier(call.func) == "set_trace" or "builtins.breakpoint" in module.inference.callees(call)


def _hands_over(module: Module, call: ast.Call) -> bool:
    table = load_sources().smoke_test
    if any(name.startswith(table.starts) for name in module.inference.callees(call)):
        return True
    if isinstance(call.func, ast.Attribute):
        # generate() and train() are methods of models too
        return call.func.attr in table.runners and not _takes_draws_alone(module, call)
    return isinstance(call.func, ast.Name) and table.entries.search(call.func.id) is not None


def _demonstrated(module: Module, call: ast.Call) -> Iterator[ast.Call]:
    """Yield what `demo()` calls, a function of the file that takes everything from itself."""
    if not isinstance(call.func, ast.Name) or arguments_of(call):
        return
    for function in _functions_run(module, call):
        if not function.name.startswith("test"):
            yield from _calls(function)


def _takes_draws_alone(module: Module, call: ast.Call) -> bool:
    """`index.fit(np.random.rand(100, 8))`, also through a variable: there is no data to learn from."""
    return bool(call.args) and all(_is_drawn(module, argument) for argument in call.args)


def _is_drawn(module: Module, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        values = [binding.value for binding in module.definitions(node)]
        return bool(values) and all(value is not None and _is_drawn(module, value) for value in values)
    draws = load_sources().draws
    return any(draws.get(name) is not None for part in _calls(node) for name in module.inference.callees(part))


def _writes_files(module: Module, call: ast.Call) -> bool:
    """Does a call keep a result, or run a function of the file that does, in a list of samples for example?"""
    if _writes(module, call):
        return True
    return any(_writes(module, part) for function in _functions_run(module, call) for part in _calls(function))


def _functions_run(module: Module, call: ast.Call) -> Iterator[FunctionNode]:
    """Yield the functions of the file that a call runs."""
    return (found for found in led_to(module, call) if isinstance(found, FUNCTIONS))


def _writes(module: Module, call: ast.Call) -> bool:
    """`table.to_csv(path)`; what the project defines under such a name may write to anything."""
    named = isinstance(call.func, ast.Attribute) and call.func.attr in load_sources().smoke_test.writes
    return named and not any(module.project.definition(name) for name in module.inference.callees(call))


def _calls(node: ast.AST) -> list[ast.Call]:
    return [child for child in walk(node) if isinstance(child, ast.Call)]


def _defines_model(module: Module) -> bool:
    classes = module.index.of_type(ast.ClassDef)
    return any(module.inference.is_module_class(module.qualified(node)) for node in classes)


def _is_harmless(module: Module, call: ast.Call, *, nested: bool = False) -> bool:
    """Does a call only build a model, run it, or look at it? `nested`: it stands in a function that the guard calls."""
    table = load_sources().smoke_test
    names = module.inference.callees(call)
    if isinstance(call.func, ast.Attribute) and call.func.attr in table.methods:
        return False
    return all(
        not name.startswith(table.works)
        and (name.startswith(table.packages) or _is_model(module, name) or _tries(module, name, nested))
        for name in names
    )


def _is_model(module: Module, name: str) -> bool:
    """A module's class, or a method of one."""
    inference = module.inference
    return inference.is_module_class(name) or inference.is_module_class(name.rpartition(".")[0])


def _tries(module: Module, name: str, nested: bool) -> bool:
    """Is this a function that makes a model (`resnet50()`), or one of the file that tries a model out itself?"""
    definition = module.project.definition(name)
    if definition is None:
        return False
    owner, function = definition
    if not isinstance(function, FUNCTIONS):
        return False
    results = returned(owner.inference, function)
    if results and all(value.kind is Kind.MODULE for value in results):
        return True
    harmless = owner is module and not nested and not any(isinstance(node, ast.Return) for node in walk(function))
    return harmless and all(_is_harmless(module, call, nested=True) for call in _calls(function))
