"""Which weights does a hook fill that goes through the parts of a model: `model.apply(init_weights)`?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from detlint.linter.memory.looped import source_of
from detlint.linter.source.names import FUNCTIONS, FunctionNode, parameters, run_by
from detlint.linter.source.nodes import identifier, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context

ALL_PARAMETERS = frozenset({"parameters", "named_parameters", "modules", "named_modules", "children"})
# What reaches attributes that are not named.
BY_ANY_NAME = frozenset({"apply", "__dict__", "_parameters", "_buffers", "state_dict", "getattr", "setattr", "vars"})
# Code of such names initialises or loads every parameter of a module, whatever they are called.
INITIALISES = re.compile(
    r"^(?!.*(optimi[sz]er|scheduler|process_group|distributed|logg|dataset|dataloader|tokenizer))"
    r"(_*(init(?!__$)|initiali[sz]e|reset|load)|.*(init_weights|[^_]_init$|from_pretrained|state_dict|post_init|from_checkpoint))",
    re.IGNORECASE,
)
LOADED_WHOLE = re.compile(r"load|from_pretrained|state_dict|from_checkpoint", re.IGNORECASE)
# What code takes of a module that it initialises.
_OF_MODULES = frozenset({"weight", "bias", "apply", "state_dict", "load_state_dict"}) | ALL_PARAMETERS
MODELS = re.compile(r"model|module|net(work)?$|coder$", re.IGNORECASE)
# What may be asked of a module without touching its weights.
_QUESTIONS = frozenset({"isinstance", "hasattr", "getattr", "type", "print", "id", "len"})


def takes_a_model(function: FunctionNode, ctx: Context) -> bool:
    """Return whether a function works on a module that it is given: `init_weights(module)`, also as a method."""
    arguments = [argument.arg for argument, _ in parameters(function.args)]
    own = arguments[:1] in (["self"], ["cls"])
    names = set(arguments[own:])
    if any(map(MODELS.search, names)) or (own and names and LOADED_WHOLE.search(function.name)):
        return True
    uses = (ctx.parent(part) for part in walk(function) if isinstance(part, ast.Name) and part.id in names)
    return any(
        (isinstance(use, ast.Attribute) and use.attr in _OF_MODULES)
        or (isinstance(use, ast.Call) and _asks_what_it_is(use, ctx))
        for use in uses
    )


def _asks_what_it_is(call: ast.Call, ctx: Context) -> bool:
    """`isinstance(layer, nn.Linear)`, `hasattr(layer, "bias")`, and not `isinstance(value, dict)`."""
    asked = getattr(call.func, "id", "")
    return asked in ("hasattr", "getattr") or (
        asked == "isinstance" and not all(name.startswith("builtins.") for name in _kinds(call, ctx))
    )


def _kinds(question: ast.Call, ctx: Context) -> list[str]:
    """Return what `isinstance(x, kinds)` names, an empty name where that is not in sight."""
    kinds = question.args[1:2]
    parts = [part for kind in kinds for part in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
    return [name for part in parts for name in ctx.resolve(part) or ("",)]


def takes_no_model(call: ast.Call, ctx: Context) -> bool:
    """`init_inputs(values, device)` of a function or a class of the project that is in sight."""
    found = [ctx.module.project.definition(each) for each in ctx.callees(call)]
    run = [(each[0], run_by(each[1])) for each in found if each is not None]
    return (
        bool(found)
        and len(run) == len(found)
        and all(function is not None and not takes_a_model(function, ctx.elsewhere(module)) for module, function in run)
    )


def goes_through_all(loop: ast.For, ctx: Context) -> bool:
    """`for layer in model.modules()`."""
    parts = walk(source_of(loop, ctx))
    return not ALL_PARAMETERS.isdisjoint(part.attr for part in parts if isinstance(part, ast.Attribute))


def names_others(loop: ast.For, name: str) -> bool:
    """`for key, weight in model.named_parameters(): if key.endswith("bn3.weight"): …`, and `name` ends otherwise."""
    choice = loop.body[0] if len(loop.body) == 1 else None
    test = choice.test if isinstance(choice, ast.If) and not choice.orelse else None
    if not isinstance(test, ast.Call) or identifier(test.func) != "endswith" or len(test.args) != 1:
        return False
    ends = test.args[0].elts if isinstance(test.args[0], ast.Tuple) else test.args
    words = [end.value for end in ends if isinstance(end, ast.Constant) and isinstance(end.value, str)]
    return len(words) == len(ends) and not any(end.endswith(name) or name.endswith(end) for end in words)


def leaves_alone(hook: ast.expr, name: str, ctx: Context) -> bool:
    """Is a hook, `model.apply(hook)`, a function in sight that cannot fill an attribute `name` of the project's own?"""
    found = [ctx.module.project.definition(each) for each in ctx.resolve(hook)]
    if len(found) != 1 or found[0] is None or not isinstance(found[0][1], FUNCTIONS):
        return False
    inside, function = ctx.elsewhere(found[0][0]), found[0][1]
    if is_for_layers_of_torch(function.body, inside) or _only_converts(function):
        return True
    named = (part for part in walk(function) if isinstance(part, ast.Attribute) and part.attr == name)
    return names_what_it_fills(function, inside) and all(is_of_a_layer_of_torch(part, inside) for part in named)


def _only_converts(function: FunctionNode) -> bool:
    """`layer.weight.data = layer.weight.data.half()`: what was not filled before is not filled then."""
    for part in walk(function):
        if isinstance(part, ast.AugAssign) or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Call)):
            return False
        if isinstance(part, ast.Assign) and not all(
            isinstance(target, ast.Name) or ast.unparse(part.value).startswith(f"{ast.unparse(target)}.")
            for target in part.targets
        ):
            return False
    return True


def names_what_it_fills(function: FunctionNode | ast.For, ctx: Context) -> bool:
    """Does an init hook, or a loop through modules, only touch attributes that it names: `nn.init.zeros_(m.bias)`?

    A method that it calls, `m.reset_parameters()`, is looked at in its class.
    """
    asked = ALL_PARAMETERS - {"modules", "named_modules", "children"}
    hidden = asked | (BY_ANY_NAME - {"getattr"})
    modules = _modules_in(function, ctx)
    for part in walk(function):
        if identifier(part) in hidden:
            return False
        user = ctx.parent(part)
        user = ctx.parent(user) if isinstance(user, (ast.keyword, ast.Starred)) else user
        if isinstance(part, ast.Name) and part.id in modules and isinstance(user, ast.Call) and user.func is not part:
            fixed = len(user.args) > 1 and isinstance(user.args[1], ast.Constant)
            if identifier(user.func) not in _QUESTIONS or (identifier(user.func) == "getattr" and not fixed):
                return False
    return True


def _modules_in(function: FunctionNode | ast.For, ctx: Context) -> set[str]:
    """Return the variables of a hook that may hold modules: all but numbers that are only handed on."""
    names = {"self"}
    for part in walk(function):
        user = ctx.parent(part)
        if isinstance(part, ast.For):
            names |= {identifier(target) for target in walk(part.target)}
        elif isinstance(part, ast.Name) and not ctx.resolve(part):
            asked = isinstance(user, ast.Call) and identifier(user.func) in _QUESTIONS
            if asked or isinstance(user, (ast.Attribute, ast.Subscript, ast.Return)):
                names.add(part.id)
    return names


def is_for_layers_of_torch(body: list[ast.stmt], ctx: Context) -> bool:
    """Does an init hook only touch layers of torch: `if isinstance(m, nn.Linear): nn.init.zeros_(m.bias)`?"""
    for statement in body:
        if isinstance(statement, ast.For) and goes_through_all(statement, ctx):
            if not is_for_layers_of_torch(statement.body, ctx):
                return False
        elif isinstance(statement, ast.If):
            others = statement.orelse
            if not _layers_of_torch(statement.test, ctx) or not is_for_layers_of_torch(others, ctx):
                return False
        elif isinstance(statement, ast.Return):
            if not isinstance(statement.value, ast.Name):
                return False  # anything but the layer, given back
        elif not isinstance(getattr(statement, "value", None), ast.Constant):
            return False  # anything but a docstring
    return True


def is_of_a_layer_of_torch(node: ast.Attribute, ctx: Context) -> bool:
    """`m.weight` under `if isinstance(m, nn.Linear)`."""
    return any(all(name in ctx.inference.types.modules for name in names) for names in asked_for(node, ctx))


def asked_for(node: ast.Attribute, ctx: Context) -> Iterator[list[str]]:
    """Yield the classes that are asked for around `m.weight`: `if isinstance(m, (nn.Linear, nn.Embedding))`."""
    child: ast.AST = node
    for parent in ctx.ancestors(node):
        asked = _asked_class(parent.test) if isinstance(parent, ast.If) and child in parent.body else None
        if asked is not None and ast.unparse(asked.args[0]) == ast.unparse(node.value):
            yield _kinds(asked, ctx)
        child = parent


def _layers_of_torch(test: ast.expr, ctx: Context) -> ast.expr | None:
    """Return `m` of `isinstance(m, (nn.Linear, nn.Embedding))`."""
    asked = _asked_class(test)
    named = _kinds(asked, ctx) if asked is not None else []
    of_torch = bool(named) and all(name in ctx.inference.types.modules for name in named)
    return asked.args[0] if asked is not None and of_torch else None


def _asked_class(test: ast.expr) -> ast.Call | None:
    """Return the question of `isinstance(m, nn.Linear)`, and of `isinstance(m, nn.Linear) and m.bias is not None`."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    asked = parts[0]
    named = isinstance(asked, ast.Call) and getattr(asked.func, "id", "") == "isinstance" and len(asked.args) == 2
    return asked if isinstance(asked, ast.Call) and named else None
