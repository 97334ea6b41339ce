"""Does a file put work on CUDA?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from detlint.linter.analysis.classes import QUIET_BASES
from detlint.linter.analysis.context import Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.program import calls_named
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import FUNCTIONS
from detlint.linter.source.nodes import identifier, is_own, walk
from detlint.randomness import load_sources

# Who seeds the generators of CUDA, picks one of its devices or makes a tensor there means to work on it.
_MEANS_CUDA = re.compile(r"^torch\.cuda\.(set_device|synchronize|manual_seed|manual_seed_all|\w+Tensor)$")
# Functions of a project that choose a device, perhaps among other settings.
_PREPARES = re.compile(r"device|gpu|cuda|config|setup|options|args", re.IGNORECASE)
# Names without which nothing in a file goes to a device.
_MOVING = frozenset({"device", "to", "fit", "prepare", "set_default_device", "set_default_tensor_type"})
_DEPTH = 2  # of calls inside of what a file calls
_FRAMEWORKS = frozenset(
    {
        "lightning.pytorch.Trainer",
        "lightning.pytorch.Trainer.from_argparse_args",
        "accelerate.Accelerator",
        "lightning.fabric.Fabric",
    }
)
# What keeps a framework on the CPU: an option of `Accelerator`, the others of transformers' `TrainingArguments`.
_ON_CPU = ("cpu", "use_cpu", "no_cuda")


def uses_cuda(ctx: Context) -> bool:
    """Return whether the file names a CUDA device, or hands the choice of one to a framework that prefers it."""
    index = ctx.module.index
    if any(_is_cuda(constant) and not _is_left_out(constant, ctx) for constant in index.of_type(ast.Constant)):
        return True
    if any(isinstance(call.func, ast.Attribute) for call in index.calls_by_name.get("cuda", ())):
        return True
    means = (node for node in _of_cuda(ctx) if any(map(_MEANS_CUDA.search, ctx.resolve(node))))
    if _is_set_to_cpu(ctx) or _moves_nothing(ctx):
        means = (node for node in means if "seed" not in node.attr)
    if any(not _is_left_out(node, ctx) for node in means):
        return True
    pickers = (call for name, calls in index.calls_by_name.items() if _may_pick(name) for call in calls)
    if any(_picks_cuda(call, ctx.module) for call in pickers):
        return True
    if _is_an_option(ctx) or _hands_on_gradients(ctx):
        return True
    if any(keyword.arg in _ON_CPU and ctx.constant(keyword.value) is True for keyword in index.of_type(ast.keyword)):
        return False
    if any(_is_placed(keyword, ctx) for keyword in index.of_type(ast.keyword)):
        return True
    known = _FRAMEWORKS | load_sources().trainers
    for call in calls_named(ctx.module, {name.rpartition(".")[2] for name in known}):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        on_cpu = ctx.constant(given.get("accelerator")) == "cpu" or ctx.constant(given.get("gpus")) == 0
        if not on_cpu and not set(map(ctx.inference.canonical, known)).isdisjoint(ctx.callees(call)):
            return True
    return False


def _is_placed(keyword: ast.keyword, ctx: Context) -> bool:
    """`from_pretrained(name, device_map="auto")` puts the parts of a model on the devices that there are."""
    return keyword.arg == "device_map" and ctx.constant(keyword.value) not in (None, "cpu")


def calls_for_cuda(module: Module) -> bool:
    """Return whether a file calls code of the project that names a CUDA device, whatever that is called."""
    return any(_picks_cuda(call, module) for calls in module.index.calls_by_name.values() for call in calls)


def _is_an_option(ctx: Context) -> bool:
    """`torch.device(config.device)`: who lets the user choose a device means that work may be done on CUDA."""
    made = (call for call in calls_named(ctx.module, ("device",)) if len(call.args) == 1 and not call.keywords)
    chosen = (call for call in made if isinstance(call.args[0], ast.Attribute) and not is_own(call.args[0]))
    return any("torch.device" in ctx.callees(call) for call in chosen)


def _hands_on_gradients(ctx: Context) -> bool:
    """`accelerator.prepare(model)` and `accelerator.backward(loss)`, of an accelerator that is made out of sight."""
    receivers = [
        {
            ast.unparse(call.func.value)
            for call in ctx.module.index.calls_by_name.get(name, ())
            if isinstance(call.func, ast.Attribute) and call.args
        }
        for name in ("prepare", "backward")
    ]
    return not receivers[0].isdisjoint(receivers[1])


def _is_set_to_cpu(ctx: Context) -> bool:
    """`device = "cpu"` at the top of a script, and nothing else: seeding CUDA beside it means nothing."""
    bindings = ctx.module.index.root.bindings.get("device", ())
    return bool(bindings) and all(getattr(binding.value, "value", None) == "cpu" for binding in bindings)


def _moves_nothing(ctx: Context) -> bool:
    """Does the file train, and name neither a device nor what moves to one? Then its seeds of CUDA are a habit."""
    return file_trains(ctx.module) and _MOVING.isdisjoint(ctx.module.index.names_used)


def _is_left_out(node: ast.AST, ctx: Context) -> bool:
    """`if device.startswith("cuda"): …`, `if device == "cuda": …` after `device = "cpu"`: never run.

    `assert device in ("cpu", "cuda")` says what a caller may choose, and chooses nothing.
    """
    child = node
    for parent in ctx.ancestors(node):
        if isinstance(parent, ast.Assert):
            return True
        if isinstance(parent, (ast.If, ast.IfExp)):
            orelse = parent.orelse if isinstance(parent.orelse, list) else [parent.orelse]
            names = (part for part in walk(parent.test) if isinstance(part, ast.Name))
            if child not in orelse and any(ctx.constant(name) == "cpu" for name in names):
                return True
        child = parent
    return False


def _of_cuda(ctx: Context) -> Iterator[ast.Attribute]:
    """Yield `torch.cuda.set_device` and the like: attributes of something that is called cuda."""
    for node in ctx.module.index.of_type(ast.Attribute):
        owner = node.value
        if identifier(owner) == "cuda":
            yield node


def _may_pick(name: str) -> bool:
    """May something of this name choose a device: `pick_device`, `parse_args`, a class?"""
    return name[:1].isupper() or _PREPARES.search(name) is not None


def _picks_cuda(call: ast.Call, module: Module, depth: int = _DEPTH) -> bool:
    """Does a call run code of the project that names a CUDA device, itself or through what it calls in turn?

    `device = pick_device()`, `args = Arguments()` with a field that says "cuda" unless it is set, or a trainer. What
    it is compared with, `assert device in ("cpu", "cuda")`, it may be given, and not by this call.
    """
    for name in module.inference.callees(call):
        definition = module.project.definition(name)
        if definition is None:
            continue
        owner, found = definition
        parts = [part for body in _may_run(found, owner, module) for part in walk(body)]
        named = {part for part in parts if isinstance(part, ast.Constant) and _is_cuda(part)}
        if named and named.difference(*(walk(test) for test in parts if isinstance(test, ast.Compare))):
            return True
        inner = (part for part in parts if isinstance(part, ast.Call) and _may_pick(identifier(part.func)))
        if depth and any(_picks_cuda(part, owner, depth - 1) for part in inner):
            return True
    return False


def _may_run(found: ast.AST, owner: Module, user: Module) -> Iterator[ast.AST]:
    """Yield what runs of a function or a class: not the methods that neither its own file nor `user` ever names.

    `net.to_cuda()` is there for whoever wants it.
    """
    if not isinstance(found, ast.ClassDef) or not QUIET_BASES.issuperset(_bases_outside(owner, found)):
        yield found  # a framework calls methods of what derives from its classes
        return
    for statement in found.body:
        name = statement.name if isinstance(statement, FUNCTIONS) else "__init__"
        if name == "forward" or name.startswith("__") or _is_named(name, owner) or _is_named(name, user):
            yield statement


def _bases_outside(module: Module, node: ast.ClassDef) -> tuple[str, ...]:
    return module.inference.external_bases(module.inference.class_info(node))


def _is_named(name: str, module: Module) -> bool:
    """Does code of a file name a method, but for methods of that name, which may only hand on: `self.net.to_cuda()`?"""
    around = map(module.index.function_at, module.index.names_used.get(name, ()))
    return any(function is None or function.name != name for function in around)


def named_device(node: ast.expr | None, ctx: Context, steps: int = 4) -> str:
    """Return the device that an expression always is: of `"meta"`, of `torch.device("cuda:0")`, also under a name."""
    known = ctx.constant(node)
    if isinstance(known, str):
        return known
    made = ctx.values(node) if node is not None and steps else ()
    device = made[0].node if len(made) == 1 else None
    if not isinstance(device, ast.Call) or not device.args:
        return ""
    where = ctx if made[0].module is None else ctx.elsewhere(made[0].module)
    return named_device(device.args[0], where, steps - 1) if "torch.device" in where.callees(device) else ""


def device_around(node: ast.AST, ctx: Context) -> str:
    """Return the device of `with torch.device("meta"):` around a node."""
    for parent in ctx.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            break
        for item in reversed(parent.items) if isinstance(parent, ast.With) else ():
            name = named_device(item.context_expr, ctx)
            if name:
                return name
    return ""


def moves_to_cuda(call: ast.Call) -> bool:
    """Return whether a call starts CUDA: `.cuda()`, `.to("cuda")`, `torch.zeros(3, device="cuda")`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    return any(_is_cuda(value) for value in _devices_of(call))


def may_move_to_cuda(call: ast.Call, ctx: Context) -> bool:
    """`.to(device)` after `device = "cuda" if torch.cuda.is_available() else "cpu"`."""
    return any(_may_be_cuda(value, ctx) for value in _devices_of(call))


def _devices_of(call: ast.Call) -> list[ast.expr]:
    """Return what may say to which device a call moves or where it makes a tensor."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    method = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
    return [*call.args, *named] if method or named else []


def _may_be_cuda(node: ast.expr, ctx: Context, steps: int = 4) -> bool:
    """`"cuda:0"`, `torch.device("cuda" if available else "cpu")`, also under a name, or as an attribute."""
    if is_own(node) and steps:
        kept = only_value(ctx.module, node)
        return kept is not None and _may_be_cuda(kept, ctx, steps - 1)
    if isinstance(node, ast.Name) and steps:
        found = ctx.module.definitions(node)
        value = found[0].value if len(found) == 1 and not found[0].index else None
        return value is not None and _may_be_cuda(value, ctx, steps - 1)
    if isinstance(node, ast.IfExp) and steps:
        return any(_may_be_cuda(branch, ctx, steps - 1) for branch in (node.body, node.orelse))
    if isinstance(node, ast.Call) and len(node.args) == 1 and identifier(node.func) == "device":
        return _may_be_cuda(node.args[0], ctx, steps - 1)
    return _is_cuda(node)


def _is_cuda(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (node.value == "cuda" or node.value.startswith("cuda:"))
    )
