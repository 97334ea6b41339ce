"""Can a gradient flow through a call? Hazards of a backward pass only count where one can run."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from detlint.linter.analysis.callers import AUTOGRAD_FUNCTIONS, calls_of, is_all_over
from detlint.linter.analysis.calls import functions_called, parameter_given
from detlint.linter.analysis.never_taken import is_switched_off
from detlint.linter.analysis.program import outermost_definition
from detlint.linter.gradients.branches import is_unrecorded
from detlint.linter.gradients.callees import computes
from detlint.linter.gradients.entered import is_entered_unrecorded
from detlint.linter.gradients.exported import is_exported
from detlint.linter.gradients.provenance import is_data, without_gradient_dtype
from detlint.linter.gradients.run_unrecorded import Part, is_only_run_unrecorded
from detlint.linter.gradients.sampling import runs_sampling_loop
from detlint.linter.gradients.served import is_made_with_weights, is_only_served
from detlint.linter.gradients.serving import serves
from detlint.linter.gradients.shown import defines_network, is_shown_to_train
from detlint.linter.gradients.turned_on import is_turned_on_to_infer
from detlint.linter.programs.data_code import in_data_module, prepares_data
from detlint.linter.programs.evaluation import computes_loss, evaluates
from detlint.linter.programs.gradients_off import is_given, runs_without_gradients, without_gradients
from detlint.linter.programs.step_calls import leads_to_training
from detlint.linter.programs.training import file_trains, guarded_by_mode, training_steps, trains
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode
from detlint.linter.source.nodes import arguments_of, decorating, identifier, is_own, walk
from detlint.linter.tables.gradients import gradient_table

if TYPE_CHECKING:
    from detlint.linter.analysis.context import Context
    from detlint.linter.analysis.module import Module

# Operators that are defined on bits and whole numbers, or whose derivative is zero everywhere.
_UNDIFFERENTIATED = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.FloorDiv)
_LISTED = (ast.ListComp, ast.GeneratorExp)
_INFERENCE = re.compile(r"\b(inference|predict(s|ion|or)?)\b|Predictor", re.IGNORECASE)
# Base classes of what measures a model.
_MEASURING = ("torchmetrics.",)


def can_need_gradient(call: ast.Call, tensor: ast.expr | None, ctx: Context) -> bool:
    """Return whether the backward pass of `call`, made on `tensor` (None: unknown), can run."""
    if any(keyword.arg == "out" for keyword in call.keywords):
        return False
    if _only_infers(call, ctx) or _is_cut_off(call, ctx) or not _leads_to_training(call, ctx):
        return False
    return tensor is None or not (is_unrecorded(call, ctx, tensor) or is_data(tensor, ctx))


def _is_cut_off(node: ast.expr, ctx: Context, steps: int = 6) -> bool:
    """Return whether what comes out only goes through a detach, a comparison or an argmax, or to code under no_grad."""
    table = gradient_table()
    parent = ctx.parent(node)
    if isinstance(parent, (ast.List, ast.Tuple)) and isinstance(ctx.parent(parent), ast.Call):
        node, parent = parent, ctx.parent(parent)  # torch.cat([first, rest])
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, ast.IfExp):
        return node is parent.test or _is_cut_off(parent, ctx, steps)
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, _UNDIFFERENTIATED) or _is_cut_off(parent, ctx, steps)
    if isinstance(parent, ast.keyword):
        result = ctx.parent(parent)
        return isinstance(result, ast.Call) and _is_inferred(result)
    if isinstance(parent, ast.Call) and node in parent.args:
        if node is parent.args[0] and "torch.autograd.grad" in ctx.callees(parent):
            return False  # the backward pass runs from there
        if _takes_numbers_alone(parent, ctx) or runs_without_gradients(ctx.module, parent) or _is_inferred(parent):
            return True
        names = ctx.callees(parent)
        if names and all(map(computes, names)):
            return _is_cut_off(parent, ctx, steps)
        return steps > 0 and _is_cut_off_inside(parent, node, ctx, steps - 1)
    if isinstance(parent, ast.Attribute):
        call = ctx.parent(parent)
        if parent.attr in table.cutting_methods or parent.attr in table.cutting_attributes:
            return True
        if table.positions.search(parent.attr):
            return True  # knn_points(x, y).idx
        if not isinstance(call, ast.Call) or call.func is not parent:
            return False
        if without_gradient_dtype(ctx.values(call)):
            return True  # lengths.cumsum(0, dtype=torch.int32)
        return parent.attr in table.of_receiver_methods and _is_cut_off(call, ctx, steps)
    if _is_index(node, ctx):
        return True
    if isinstance(parent, ast.Subscript):
        return _is_cut_off(parent, ctx, steps)
    if isinstance(parent, ast.comprehension):  # row of `torch.stack([row.sum() for row in distances]).argmin()`
        listed = ctx.parent(parent)
        return parent.iter is node and isinstance(listed, _LISTED) and _is_cut_off(listed, ctx, steps)
    if isinstance(parent, _LISTED):
        return _is_cut_off(parent, ctx, steps)
    if isinstance(parent, ast.AugAssign) and _is_out_of_history(parent.target):
        return True
    if isinstance(parent, ast.Assign) and any(_is_out_of_history(target) for target in parent.targets):
        return True
    if isinstance(parent, (ast.Assign, ast.Tuple)) and steps > 0:
        bindings = _bound(node, ctx)
        return bool(bindings) and all(_is_variable_cut_off(binding, node, ctx, steps) for binding in bindings)
    if isinstance(parent, ast.Return) and steps > 0:
        function = ctx.function(node)
        sites = list(calls_of(function, ctx)) if function is not None and function.name != "forward" else []
        return bool(sites) and all(site is not None and _is_cut_off(site[1], site[0], steps - 1) for site in sites)
    return False


def _is_cut_off_inside(call: ast.Call, node: ast.expr, ctx: Context, steps: int) -> bool:
    """Is what a function of the project is given cut off by that, or where the function gives it back?"""
    found = list(functions_called(ctx.inference, call))
    for place, function in found:
        name = parameter_given(function, call, node, skip_self=True)
        bindings = place.index.scopes[function].bindings.get(name or "", [])
        given = [binding for binding in bindings if binding.kind is BindingKind.PARAMETER]
        inside = ctx.elsewhere(place)
        if not given or not _is_variable_cut_off(given[0], function.body[0], inside, steps):
            return False
    return bool(found)


def _bound(node: ast.expr, ctx: Context) -> list[Binding]:
    """Return the variables that an expression is assigned to, all of them of `distances, places = knn_points(x, y)`."""
    single = ctx.binding(node)
    if single is not None:
        return [single]
    statement = ctx.parent(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    parts = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else []
    names = [part for part in parts if isinstance(part, ast.Name)]
    found = [b for name in names for b in ctx.module.index.bindings_of(name) if b.node is name]
    return found if len(names) == len(parts) else []


def _is_variable_cut_off(binding: Binding, made: ast.AST, ctx: Context, steps: int) -> bool:
    """Does a variable hold positions, as its name says or its use as an index; or is each of its uses cut off?

    What is added to it in place leaves it what it is: `corners += offsets`. A part of a tuple may go unused.
    """
    flow = ctx.flow(made)
    same = [binding]
    for other in binding.of_same_name:
        place = other.node if other.kind is BindingKind.AUGMENTED else None
        if isinstance(place, ast.Name) and not set(same).isdisjoint(flow.definitions(place)):
            same.append(other)
    uses = [use for each in same for use in flow.uses(each)]
    if gradient_table().positions.search(binding.name) or any(_is_index(use, ctx) for use in uses):
        return True
    return bool(uses or binding.index) and all(
        without_gradients(ctx.module, use) or _is_cut_off(use, ctx, steps - 1) for use in uses
    )


def _is_index(node: ast.expr, ctx: Context) -> bool:
    """`points[corners]`, `table[rows.gather(0, last), 1]`: whole numbers and bools stand there."""
    parent = ctx.parent(node)
    place = parent if isinstance(parent, ast.Tuple) else node
    around = ctx.parent(place)
    return isinstance(around, ast.Subscript) and around.slice is place


def _is_inferred(call: ast.Call) -> bool:
    """`InferenceBatch(anomaly_map=…)`: what a class of that name holds is for whoever infers."""
    name = identifier(call.func)
    return name[:1].isupper() and name.startswith("Inference")


def _takes_numbers_alone(call: ast.Call, ctx: Context) -> bool:
    """Does a call leave the history of its argument behind: `nn.Parameter(x)`, `weight.grad.data.add_(x)`?"""
    table = gradient_table()
    if not (table.cutting_functions | table.leaf_functions).isdisjoint(ctx.callees(call)):
        return True
    function = call.func
    return isinstance(function, ast.Attribute) and function.attr.endswith("_") and _is_out_of_history(function.value)


def _is_out_of_history(node: ast.expr) -> bool:
    """`weight.data`, `weight.grad`, `weight.grad.data[rows]`: nothing that is written there is recorded."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr in ("data", "grad")


def _only_infers(node: ast.AST, ctx: Context, depth: int = 3) -> bool:
    """Return whether the code around `node` never takes part in training."""
    table = gradient_table()
    module = ctx.module
    if without_gradients(module, node) or is_unrecorded(node, ctx):
        return True
    function = module.index.function_at(node)
    owner = module.index.class_at(node)
    in_model = owner is not None and module.inference.is_module_class(module.qualified(owner))
    if owner is not None and _never_records(owner, in_model, ctx):
        return True
    if prepares_data(node, ctx) or in_data_module(node, ctx):
        return True
    if owner is not None and in_model and is_made_with_weights(module, owner):
        return True
    if (
        runs_trained_models(module)
        or module.project.once(_refuses_training, module)
        or _is_said_to_infer(module, node)
        or (owner is not None and _refuses_forward(owner))
    ):
        return True
    if function is None:
        return owner is None and ctx.program is not None and not module.project.once(leads_to_training, module)
    if not in_model and _switches_to_eval(function, node, owner, ctx):
        return True
    prepares = table.data_functions.match(function.name) and not _generates_in_training(function, owner, ctx)
    if (evaluates(function) and not _is_part_of_forward(function, owner, ctx)) or prepares:
        return True
    if runs_sampling_loop(function, ctx) and not _is_called_in_training(function, ctx):
        return True
    if _differentiates(function, ctx):
        return True
    given = function.name == "forward"  # to some class
    if not (in_model or given) and _is_of_program(ctx) and not module.project.once(leads_to_training, module):
        return True
    outermost = outermost_definition(module, node)
    if outermost is not None and module.project.once(is_only_served, (module, outermost)):
        return True
    if is_turned_on_to_infer(node, ctx) or is_exported(node, ctx):
        return True
    if function.name == "forward":
        return owner is not None and in_model and module.project.once(is_only_run_unrecorded, Part(owner, ctx))
    return depth > 0 and _callers_infer(function, ctx, depth)


def _is_of_program(ctx: Context) -> bool:
    """Does the file execute something, or does it stand where command lines find it: `package/cli/convert.py`?"""
    commands = gradient_table().command_modules
    return ctx.program is not None or any(map(commands.match, ctx.module.name.split(".")))


def _switches_to_eval(function: FunctionNode, node: ast.AST, owner: ast.ClassDef | None, ctx: Context) -> bool:
    """`model.eval()` before, in a file that trains nothing, and no loss: who measures or shows a model does so.

    So does an object that switches a model of its own, in whatever method. A class with a base out of sight may be
    trained by that.
    """
    module = ctx.module
    if file_trains(module) or computes_loss(module, node):
        return False
    if owner is not None and ctx.inference.external_bases(ctx.inference.class_info(owner)):
        return False
    evals = module.index.calls_by_name.get("eval", ())
    trains_off = (call for call in module.index.calls_by_name.get("train", ()) if is_given(call, False))
    return any(
        isinstance(call.func, ast.Attribute)
        and not (call.func.attr == "eval" and arguments_of(call))
        and identifier(call.func.value) != "self"
        and (_holds_model(owner, call, module) or _is_run_after(call, function, node, module))
        for call in (*evals, *trains_off)
    )


def _holds_model(owner: ast.ClassDef | None, switch: ast.Call, module: Module) -> bool:
    """`self.model.eval()` in a method of the class."""
    assert isinstance(switch.func, ast.Attribute)
    return owner is not None and is_own(switch.func.value) and module.index.class_at(switch) is owner


def _is_run_after(switch: ast.Call, function: FunctionNode, node: ast.AST, module: Module) -> bool:
    return module.index.function_at(switch) is function and _comes_first(module.index.statement(switch), node, module)


def _comes_first(switch: ast.stmt, node: ast.AST, module: Module) -> bool:
    """Does a statement run whenever `node` does, and before it?"""
    around = module.index.parents[switch]
    return getattr(node, "lineno", 0) > switch.lineno and around in module.index.ancestors(node)


def _is_said_to_infer(module: Module, node: ast.AST) -> bool:
    """Does a text on what stands around say so before its first empty line: `Inference-only decoder.`?"""
    for around in (node, *module.index.ancestors(node)):
        if isinstance(around, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            text = ast.get_docstring(around) or ""
            if gradient_table().inferring_texts.search(" ".join(text.partition("\n\n")[0].split())):
                return True
    return False


def _refuses_training(module: Module) -> bool:
    """`if labels is not None: raise ValueError("This is not trainable")`, in a file where nothing computes a loss."""
    parts = (part for error in module.index.of_type(ast.Raise) for part in walk(error))
    texts = (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    refuses = any(map(gradient_table().refusing_texts.search, texts))
    return refuses and not any("loss" in name.lower() for name in module.index.calls_by_name)


def _refuses_forward(owner: ast.ClassDef) -> bool:
    """`def forward(self, x): raise NotImplementedError("use the methods of VideoPredictor for inference")`."""
    methods = (part for part in owner.body if isinstance(part, FUNCTIONS) and part.name == "forward")
    last = next((method.body[-1] for method in methods), None)
    texts = [part.value for part in walk(last) if isinstance(part, ast.Constant)] if isinstance(last, ast.Raise) else []
    return any(_INFERENCE.search(text) for text in texts if isinstance(text, str))


def runs_trained_models(module: Module) -> bool:
    """Does the path of a file say that it infers, or the project around it that it trains nothing?"""
    table, parts = gradient_table(), module.name.split(".")
    if any(map(table.inferring_modules.match, parts)):
        return True
    role = any(map(table.inferring_roles.match, parts))
    return (role and not module.project.once(defines_network, module)) or serves(module)


def _is_part_of_forward(function: FunctionNode, owner: ast.ClassDef | None, ctx: Context) -> bool:
    """Is it a step of `forward`, whatever its name: `self.predict_flow(x)` there, and in no mode alone?"""
    methods = (part for part in owner.body if isinstance(part, FUNCTIONS)) if owner is not None else ()
    forward = next((method for method in methods if method.name == "forward"), None)
    return forward is not None and any(
        ctx.function(call) is forward and is_own(call.func) and not guarded_by_mode(ctx.module, call)
        for call in ctx.module.index.calls_by_name.get(function.name, ())
    )


def _generates_in_training(function: FunctionNode, owner: ast.ClassDef | None, ctx: Context) -> bool:
    """`generate_images_pred` of a trainer is a part of its forward pass, `generate` of a model is not.

    So is a function of a program that only its training calls; what makes data (`generate_masks`) is none.
    """
    if not function.name.startswith("generate_"):
        return False
    if owner is not None:
        return bool(training_steps(owner))
    sites = list(calls_of(function, ctx))
    made = function.name.removeprefix("generate_")
    return (
        bool(sites)
        and not gradient_table().names_data(made)
        and all(site is not None and _is_in_training(site[1], site[0]) for site in sites)
    )


def _is_called_in_training(function: FunctionNode, ctx: Context) -> bool:
    return any(site is not None and _is_in_training(site[1], site[0]) for site in calls_of(function, ctx))


def _is_in_training(call: ast.Call, ctx: Context) -> bool:
    around = outermost_definition(ctx.module, call)
    return around is not None and bool(training_steps(around)) and not without_gradients(ctx.module, call)


def _never_records(owner: ast.ClassDef, is_layer: bool, ctx: Context) -> bool:
    """Does a class only search, sample, measure or run without gradients, or is it a derivative written by hand?"""
    table = gradient_table()
    if table.inferring_classes.search(owner.name) or (not is_layer and table.inferring_objects.search(owner.name)):
        return True
    info = ctx.inference.class_info(owner)
    if is_layer and ctx.module.project.once(is_entered_unrecorded, info):
        return True
    bases = ctx.inference.external_bases(info)
    return any(base in AUTOGRAD_FUNCTIONS or base.startswith(_MEASURING) for base in bases)


def _differentiates(function: FunctionNode, ctx: Context) -> bool:
    """Is a function a derivative written by hand, or the body of an operator that brings its own?"""
    table = gradient_table()
    names = (name for decorator in function.decorator_list for name in ctx.resolve(decorating(decorator)))
    if any(name in table.unrecorded_decorators for name in names):
        return True
    return table.derivatives.search(function.name) is not None and not trains(function)


def _callers_infer(function: FunctionNode, ctx: Context, depth: int) -> bool:
    """Return whether the project calls a function, and only where nothing is trained, or in branches never taken."""
    called = False
    for site in calls_of(function, ctx):
        if site is None:
            return False
        if not is_switched_off(site[1], site[0]) and not _only_infers(site[1], site[0], depth - 1):
            return False
        called = True
    return called


def _leads_to_training(node: ast.AST, ctx: Context, depth: int = 3) -> bool:
    """Does code show that it trains, or a caller of its function?

    What nobody calls is there for whoever imports it, and what is called all over is there for every layer.
    """
    functions = [part for part in ctx.module.index.ancestors(node) if isinstance(part, FUNCTIONS)]
    if not functions or is_shown_to_train(node, ctx) or is_all_over(functions[-1], ctx):
        return True
    sites = list(calls_of(functions[-1], ctx))
    known = [site for site in sites if site is not None]
    if not sites or depth == 0:
        return not sites
    if not known and functions[-1].name == "__call__":
        return True  # an object that is handed on, wherever it is called
    return any(
        not _only_infers(call, inside, 1) and _leads_to_training(call, inside, depth - 1) for inside, call in known
    )
