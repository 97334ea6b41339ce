"""How precise can a value be? The coarsest dtype that its computation went through, as far as that is written out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from detlint.linter.analysis.calls import argument_of, dtype_named
from detlint.linter.analysis.fixtures import conftests
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.only_values import only_value
from detlint.linter.analysis.parametrized import given_in_turn
from detlint.linter.analysis.returned import made_results
from detlint.linter.analysis.taken import elements_of, made_by, taken
from detlint.linter.analysis.values import Kind
from detlint.linter.analysis.written_calls import written_out
from detlint.linter.analysis.written_here import made_here, whole_here
from detlint.linter.numbers.computed import is_computed
from detlint.linter.numbers.written_results import written_as
from detlint.linter.programs.called_models import is_engine_run, is_model
from detlint.linter.programs.left_on import takes_default
from detlint.linter.source.names import FUNCTIONS, Binding, BindingKind, FunctionNode, parameters
from detlint.linter.source.nodes import identifier, is_own, receiver_of, walk
from detlint.linter.tables.rounding import rounding_table

# The distance of neighbouring numbers at 1.0.
EPSILON = {"float16": 9.77e-04, "bfloat16": 7.81e-03, "float32": 1.19e-07, "float64": 2.22e-16}
_CASTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}
_DTYPES = ("dtype", "torch_dtype")
_ADDING = ("sum", "nansum", "mean", "nanmean", "std", "var", "norm")
_COARSE = ("float16", "bfloat16")
_CONVERSIONS = ("to", "type", "astype")
_FACTORIES = frozenset(
    f"torch.{name}" for name in ("rand", "randn", "ones", "zeros", "linspace", "eye", "logspace", "normal", "empty")
)


def precision(module: Module, node: ast.expr, depth: int = 8) -> str | None:
    """Return the coarsest dtype behind an expression, or None where nothing says which."""
    if depth == 0 or identifier(node.func if isinstance(node, ast.Call) else node) in rounding_table().whole:
        return None
    if isinstance(node, ast.Name):
        bindings = module.definitions(node)
        if len(bindings) == 1 and bindings[0].kind is BindingKind.ITERATION:
            return _coarsest(module, taken(module, bindings[0]), depth - 1)
        if any(each.kind is not BindingKind.ASSIGN or each.value is None for each in bindings):
            return None
        return _coarsest_of(_of_assigned(module, binding, depth - 1) for binding in bindings)
    if isinstance(node, ast.BinOp):
        return _coarsest(module, [node.left, node.right], depth - 1)
    if isinstance(node, ast.IfExp):
        return _coarsest(module, [node.body, node.orelse], depth - 1)
    if isinstance(node, ast.UnaryOp):
        return precision(module, node.operand, depth - 1)
    if isinstance(node, (ast.Tuple, ast.List)):
        dtypes = {precision(module, element, depth - 1) for element in node.elts}
        return dtypes.pop() if len(dtypes) == 1 else None
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return precision(module, node.elt, depth - 1)
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return _default(module, node)
    if is_own(node) and (kept := only_value(module, node)) is not None:
        return precision(module, kept, depth - 1)
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return precision(module, node.value, depth - 1)
    return _of_call(module, node, depth - 1) if isinstance(node, ast.Call) else None


def _of_assigned(module: Module, binding: Binding, depth: int) -> str | None:
    """`loss, grads = step(net, x)`: the dtype that one result was added up in, or else that of all of them."""
    value = made_here(module, binding) or whole_here(module, binding)
    if len(binding.index) == 1 and isinstance(value, ast.Call):
        found = [module.project.definition(name) for name in module.inference.callees(value)]
        functions = [(owner, made) for owner, made in filter(None, found) if isinstance(made, FUNCTIONS)]
        parts = [(owner, part) for owner, made in functions for part in _parts_at(owner, made, binding.index[0])]
        dtypes = {_sum_dtype(owner, part) for owner, part in parts}
        if len(dtypes) == 1 and None not in dtypes:
            return dtypes.pop()
    return precision(module, value, depth) if value is not None else None


def _parts_at(owner: Module, function: FunctionNode, place: int) -> list[ast.expr | None]:
    """Return what stands at a place of what each `return` of a function gives, None where that is no tuple."""
    returned = [value.elts if isinstance(value, ast.Tuple) else [] for value in made_results(owner, function)]
    return [elements[place] if 0 <= place < len(elements) else None for elements in returned]


def _of_call(module: Module, call: ast.Call, depth: int) -> str | None:
    function = call.func
    names = module.inference.callees(call)
    named = _written_dtype(module, call)
    if any(name in _FACTORIES for name in names) or ("torch.tensor" in names and _holds_floats(call)):
        unsaid = not any(keyword.arg in ("dtype", None) for keyword in call.keywords)
        return named or (_default(module, call) if unsaid else None)
    if any(value.kind is Kind.MODULE for value in module.inference.values(function)):
        return _around(module, call) or _of_layer(module, call, depth)
    if is_model(module, call) or is_engine_run(module, call):
        parts = [call.func, *call.args]
        return _around(module, call) or _coarsest(module, parts, depth)
    if identifier(function) in rounding_table().joining and call.args:
        return _coarsest(module, elements_of(module, call.args[0]), depth)
    returned = [dtype for name in names if (dtype := _of_function(module, name, call, depth)) is not None]
    if returned:
        return max(returned, key=EPSILON.__getitem__)
    if identifier(function) in _ADDING and (added_up_in := _sum_dtype(module, call)) is not None:
        return added_up_in
    receiver = [function.value] if isinstance(function, ast.Attribute) else []
    given = [] if isinstance(function, ast.Name) and _is_opaque(module, call) else call.args
    before = _coarsest(module, [*receiver, *given], depth)
    if isinstance(function, ast.Attribute) and function.attr in _CASTS and not call.args:
        named = _CASTS[function.attr]
    if named is not None and receiver and not is_computed(module, receiver[0]):
        return named  # what is only converted is exact in the finer dtype
    found = [dtype for dtype in (before, named) if dtype is not None]
    return max(found, key=EPSILON.__getitem__) if found else None


def _sum_dtype(module: Module, node: ast.expr | None) -> str | None:
    """`out.float().pow(2).mean()`: what is added up after it was made finer lies between the numbers of the coarser."""
    call = next((call for call in made_by(module, node) if identifier(call.func) in _ADDING), None) if node else None
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    resolved = module.inference.resolve(call.func.value)
    adding = next(iter(call.args), None) if resolved else call.func.value
    added = written_as(module, adding) if adding is not None else None
    while isinstance(added, ast.Call) and isinstance(added.func, ast.Attribute):
        cast = added.func.attr
        written = _written_dtype(module, added) if cast in _CONVERSIONS else None
        dtype = written if added.args else _CASTS.get(cast)
        if dtype is not None:
            return None if dtype in _COARSE else dtype
        added = written_as(module, added.func.value)
    return None


def _around(module: Module, call: ast.Call) -> str | None:
    """Return the dtype that a statement around a model's call, or one before it, makes it compute in."""
    around = [*_dtypes_around(module, call), *_cast_in_place(module, call)]
    return max(around, key=EPSILON.__getitem__) if around else None


def _holds_floats(call: ast.Call) -> bool:
    """`torch.tensor([0.5, 1.0])`."""
    parts = list(walk(call.args[0])) if call.args else []
    written = not any(isinstance(part, (ast.Name, ast.Call)) for part in parts)
    return written and any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in parts)


def _of_layer(module: Module, call: ast.Call, depth: int) -> str | None:
    return _coarsest(module, [call.func, *call.args], depth) or _default(module, call)


def _dtypes_around(module: Module, call: ast.Call) -> Iterator[str]:
    """`with torch.autocast("cuda", dtype=torch.bfloat16): y = net(x)`: most layers compute in that dtype."""
    for around in module.index.ancestors(call):
        items = around.items if isinstance(around, ast.With) else ()
        for caster in around.decorator_list if isinstance(around, FUNCTIONS) else [item.context_expr for item in items]:
            if isinstance(caster, ast.Call) and identifier(caster.func) == "autocast":
                named = _written_dtype(module, caster) or _chosen_by(caster)
                if named is not None and not any(keyword.arg == "enabled" for keyword in caster.keywords):
                    yield named
        if isinstance(around, FUNCTIONS):
            return


def _chosen_by(autocast: ast.Call) -> str | None:
    """Return the dtype that `autocast("cuda")` and `torch.cuda.amp.autocast()` choose themselves."""
    given = [part.value for part in autocast.args[:1] if isinstance(part, ast.Constant)]
    kinds = [
        *given,
        *(
            keyword.value.value
            for keyword in autocast.keywords
            if keyword.arg == "device_type" and isinstance(keyword.value, ast.Constant)
        ),
    ]
    on_gpu = "cuda" in kinds or (
        isinstance(autocast.func, ast.Attribute) and ast.unparse(autocast.func) == "torch.cuda.amp.autocast"
    )
    return "float16" if on_gpu else "bfloat16" if "cpu" in kinds else None


def _cast_in_place(module: Module, call: ast.Call) -> Iterator[str]:
    """`net.half()` before `net(x)`."""
    called, function = ast.unparse(call.func), module.index.function_at(call)
    for name in (*_CASTS, "to"):
        for cast in module.index.calls_by_name.get(name, ()):
            receiver = receiver_of(cast)
            alone = isinstance(module.index.parents.get(cast), ast.Expr) and cast.lineno < call.lineno
            if receiver is not None and alone and module.index.function_at(cast) is function:
                named = _CASTS.get(name) or _written_dtype(module, cast)
                if named is not None and ast.unparse(receiver) == called:
                    yield named


def is_cast_result(module: Module, node: ast.expr) -> bool:
    """`experts(x).to(torch.bfloat16)`: what some call gave, rounded here to a coarse dtype, and perhaps viewed."""
    rounded = cast_to_coarse(module, node)
    if rounded is None:
        return False
    made = only_value(module, rounded) or rounded
    return isinstance(made, ast.BinOp) or any(_is_opaque(module, call) for call in made_by(module, rounded))


def cast_to_coarse(module: Module, node: ast.expr) -> ast.expr | None:
    """Return `x` of `x.half().cpu()`: what is rounded to a coarse dtype, and perhaps viewed."""
    for call in made_by(module, node):
        cast = identifier(call.func) if isinstance(call.func, ast.Attribute) else ""
        coarse = cast in _CASTS or cast in _CONVERSIONS
        named = _CASTS.get(cast) or (_written_dtype(module, call) if coarse else None)
        if named in _COARSE and isinstance(call.func, ast.Attribute):
            return call.func.value
    return None


def _is_opaque(module: Module, call: ast.Call) -> bool:
    """Return whether nothing is known about what is called: it may well compute."""
    named = any(name.startswith(("torch.", "numpy.", "builtins.")) for name in module.inference.callees(call))
    moves = isinstance(call.func, ast.Attribute) and call.func.attr in rounding_table().keeping
    return not named and not moves and all(value.kind is Kind.UNKNOWN for value in module.inference.values(call))


def _of_function(module: Module, name: str, call: ast.Call, depth: int) -> str | None:
    """Return the dtype of what a function of the project gives: one that it is told, or that is in all its returns."""
    definition = module.project.definition(name)
    owner, function = definition or (module, None)
    if not isinstance(function, FUNCTIONS):
        return None
    told = _told(module, call, owner, function)
    if told is not None:
        return told
    returned = made_results(owner, function)
    dtypes = {precision(owner, value, depth) if value is not None else None for value in returned}
    return dtypes.pop() if len(dtypes) == 1 else None


def _told(module: Module, call: ast.Call, owner: Module, function: FunctionNode) -> str | None:
    """`cast_all(batch, torch.float16)`, of a function that hands its parameter to `.to(…)` and its like."""
    method = isinstance(call.func, ast.Attribute)
    for parameter, default in parameters(function.args):
        given = argument_of(function, parameter.arg, call, skip_self=method) or (
            default if takes_default(call) else None
        )
        named = dtype_named(module.inference, given) if given is not None and identifier(given) else None
        uses = [part for part in walk(function) if isinstance(part, ast.Name) and part.id == parameter.arg]
        if named in EPSILON and any(_is_dtype_of_call(owner, use) for use in uses):
            return named
    return None


def _written_dtype(module: Module, call: ast.Call) -> str | None:
    """Return the dtype that `dtype=torch.float16` or `.to(torch.float16)` names."""
    keywords = written_out(module, call, identifier(call.func)).keywords
    places = [keyword.value for keyword in keywords if keyword.arg in _DTYPES]
    if isinstance(call.func, ast.Attribute) and call.func.attr in _CONVERSIONS:
        places += call.args
    for place in places:
        found = [
            dtype for part in _alternatives(module, place) if (dtype := dtype_named(module.inference, part)) in EPSILON
        ]
        if found:
            return max(found, key=EPSILON.__getitem__)
    return None


def _alternatives(module: Module, place: ast.expr) -> list[ast.expr]:
    """Return what stands for a dtype, in all runs of a test that treats its dtypes alike."""
    given = given_in_turn(module, place) if isinstance(place, ast.Name) else []
    return given if given and _are_treated_alike(module, place) else [place]


def _are_treated_alike(module: Module, name: ast.expr) -> bool:
    """Return whether a dtype is only handed on as one: nothing is compared with it, or looked up by it."""
    function = module.index.function_at(name)
    uses = (
        [part for part in walk(function) if isinstance(part, ast.Name) and part.id == ast.unparse(name)]
        if function
        else []
    )
    return all(_is_dtype_of_call(module, use) for use in uses if isinstance(use.ctx, ast.Load))


def _is_dtype_of_call(module: Module, use: ast.Name) -> bool:
    """`torch.ones(3, dtype=dtype)`, `x.to(dtype)`, `x.to(device, dtype)`."""
    parent = module.index.parents.get(use)
    if isinstance(parent, ast.keyword):
        return parent.arg == "dtype"
    return isinstance(parent, ast.Call) and identifier(parent.func) in _CONVERSIONS and use in parent.args


def _default(module: Module, node: ast.AST, *, of_file: bool = False) -> str | None:
    """float32, unless the file or the function speaks of double precision, and does not just ask what it has."""
    if any(map(_sets_default, (module, *conftests(module)))):
        return None
    function = module.index.function_at(node)
    parts = ast.walk(module.tree if of_file or function is None else function)
    wider = (part for part in parts if isinstance(part, ast.Attribute) and part.attr in ("double", "float64"))
    return "float32" if all(_is_asked_for(module, part, function) for part in wider) else None


def _sets_default(module: Module) -> bool:
    return any(module.index.calls_by_name.get(name) for name in ("set_default_dtype", "set_default_tensor_type"))


def _is_asked_for(module: Module, name: ast.expr, function: FunctionNode | None) -> bool:
    """`isinstance(x, (np.float32, np.float64))`; elsewhere, also `x.dtype in (torch.float32, torch.float64)`."""
    elsewhere = module.index.function_at(name) is not function
    return any(
        (isinstance(around, ast.Call) and identifier(around.func) == "isinstance")
        or (elsewhere and isinstance(around, ast.Compare) and _asks_for_dtype(around))
        for around in module.index.ancestors(name)
    )


def _asks_for_dtype(test: ast.Compare) -> bool:
    """Is it asked for one of several dtypes, as numbers of any are treated?"""
    return isinstance(test.ops[0], (ast.In, ast.NotIn)) and identifier(test.left) == "dtype"


def _coarsest(module: Module, nodes: list[ast.expr], depth: int) -> str | None:
    return _coarsest_of(precision(module, node, depth) for node in nodes)


def _coarsest_of(dtypes: Iterable[str | None]) -> str | None:
    found = [dtype for dtype in dtypes if dtype is not None]
    return max(found, key=EPSILON.__getitem__) if found else None
