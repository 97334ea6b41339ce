"""Is an attribute that starts as fresh memory ever initialised? Looks at its class and at the file around it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import sets_from_outside, users_of
from detlint.linter.analysis.calls import functions_called
from detlint.linter.analysis.classes import SILENT_BASES
from detlint.linter.memory.any_name import is_filled_by_any_name
from detlint.linter.memory.attribute_fates import assigned_to, fate_under_names, is_trained, made_where
from detlint.linter.memory.attribute_uses import AttributeUses
from detlint.linter.memory.hooks import (
    ALL_PARAMETERS,
    BY_ANY_NAME,
    INITIALISES,
    LOADED_WHOLE,
    asked_for,
    goes_through_all,
    is_for_layers_of_torch,
    leaves_alone,
    names_others,
    names_what_it_fills,
    takes_a_model,
    takes_no_model,
)
from detlint.linter.memory.layers import held_parts, is_a_part, is_about_a_part
from detlint.linter.memory.loads import (
    is_initialised_by_users,
    is_key_of_checkpoint,
    is_only_loaded,
    loads_something_else,
    rests_on_loading,
)
from detlint.linter.memory.owners import is_kin, is_of_another
from detlint.linter.memory.uses import Fate, registered_name
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, is_own, walk

if TYPE_CHECKING:
    from detlint.linter.analysis.classes import ClassInfo
    from detlint.linter.analysis.context import Context

# Models of such bases are made to be loaded.
_LOADED = re.compile(r"(PreTrainedModel|PretrainedModel|ModelMixin|HubMixin)$")
# What most layers of torch call their weights.
_OF_MOST_LAYERS = frozenset({"weight", "bias"})
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.ParameterList", "torch.nn.ParameterDict"})
# Layers of torch whose own reset goes through all parameters.
_RESETS_ALL = re.compile(r"(RNN|LSTM|GRU)\w*$|\.Transformer$")
# Under this name modules of mmengine say how their parts are initialised.
_SETTINGS = "init_cfg"
# Methods that look for a name among others.
_LOOKED_UP = ("get", "add", "discard", "startswith", "endswith")
_SAVES = re.compile(r"^_*save")
_MODULES = frozenset(
    {"torch.nn.Module", "torch_geometric.nn.MessagePassing", "torch_geometric.nn.conv.MessagePassing"}
    | {"torchmetrics.Metric", "torchmetrics.metric.Metric", "torcheval.metrics.Metric"}
    | {"pytorch_lightning.LightningModule", "lightning.LightningModule", "lightning.pytorch.LightningModule"}
)


def unwritten_attribute(name: str, made: ast.AST, ctx: Context) -> ast.expr | None:
    """Return the expression that reads the attribute `name` of the class around `made`, if nothing ever writes it."""
    owner = ctx.module.index.class_at(made)
    registrar = identifier(made.func) if isinstance(made, ast.Call) else ""
    if (
        owner is None
        or _is_initialised_elsewhere(name, owner, ctx, registrar)
        or _is_initialised_by_kin(name, owner, ctx)
        or _is_initialised_by_settings(owner, ctx)
    ):
        return None
    constants = (part for part in _within(owner, ctx) if isinstance(part, ast.Constant))
    info = ctx.inference.class_info(owner)
    if any(_is_spelt(constant, name, made, ctx) for constant in constants) or is_filled_by_any_name(name, info, ctx):
        return None
    trained, tended = is_trained(made, ctx), _fills_another(name, owner, ctx)
    uses = AttributeUses(name, made, owner, ctx, trained=trained, tended=tended)
    read = uses.first_read()
    if read is None or is_initialised_by_users(owner, ctx):
        return None
    filled_by_users = not tended and (
        _is_filled_by_users(name, info, trained, ctx) or _is_set_from_outside(name, info, ctx)
    )
    loaded = (
        not tended
        and not uses.updated
        and (rests_on_loading(ctx) or is_only_loaded(owner, ctx) or is_key_of_checkpoint(name, ctx))
    )
    return None if filled_by_users or loaded else read


def is_loaded_weight(value: ast.expr, ctx: Context) -> bool:
    """`self.proj = nn.Parameter(scale * torch.empty(n, n))` of a class that is only used where weights are loaded."""
    owner, around = ctx.module.index.class_at(value), ctx.parent(value)
    made = isinstance(around, ast.Call) and not _PARAMETERS.isdisjoint(ctx.callees(around))
    return made and owner is not None and (rests_on_loading(ctx) or is_only_loaded(owner, ctx))


def _is_initialised_by_settings(owner: ast.ClassDef, ctx: Context) -> bool:
    """`init_cfg = dict(type="Constant", val=1, layer="L2Norm")`, or `name="norm"` of a part, of mmengine."""
    index = ctx.module.index
    if _SETTINGS not in index.names_used and not any(name == _SETTINGS for _, name, _ in index.given_by_name()):
        return False
    made = (index.parents.get(call) for call in index.calls_by_name.get(owner.name, ()))
    parts = {identifier(target) for each in made if isinstance(each, ast.Assign) for target in each.targets}
    settings = (value for _, name, value in index.given_by_name() if name in ("layer", "name"))
    return any(isinstance(value, ast.Constant) and value.value in {owner.name, *parts} for value in settings)


def is_initialised_unnamed(target: ast.Attribute, ctx: Context) -> bool:
    """May code in sight initialise an attribute of the object without naming it?"""
    owner = ctx.module.index.class_at(target)
    return owner is None or _is_initialised_elsewhere(target.attr, owner, ctx) or is_initialised_by_users(owner, ctx)


def _within(owner: ast.ClassDef, ctx: Context) -> list[ast.AST]:
    """Return every node of a class, gone through once for all of its attributes."""
    return ctx.module.project.once(_nodes, owner)


def _nodes(owner: ast.ClassDef) -> list[ast.AST]:
    return list(walk(owner))


def _fills_another(name: str, owner: ast.ClassDef, ctx: Context) -> bool:
    """Does a class fill another parameter of its own, by its name? It does not rest on what others load then."""
    for call in (part for part in _within(owner, ctx) if isinstance(part, ast.Call)):
        filled = call.args[0] if call.args else None
        if not any(each.startswith("torch.nn.init.") for each in ctx.callees(call)):
            data = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_") else None
            filled = data.value if isinstance(data, ast.Attribute) and data.attr == "data" else None
        others = {identifier(part) for part in held_parts(filled, ctx) if is_own(part)} - {name} if filled else set()
        stores = (part for part in _within(owner, ctx) if isinstance(part, ast.Assign)) if others else ()
        if any(_makes_parameter(store, other, ctx) for store in stores for other in others):
            return True
    return False


def _makes_parameter(store: ast.Assign, name: str, ctx: Context) -> bool:
    """`self.bias = nn.Parameter(…)`, `self.factors = nn.ParameterDict(…)`."""
    own = [part for target in store.targets for part in walk(target) if is_own(part) and identifier(part) == name]
    made = [assigned_to(target, ctx) for target in own]
    values = [part for each in made for part in ([each.body, each.orelse] if isinstance(each, ast.IfExp) else [each])]
    calls = (made_where(value, ctx) for value in values if value is not None)
    return any(isinstance(call, ast.Call) and not _PARAMETERS.isdisjoint(at.callees(call)) for call, at in calls)


def _is_spelt(constant: ast.Constant, name: str, made: ast.AST, ctx: Context) -> bool:
    """`self.update("mean", value)` may set it; where it is registered it is only made, and `hasattr` asks for it.

    So does what looks it up among names, `skipped.add("mean")`, `options.get("mean")`.
    """
    call = ctx.parent(constant)
    if constant.value != name or not isinstance(call, ast.Call) or call is made:
        return False
    asked = _LOOKED_UP if isinstance(call.func, ast.Attribute) else ("hasattr", "getattr")
    return registered_name(call) is None and not (identifier(call.func) in asked and call.args[:1] == [constant])


def _is_filled_by_users(name: str, owner: ClassInfo, trained: bool, ctx: Context) -> bool:
    """`nn.init.zeros_(layer.offset)` in another file that uses the class, or in a class there that derives from it.

    A `layer.weight` there is most likely one of torch's own, where nothing says whose.
    """
    users = {user.module.name: user for user in users_of(owner.node.body[0], ctx) if user.module is not ctx.module}
    return any(
        node.attr == name
        and not is_of_another(node, owner, user)
        and (name not in _OF_MOST_LAYERS or is_own(node) or next(asked_for(node, user), None) is not None)
        and (not isinstance(node.ctx, ast.Load) or fate_under_names(node, user, trained=trained)[0] is Fate.WRITTEN)
        for user in users.values()
        for node in user.module.index.of_type(ast.Attribute)
    )


def _is_set_from_outside(name: str, owner: ClassInfo, ctx: Context) -> bool:
    """`layer.attention.projection = loaded["o"]` in a file that fills models whose classes it need not name.

    Names that most layers have say nothing, nor do numbers: `options.scale = 2`.
    """
    return name not in _OF_MOST_LAYERS and any(
        not isinstance(getattr(where.statement(node), "value", None), ast.Constant)
        and not is_of_another(node, owner, where)
        for where, node in sets_from_outside(name, ctx)
    )


def _is_initialised_by_kin(name: str, owner: ast.ClassDef, ctx: Context) -> bool:
    """Does an initialising method that the class inherits from another file name the attribute?"""
    inference = ctx.inference
    ancestors = (info for info in inference.mro(inference.class_info(owner)) if info.module is not ctx.module)
    methods = (method for info in ancestors for method in info.methods.values() if INITIALISES.search(method.name))
    return any(isinstance(part, ast.Attribute) and part.attr == name for method in methods for part in walk(method))


def _is_initialised_elsewhere(name: str, owner: ast.ClassDef, ctx: Context, registrar: str = "") -> bool:
    """Return whether code in sight may initialise an attribute of a class unnamed: an init hook, a checkpoint, a loop.

    That is code of its own and of its kin, and what the file does to models from outside; not what other classes do to
    themselves. A checkpoint is no excuse for a class that fills what it makes, but for this one. What a class of the
    project does with all states that its `registrar` is given, `self.add_state("sum", …)`, starts from that memory.
    """
    index, inference = ctx.module.index, ctx.inference
    info = inference.class_info(owner)
    outside = set(inference.external_bases(info)) - SILENT_BASES
    states = [ancestor for ancestor in inference.mro(info) if registrar in ancestor.methods]
    if not all(_leaves_alone(base, name) for base in outside) or (not outside and info.node.bases and not states):
        return True
    tended = _fills_another(name, owner, ctx)
    bases = [base for other in index.of_type(ast.ClassDef) for base in other.bases]
    if any(_is_loaded(base, tended, ctx) for base in bases):
        return True
    if not info.node.bases:  # no module, which hooks and loops through parameters would reach
        return _initialises_itself(info, set(), tended, ctx)
    hooks = [f for f in index.of_type(ast.FunctionDef) if INITIALISES.search(f.name) and takes_a_model(f, ctx)]
    if tended:
        hooks = [hook for hook in hooks if not LOADED_WHOLE.search(hook.name)]
    if not all(is_for_layers_of_torch(hook.body, ctx) or names_what_it_fills(hook, ctx) for hook in hooks):
        return True
    known = {hook.name for hook in hooks}
    loops = (loop for loop in index.of_type(ast.For) if not names_others(loop, name))
    if any(_initialises_all(loop, owner, known, ctx) for loop in loops):
        return True
    if any(_initialises_itself(each, known, tended, ctx) for each in inference.mro(info) if each not in states):
        return True
    return any(
        (INITIALISES.search(called) or called == "apply")
        and not (tended and LOADED_WHOLE.search(called))
        and any(_reaches_models(call, owner, ctx) and not _hands_on(call, known, name, ctx) for call in calls)
        for called, calls in index.calls_by_name.items()
        if called not in known and called != "state_dict"
    )


def _is_loaded(base: ast.expr, tended: bool, ctx: Context) -> bool:
    """Are models of a base class made to be loaded? A project's own is none where a class fills its weights itself."""
    names = ctx.resolve(base)
    own = tended and bool(names) and all(ctx.inference.class_named(name) is not None for name in names)
    return not own and any(map(_LOADED.search, (*names, ast.unparse(base))))


def _leaves_alone(base: str, name: str) -> bool:
    """Does a class of a library not fill an attribute that it does not know? Recurrent layers fill all there are."""
    if base in _MODULES:
        return True
    of_torch = base.startswith(("torch.nn.", "torch.distributions."))
    return of_torch and not _RESETS_ALL.search(base) and name not in _OF_MOST_LAYERS


def _hands_on(call: ast.Call, hooks: set[str], name: str, ctx: Context) -> bool:
    """`self.apply(self._init_weights)`, `init_layer(self)`, where that is known, or fills no attribute of this name."""
    if isinstance(call.func, ast.Name):
        return leaves_alone(call.func, name, ctx)
    hook = _applied(call)
    return hook is not None and (identifier(hook) in hooks or leaves_alone(hook, name, ctx))


def _applied(call: ast.Call) -> ast.expr | None:
    """Return the hook of `self.apply(init)` and `self.apply(partial(init, std=0.02))`."""
    given = call.args[0] if len(call.args) == 1 and identifier(call.func) == "apply" else None
    if isinstance(given, ast.Call) and identifier(given.func) == "partial" and given.args:
        return given.args[0]
    return given


def _initialises_itself(info: ClassInfo, hooks: set[str], tended: bool, ctx: Context) -> bool:
    """Has a class a method that may initialise attributes without naming them? Those it names are looked at singly.

    What is saved was trained, from the start as well; then loading is no excuse either.
    """
    methods = [part for part in _within(info.node, ctx) if isinstance(part, FUNCTIONS) and part.name != "state_dict"]
    if tended or any(_SAVES.search(method.name) for method in methods):
        methods = [method for method in methods if not LOADED_WHOLE.search(method.name)]
    methods = [method for method in methods if INITIALISES.search(method.name)]
    return any(LOADED_WHOLE.search(method.name) or _hides_what_it_sets(method, info, hooks, ctx) for method in methods)


def _hides_what_it_sets(method: FunctionNode, info: ClassInfo, hooks: set[str], ctx: Context) -> bool:
    """`self.apply(init)`, `for weight in self.parameters()`, `init_layer(self)`."""
    inside = ctx.elsewhere(info.module)
    if is_for_layers_of_torch(method.body, inside) or names_what_it_fills(method, inside):
        return False
    parents = info.module.index.parents
    for part in walk(method):
        name = identifier(part)
        call = parents.get(part)
        if isinstance(call, ast.Call) and (_calls_known_hook(call, hooks) or _is_of_any(call, parents.get(call))):
            continue
        if isinstance(part, ast.Attribute) and held_parts(part.value, inside):
            continue  # `self.encoder.parameters()`
        if name in ALL_PARAMETERS or name in BY_ANY_NAME:
            return True
        if name == "self" and not isinstance(call, (ast.Attribute, ast.Return)) and not _only_asks(call):
            return True
    return False


def _is_of_any(call: ast.Call, user: ast.AST | None) -> bool:
    """`next(self.parameters())` asks for a device or a dtype."""
    return isinstance(user, ast.Call) and identifier(user.func) == "next" and user.args == [call]


def _only_asks(call: ast.AST | None) -> bool:
    """`hasattr(self, "bias")`, `super(Layer, self)`."""
    return isinstance(call, ast.Call) and identifier(call.func) in ("hasattr", "isinstance", "super")


def _calls_known_hook(call: ast.Call, hooks: set[str]) -> bool:
    return identifier(_applied(call)) in hooks


def _initialises_all(loop: ast.For, owner: ast.ClassDef, hooks: set[str], ctx: Context) -> bool:
    """`for weight in self.parameters(): nn.init.uniform_(weight)`, and not one that counts or freezes them.

    Nor one that goes through a part of the object: `for weight in self.head.parameters()`.
    """
    if not goes_through_all(loop, ctx) or is_for_layers_of_torch(loop.body, ctx) or names_what_it_fills(loop, ctx):
        return False
    if is_about_a_part(loop, owner, ctx):
        return False
    statements = [statement for statement in loop.body if not _calls_one_of(statement, hooks)]
    return any(_writes(part) for statement in statements for part in walk(statement))


def _calls_one_of(statement: ast.stmt, hooks: set[str]) -> bool:
    """`self.init_weights(layer)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and identifier(call.func) in hooks


def _writes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "data" and not isinstance(node.ctx, ast.Load)
    name = identifier(node.func) if isinstance(node, ast.Call) else ""
    return (name.endswith("_") and name != "requires_grad_") or bool(INITIALISES.search(name))


def _reaches_models(call: ast.Call, owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether a call may be about an instance of `owner`, though not one of its own methods.

    `self.apply(init)` reaches all that an object holds; `Function.apply(x)` is about no module at all.
    """
    function, name = call.func, identifier(call.func)
    if isinstance(function, ast.Attribute) and is_a_part(function.value, owner, ctx):
        return False
    if isinstance(function, ast.Attribute) and name == "apply":
        return isinstance(ctx.parent(call), ast.Expr)
    if LOADED_WHOLE.search(name):
        return not loads_something_else(call, ctx)
    if isinstance(function, ast.Attribute):
        around = ctx.module.index.class_at(call)
        if is_own(function) and not is_kin(around, ctx.inference.class_info(owner), ctx):
            return False
        kin = {owner, *([around] if is_own(function) and around is not None else [])}
        infos = (info for each in kin for info in ctx.inference.mro(ctx.inference.class_info(each)))
        if any(name in info.methods for info in infos):
            return False  # its methods are looked at by themselves
        if is_own(function):
            return True  # no method in sight
        if takes_no_model(call, ctx) or any(
            module is ctx.module for module, _ in functions_called(ctx.inference, call)
        ):
            return False  # of another class of the file, and no hook
    elif any(each.name == name for each in ctx.module.index.of_type(ast.FunctionDef)) or takes_no_model(call, ctx):
        return False  # of this file, and no hook, or of another one: it takes no model
    return any(isinstance(argument, ast.Name) for argument in call.args)
