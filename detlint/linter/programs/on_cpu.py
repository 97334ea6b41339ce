"""Does an operator run on the CPU, as far as the code around it shows? Hazards of CUDA kernels count nowhere there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import calls_of, is_used_elsewhere
from detlint.linter.analysis.calls import dtype_named
from detlint.linter.analysis.program import outermost_definition
from detlint.linter.analysis.stands_for import stands_for
from detlint.linter.analysis.testcode import is_unit_test, runs_own_tests
from detlint.linter.analysis.values import Kind
from detlint.linter.programs.data_code import prepares_data
from detlint.linter.programs.devices import calls_for_cuda, device_around
from detlint.linter.programs.off_cuda import is_off_cuda
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, unpacked
from detlint.linter.source.nodes import arguments_of, identifier, is_own

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# A name that says where a function runs.
_ON_CPU = re.compile(r"(^|_)cpu(_|$)")
# Longer texts tell people something.
_LONGEST_WORD = 40
_MOVES = frozenset({"to", "cuda", "type_as"})
_VIEWS = frozenset(
    {"view", "reshape", "flatten", "long", "float", "int", "double", "clone", "contiguous", "t", "transpose", "permute"}
    | {"squeeze", "unsqueeze", "expand", "expand_as", "repeat"}
)
_FROM_NUMPY = frozenset({"torch.from_numpy"})
# They make a tensor where the default device is, if none is named.
_FACTORIES = frozenset(
    f"torch.{name}"
    for name in ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "tensor", "zeros")
)
_OF_NUMBERS = frozenset({"torch.tensor"})
# They make one where another tensor is, if no device is named.
_LIKE = frozenset(f"torch.{name}_like" for name in ("empty", "full", "ones", "rand", "randint", "randn", "zeros"))
# Their targets and lengths may stay on the CPU; cuDNN even asks for that.
_MIXING = frozenset({"ctc_loss", "CTCLoss"})
_SETS_DEFAULT = ("set_default_device", "set_default_tensor_type")
# What says that a file may work on another device.
_DEVICES = frozenset({"cuda", "device", "devices", "get_device", "torch_device", "to", "set_default_device"})
_NAMES_DEVICE = re.compile(r"cuda|gpu|device")
# What puts a model and its batches onto a device by itself, or only matters on one.
_PLACING = re.compile(
    r"Trainer|Accelerator|Fabric|Lightning|idist|deepspeed|deterministic|cud|gpu|xpu|mps|device", re.IGNORECASE
)


def runs_on_cpu(call: ast.Call, tensor: ast.expr | None, operands: Iterable[ast.expr], ctx: Context) -> bool:
    """Return whether `tensor`, what `call` works on, or one of its other operands is on the CPU.

    One is enough: all but a few operators do not mix devices.
    """
    function = ctx.function(call)
    if function is not None and _ON_CPU.search(function.name):
        return True
    if _stays_on_cpu(tensor) or prepares_data(call, ctx) or _tests_on_cpu(ctx):
        return True
    here = _is_model_of_file(call, ctx) and (ctx.program is not None or _is_handed_to_nobody(call, ctx))
    if here and ctx.module.project.once(_trains_on_cpu, ctx.module):
        return not ctx.module.project.once(calls_for_cuda, ctx.module)
    if tensor is not None and _is_moved_to_cpu(tensor, ctx):
        return True
    operands = tuple(operands)
    if is_off_cuda(call, (tensor, *operands), ctx):
        return True
    mixes = identifier(call.func) in _MIXING
    if not mixes and any(_is_made_on_cpu(operand, ctx, _FROM_NUMPY | _FACTORIES) for operand in operands):
        return True
    made = tensor is not None and _is_made_on_cpu(tensor, ctx, _FROM_NUMPY | _FACTORIES)
    return made or _is_taken_on_cpu(call, tensor, ctx)


def is_only_built_with(function: FunctionNode, ctx: Context, calls: int = 3) -> bool:
    """`__init__`, and private functions that nothing but constructors of layers call, which still are on the CPU."""
    if function.name == "__init__":
        return True
    if not function.name.startswith("_") or function.name.startswith("__"):
        return False
    sites = list(calls_of(function, ctx)) if calls else []
    return bool(sites) and all(site is not None and _is_in_making(*site, calls) for site in sites)


def _is_in_making(ctx: Context, call: ast.Call, calls: int) -> bool:
    function, owner = ctx.function(call), ctx.module.index.class_at(call)
    if function is None or (owner is not None and not ctx.inference.is_module_class(ctx.module.qualified(owner))):
        return False
    return is_only_built_with(function, ctx, calls - 1)


def _tests_on_cpu(ctx: Context) -> bool:
    """Is the file a unit test that names no device? What it makes of numbers is on the CPU."""
    index = ctx.module.index
    if not _DEVICES.isdisjoint(index.names_used) or not (is_unit_test(ctx.module) or runs_own_tests(ctx.module)):
        return False
    words = (constant.value for constant in index.of_type(ast.Constant))
    return not any(isinstance(word, str) and _NAMES_DEVICE.search(word) for word in words)


def _trains_on_cpu(module: Module) -> bool:
    """Does a file make its training steps itself, and hold no name of a device or of what chooses one?"""
    index = module.index
    if not file_trains(module) or "to" in index.names_used:
        return False
    words = (constant.value for constant in index.of_type(ast.Constant))
    texts = (word for word in words if isinstance(word, str) and len(word) < _LONGEST_WORD)
    return not any(_PLACING.search(name) for name in (*index.names_used, *index.root.bindings, *texts))


def _is_model_of_file(call: ast.Call, ctx: Context) -> bool:
    """Does a call stand in a class that its own file makes something of, and no other file may put on a device?

    A layer may be made by a function of the file too, or where the file runs from top to bottom.
    """
    owner = outermost_definition(ctx.module, call)
    of_class = ctx.module.index.class_at(call) is not None
    if not of_class and not any(value.kind is Kind.MODULE for value in ctx.values(call)):
        return False
    if owner is None:
        statement = ctx.statement(call)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return not any(isinstance(target, ast.Name) and is_used_elsewhere(target.id, ctx) for target in targets)
    return owner.name in ctx.module.index.calls_by_name and not is_used_elsewhere(owner.name, ctx)


def _is_handed_to_nobody(call: ast.Call, ctx: Context) -> bool:
    """Is the model of a library made in functions of its file that keep it to themselves and train it?

    Nobody else can move it: it is no attribute, is not returned, and is given to no function of another file.
    """
    owner = outermost_definition(ctx.module, call)
    made = ctx.module.index.calls_by_name.get(owner.name, ()) if owner is not None else ()
    return bool(made) and all(_is_kept(each, ctx) for each in made)


def _is_kept(made: ast.Call, ctx: Context) -> bool:
    binding = ctx.binding(made) if isinstance(ctx.parent(made), ast.Assign) else None
    if binding is None or not isinstance(binding.scope.node, FUNCTIONS):
        return False
    return all(_is_own_use(use, ctx) for use in ctx.flow(made).uses(binding))


def _is_own_use(use: ast.expr, ctx: Context) -> bool:
    """`model(x)`, `model.train()`, `weights(model)` of a function of the file."""
    parent = ctx.parent(use)
    if isinstance(parent, ast.Attribute):
        return True
    if not isinstance(parent, ast.Call):
        return False
    found = map(ctx.module.project.definition, ctx.callees(parent))
    return parent.func is use or any(each is not None and each[0] is ctx.module for each in found)


def _is_made_on_cpu(operand: ast.expr, ctx: Context, makers: Set[str], steps: int = 4) -> bool:
    """`torch.from_numpy(rows)`, `torch.zeros(3)` with no device, `rows.cpu()`, `torch.zeros_like(rows)` of such a one.

    Also as a view or by name. A copy to a device is no view, and what numbers are read from is no tensor.
    """
    if isinstance(operand, ast.Name):
        made = [binding.value if binding.kind is BindingKind.ASSIGN else None for binding in _bindings(operand, ctx)]
        known = bool(made) and steps > 0
        return known and all(node is not None and _is_made_on_cpu(node, ctx, makers, steps - 1) for node in made)
    # What an object keeps moves with it.
    before = stands_for(operand, ctx) if steps and not isinstance(operand, ast.Attribute) else []
    if before:
        return all(not place and _is_made_on_cpu(made, inside, makers, steps - 1) for made, inside, place in before)
    if isinstance(operand, ast.BinOp):  # a number, which `torch.tensor` may be of, goes with any device
        makers -= _OF_NUMBERS
        return any(_is_made_on_cpu(side, ctx, makers, steps) for side in (operand.left, operand.right))
    if not isinstance(operand, ast.Call) or steps == 0:
        return False
    names = ctx.callees(operand)
    if not makers.isdisjoint(names):
        return not _FROM_NUMPY.isdisjoint(names) or _keeps_default_device(operand, ctx)
    if not _LIKE.isdisjoint(names):
        kept = operand.args and _keeps_default_device(operand, ctx)
        return bool(kept) and _is_made_on_cpu(operand.args[0], ctx, makers, steps - 1)
    function = operand.func
    if not isinstance(function, ast.Attribute):
        return False
    if _copies_to_cpu(operand, function, ctx):
        return True
    view = function.attr in _VIEWS or _only_converts(operand, function, ctx)
    return view and _is_made_on_cpu(function.value, ctx, makers, steps - 1)


def _bindings(name: ast.Name, ctx: Context) -> tuple[Binding, ...]:
    """Return what gives a variable of a function its value; what is set in place stays where it is."""
    found = ctx.module.definitions(name)
    return tuple(b for b in found if b.kind is not BindingKind.AUGMENTED) or found


def _keeps_default_device(made: ast.Call, ctx: Context) -> bool:
    """Does a call name no device, in a project that sets no other default?"""
    if any(keyword.arg in ("device", "out", None) for keyword in made.keywords) or device_around(made, ctx):
        return False
    searches = (ctx.module.project.search(word, ctx.module, 0) for word in _SETS_DEFAULT)
    return not any(name in ctx.module.index.names_used for name in _SETS_DEFAULT) and all(
        search is None or search.found is not None for search in searches
    )


def _is_taken_on_cpu(call: ast.Call, tensor: ast.expr | None, ctx: Context, steps: int = 3) -> bool:
    """`index_add(…).numpy()`, also by name and out of a function: what is on a device has to be copied back first."""
    in_place = isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_")
    if in_place and isinstance(tensor, ast.Name) and isinstance(ctx.parent(call), ast.Expr):
        uses = (use for binding in _bindings(tensor, ctx) for use in ctx.flow(tensor).uses(binding))
        return any(_ends_on_cpu(use, ctx, steps) for use in uses if use.lineno > call.lineno)
    return _ends_on_cpu(call, ctx, steps)


def _ends_on_cpu(node: ast.expr, ctx: Context, steps: int) -> bool:
    """Is a tensor made an array of NumPy, or added in place to a tensor of the CPU? Neither goes on from a device."""
    parent = ctx.parent(node)
    if isinstance(parent, ast.Attribute):
        method = ctx.parent(parent)
        if not isinstance(method, ast.Call) or method.func is not parent:
            return False
        if parent.attr == "numpy":
            return not method.args and not method.keywords  # `numpy(force=True)` copies from wherever it is
        return (parent.attr in _VIEWS or parent.attr == "detach") and _ends_on_cpu(method, ctx, steps)
    if isinstance(parent, ast.BinOp):
        return _ends_on_cpu(parent, ctx, steps)  # with what is beside it, which is no other device's
    if isinstance(parent, ast.AugAssign) and parent.value is node:
        return _is_kept_on_cpu(parent.target, ctx)
    binding = ctx.binding(node) if isinstance(parent, ast.Assign) and steps else None
    if binding is not None:
        return _is_used_on_cpu(binding, ctx, steps - 1)
    display = parent if isinstance(parent, ast.Tuple) else None
    returned = isinstance(ctx.parent(display) if display is not None else parent, ast.Return)
    function = ctx.function(node) if returned and steps else None
    if function is None or function.name == "forward":
        return False
    sites = list(calls_of(function, ctx))
    if display is None:
        return bool(sites) and all(site is not None and _ends_on_cpu(site[1], site[0], steps - 1) for site in sites)
    place = display.elts.index(node)
    return bool(sites) and all(site is not None and _part_ends_on_cpu(site[1], place, site[0], steps) for site in sites)


def _part_ends_on_cpu(call: ast.Call, place: int, ctx: Context, steps: int) -> bool:
    """`union` of `inter, union = areas(x, y)`."""
    statement = ctx.parent(call)
    unpacked_to = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(unpacked_to, ast.Tuple) or place >= len(unpacked_to.elts):
        return False
    target = unpacked_to.elts[place]
    named = ctx.module.index.bindings_of(target) if isinstance(target, ast.Name) else ()
    bound = [each for each in named if each.node is target]
    return len(bound) == 1 and _is_used_on_cpu(bound[0], ctx, steps - 1)


def _is_used_on_cpu(binding: Binding, ctx: Context, steps: int) -> bool:
    return any(_ends_on_cpu(use, ctx, steps) for use in ctx.flow(binding.node).uses(binding))


def _is_kept_on_cpu(total: ast.expr, ctx: Context) -> bool:
    """`total` after `total = torch.zeros(n)`, `self.total` that its class sets to such a tensor and to no other."""
    if isinstance(total, ast.Name):
        return _is_made_on_cpu(total, ctx, _FACTORIES)
    owner = ctx.module.index.class_at(total) if is_own(total) and isinstance(total, ast.Attribute) else None
    if owner is None or not isinstance(total, ast.Attribute):
        return False
    writes = ctx.inference.attribute_writes(ctx.inference.class_info(owner), total.attr)
    made = [write.value for cls, write in writes if cls.module is ctx.module]
    # What is registered moves with its module.
    return (
        bool(made)
        and all(isinstance(ctx.parent(value), ast.Assign) for value in made)
        and all(_is_made_on_cpu(value, ctx, _FACTORIES) for value in made)
    )


def _only_converts(call: ast.Call, function: ast.Attribute, ctx: Context) -> bool:
    """`rows.to(torch.float)`: another dtype on the same device."""
    dtypes = [dtype_named(ctx.inference, argument) for argument in call.args]
    return function.attr == "to" and not call.keywords and bool(dtypes) and all(dtypes)


def _copies_to_cpu(call: ast.Call, function: ast.Attribute, ctx: Context) -> bool:
    """`rows.cpu()`, `rows.to("cpu")`."""
    if function.attr in _MOVES:
        return any(ctx.constant(given) == "cpu" for given in arguments_of(call))
    return function.attr == "cpu"


def _is_moved_to_cpu(tensor: ast.expr, ctx: Context, steps: int = 4) -> bool:
    """`labels` of `labels = labels.cpu()`, `labels.view(-1)` of that: the last move of a tensor was to the CPU."""
    if isinstance(tensor, ast.Name):
        bindings = ctx.module.definitions(tensor) if steps else ()
        made = [_tensor_bound(binding) for binding in bindings]
        return bool(made) and all(node is not None and _is_moved_to_cpu(node, ctx, steps - 1) for node in made)
    before = stands_for(tensor, ctx) if steps and not isinstance(tensor, ast.Attribute) else []
    if before:
        return all(not place and _is_moved_to_cpu(made, inside, steps - 1) for made, inside, place in before)
    if isinstance(tensor, (ast.Subscript, ast.Attribute)):
        return _is_moved_to_cpu(tensor.value, ctx, steps)
    method = tensor.func if isinstance(tensor, ast.Call) else None
    if not isinstance(method, ast.Attribute) or not isinstance(tensor, ast.Call):
        return False
    if method.attr in _MOVES and not _only_converts(tensor, method, ctx):
        return _copies_to_cpu(tensor, method, ctx)
    return method.attr == "cpu" or _is_moved_to_cpu(method.value, ctx, steps)


def _tensor_bound(binding: Binding) -> ast.expr | None:
    """Return what a variable is set to; of `[first] = rows.cpu()`, the tensor that it is a row of."""
    if binding.kind is not BindingKind.ASSIGN:
        return None
    together = isinstance(binding.value, ast.Call) and len(binding.index) == 1
    return binding.value if together else unpacked(binding)


def _stays_on_cpu(node: ast.AST | None) -> bool:
    """`labels.cpu().float()`, `labels.to("cpu")`: moved there in the same expression, and by no choice of a device."""
    if node is None or isinstance(node, ast.IfExp):
        return False
    if isinstance(node, ast.Attribute) and node.attr in ("cpu", "numpy"):
        return True
    if isinstance(node, ast.Constant):
        return node.value == "cpu"
    return any(map(_stays_on_cpu, ast.iter_child_nodes(node)))
