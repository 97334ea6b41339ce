"""Kinds of faults that `planted_faults.py` plants: edits that take the care out of code that took it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

LISTINGS = {"listdir", "glob", "iglob", "rglob", "iterdir", "scandir"}
SEEDS = {"manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed", "seed_all"}


@dataclass(frozen=True)
class Edit:
    """Put `text` in the place of a node."""

    node: ast.expr | ast.stmt
    text: str


@dataclass(frozen=True)
class Fault:
    """A kind of fault: the codes that should name it, and the edits of a module that make it, each a fault alone.

    A file without the `word` has no place for it.
    """

    name: str
    word: str
    codes: tuple[str, ...]
    edits: Callable[[ast.Module], Iterator[list[Edit]]]


def missing_eval(tree: ast.Module) -> Iterator[list[Edit]]:
    """`model.eval()` goes from a function, or a script, that calls `model(…)` further down."""
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef)):
        body = [node for statement in scope.body for node in _outside_functions(statement)]
        for node, model in _method_calls(body, "eval"):
            calls = (other for other in body if isinstance(other, ast.Call) and other.lineno > node.lineno)
            if any(ast.unparse(other.func) == model for other in calls):
                yield [Edit(node, "pass")]


def left_in_eval(tree: ast.Module) -> Iterator[list[Edit]]:
    """`model.train()` goes from a function, or a script, that calls `model.eval()` as well."""
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef)):
        body = [node for statement in scope.body for node in _outside_functions(statement)]
        evaluated = {model for _, model in _method_calls(body, "eval")}
        yield from ([Edit(node, "pass")] for node, model in _method_calls(body, "train") if model in evaluated)


def _method_calls(nodes: Sequence[ast.AST], method: str) -> Iterator[tuple[ast.Expr, str]]:
    """Yield the statements that call a method, and what they call it on."""
    for node in nodes:
        call = node.value if isinstance(node, ast.Expr) else None
        called = call.func if isinstance(call, ast.Call) else None
        if isinstance(node, ast.Expr) and isinstance(called, ast.Attribute) and called.attr == method:
            yield node, ast.unparse(called.value)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield from _outside_functions(child)


def missing_seed(tree: ast.Module) -> Iterator[list[Edit]]:
    """All seeds of a file that starts as a program go at once."""
    guards = [node for node in tree.body if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)]
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and _is_called(node.value, SEEDS)]
    if guards and statements:
        yield [Edit(statement, "pass") for statement in statements]


def clock_seed(tree: ast.Module) -> Iterator[list[Edit]]:
    """`torch.manual_seed(seed)` takes the clock."""
    for statement in (node for node in ast.walk(tree) if isinstance(node, ast.Expr)):
        call = statement.value
        if (
            _is_called(call, {"manual_seed", "seed_everything", "set_seed"})
            and len(call.args) == 1
            and not call.keywords
        ):
            yield [Edit(statement, f"import time; {ast.unparse(call.func)}(int(time.time()))")]


def unsorted_listing(tree: ast.Module) -> Iterator[list[Edit]]:
    """`sorted(os.listdir(folder))` keeps the order of the file system."""
    for call in _calls(tree, {"sorted"}):
        if len(call.args) == 1 and any(_calls(call.args[0], LISTINGS)):
            yield [Edit(call, f"list({ast.unparse(call.args[0])})")]


def unsorted_set(tree: ast.Module) -> Iterator[list[Edit]]:
    """`sorted(set(labels))` keeps the order of the set."""
    for call in _calls(tree, {"sorted"}):
        inner = call.args[0] if len(call.args) == 1 else None
        if inner is not None and _is_called(inner, {"set"}):
            yield [Edit(call, f"list({ast.unparse(inner)})")]


def sorted_later(tree: ast.Module) -> Iterator[list[Edit]]:
    """A set or listing under a name of its own is no longer sorted where it is used."""
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef)):
        body = [node for statement in scope.body for node in _outside_functions(statement)]
        without_order = {
            ast.unparse(node.targets[0])
            for node in body
            if isinstance(node, ast.Assign)
            and (isinstance(node.value, ast.Set | ast.SetComp) or any(_calls(node.value, {"set", *LISTINGS})))
        }
        for node in body:
            if _is_called(node, {"sorted"}) and len(node.args) == 1 and ast.unparse(node.args[0]) in without_order:
                yield [Edit(node, f"list({ast.unparse(node.args[0])})")]
        yield from ([Edit(node, "pass")] for node, name in _method_calls(body, "sort") if name in without_order)


def set_of_keys(tree: ast.Module) -> Iterator[list[Edit]]:
    """`list(dict.fromkeys(names))` takes the order of a set."""
    for call in _calls(tree, {"list", "tuple"}):
        inner = call.args[0] if len(call.args) == 1 else None
        if inner is not None and _is_called(inner, {"fromkeys"}) and len(inner.args) == 1:
            yield [Edit(inner, f"set({ast.unparse(inner.args[0])})")]


def rate_always_on(tree: ast.Module) -> Iterator[list[Edit]]:
    """`dropout_p=self.rate if self.training else 0.0` drops in eval mode too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp) and ast.unparse(node.test) == "self.training" and _is_zero(node.orelse):
            yield [Edit(node, ast.unparse(node.body))]


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and node.value is not False


def dropout_always_on(tree: ast.Module) -> Iterator[list[Edit]]:
    """`F.dropout(x, p, training=self.training)` loses the last argument."""
    yield from _dropped(tree, {"dropout", "dropout1d", "dropout2d", "dropout3d"}, {"training"})


def forgotten_weight(tree: ast.Module) -> Iterator[list[Edit]]:
    """A parameter made of fresh memory loses the only line that fills it."""
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        fresh = {
            ast.unparse(node.targets[0])
            for node in ast.walk(owner)
            if isinstance(node, ast.Assign)
            and _is_called(node.value, {"Parameter"})
            and any(_calls(node.value, {"empty", "Tensor", "FloatTensor"}))
        }
        for name in sorted(fresh):
            fills = [
                node
                for node in ast.walk(owner)
                if isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and _last(node.value.func).endswith("_")
                and name in ast.unparse(node.value)
            ]
            if len(fills) == 1:
                yield [Edit(fills[0], "pass")]


def empty_sums(tree: ast.Module) -> Iterator[list[Edit]]:
    """`total = torch.zeros(n)` that is added to in the same block is left uninitialised."""
    for block in (node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for at, made in enumerate(block):
            if isinstance(made, ast.Assign) and _is_called(made.value, {"zeros", "zeros_like", "new_zeros"}):
                call, name = made.value, ast.unparse(made.targets[0])
                sums = [
                    node for later in block[at + 1 :] for node in ast.walk(later) if isinstance(node, ast.AugAssign)
                ]
                if any(ast.unparse(node.target) == name for node in sums):
                    function = ast.unparse(call.func)
                    if function.startswith("torch.") or "new_zeros" in function:
                        yield [Edit(call.func, function.replace("zeros", "empty"))]


def exact_comparison(tree: ast.Module) -> Iterator[list[Edit]]:
    """`torch.allclose(a, b, atol=1e-6)` and `torch.testing.assert_close(a, b)` ask for the same bits."""
    statements = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for call in _calls(tree, {"allclose", "assert_close"}):
        if len(call.args) >= 2 and ast.unparse(call.func).startswith("torch"):
            equal = f"torch.equal({ast.unparse(call.args[0])}, {ast.unparse(call.args[1])})"
            statement = statements.get(id(call))
            yield [Edit(statement, f"assert {equal}") if statement else Edit(call, equal)]


def autotuned(tree: ast.Module) -> Iterator[list[Edit]]:
    """`cudnn.benchmark = False` is switched on."""
    yield from _switched(tree, "cudnn.benchmark", before=False)


def determinism_off(tree: ast.Module) -> Iterator[list[Edit]]:
    """`cudnn.deterministic = True` is switched off."""
    yield from _switched(tree, "cudnn.deterministic", before=True)


def unseeded_generator(tree: ast.Module) -> Iterator[list[Edit]]:
    """`np.random.default_rng(seed)` loses its seed."""
    for call in _calls(tree, {"default_rng", "RandomState", "Random"}):
        if len(call.args) + len(call.keywords) == 1 and not _is_optional(tree, call):
            yield [Edit(call, f"{ast.unparse(call.func)}()")]


def unseeded_split(tree: ast.Module) -> Iterator[list[Edit]]:
    """`train_test_split(rows, random_state=0)` and `random_split(…, generator=…)` lose that argument."""
    splitters = {"train_test_split", "random_split", "KFold", "StratifiedKFold", "ShuffleSplit"}
    yield from _dropped(tree, splitters, {"random_state", "generator"})


def unsynchronized_copy(tree: ast.Module) -> Iterator[list[Edit]]:
    """`x.cpu().numpy()` copies without waiting."""
    for call in _calls(tree, {"numpy", "tolist", "item"}):
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "cpu":
            yield [Edit(inner, f"{ast.unparse(inner.func.value)}.to('cpu', non_blocking=True)")]


def completion_order(tree: ast.Module) -> Iterator[list[Edit]]:
    """`pool.imap(work, rows)` takes results as they are done."""
    for call in _calls(tree, {"imap"}):
        yield [Edit(call.func, f"{ast.unparse(call.func)}_unordered")]


def uncalled_eval(tree: ast.Module) -> Iterator[list[Edit]]:
    """`model.eval()` loses its parentheses, and does nothing."""
    for (edit,) in missing_eval(tree):
        call = edit.node.value if isinstance(edit.node, ast.Expr) else None
        if isinstance(call, ast.Call):
            yield [Edit(edit.node, ast.unparse(call.func))]


def numpy_sums(tree: ast.Module) -> Iterator[list[Edit]]:
    """`total = np.zeros(n)` that is added to in the same block is left uninitialised."""
    for made, later in _numpy_zeros(tree):
        name = ast.unparse(made.targets[0])
        sums = (node.target for node in later if isinstance(node, ast.AugAssign))
        if any(ast.unparse(target).partition("[")[0] == name for target in sums):
            yield [_emptied(made)]


def numpy_writes(tree: ast.Module) -> Iterator[list[Edit]]:
    """The same of an array that is written under a condition alone."""
    for made, later in _numpy_zeros(tree):
        name = ast.unparse(made.targets[0])
        branches = (part for node in later if isinstance(node, ast.If) and not node.orelse for part in ast.walk(node))
        targets = (part.targets[0] for part in branches if isinstance(part, ast.Assign))
        if any(isinstance(target, ast.Subscript) and ast.unparse(target.value) == name for target in targets):
            yield [_emptied(made)]


def _numpy_zeros(tree: ast.Module) -> Iterator[tuple[ast.Assign, list[ast.AST]]]:
    """Yield where a function makes an array of zeros, and what stands behind that in the same block."""
    for block in (node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for at, made in enumerate(block):
            call = made.value if isinstance(made, ast.Assign) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("np.zeros", "numpy.zeros"):
                assert isinstance(made, ast.Assign)
                yield made, [node for later in block[at + 1 :] for node in ast.walk(later)]


def _emptied(made: ast.Assign) -> Edit:
    assert isinstance(made.value, ast.Call)
    return Edit(made.value.func, ast.unparse(made.value.func).replace("zeros", "empty"))


def unseeded_sample(tree: ast.Module) -> Iterator[list[Edit]]:
    """`frame.sample(n, random_state=0)` loses its state."""
    yield from _dropped(tree, {"sample", "resample", "rvs"}, {"random_state"})


def unseeded_torch_generator(tree: ast.Module) -> Iterator[list[Edit]]:
    """`torch.Generator().manual_seed(0)` loses its seed."""
    for call in _calls(tree, {"manual_seed"}):
        if isinstance(call.func, ast.Attribute) and _is_called(call.func.value, {"Generator"}):
            yield [Edit(call, ast.unparse(call.func.value))]


def zero_tolerance(tree: ast.Module) -> Iterator[list[Edit]]:
    """`torch.allclose(a, b, atol=1e-6)` allows nothing any more."""
    for call in _calls(tree, {"allclose", "assert_close"}):
        kept = [keyword for keyword in call.keywords if keyword.arg not in ("atol", "rtol")]
        if len(kept) < len(call.keywords) and ast.unparse(call.func).startswith("torch"):
            none = [ast.keyword("rtol", ast.Constant(0)), ast.keyword("atol", ast.Constant(0))]
            yield [Edit(call, ast.unparse(ast.Call(call.func, call.args, [*kept, *none])))]


def set_for_unique(tree: ast.Module) -> Iterator[list[Edit]]:
    """`np.unique(x)` takes the order of a set."""
    for call in _calls(tree, {"unique"}):
        if ast.unparse(call.func) in ("np.unique", "numpy.unique") and len(call.args) == 1 and not call.keywords:
            yield [Edit(call, f"list(set({ast.unparse(call.args[0])}))")]


def _switched(tree: ast.Module, name: str, *, before: bool) -> Iterator[list[Edit]]:
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Constant) and value.value is before and f"{name} =" in ast.unparse(node):
            yield [Edit(value, str(not before))]


def _dropped(tree: ast.Module, functions: set[str], arguments: set[str]) -> Iterator[list[Edit]]:
    """Each call of the functions goes without the arguments."""
    for call in _calls(tree, functions):
        kept = [keyword for keyword in call.keywords if keyword.arg not in arguments]
        if len(kept) < len(call.keywords):
            yield [Edit(call, ast.unparse(ast.Call(call.func, call.args, kept)))]


def _calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if _is_called(node, names))


def _is_called(node: ast.AST, names: set[str]) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _last(node.func) in names


def _last(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_optional(tree: ast.Module, call: ast.Call) -> bool:
    """Does the seed come from a parameter whose default is None, so that nothing changes for most callers?"""
    seed = ast.unparse(call.args[0] if call.args else call.keywords[0].value)
    functions = (node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return seed == "None" or any(
        argument.arg == seed and isinstance(default, ast.Constant) and default.value is None
        for args in functions
        for argument, default in [
            *zip(reversed(args.args), reversed(args.defaults), strict=False),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        ]
    )


FAULTS = (
    Fault("missing-eval", ".eval()", ("DET201", "DET204"), missing_eval),
    Fault("uncalled-eval", ".eval()", ("DET201", "DET204"), uncalled_eval),
    Fault("left-in-eval", ".eval()", ("DET208",), left_in_eval),
    Fault("missing-seed", "seed", ("DET101", "DET102", "DET105", "DET106"), missing_seed),
    Fault("clock-seed", "seed", ("DET103",), clock_seed),
    Fault("unseeded-generator", "andom", ("DET102", "DET103"), unseeded_generator),
    Fault("unseeded-split", "plit", ("DET105",), unseeded_split),
    Fault("unseeded-sample", "random_state", ("DET101", "DET102", "DET105"), unseeded_sample),
    Fault("torch-generator", "Generator", ("DET102", "DET105", "DET106"), unseeded_torch_generator),
    Fault("dropout-always-on", "training", ("DET202",), dropout_always_on),
    Fault("rate-always-on", "self.training", ("DET202",), rate_always_on),
    Fault("forgotten-weight", "Parameter", ("DET303",), forgotten_weight),
    Fault("empty-sums", "zeros", ("DET303",), empty_sums),
    Fault("numpy-sums", "zeros", ("DET303",), numpy_sums),
    Fault("numpy-writes", "zeros", ("DET303",), numpy_writes),
    Fault("autotuned", "benchmark", ("DET401",), autotuned),
    Fault("determinism-off", "deterministic", ("DET402",), determinism_off),
    Fault("exact-comparison", "close", ("DET501",), exact_comparison),
    Fault("zero-tolerance", "close", ("DET501", "DET502"), zero_tolerance),
    Fault("unsorted-listing", "sorted", ("DET601",), unsorted_listing),
    Fault("unsorted-set", "sorted", ("DET602",), unsorted_set),
    Fault("sorted-later", "sort", ("DET601", "DET602"), sorted_later),
    Fault("set-of-keys", "fromkeys", ("DET602",), set_of_keys),
    Fault("set-for-unique", "unique", ("DET602",), set_for_unique),
    Fault("completion-order", "imap", ("DET603",), completion_order),
    Fault("unsynchronized-copy", ".cpu()", ("DET604",), unsynchronized_copy),
)
