"""Does what a project does to whole models fill the weights of a class: checkpoints, loops through all parameters?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import users_of
from detlint.linter.memory.hooks import MODELS, goes_through_all
from detlint.linter.programs.kernels import KERNEL_LANGUAGES
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import unpacked
from detlint.linter.source.nodes import arguments_of, identifier, is_own, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detlint.linter.analysis.context import Context

_LOADS = re.compile(r"^_*(download_and_)?load_(state_dict|checkpoint|models?|weights)$|^from_pretrained$|^load_file$")
_LOADING = ("load_state_dict", "load_model", "load_weights", "load_checkpoint")
_TRAINING = ("backward", "zero_grad", "optimizer", "training_step", "Trainer")
_OF_INIT = re.compile(r"(^|\.)init\.\w+$|_$")
# What a model gets of these, it gets by `load_state_dict`.
_READS_DATA = frozenset(
    {"torch.load", "numpy.load", "json.load", "json.loads", "pickle.load", "pickle.loads", "yaml.safe_load"}
)


def is_initialised_by_users(owner: ast.ClassDef, ctx: Context) -> bool:
    """`for p in model.parameters(): nn.init.uniform_(p)` in a file that uses the class."""
    users = {user.module.name: user for user in users_of(owner.body[0], ctx) if user.module is not ctx.module}
    return any(_fills_all(loop, user) for user in users.values() for loop in user.module.index.of_type(ast.For))


def _fills_all(loop: ast.For, ctx: Context) -> bool:
    calls = (part for part in walk(loop) if isinstance(part, ast.Call))
    return goes_through_all(loop, ctx) and any(
        isinstance(argument, ast.Name) and any(each.startswith("torch.nn.init.") for each in ctx.callees(call))
        for call in calls
        for argument in call.args[:1]
    )


def is_only_loaded(owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether files that use the class load what they run, and none of them trains or initialises anything."""
    users = list(users_of(owner.body[0], ctx))
    return any(_loads_its_own(user) or _inherits_a_loader(user) for user in users) and not any(
        file_trains(user.module) or _initialises_weights(user) for user in users
    )


def rests_on_loading(ctx: Context) -> bool:
    """Does a project load models and train none? What it leaves unwritten, a checkpoint brings."""
    return _mentions(_LOADING, ctx) and not _mentions(_TRAINING, ctx)


def _mentions(words: Sequence[str], ctx: Context) -> bool:
    searches = (ctx.module.project.search(word, ctx.module, 0) for word in words)
    return any(search is not None and search.found is None for search in searches)


def _loads_its_own(ctx: Context) -> bool:
    """Does a file load anything that is not a library's?"""
    calls = ctx.module.index.calls_by_name
    loads = (call for name in ctx.module.calls if _LOADS.search(name) for call in calls.get(name, ()))
    return any(not loads_something_else(call, ctx) for call in loads)


def _inherits_a_loader(ctx: Context) -> bool:
    """`class Drafter(Decoder)`, where `Decoder` of another file has a method `load_weights`."""
    inference = ctx.inference
    return any(
        _LOADS.search(method)
        for owner in ctx.module.index.of_type(ast.ClassDef)
        for info in inference.mro(inference.class_info(owner))
        if info.module is not ctx.module
        for method in info.methods
    )


def is_key_of_checkpoint(name: str, ctx: Context) -> bool:
    """`Renaming("experts.*.down.weight", "experts.down")`, `{"old.down": "experts.down"}`, `state["experts.down"] = x`.

    A path through parts of a model that ends in the name of a weight, where entries of a checkpoint are named after it;
    not among names that are gone through or compared, `["gate.scale"]`, nor one that is looked up or logged.
    """
    return any(
        isinstance(path.value, str) and path.value.endswith(f".{name}") and _names_an_entry(path, ctx)
        for path in ctx.module.index.of_type(ast.Constant)
    )


def _names_an_entry(path: ast.Constant, ctx: Context) -> bool:
    user = ctx.parent(path)
    if isinstance(user, ast.Subscript):
        return isinstance(user.ctx, ast.Store)
    if isinstance(user, ast.Dict):
        return path in user.values
    call = ctx.parent(user) if isinstance(user, ast.keyword) else user
    return isinstance(call, ast.Call) and identifier(call.func)[:1].isupper()


def _initialises_weights(ctx: Context) -> bool:
    """`nn.init.zeros_(layer.bias)` anywhere in a file."""
    calls = (call for calls in ctx.module.index.calls_by_name.values() for call in calls)
    fills = (call for call in calls if _OF_INIT.search(ast.unparse(call.func)))
    return any(each.startswith("torch.nn.init.") for call in fills for each in ctx.callees(call))


def loads_something_else(call: ast.Call, ctx: Context) -> bool:
    """`yaml.load(file)`, `CLIPModel.from_pretrained(name)`: a library makes it, out of nothing of this project.

    Nor is it an initialisation to put back what a model of the program held before.
    """
    if _puts_back(call, ctx):
        return True
    names = ctx.callees(call)
    if any(each in _READS_DATA or each.startswith(KERNEL_LANGUAGES) for each in names):
        return True
    if isinstance(call.func, ast.Attribute) and not ctx.resolve(call.func.value):
        return False  # of an object, not of a library
    if not names or any(identifier(part) == "self" or MODELS.search(identifier(part)) for part in arguments_of(call)):
        return False
    return not any(ctx.module.project.holds(each, ctx.module) for each in names)


def _puts_back(call: ast.Call, ctx: Context) -> bool:
    """`model.load_state_dict(best)` after `best = copy.deepcopy(model.state_dict())`."""
    given = call.args[0] if identifier(call.func) == "load_state_dict" and call.args else None
    held: list[ast.expr | None] = []
    if isinstance(given, ast.Name):
        held = [unpacked(binding) for binding in ctx.module.definitions(given)]
    elif isinstance(given, ast.Attribute) and is_own(given):
        stores = ctx.module.index.of_type(ast.Assign)
        held = [each.value for each in stores if ast.unparse(given) in map(ast.unparse, each.targets)]
    held = [value for value in held if not (isinstance(value, ast.Constant) and value.value is None)]
    model = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return bool(held) and all(value is not None and _is_state_of(model, value) for value in held)


def _is_state_of(model: str, value: ast.expr) -> bool:
    """`copy.deepcopy(model.state_dict())`, and not that of another model, which may have been loaded."""
    calls = [part.func for part in walk(value) if isinstance(part, ast.Call)]
    return any(ast.unparse(function) == f"{model}.state_dict" for function in calls)
