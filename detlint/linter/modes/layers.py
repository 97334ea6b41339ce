"""Does a model behave differently in train mode? Yes where it holds such a layer, no where all its parts are known."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Hashable, Iterable, Iterator

from detlint.conditions import Truth
from detlint.layers import Layer, load_layers
from detlint.linter.analysis.classes import ClassInfo
from detlint.linter.analysis.context import MISSING, Call
from detlint.linter.analysis.element_fills import put_in
from detlint.linter.analysis.element_sort import Move
from detlint.linter.analysis.elements import goes_through_own
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.written_calls import written_out
from detlint.linter.modes.fingerprints import fingerprint
from detlint.linter.modes.folding import constant, constant_of, reduced
from detlint.linter.modes.frames import Closure, Frame, constructors_of, frame_of_call
from detlint.linter.modes.given_parts import PART, keeps_given, takes_parts
from detlint.linter.modes.layer_names import from_torchvision_by_name, is_layer_by_name, may_make_a_layer
from detlint.linter.modes.live import live
from detlint.linter.modes.own_draws import draws_in_training
from detlint.linter.modes.rates import drops, drops_nothing, rate_of
from detlint.linter.modes.settled_parts import settled_parts
from detlint.linter.modes.switched_parts import values_of_parts
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
# How names of functions begin that may make a layer, or a whole model.
_MAKERS = ("from_", "create_", "build", "load", "get_", "instantiate")
# By a convention of Hugging Face, whoever's class it is: what these make is in eval mode.
FROM_PRETRAINED = ".from_pretrained"
# The method of Lightning's modules that makes one, in train mode.
LOADS_INSTANCE = "load_from_checkpoint"
# Models of torchvision in which nothing but norms depends on the mode.
_OF_NORMS = re.compile(r"torchvision\..*\b(wide_)?(resnet|resnext|regnet)")
_ANY_MODULE = {"torch.nn.Module.__call__"}
_FUNCTIONAL = frozenset(
    {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "batch_norm", "rrelu"}
)


class ModelParts:
    """Walks through the constructor of a model, its classes and the functions that make its layers.

    Functional dropout that is handed the mode counts as a layer where `functional`, unless its rate is 0. Of a model as
    it was `made`, parts that are put into eval mode on the way do not count, nor do those under the names `switched`.
    """

    def __init__(self, *, functional: bool = True, made: bool = False, switched: Collection[str] = ()) -> None:
        self._functional, self._made, self._switched = functional, made, switched
        self._settled: set[ast.AST] = set()  # what makes those
        self._seen: set[Hashable] = set()  # expressions, and bodies with what they are called with
        self._unknown = False

    def made_by(self, module: Module, call: ast.Call) -> Truth:
        """Does the model that `call` makes hold a layer that depends on the mode?"""
        self._settled.update(values_of_parts(module, call, self._switched))
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
        chosen = reduced(Closure(call.func, module, frame)) if frame is not None else None
        if chosen is not None and chosen.node is not call.func:
            found = self._chosen(chosen, module, call, frame)
            if found is not None:
                return found
        names = names_made(module, call)
        if from_torchvision_by_name(module, call):
            return True
        if set(names) <= _ANY_MODULE:
            dropping = drops(call, frame)
            if dropping and is_layer_by_name(module, call):
                return True
            self._unknown |= dropping or (
                not names and may_make_a_layer(call) and not _is_gone_through(module, call.func)
            )
        return any(self._named(name, module, call, frame) for name in names)

    def _chosen(self, chosen: Closure, module: Module, call: ast.Call, frame: Frame | None) -> bool | None:
        """`norm_layer(8)`, `LAYERS[kind](8)`, where the frame tells what is called; None where that is of no help."""
        made = chosen.node
        if isinstance(made, ast.Lambda):
            return self._body(chosen.module, made, Frame(made, call, frame, chosen.module, module))
        if isinstance(made, ast.Call) and identifier(made.func) == "partial" and made.args:
            settings = [ast.keyword(word.arg, _folded(chosen._replace(node=word.value))) for word in made.keywords]
            given = [_folded(chosen._replace(node=argument)) for argument in made.args[1:]]
            call = ast.copy_location(ast.Call(made.args[0], [*given, *call.args], [*call.keywords, *settings]), call)
            made = made.args[0]
        if not isinstance(made, (ast.Name, ast.Attribute)):
            return None
        if _is_gone_through(chosen.module, made):
            return False
        names = chosen.module.inference.resolve(made)
        if not names:
            return None
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
            holds = made.holds_for(_text(module, call, made.named)) and not _takes_other_norms(module, name, call)
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
        settled = (settled_parts(module, around, made=self._made) | self._settled) - {node}
        for part in live(node, None, settled):
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
        return self._body(module, found, frame_of_call(module, found, call, frame, at))

    def _class(self, info: ClassInfo, call: ast.Call | None, frame: Frame | None, at: Module | None = None) -> bool:
        inference = info.module.inference
        is_module = inference.is_module_class(info.name)  # the flag of a data set is not that of a model
        frames = constructors_of(inference.mro(info), call, frame, at)
        for ancestor in inference.mro(info):
            inner = frames.get(ancestor)
            if self._body(ancestor.module, ancestor.node, inner, without=called_to_make(ancestor) if inner else ()):
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

    def _body(self, module: Module, body: ast.AST, frame: Frame | None, without: Collection[ast.AST] = ()) -> bool:
        key = (body, fingerprint(frame) if frame is not None else None)
        if key in self._seen:
            return False
        if len(self._seen) > _MAX_PARTS:
            self._unknown = True
            return False
        self._seen.add(key)
        for part in live(body, frame, {*settled_parts(module, body, made=self._made), *self._settled, *without}):
            if isinstance(part, ast.Call):
                if self._call(module, part, frame):
                    return True
            elif self._is_given_layer(part, module, frame):
                return True
            elif isinstance(part, ast.Assign) and frame is not None and frame.call is None:
                self._unknown |= keeps_given(part, frame.function)
        return False

    def _is_given_layer(self, node: ast.AST, module: Module, frame: Frame | None = None) -> bool:
        """`norm_layer=nn.BatchNorm2d`: a layer's class that is given away, or a default that is taken."""
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            return False
        layers = (load_layers().layers.get(name) for name in module.inference.resolve(node))
        if not _is_handed_on(node, module) or not any(layer is not None and not layer.rate for layer in layers):
            return False
        return (
            frame is None
            or frame.call is None
            or module.index.parents.get(node) is not frame.function.args
            or any((given := frame.given(name)) is not None and given.node is node for name in frame.names())
        )

    def _is_on(self, layer: Layer, call: ast.Call, frame: Frame | None) -> bool:
        """A rate that cannot be told counts: people write dropout layers to drop."""
        if not layer.rate:
            return True
        if layer.stacked:
            count = Call(call, layer.call).argument(layer.stacked)
            if count.value is not None and constant(frame, count.value) == 1:
                return False
        argument = Call(call, layer.call).argument(layer.rate)
        if argument.value is None:
            return True
        rate = rate_of(frame, argument.value)
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


def _takes_other_norms(module: Module, name: str, call: ast.Call) -> bool:
    """`resnet18(norm_layer=FrozenBatchNorm2d)`: is a model, which holds norms alone, made with others?"""
    given = (keyword.value for keyword in call.keywords if keyword.arg == "norm_layer")
    names = {meant for value in given for meant in module.inference.resolve(value)}
    return bool(_OF_NORMS.search(name) and names) and not any(map(load_layers().layers.get, names))


def _is_known(name: str) -> bool:
    """Is it told of a function or class outside the project what it makes?"""
    table = load_layers()
    return name.startswith("torch.") or any(kind.get(name) for kind in (table.layers, table.models, table.steady))


def _folded(value: Closure) -> ast.expr:
    """Return the constant that an expression is in its frame, or itself."""
    known = constant_of(value)
    return value.node if known is MISSING else ast.copy_location(ast.Constant(known), value.node)  # type: ignore[arg-type]


def called_to_make(info: ClassInfo) -> set[ast.AST]:
    """Return the methods of a class that its constructor calls, and those that these call: they are read as called."""
    reached = [info.methods["__init__"]]
    for method in reached:  # grows on the way
        for part in walk(method):
            if isinstance(part, ast.Call) and is_own(part.func):
                called = info.methods.get(identifier(part.func))
                if called is not None and called not in reached:
                    reached.append(called)
    return {*reached[1:]}


def names_made(module: Module, call: ast.Call) -> tuple[str, ...]:
    """Return what a call makes: `LitNet.load_from_checkpoint(path)` makes an instance of the class."""
    loaded: tuple[str, ...] = ()
    if isinstance(call.func, ast.Attribute) and call.func.attr == LOADS_INSTANCE:
        loaded = tuple(filter(module.project.definition, module.inference.resolve(call.func.value)))
    return loaded or module.inference.callees(call)


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


def _is_gone_through(module: Module, called: ast.expr) -> bool:
    """`block(x)`, `block.attention.build_cache(8)`, in `for block in self.blocks:`: a layer that is there already."""
    while isinstance(called, ast.Attribute):
        called = called.value
    return goes_through_own(module, called)


def _is_plain_base(base: str) -> bool:
    return base in ("lightning.pytorch.LightningModule", "torch_geometric.nn.MessagePassing") or base.endswith("Mixin")


def parts_of(calls: Iterable[tuple[Module, ast.Call]], *, made: bool, switched: Collection[str] = ()) -> Truth:
    """Combine what several possible constructors say: yes if any holds such a layer, no if none of them can."""
    answers = {ModelParts(made=made, switched=switched).made_by(module, call) for module, call in calls}
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
