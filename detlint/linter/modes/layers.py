"""Does a model behave differently in train mode? Yes where it holds such a layer, no where all its parts are known."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterable, Iterator

from detlint.conditions import Truth
from detlint.layers import Layer, load_layers
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import Call
from detlint.linter.analysis.element_fills import put_in
from detlint.linter.analysis.element_sort import Move
from detlint.linter.analysis.elements import goes_through_own
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.written_calls import written_out
from detlint.linter.modes.frames import Frame, drops, drops_nothing, literal_of, number_of
from detlint.linter.modes.given_parts import PART, keeps_given, takes_parts
from detlint.linter.modes.own_draws import draws_in_training
from detlint.linter.modes.settled_parts import settled_parts
from detlint.linter.modes.switches import switches_any
from detlint.linter.source.names import FunctionNode
from detlint.linter.source.nodes import arguments_of, decorating, identifier, is_own, walk
from detlint.randomness import load_sources

_MAX_PARTS = 80
# Names that are called in a constructor and are no layers: `super().__init__`, checks, containers, plain Python.
_PLAIN = (
    *("builtins.", "collections.", "functools.", "itertools.", "json.", "logging.", "math.", "numpy.", "os."),
    *("pathlib.", "typing.", "warnings.", "yaml."),
)
# Methods of a model that run without being called by name.
_RUN_BY_OTHERS = re.compile(r"__\w+__$|forward|on_|setup|prepare|configure|\w+_(step|start|end)$")
# How names of what makes layers end: `norm_layer(8)`, `props["dropout_op"](p=0.1)`, `backbone_fn(deploy)`.
_MAKES_LAYERS = ("_layer", "_cls", "_op", "_fn", "norm", "block")
# What these make depends on no mode: `act_layer()`, `init_fn(weight)`.
_MAKES_OTHERS = ("act", "conv", "linear", "nonlin", "loss", "init")
# How names of functions begin that may make a layer, or a whole model.
_MAKERS = ("from_", "create_", "build", "load", "get_", "instantiate")
# By a convention of Hugging Face, whoever's class it is: what these make is in eval mode.
FROM_PRETRAINED = ".from_pretrained"
# The method of Lightning's modules that makes one, in train mode.
LOADS_INSTANCE = "load_from_checkpoint"
_ANY_MODULE = {"torch.nn.Module.__call__"}
_FUNCTIONAL = frozenset(
    {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "batch_norm", "rrelu"}
)


class ModelParts:
    """Walks through the constructor of a model, its classes and the functions that make its layers.

    Functional dropout that is handed the mode counts as a layer where `functional`, unless its rate is 0. Of a model as
    it was `made`, parts that are put into eval mode on the way do not count.
    """

    def __init__(self, *, functional: bool = True, made: bool = False) -> None:
        self._functional, self._made = functional, made
        self._seen: set[Hashable] = set()  # expressions, and bodies with what they are called with
        self._unknown = False

    def made_by(self, module: Module, call: ast.Call) -> Truth:
        """Does the model that `call` makes hold a layer that depends on the mode?"""
        if self._expression(module, call):
            return Truth.YES
        names = set(module.inference.callees(call))
        self._unknown |= names <= _ANY_MODULE  # `self.net_class(8)`
        self._unknown |= any(name.startswith("builtins.") for name in names)  # `for net in zip(nets, states)`
        self._unknown |= not any(map(_is_known, names)) and not any(map(module.project.definition, names))
        return Truth.UNKNOWN if self._unknown else Truth.NO

    def of_class(self, info: ClassInfo) -> Truth:
        """Do the instances of a class, however they are made?"""
        if self._class(info, None, None):
            return Truth.YES
        return Truth.UNKNOWN if self._unknown else Truth.NO

    def _call(self, module: Module, call: ast.Call, frame: Frame | None) -> bool:
        names = names_made(module, call)
        if from_torchvision_by_name(module, call):
            return True
        if set(names) <= _ANY_MODULE:
            dropping = drops(call, frame)
            if dropping and _is_layer_by_name(module, call):
                return True
            self._unknown |= dropping or (
                not names
                and _may_make_a_layer(call)
                and not _is_gone_through(module, call.func)
                and not _is_given_steady(call.func, frame)
            )
        return any(self._named(name, module, call, frame) for name in names)

    def _named(self, name: str, module: Module, call: ast.Call, frame: Frame | None) -> bool:
        table = load_layers()
        layer = table.layers.get(name)
        if layer is not None:
            return self._is_on(layer, written_out(module, call, name), frame)
        made = table.models.get(name)
        if self._made and (name.endswith(".__call__") or _comes_in_eval_mode(name)):
            return False
        if made is not None:
            holds = made.holds_for(_text(module, call, made.named))
            self._unknown |= holds is None
            return holds is True
        definition = module.project.definition(name)
        if definition is not None:
            self._unknown |= frame is None and takes_parts(module, call, definition)
            return self._definition(*definition, written_out(module, call, name), frame, module)
        if name.startswith("torch.nn.functional.") and name.rpartition(".")[2] in _FUNCTIONAL:
            handed = any("training" in ast.unparse(argument) for argument in arguments_of(call))
            return self._functional and handed and not drops_nothing(call, frame)
        last = name.rpartition(".")[2]
        known = name.startswith(("torch.", *_PLAIN)) or table.steady.get(name) is not None
        self._unknown |= not known and (last[:1].isupper() or last.startswith(_MAKERS) or last.endswith("_load"))
        return False

    def _expression(self, module: Module, node: ast.expr) -> bool:
        """Every constructor in an expression and behind its variables: `nn.Sequential(backbone, nn.Linear(8, 2))`."""
        around = module.index.function_at(node) or module.tree
        settled = settled_parts(module, around, made=self._made) - {node}
        for part in _reached(node, None, settled):
            if isinstance(part, ast.Call):
                if self._call(module, part, None):
                    return True
            elif self._is_given_layer(part, module):
                return True
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                for value in _behind(module, part):
                    if value not in self._seen | settled:
                        self._seen.add(value)
                        known = self._unknown
                        if self._expression(module, value):
                            return True
                        # Environments and tokenizers that nothing is known of hold no layers.
                        self._unknown = known or (self._unknown and PART.search(part.id) is not None)
        return False

    def _definition(
        self, module: Module, found: FunctionNode | ast.ClassDef, call: ast.Call, frame: Frame | None, at: Module
    ) -> bool:
        if isinstance(found, ast.ClassDef):
            info = module.inference.class_info(found)
            if switches_itself(info, as_made=self._made):
                self._unknown = True  # whatever it holds, it sees to the mode of that
                return False
            return self._class(info, call, frame, at)
        return self._body(module, found, Frame(found, call, frame, module, at))

    def _class(self, info: ClassInfo, call: ast.Call | None, frame: Frame | None, at: Module | None = None) -> bool:
        inference = info.module.inference
        is_module = inference.is_module_class(info.name)  # the flag of a data set is not that of a model
        for ancestor in inference.mro(info):
            built = ancestor.methods.get("__init__")
            inner = Frame(built, call, frame, ancestor.module, at) if built is not None else None
            if self._body(ancestor.module, ancestor.node, inner):
                return True
            draws = draws_in_training(ancestor.module, ancestor.node) if is_module else Truth.NO
            self._unknown |= draws is Truth.UNKNOWN
            if draws is Truth.YES:
                return True
        for base in inference.external_bases(info):
            named = load_layers().models.get(base)
            layer = load_layers().layers.get(base)
            if (named is not None and named.holds) or (layer is not None and not layer.rate):
                return True
            if layer is not None and call is not None and self._is_made_as(layer, info, call, frame):
                return True
            self._unknown |= layer is not None or not (
                base.startswith(("torch.", "builtins.", "abc.", "typing.")) or _is_plain_base(base)
            )
        return False

    def _is_made_as(self, layer: Layer, info: ClassInfo, call: ast.Call, frame: Frame | None) -> bool:
        """`class Thinned(nn.Dropout):`, which is made as the layer itself is, and drops at the rate it is given."""
        own = any("__init__" in ancestor.methods for ancestor in info.module.inference.mro(info))
        return not own and self._is_on(layer, call, frame)

    def _body(self, module: Module, body: ast.AST, frame: Frame | None) -> bool:
        key = (body, frame.literals() if frame is not None else None)
        if key in self._seen:
            return False
        if len(self._seen) > _MAX_PARTS:
            self._unknown = True
            return False
        self._seen.add(key)
        found = False
        for part in _reached(body, frame, settled_parts(module, body, made=self._made)):
            if isinstance(part, ast.Call):
                found = found or self._call(module, part, frame)
            elif self._is_given_layer(part, module):
                found = True
            elif isinstance(part, ast.Assign) and frame is not None and frame.call is None:
                self._unknown |= keeps_given(part, frame.function)
            if found:
                return True
        return False

    def _is_given_layer(self, node: ast.AST, module: Module) -> bool:
        """`norm_layer=nn.BatchNorm2d`: a layer's class given away to be called elsewhere."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            return False
        layers = (load_layers().layers.get(name) for name in module.inference.resolve(node))
        return _is_handed_on(node, module) and any(layer is not None and not layer.rate for layer in layers)

    def _is_on(self, layer: Layer, call: ast.Call, frame: Frame | None) -> bool:
        """A rate that cannot be told counts: people write dropout layers to drop."""
        if not layer.rate:
            return True
        literal = frame.literal if frame is not None else literal_of
        if layer.stacked:
            count = Call(call, layer.call).argument(layer.stacked)
            if count.value is not None and literal(count.value) == 1:
                return False
        argument = Call(call, layer.call).argument(layer.rate)
        if argument.value is None:
            return True
        rate = number_of(literal(argument.value))
        return rate is None or rate > 0


def _behind(module: Module, name: ast.Name) -> Iterator[ast.expr]:
    """Yield the calls that a variable holds, and what is put into its list: `layers.append(nn.Dropout(p))`."""
    for binding in module.definitions(name):
        if isinstance(binding.value, ast.Call):
            yield binding.value
        elif isinstance(binding.value, (ast.List, ast.ListComp)):
            yield binding.value
            scope = module.index.scope_at(name).lookup(name.id)
            if scope is not None:
                filled = put_in(module.index, name.id, scope.node, (Move.ITERATED,), listed=True)
                yield from (value for value, _ in filled)


def _is_known(name: str) -> bool:
    """Is it told of a function or class outside the project what it makes?"""
    table = load_layers()
    return name.startswith("torch.") or any(kind.get(name) for kind in (table.layers, table.models, table.steady))


def _reached(body: ast.AST, frame: Frame | None, settled: frozenset[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a body without what is `settled`, and the branches that arguments of its frame rule out."""
    dead = {part for made in settled for part in walk(made)}
    for part in walk(body):
        if part in dead:
            continue
        if frame is not None and isinstance(part, (ast.If, ast.IfExp)):
            holds = frame.truth(part.test)
            if holds is not None:
                other = part.orelse if holds else part.body
                for node in other if isinstance(other, list) else [other]:
                    dead.update(walk(node))
        yield part


def from_torchvision_by_name(module: Module, call: ast.Call) -> bool:
    """`models.__dict__[name]()` and `getattr(models, name)()`: most models of torchvision normalise batches."""
    return "torchvision.models" in looked_up_in(module, call.func)


def names_made(module: Module, call: ast.Call) -> tuple[str, ...]:
    """Return what a call makes: `LitNet.load_from_checkpoint(path)` makes an instance of the class."""
    loaded: tuple[str, ...] = ()
    if isinstance(call.func, ast.Attribute) and call.func.attr == LOADS_INSTANCE:
        loaded = tuple(filter(module.project.definition, module.inference.resolve(call.func.value)))
    return loaded or module.inference.callees(call)


def _is_layer_by_name(module: Module, call: ast.Call) -> bool:
    """`getattr(nn, kind)(8, 8, dropout=0.1)`, at once or through a variable."""
    function = call.func
    values = [binding.value for binding in module.definitions(function)] if isinstance(function, ast.Name) else []
    return any("torch.nn" in looked_up_in(module, place) for place in (function, *filter(None, values)))


def looked_up_in(module: Module, node: ast.expr) -> tuple[str, ...]:
    """Return what `getattr(models, name)` and `models.__dict__[name]` take something of by its name."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
        return module.inference.resolve(node.value.value)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr" and node.args:
        return module.inference.resolve(node.args[0])
    return ()


def _comes_in_eval_mode(name: str) -> bool:
    return name.endswith(FROM_PRETRAINED) and load_sources().factories.get(name) != "train"


def switches_itself(info: ClassInfo, *, as_made: bool = False) -> bool:
    """Return whether a class sets its own mode where it is made or run: `self.eval()`, or an override of `train`.

    What `freeze()` would do, were it called, is a matter of those who call it; so is an override `as_made`.
    """
    mro = info.module.inference.mro(info)
    methods: dict[str, FunctionNode] = {}
    for ancestor in mro:
        if not as_made and {"train", "eval"} & set(ancestor.methods):
            return True
        forward = ancestor.methods.get("forward")
        if forward is not None and decorated_to_switch(ancestor.module, forward):
            return True
        methods.update({name: method for name, method in ancestor.methods.items() if name not in methods})
    reached = [name for name in methods if _RUN_BY_OTHERS.match(name)]
    for name in reached:  # grows on the way
        own = {part.attr for part in walk(methods[name]) if isinstance(part, ast.Attribute) and is_own(part)}
        if {"train", "eval"} & own:
            return True
        reached += [other for other in own if other in methods and other not in reached]
    return False


def decorated_to_switch(module: Module, function: FunctionNode) -> bool:
    """Return whether a decorator of the project switches a model before it runs the function: `@eval_decorator`."""
    for decorator in function.decorator_list:
        for name in module.inference.resolve(decorating(decorator)):
            found = module.project.definition(name)
            if found is not None and switches_any(*found):
                return True
    return False


def _text(module: Module, call: ast.Call, parameter: str) -> str | None:
    """Return the text that a call passes for `parameter`, its first one."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == parameter] or call.args[:1]
    for value in module.inference.values(given[0]) if given else ():
        if isinstance(value.node, ast.Constant) and isinstance(value.node.value, str):
            return value.node.value
    return None


def _is_handed_on(node: ast.expr, module: Module) -> bool:
    """Return whether a name stands where a class is passed along: an argument or a default, and not in a type test."""
    parent = module.index.parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = module.index.parents.get(parent)
    if isinstance(parent, ast.Call):
        return parent.func is not node and getattr(parent.func, "id", "") not in ("isinstance", "issubclass", "type")
    return isinstance(parent, ast.arguments)


def _may_make_a_layer(call: ast.Call) -> bool:
    """`Block(…)`, `norm_layer(…)`, `props["norm_op"](…)`, `build_encoder(…)` of no known origin."""
    function = call.func
    key = function.slice if isinstance(function, ast.Subscript) else None
    name = str(key.value) if isinstance(key, ast.Constant) else identifier(function)
    if isinstance(function, ast.Attribute) and name[:1].islower():
        return name.startswith(("from_", "create_", "build", "make_", "load_")) and name != "load_state_dict"
    makes = name.endswith(_MAKES_LAYERS) and not name.startswith(_MAKES_OTHERS)
    return name[:1].isupper() or makes or name.startswith(("build", "make_"))


def _is_given_steady(called: ast.expr, frame: Frame | None) -> bool:
    """`norm_layer(8)`, where callers give `nn.LayerNorm` or a `partial` of it: a layer that knows no mode.

    So is one that is there already, which a helper is given: `run(block, x)` in `for block in self.blocks:`.
    """
    found = frame.given(called.id) if frame is not None and isinstance(called, ast.Name) else None
    if found is None:
        return False
    module, made = found
    if _is_gone_through(module, made):
        return True
    of_partial = isinstance(made, ast.Call) and identifier(made.func) == "partial" and made.args
    names = module.inference.resolve(made.args[0] if isinstance(made, ast.Call) and of_partial else made)
    return bool(names) and all(_is_known(name) and load_layers().layers.get(name) is None for name in names)


def _is_gone_through(module: Module, called: ast.expr) -> bool:
    """`block(x)`, `block.attention.build_cache(8)`, in `for block in self.blocks:`: a layer that is there already."""
    while isinstance(called, ast.Attribute):
        called = called.value
    return goes_through_own(module, called)


def _is_plain_base(base: str) -> bool:
    return base in ("lightning.pytorch.LightningModule", "torch_geometric.nn.MessagePassing") or base.endswith("Mixin")


def parts_of(calls: Iterable[tuple[Module, ast.Call]], *, made: bool) -> Truth:
    """Combine what several possible constructors say: yes if any holds such a layer, no if none of them can."""
    answers = {ModelParts(made=made).made_by(module, call) for module, call in calls}
    if Truth.YES in answers:
        return Truth.YES
    return Truth.NO if answers == {Truth.NO} else Truth.UNKNOWN


def parts_of_class(info: ClassInfo) -> Truth:
    """Do the instances of a class hold such a layer? One without a `forward` leaves it to the classes that inherit."""
    holds = ModelParts().of_class(info)
    complete = any("forward" in ancestor.methods for ancestor in info.module.inference.mro(info))
    return holds if complete or holds is Truth.YES else Truth.UNKNOWN


def is_layer(module: Module, made: ast.Call) -> bool:
    """Is a model a single layer? One layer on its own is augmentation or a demonstration, and no model."""
    return any(load_layers().layers.get(name) is not None for name in module.inference.callees(made))
