"""Can a gradient flow through a call? Hazards of a backward pass only count where one can run."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.evaluation import evaluates, without_gradients
from detlint.linter.names import FunctionNode, parameters
from detlint.linter.nodes import walk
from detlint.linter.program import calls_named
from detlint.linter.training import trains
from detlint.linter.values import Kind, Value

if TYPE_CHECKING:
    from detlint.linter.context import Context

_MAX_STEPS = 6
# What these words name comes from files or is compared with predictions; nobody asks for its gradient.
_DATA = re.compile(
    r"(^|_)(images?|imgs?|pixel_values|frames?|videos?|masks?|labels?|targets?|gts?|ground_truth|heatmaps?|waveforms?|"
    r"wavs?|audios?|ids?|idx|index|indices|inds?|state_dict|adj|adjacency)(_|\d|$)",
    re.IGNORECASE,
)
_DATA_PACKAGES = re.compile(
    r"^(data|datasets?|data_\w+|loaders?|sampler|transforms|io|preprocess\w*|evaluation|metrics?|val|export\w*|plotting|"
    r"visuali[sz]\w*|inference|predictors?)$"
)
_CHANNELS = re.compile(
    r"^(num_in_ch|in_chans?|in_channels|input_nc|n_channels|num_channels|img_channels|image_channels)$"
)
_DATA_CLASSES = re.compile(r"(Dataset|DataModule|Transforms?|Processor|Augment\w*|Collat\w*|Resize|Loader|Evaluator)$")
# Decoding, sampling and scheduling run without gradients, whatever class they stand in.
_INFERRING_CLASSES = re.compile(r"(Search\w*|Scorer|Pipeline|Predictor|Scheduler)$")
_DATA_FUNCTIONS = re.compile(
    r"^_*(__getitem__|collate|pre_?process|post_?process|transform|load|read|visuali[sz]e|plot|draw|show|save|log_|augment|"
    r"(re)?(size|scale)_(image|mask|video)|checkpoint_filter|crop|generate|reorder|greedy|beam|permute_mem|\w+_beam)",
    re.IGNORECASE,
)
# Views and conversions: the result needs a gradient where the receiver does.
_THROUGH = frozenset(
    {
        "float",
        "half",
        "bfloat16",
        "to",
        "cuda",
        "cpu",
        "contiguous",
        "unsqueeze",
        "squeeze",
        "view",
        "reshape",
        "permute",
    }
    | {"transpose", "expand", "repeat", "clone", "flatten", "type", "type_as", "double"}
)
_CUTS = frozenset({"detach", "argmax", "argmin", "round", "bool", "long", "int", "byte", "sign", "numpy"})
_SOURCES = frozenset(
    f"torch.{name}"
    for name in (
        *(
            "from_numpy",
            "tensor",
            "as_tensor",
            "arange",
            "linspace",
            "zeros",
            "ones",
            "full",
            "rand",
            "randn",
            "randint",
        ),
        *("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "empty", "meshgrid", "eye", "bincount"),
        *("Tensor", "LongTensor", "BoolTensor", "load", "nn.functional.one_hot", "hann_window"),
    )
)
# A function with such a name gives what it reads from a file.
_READS = re.compile(r"^_*load_(?!.*(model|net|module|encoder|decoder))", re.IGNORECASE)
# The result needs a gradient only where the first argument, or one of the tensors it lists, does.
_PASSES_ON = frozenset(
    f"torch.{name}" for name in ("stack", "cat", "cumsum", "nn.functional.pad", "flip", "roll", "squeeze", "unsqueeze")
)


def can_need_gradient(call: ast.Call, tensor: ast.expr | None, ctx: Context) -> bool:
    """Return whether the backward pass of `call`, made on `tensor` (None: unknown), can run."""
    if any(keyword.arg == "out" for keyword in call.keywords):
        return False
    if _only_infers(call, ctx) or _is_cut_off(call, ctx):
        return False
    return tensor is None or not _is_data(tensor, ctx, _MAX_STEPS)


def _is_cut_off(node: ast.expr, ctx: Context, steps: int = 3) -> bool:
    """Return whether what comes out only goes through a detach, a comparison or an argmax."""
    parent = ctx.parent(node)
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, ast.Attribute):
        call = ctx.parent(parent)
        if parent.attr in _CUTS:
            return True
        called = isinstance(call, ast.Call) and call.func is parent
        through = parent.attr in _THROUGH or parent.attr in ("sigmoid", "softmax")
        return called and through and isinstance(call, ast.Call) and _is_cut_off(call, ctx, steps)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return _is_cut_off(parent, ctx, steps)
    if isinstance(parent, ast.Assign) and steps > 0:
        binding = ctx.binding(node)
        if binding is None or not isinstance(binding.node, ast.Name):
            return False
        uses = ctx.flow(node).uses(binding)
        return bool(uses) and all(_is_cut_off(use, ctx, steps - 1) for use in uses)
    return False


def _only_infers(node: ast.AST, ctx: Context, depth: int = 2) -> bool:
    """Return whether the code around `node` never takes part in training."""
    module = ctx.module
    if without_gradients(module, node):
        return True
    function = module.index.function_at(node)
    owner = module.index.class_at(node)
    if owner is not None and _handles_data(owner, ctx):
        return True
    if any(_DATA_PACKAGES.match(part) for part in module.name.split(".")):
        return True
    if function is None:
        return owner is None and ctx.program is not None and not trains(module.tree)
    if evaluates(function) or _DATA_FUNCTIONS.match(function.name):
        return True
    in_model = owner is not None and module.inference.is_module_class(module.qualified(owner))
    if not in_model and ctx.program is not None and not trains(module.tree):
        return True
    return depth > 0 and _callers_infer(function, ctx, depth)


def _handles_data(owner: ast.ClassDef, ctx: Context) -> bool:
    if _INFERRING_CLASSES.search(owner.name):
        return True
    bases = ctx.inference.external_bases(ctx.inference.class_info(owner))
    if ctx.inference.is_module_class(ctx.module.qualified(owner)):
        return False
    return bool(_DATA_CLASSES.search(owner.name)) or any(_DATA_CLASSES.search(base) for base in bases)


def _callers_infer(function: FunctionNode, ctx: Context, depth: int) -> bool:
    """Return whether the file calls a function, and only where nothing is trained."""
    if function.name == "forward":
        return False
    module = ctx.module
    qualified = module.qualified(function)
    callers = [
        call
        for call in calls_named(module, (function.name,))
        if qualified in module.inference.callees(call) and function not in module.index.ancestors(call)
    ]
    return bool(callers) and all(_only_infers(call, ctx, depth - 1) for call in callers)


def _is_data(node: ast.expr, ctx: Context, steps: int) -> bool:
    """Return whether a tensor is known to need no gradient: data, integers, something cut off by detach."""
    if steps == 0:
        return False
    if isinstance(node, ast.Subscript):
        return _is_data(node.value, ctx, steps - 1)
    if isinstance(node, ast.Attribute):
        return node.attr == "data" or bool(_DATA.search(node.attr)) or _is_buffer(node, ctx)
    if isinstance(node, (ast.Compare, ast.Constant)):
        return True
    if isinstance(node, ast.Call):
        return _call_is_data(node, ctx, steps)
    if isinstance(node, ast.BinOp):
        return _is_data(node.left, ctx, steps - 1) and _is_data(node.right, ctx, steps - 1)
    if isinstance(node, ast.IfExp):
        return _is_data(node.body, ctx, steps - 1) and _is_data(node.orelse, ctx, steps - 1)
    if isinstance(node, ast.Name):
        return _name_is_data(node, ctx, steps)
    return False


def _is_buffer(node: ast.Attribute, ctx: Context) -> bool:
    """Return whether `self.x` is registered as a buffer and set nowhere else in the class."""
    owner = ctx.module.index.class_at(node)
    if owner is None or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return False
    writes = ctx.inference.class_info(owner).attributes.get(node.attr, ())
    makers = [ctx.parent(write.value) for write in writes]
    return bool(makers) and all(
        isinstance(maker, ast.Call) and isinstance(maker.func, ast.Attribute) and maker.func.attr == "register_buffer"
        for maker in makers
    )


def _call_is_data(node: ast.Call, ctx: Context, steps: int) -> bool:
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    names = ctx.callees(node)
    if _SOURCES.intersection(names):
        trained = any(k.arg == "requires_grad" and ctx.constant(k.value) is not False for k in node.keywords)
        return not trained
    if method in _CUTS:
        return True
    if method in _THROUGH and isinstance(node.func, ast.Attribute):
        return _is_data(node.func.value, ctx, steps - 1)
    if any(_READS.match(name.rpartition(".")[2]) for name in names):
        return True
    if _PASSES_ON.intersection(names) and node.args:
        parts = node.args[0].elts if isinstance(node.args[0], (ast.List, ast.Tuple)) else [node.args[0]]
        return all(_is_data(part, ctx, steps - 1) for part in parts)
    own = isinstance(node.func, ast.Attribute) and not any(name.startswith("torch.") for name in names)
    if own and isinstance(node.func, ast.Attribute) and _is_data(node.func.value, ctx, steps - 1):
        return True  # gt_masks.to_tensor(…)
    return without_gradient_dtype(ctx.values(node))


def _name_is_data(node: ast.Name, ctx: Context, steps: int) -> bool:
    if without_gradient_dtype(ctx.values(node)):
        return True
    bindings = ctx.module.definitions(node)
    if not bindings:
        return False
    for binding in bindings:
        if binding.value is not None and not binding.index and not isinstance(binding.node, ast.arg):
            parent = ctx.parent(binding.node)
            if isinstance(parent, ast.Assign) and _is_data(binding.value, ctx, steps - 1):
                continue
            if _mentions(binding.value, node.id) and _DATA.search(node.id):
                continue
            return False
        if not _DATA.search(node.id) and not _is_network_input(binding.node, ctx):
            return False
    return True


def _is_network_input(parameter: ast.AST, ctx: Context) -> bool:
    """Return whether a parameter is the first one of the forward of a network that takes images."""
    function = ctx.parent(ctx.parent(parameter) or parameter)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or function.name != "forward":
        return False
    owner = ctx.module.index.class_at(function)
    return owner is not None and parameter in function.args.args[1:2] and _takes_images(owner, ctx)


def _takes_images(owner: ast.ClassDef, ctx: Context) -> bool:
    """Return whether a class says in its constructor that it starts from the channels of an image."""
    made = ctx.inference.class_info(owner).methods.get("__init__")
    if made is None:
        return False
    for argument, default in parameters(made.args):
        if _CHANNELS.match(argument.arg) and isinstance(default, ast.Constant) and default.value in (1, 3):
            return True
    calls = [node for node in walk(made) if isinstance(node, ast.Call) and node.args]
    names = {"torch.nn.Conv2d", "torch.nn.Conv3d"}
    return any(ctx.constant(call.args[0]) == 3 and names.intersection(ctx.callees(call)) for call in calls)


def without_gradient_dtype(values: tuple[Value, ...]) -> bool:
    """Return whether a tensor is known to hold integers or bools."""
    return bool(values) and all(value.kind is Kind.TENSOR and value.is_integral for value in values)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(child, ast.Name) and child.id == name for child in walk(node))
