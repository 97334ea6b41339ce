"""Is an attribute that starts as fresh memory ever initialised? Looks at its class and at the file around it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.callers import users_of
from detlint.linter.fresh_memory import Fate, fate, registered_name
from detlint.linter.kernels import KERNEL_LANGUAGES
from detlint.linter.names import FUNCTIONS, FunctionNode, parameters
from detlint.linter.nodes import identifier, is_own, walk
from detlint.linter.training import file_trains
from detlint.linter.values import Kind

if TYPE_CHECKING:
    from detlint.linter.classes import ClassInfo
    from detlint.linter.context import Context

# Models of such bases are made to be loaded.
_LOADED = re.compile(r"(PreTrainedModel|PretrainedModel|ModelMixin|HubMixin)$")
# Code of such names initialises or loads every parameter of a module, whatever they are called.
_INITIALISES = re.compile(
    r"^_*(init(?!__$)|initiali[sz]e|reset|load)|init_weights|[^_]_init$|from_pretrained|state_dict|post_init|from_checkpoint",
    re.IGNORECASE,
)
_LOADED_WHOLE = re.compile(r"load|from_pretrained|state_dict|from_checkpoint", re.IGNORECASE)
_LOADS = re.compile(r"^_*(download_and_)?load_(state_dict|checkpoint|models?|weights)$|^from_pretrained$|^load_file$")
_ALL_PARAMETERS = frozenset({"parameters", "named_parameters", "modules", "named_modules", "children"})
_PLAIN_BASES = frozenset({"abc.ABC", "typing.Generic", "typing.Protocol", "builtins.object"})
_CONTAINERS = (".Sequential", "List", "Dict", "Parallel", ".Module")
# What code takes of a module that it initialises.
_OF_MODULES = frozenset({"weight", "bias", "apply", "state_dict", "load_state_dict"}) | _ALL_PARAMETERS
_MODELS = re.compile(r"model|module|net(work)?$|coder$", re.IGNORECASE)
# What a model gets of these, it gets by `load_state_dict`.
_READS_DATA = frozenset(
    {"torch.load", "numpy.load", "json.load", "json.loads", "pickle.load", "pickle.loads", "yaml.safe_load"}
)
# What reaches attributes that are not named.
_BY_ANY_NAME = frozenset({"apply", "__dict__", "_parameters", "_buffers", "state_dict", "getattr", "setattr", "vars"})
_ALIASES = 3


def unwritten_attribute(name: str, made: ast.AST, ctx: Context) -> ast.expr | None:
    """Return the expression that reads the attribute `name` of the class around `made`, if nothing ever writes it."""
    index = ctx.module.index
    owner = index.class_at(made)
    if owner is None or _is_initialised_elsewhere(owner, ctx) or _is_initialised_by_kin(name, owner, ctx):
        return None
    if any(_is_spelt(constant, name, made, ctx) for constant in walk(owner) if isinstance(constant, ast.Constant)):
        return None
    read: ast.expr | None = None
    for node in index.of_type(ast.Attribute):
        if node.attr != name or _is_of_another(node, owner, ctx):
            continue
        if not isinstance(node.ctx, ast.Load):
            if node is not made and not _keeps_a_part(node, name, ctx) and not _sets_nothing(node, ctx):
                return None
            continue
        outcome, place = _fate(node, ctx)
        if outcome in (Fate.WRITTEN, Fate.STORED):
            return None
        if outcome in (Fate.READ, Fate.ADDED_TO) and read is None and index.class_at(node) is owner:
            read = place
    return None if read is None or _is_only_loaded(owner, ctx) else read


def _is_spelt(constant: ast.Constant, name: str, made: ast.AST, ctx: Context) -> bool:
    """`self.update("mean", value)` may set it; where it is registered it is only made, and `hasattr` asks for it."""
    call = ctx.parent(constant)
    if constant.value != name or not isinstance(call, ast.Call) or call is made:
        return False
    return registered_name(call) is None and getattr(call.func, "id", "") not in ("hasattr", "getattr")


def _is_only_loaded(owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether files that use the class load what they run, and none of them trains anything."""
    users = [user.module for user in users_of(owner.body[0], ctx)]
    return any(_LOADS.search(name) for user in users for name in user.calls) and not any(map(file_trains, users))


def _is_of_another(node: ast.Attribute, owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.weight` in another class, and `self.linear.weight` where that is a layer of torch."""
    if is_own(node):
        return not _is_kin(ctx.module.index.class_at(node), owner, ctx)
    if _is_layer_of_torch(node.value, ctx):
        return True
    function = ctx.function(node)
    return function is not None and _takes_a_model(function, ctx) and _is_for_layers_of_torch(function.body, ctx)


def _is_layer_of_torch(node: ast.expr, ctx: Context) -> bool:
    """Is a module known that holds no module of the project?"""
    values = ctx.values(node)
    return bool(values) and all(
        value.kind is Kind.MODULE and value.type.startswith("torch.nn.") and not value.type.endswith(_CONTAINERS)
        for value in values
    )


def _is_kin(node: ast.ClassDef | None, owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether one of two classes inherits from the other, or they are the same."""
    if node is None or node is owner:
        return node is owner
    inference = ctx.inference
    first, second = inference.class_info(node), inference.class_info(owner)
    return first in inference.mro(second) or second in inference.mro(first)


def _fate(node: ast.expr, ctx: Context, aliases: int = 0) -> tuple[Fate, ast.expr]:
    """Return what happens to an attribute's memory, under local names too: `weight = self.weight`."""
    outcome, place = fate(node, ctx)
    binding = ctx.binding(place) if outcome is Fate.STORED else None
    if binding is None or aliases == _ALIASES:
        return outcome, place
    fates = [_fate(use, ctx, aliases + 1) for use in ctx.flow(place).uses(binding)]
    for deciding in (Fate.WRITTEN, Fate.STORED, Fate.ADDED_TO, Fate.READ):
        for found in fates:
            if found[0] is deciding:
                return found
    return Fate.UNTOUCHED, place


def _keeps_a_part(target: ast.Attribute, name: str, ctx: Context) -> bool:
    """`self.mean = 0.9 * self.mean + …` starts from what is there."""
    statement = ctx.statement(target)
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.AugAssign):
        return True
    return isinstance(value, ast.expr) and any(
        isinstance(part, ast.Attribute) and part.attr == name for part in ast.walk(value)
    )


def _sets_nothing(target: ast.Attribute, ctx: Context) -> bool:
    """`self.bias = None`, where there is to be none."""
    value = getattr(ctx.statement(target), "value", None)
    return isinstance(value, ast.Constant) and value.value is None


def _is_initialised_by_kin(name: str, owner: ast.ClassDef, ctx: Context) -> bool:
    """Does an initialising method that the class inherits from another file name the attribute?"""
    inference = ctx.inference
    ancestors = (info for info in inference.mro(inference.class_info(owner)) if info.module is not ctx.module)
    methods = (method for info in ancestors for method in info.methods.values() if _INITIALISES.search(method.name))
    return any(isinstance(part, ast.Attribute) and part.attr == name for method in methods for part in walk(method))


def _is_initialised_elsewhere(owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether code in sight may initialise any attribute of a class: an init hook, a checkpoint, a loop.

    That is code of its own and of its kin, and what the file does to models from outside; not what other classes do to
    themselves.
    """
    index, inference = ctx.module.index, ctx.inference
    info = inference.class_info(owner)
    outside = set(inference.external_bases(info)) - _PLAIN_BASES
    if outside != {"torch.nn.Module"} and (outside or info.node.bases):
        return True
    bases = (base for other in index.of_type(ast.ClassDef) for base in other.bases)
    if any(_LOADED.search(name) for base in bases for name in (*ctx.resolve(base), ast.unparse(base))):
        return True
    hooks = [f for f in index.of_type(ast.FunctionDef) if _INITIALISES.search(f.name) and _takes_a_model(f, ctx)]
    if not all(_is_for_layers_of_torch(hook.body, ctx) for hook in hooks):
        return True
    known = {hook.name for hook in hooks}
    if any(_initialises_all(loop, owner, known, ctx) for loop in index.of_type(ast.For)):
        return True
    if any(_initialises_itself(ancestor, known, ctx) for ancestor in inference.mro(info)):
        return True
    return any(
        (_INITIALISES.search(name) or name == "apply")
        and any(_reaches_models(call, owner, ctx) and not _hands_on(call, known) for call in calls)
        for name, calls in index.calls_by_name.items()
        if name not in known
    )


def _is_for_layers_of_torch(body: list[ast.stmt], ctx: Context) -> bool:
    """Does an init hook only touch layers of torch: `if isinstance(m, nn.Linear): nn.init.zeros_(m.bias)`?"""
    for statement in body:
        if isinstance(statement, ast.For) and _goes_through_all(statement):
            if not _is_for_layers_of_torch(statement.body, ctx):
                return False
        elif isinstance(statement, ast.If):
            others = statement.orelse
            if not _tests_layers_of_torch(statement.test, ctx) or not _is_for_layers_of_torch(others, ctx):
                return False
        elif isinstance(statement, ast.Return):
            if not isinstance(statement.value, ast.Name):
                return False  # anything but the layer, given back
        elif not isinstance(getattr(statement, "value", None), ast.Constant):
            return False  # anything but a docstring
    return True


def _tests_layers_of_torch(test: ast.expr, ctx: Context) -> bool:
    """`isinstance(m, (nn.Linear, nn.Embedding))`, `isinstance(m, nn.Linear) and m.bias is not None`."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    asked = parts[0]
    if not isinstance(asked, ast.Call) or getattr(asked.func, "id", "") != "isinstance" or len(asked.args) != 2:
        return False
    kinds = asked.args[1].elts if isinstance(asked.args[1], ast.Tuple) else [asked.args[1]]
    named = [name for kind in kinds for name in ctx.resolve(kind)]
    return bool(named) and all(name in ctx.inference.types.modules for name in named)


def _hands_on(call: ast.Call, hooks: set[str]) -> bool:
    """`self.apply(self._init_weights)`."""
    hook = call.args[0] if len(call.args) == 1 else None
    name = identifier(hook)
    return isinstance(call.func, ast.Attribute) and call.func.attr == "apply" and name in hooks


def _initialises_itself(info: ClassInfo, hooks: set[str], ctx: Context) -> bool:
    """Has a class a method that may initialise attributes without naming them? Those it names are looked at singly."""
    methods = [part for part in walk(info.node) if isinstance(part, FUNCTIONS) and _INITIALISES.search(part.name)]
    return any(_LOADED_WHOLE.search(method.name) or _hides_what_it_sets(method, info, hooks, ctx) for method in methods)


def _hides_what_it_sets(method: FunctionNode, info: ClassInfo, hooks: set[str], ctx: Context) -> bool:
    """`self.apply(init)`, `for weight in self.parameters()`, `init_layer(self)`."""
    if info.module is ctx.module and _is_for_layers_of_torch(method.body, ctx):
        return False
    parents = info.module.index.parents
    for part in walk(method):
        name = identifier(part)
        call = parents.get(part)
        if isinstance(call, ast.Call) and _hands_on(call, hooks):
            continue
        if name in _ALL_PARAMETERS or name in _BY_ANY_NAME:
            return True
        if name == "self" and not isinstance(call, ast.Attribute):
            return True
    return False


def _takes_a_model(function: FunctionNode, ctx: Context) -> bool:
    """Return whether a function works on a module that it is given: `init_weights(module)`, also as a method."""
    arguments = [argument.arg for argument, _ in parameters(function.args)]
    own = arguments[:1] in (["self"], ["cls"])
    names = set(arguments[own:])
    if any(map(_MODELS.search, names)) or (own and names and _LOADED_WHOLE.search(function.name)):
        return True
    uses = (ctx.parent(part) for part in walk(function) if isinstance(part, ast.Name) and part.id in names)
    return any(
        (isinstance(use, ast.Attribute) and use.attr in _OF_MODULES)
        or (isinstance(use, ast.Call) and getattr(use.func, "id", "") in ("isinstance", "hasattr", "getattr"))
        for use in uses
    )


def _goes_through_all(loop: ast.For) -> bool:
    return not _ALL_PARAMETERS.isdisjoint(part.attr for part in walk(loop.iter) if isinstance(part, ast.Attribute))


def _initialises_all(loop: ast.For, owner: ast.ClassDef, hooks: set[str], ctx: Context) -> bool:
    """`for weight in self.parameters(): nn.init.uniform_(weight)`, and not one that counts or freezes them.

    Nor one that goes through a part of the object: `for weight in self.head.parameters()`.
    """
    if not _goes_through_all(loop) or _is_for_layers_of_torch(loop.body, ctx):
        return False
    if _is_about_a_part(loop, owner, ctx):
        return False
    statements = [statement for statement in loop.body if not _calls_one_of(statement, hooks)]
    return any(_writes(part) for statement in statements for part in walk(statement))


def _is_about_a_part(loop: ast.For, owner: ast.ClassDef, ctx: Context) -> bool:
    """`self.head.parameters()` as against `self.parameters()`: a part of the object, or of another a layer of torch."""
    function = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    part = function.value if isinstance(function, ast.Attribute) else None
    if part is None or not is_own(part):
        return False
    return ctx.module.index.class_at(loop) is owner or _is_layer_of_torch(part, ctx)


def _calls_one_of(statement: ast.stmt, hooks: set[str]) -> bool:
    """`self.init_weights(layer)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and identifier(call.func) in hooks


def _writes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "data" and not isinstance(node.ctx, ast.Load)
    name = identifier(node.func) if isinstance(node, ast.Call) else ""
    return (name.endswith("_") and name != "requires_grad_") or bool(_INITIALISES.search(name))


def _reaches_models(call: ast.Call, owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether a call may be about an instance of `owner`, though not one of its own methods.

    `self.apply(init)` reaches all that an object holds; `Function.apply(x)` is about no module at all.
    """
    function, name = call.func, identifier(call.func)
    if isinstance(function, ast.Attribute) and name == "apply":
        return isinstance(ctx.parent(call), ast.Expr)
    if _LOADED_WHOLE.search(name):
        return not any(each in _READS_DATA or each.startswith(KERNEL_LANGUAGES) for each in ctx.callees(call))
    if isinstance(function, ast.Attribute):
        if is_own(function) and not _is_kin(ctx.module.index.class_at(call), owner, ctx):
            return False
        ancestors = ctx.inference.mro(ctx.inference.class_info(owner))
        if any(name in ancestor.methods for ancestor in ancestors):
            return False
    elif any(each.name == name for each in ctx.module.index.of_type(ast.FunctionDef)):
        return False  # of this file, and no hook: it takes no model
    return any(isinstance(argument, ast.Name) for argument in call.args)
