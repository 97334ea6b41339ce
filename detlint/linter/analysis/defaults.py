"""What does a setting come to when the user chooses nothing? Defaults of parameters and command-line options."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from detlint.conditions import Truth
from detlint.linter.analysis.context import MISSING, Context
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.options import added, decorated, default_of_option, fields
from detlint.linter.analysis.origins import passed
from detlint.linter.analysis.unsaid import Found, default_of_field, kept, only_definition, stand_in
from detlint.linter.analysis.values import Kind, Value
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own

_DEPTH = 4
_DECLARING = 6  # files that mention a setting: what more of them mention is no one setting


def may_be_none(node: ast.expr, ctx: Context) -> bool:
    """Is there a path on which the file itself makes this None? What a caller passes is the caller's business.

    So is `make(seed) if seed is not None else None`, where the seed is there unless a caller says otherwise.
    """
    return any(
        value.kind is Kind.NONE
        and isinstance(value.node, ast.Constant)
        and value.module is ctx.module
        and not _is_asked_for(value.node, ctx)
        for value in ctx.values(node)
    )


def _is_asked_for(absent: ast.Constant, ctx: Context) -> bool:
    around = ctx.parent(absent)
    if not isinstance(around, ast.IfExp):
        return False
    return truth_by_default(around.test, ctx) is (Truth.YES if around.orelse is absent else Truth.NO)


def truth_by_default(node: ast.expr, ctx: Context, depth: int = 0) -> Truth:
    """Is a setting on (yes) or off (no) when nobody says anything, or can that not be told?

    A parameter is on where its default is, or where a call in the file turns it on; an attribute of parsed arguments
    or settings is what it is declared with; there is a GPU.
    """
    known = ctx.truth(node)
    if known is not Truth.UNKNOWN or depth > _DEPTH:
        return known
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~truth_by_default(node.operand, ctx, depth + 1)
    if isinstance(node, ast.BoolOp):
        return _all_or_any(node, ctx, depth)
    if isinstance(node, ast.Name):
        return _parameter(node, ctx, depth)
    if isinstance(node, ast.Attribute):
        return _kept(node, ctx) if is_own(node) else _truth_of(_declared(node.attr, ctx))
    if isinstance(node, ast.Subscript):
        return _truth_of(_declared(_option_read(node), ctx))
    if isinstance(node, ast.IfExp):
        return _chosen(node, ctx, depth)
    if isinstance(node, ast.Compare):
        there = _is_there(node, ctx)
        return _is_device(node, ctx) if there is Truth.UNKNOWN else there
    return _asked(node, ctx, depth) if isinstance(node, ast.Call) else Truth.UNKNOWN


def _chosen(node: ast.IfExp, ctx: Context, depth: int) -> Truth:
    test = truth_by_default(node.test, ctx, depth + 1)
    if test is Truth.UNKNOWN:
        return Truth.UNKNOWN
    return truth_by_default(node.body if test is Truth.YES else node.orelse, ctx, depth + 1)


def _asked(call: ast.Call, ctx: Context, depth: int) -> Truth:
    """`options.get("benchmark", True)`, `getattr(cfg, "benchmark", True)`, `bool(benchmark)`, `isinstance(b, bool)`."""
    names = ctx.callees(call)
    if "torch.cuda.is_available" in names:
        return Truth.YES
    if isinstance(call.func, ast.Attribute) and call.func.attr == "startswith" and len(call.args) == 1:
        return _is_called_so(call.func.value, call.args[0], ctx)
    other = call.args[0] if "builtins.bool" in names and len(call.args) == 1 else stand_in(call)
    if other is not None:
        return truth_by_default(other, ctx, depth + 1)
    if identifier(call.func) != "isinstance" or len(call.args) != 2 or "builtins.bool" not in ctx.resolve(call.args[1]):
        return Truth.UNKNOWN
    default = default_value(call.args[0], ctx)
    return Truth.UNKNOWN if default is MISSING else Truth.of(isinstance(default, bool))


def _is_there(test: ast.Compare, ctx: Context) -> Truth:
    """`benchmark is not None`, where it is a parameter with a default."""
    default, other = default_value(test.left, ctx), test.comparators[0]
    if default is MISSING or len(test.ops) != 1 or not isinstance(other, ast.Constant) or other.value is not None:
        return Truth.UNKNOWN
    if isinstance(test.ops[0], ast.Is):
        return Truth.of(default is None)
    return Truth.of(default is not None) if isinstance(test.ops[0], ast.IsNot) else Truth.UNKNOWN


def _is_device(test: ast.Compare, ctx: Context) -> Truth:
    """`args.device == "cuda"`, `device.type != "cpu"`, `"cuda" in device`."""
    left, right = test.left, test.comparators[0]
    name, device = (left, right) if isinstance(left, ast.Constant) else (right, left)
    so = _is_called_so(device, name, ctx) if len(test.ops) == 1 else Truth.UNKNOWN
    if isinstance(test.ops[0], ast.NotEq):
        return ~so
    return so if isinstance(test.ops[0], (ast.Eq, ast.In)) else Truth.UNKNOWN


def _is_called_so(device: ast.expr, name: ast.expr, ctx: Context) -> Truth:
    """Is a device the GPU, or the CPU, as it is asked? It is a GPU unless it is the CPU by default."""
    asked = ctx.constant(name)
    if asked not in ("cuda", "cpu") or "device" not in ast.unparse(device):
        return Truth.UNKNOWN
    whole = device.value if isinstance(device, ast.Attribute) and device.attr == "type" else device
    default = default_value(whole, ctx)
    return Truth.of((asked == "cuda") is not (isinstance(default, str) and default.startswith("cpu")))


def default_value(node: ast.expr, ctx: Context) -> object:
    """Return the literal that a parameter or an option is by default, or a field of the one class that has it.

    MISSING of anything else.
    """
    read = _option_read(node)
    if read:
        declared = _declared(read, ctx)
        return declared[0] if len({*map(repr, declared)}) == 1 else MISSING
    bindings = ctx.module.definitions(node) if isinstance(node, ast.Name) else ()
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.PARAMETER:
        return MISSING
    return ctx.constant(bindings[0].value)


def _option_read(node: ast.expr) -> str:
    """Return the `seed` of `args.seed`, and of `args["seed"]` after `args = vars(args)`."""
    if isinstance(node, ast.Attribute):
        return "" if is_own(node) else node.attr
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _kept(node: ast.Attribute, ctx: Context) -> Truth:
    """`self.benchmark`, which a constructor takes over from a parameter with a default."""
    answers = {ctx.truth(default_of(value)) for value in ctx.values(node)}
    return answers.pop() if len(answers) == 1 else Truth.UNKNOWN


def default_of(value: Value) -> ast.expr | None:
    """Return the default of the parameter that a value comes from; None where it has none, or comes from elsewhere."""
    if not isinstance(value.node, ast.arg) or value.module is None:
        return None
    parents = value.module.index.parents
    function = parents.get(parents.get(value.node, value.node))
    if not isinstance(function, FUNCTIONS):
        return None
    return next((default for argument, default in parameters(function.args) if argument is value.node), None)


def text_by_default(node: ast.expr, ctx: Context, depth: int = 0) -> str:
    """Return the string that a setting is when nobody says anything; nothing where that is no string or cannot be told.

    It may be one of several that an option takes: `backend, mode = args.compile_args`.
    """
    known = ctx.constant(node)
    if isinstance(known, str) or depth > _DEPTH:
        return known if isinstance(known, str) else ""
    other = stand_in(node)
    if other is not None:
        return text_by_default(other, ctx, depth + 1)
    if isinstance(node, ast.Attribute):
        held = kept(node, ctx)
        if held is not None:
            return text_by_default(*held, depth + 1)
        return "" if is_own(node) else _only_text(_declared(node.attr, ctx))
    binding = only_definition(node, ctx) if isinstance(node, ast.Name) else None
    if binding is None or binding.kind not in (BindingKind.ASSIGN, BindingKind.PARAMETER):
        return ""
    function = binding.scope.node
    if binding.kind is BindingKind.PARAMETER and isinstance(function, FUNCTIONS):
        default = _default_of(binding, function)
        given = [each.node for each in passed(ctx.module, function, binding.name, (ctx.module,))]
        return _only_text([text_by_default(each, ctx, depth + 1) for each in ([default] if default else given)])
    value = binding.value
    if value is None:
        return ""
    if not binding.index:
        return text_by_default(value, ctx, depth + 1)
    place = binding.index[-1]
    is_one_of_them = len(binding.index) == 1 and place >= 0
    if not isinstance(value, ast.Attribute) or is_own(value) or not is_one_of_them:
        return ""
    listed = [
        default for default in _option_defaults(value.attr, ctx.module) if isinstance(default, (ast.List, ast.Tuple))
    ]
    return _only_text([ctx.constant(default.elts[place]) for default in listed if place < len(default.elts)])


def _only_text(declared: Sequence[object]) -> str:
    only = declared[0] if len({*map(repr, declared)}) == 1 else None
    return only if isinstance(only, str) else ""


def _all_or_any(node: ast.BoolOp, ctx: Context, depth: int) -> Truth:
    truths = [truth_by_default(value, ctx, depth + 1) for value in node.values]
    decisive = Truth.NO if isinstance(node.op, ast.And) else Truth.YES
    if decisive in truths:
        return decisive
    return Truth.UNKNOWN if Truth.UNKNOWN in truths else ~decisive


def _parameter(node: ast.Name, ctx: Context, depth: int) -> Truth:
    answers: list[Truth] = []
    for binding in ctx.module.definitions(node):
        if binding.kind is BindingKind.ASSIGN and binding.value is not None and not binding.index:
            answers.append(truth_by_default(binding.value, ctx, depth + 1))
        elif binding.kind is BindingKind.PARAMETER and isinstance(binding.scope.node, FUNCTIONS):
            given = [each.node for each in passed(ctx.module, binding.scope.node, binding.name, (ctx.module,))]
            on = any(ctx.truth(value) is Truth.YES for value in given)
            default = _default_of(binding, binding.scope.node)
            asked = given if default is None else [default]
            answers += [Truth.YES] if on else [truth_by_default(value, ctx, depth + 1) for value in asked]
        else:
            answers.append(Truth.UNKNOWN)
    return answers[0] if len(set(answers)) == 1 else Truth.UNKNOWN


def _default_of(binding: Binding, function: FunctionNode) -> ast.expr | None:
    """Return what a parameter is by default, the option of a command line that it stands for included."""
    option = binding.value if binding.value is not None else decorated(function, binding.name)
    if isinstance(option, ast.Call) and identifier(option.func) in ("option", "Option"):
        return default_of_option(option)
    return option


def declarations(name: str, ctx: Context) -> list[Found | None]:
    """Return what `args.name` is by default, with the files that say so; None where one says that there is no default.

    By the options of the file itself, of which a parser keeps to the first, or by all that the project declares.
    """
    own = _option_defaults(name, ctx.module)[:1]
    if own:
        return [(default, ctx) if default is not None else None for default in own]
    return [
        (default, ctx.elsewhere(place)) if default is not None else None
        for place in _declaring(name, ctx.module)
        for default in (*_option_defaults(name, place), *map(default_of_field, fields(name, place)))
    ]


def _declared(name: str, ctx: Context) -> list[object]:
    """Return the same as literals, MISSING where one cannot be told."""
    return [found[1].constant(found[0]) if found is not None else None for found in declarations(name, ctx)]


def _truth_of(declared: Sequence[object]) -> Truth:
    truths = {Truth.of(value) if isinstance(value, bool) else Truth.UNKNOWN for value in declared}
    return truths.pop() if len(truths) == 1 else Truth.UNKNOWN


def _declaring(name: str, module: Module) -> Iterable[Module]:
    """Return the file itself, a notebook too, and those of the project that mention a setting."""
    search = module.project.search(name, module, _DECLARING)
    others = map(module.project.at, search.found or ()) if search is not None else ()
    return dict.fromkeys((module, *others))


def _option_defaults(name: str, module: Module) -> list[ast.expr | None]:
    """Return the defaults that a file declares for `args.name`."""
    return [default_of_option(option) for option in added(name, module)]
