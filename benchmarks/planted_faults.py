"""Plant a fault into a file that nobody here wrote: does detlint find it?

    python benchmarks/planted_faults.py --cache DIR                   every kind of fault, up to 60 places each
    python benchmarks/planted_faults.py --cache DIR --only missing-eval --show
                                                                      one kind, with the places that stay silent

Takes the packages of `benchmarks/labels/`, unpacked in DIR by `accuracy.py --cache DIR`. A kind of fault is an edit
that takes the care out of code that took it: an `eval()` or a seed is dropped, a sorted listing is left unsorted.
Each place is edited alone, in memory; found is a finding of the fault's codes that the file as it was does not
have. Not every edit makes a hazard (an `eval()` on a model without dropout, a list that is only counted), so the
share says how detlint compares with itself before a change, not how many hazards it finds.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from accuracy import LABELS, SPLITS, read_labels

from detlint.config import ConfigResolver
from detlint.findings import Finding
from detlint.linter.engine import lint_stdin

LISTINGS = {"listdir", "glob", "iglob", "rglob", "iterdir", "scandir"}
SEEDS = {"manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed", "seed_all"}
MOST_FILES = 20_000  # of some 90,000 in the development set: looking for rare places in all of them takes minutes
A_PACKAGE = 3  # places a package and kind of fault: code repeats itself within a package


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


@dataclass(frozen=True)
class Planted:
    """One place with a fault, ready to lint."""

    fault: Fault
    path: Path
    line: int
    source: bytes


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


FAULTS = (
    Fault("missing-eval", ".eval()", ("DET201", "DET204"), missing_eval),
    Fault("left-in-eval", ".eval()", ("DET208",), left_in_eval),
    Fault("missing-seed", "seed", ("DET101", "DET102", "DET105", "DET106"), missing_seed),
    Fault("clock-seed", "seed", ("DET103",), clock_seed),
    Fault("unseeded-generator", "andom", ("DET102", "DET103"), unseeded_generator),
    Fault("unseeded-split", "plit", ("DET105",), unseeded_split),
    Fault("dropout-always-on", "training", ("DET202",), dropout_always_on),
    Fault("rate-always-on", "self.training", ("DET202",), rate_always_on),
    Fault("forgotten-weight", "Parameter", ("DET303",), forgotten_weight),
    Fault("empty-sums", "zeros", ("DET303",), empty_sums),
    Fault("autotuned", "benchmark", ("DET401",), autotuned),
    Fault("determinism-off", "deterministic", ("DET402",), determinism_off),
    Fault("exact-comparison", "close", ("DET501",), exact_comparison),
    Fault("unsorted-listing", "sorted", ("DET601",), unsorted_listing),
    Fault("unsorted-set", "sorted", ("DET602",), unsorted_set),
    Fault("sorted-later", "sort", ("DET601", "DET602"), sorted_later),
    Fault("set-of-keys", "fromkeys", ("DET602",), set_of_keys),
    Fault("completion-order", "imap", ("DET603",), completion_order),
    Fault("unsynchronized-copy", ".cpu()", ("DET604",), unsynchronized_copy),
)


def main() -> int:
    """Plant, lint and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder for archives and unpacked trees")
    parser.add_argument("--split", choices=SPLITS, default="development", help="the packages of which set")
    parser.add_argument("--places", type=int, default=60, help="places a kind of fault")
    parser.add_argument("--draw", default="", help="any word: other places, drawn by it")
    parser.add_argument("--only", choices=[fault.name for fault in FAULTS], action="append", help="these kinds alone")
    parser.add_argument("--show", action="store_true", help="list the places that stay silent (development set only)")
    parser.add_argument("--jobs", type=int, default=2, help="processes to lint with")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if not arguments.only or fault.name in arguments.only]
    files = sorted(
        _files(arguments.cache, arguments.split), key=lambda path: _rank(path, arguments.cache, arguments.draw)
    )
    if not files:
        parser.error(f"{arguments.cache} holds none of the packages: run accuracy.py --cache {arguments.cache} first")
    planted = sorted(
        _places(faults, files[:MOST_FILES], arguments.cache, arguments.places), key=lambda place: place.fault.name
    )
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(is_found, planted, chunksize=4))
    print(f"{arguments.split} set\n\n{'fault':<22}{'planted':>8}{'found':>8}{'share':>8}")
    for fault in faults:
        results = [result for place, result in zip(planted, found, strict=True) if place.fault is fault]
        print(f"{fault.name:<22}{len(results):>8}{sum(results):>8}{sum(results) / max(len(results), 1):>8.2f}")
    if arguments.show and arguments.split == "development":
        silent = (place for place, result in zip(planted, found, strict=True) if not result)
        print("", *(f"{place.fault.name}: {place.path}:{place.line}" for place in silent), sep="\n")
    return 0


def _rank(path: Path, cache: Path, draw: str) -> bytes:
    """A place in an order that nobody chose, and that is the same on every machine."""
    return hashlib.sha256((draw + path.relative_to(cache).as_posix()).encode()).digest()


def is_found(place: Planted) -> bool:
    """Return whether the edited file has a finding of the fault's codes that it did not have before."""
    resolver = ConfigResolver(isolated=True)
    before, after = (
        lint_stdin(source, str(place.path), resolver=resolver).findings
        for source in (place.path.read_bytes(), place.source)
    )
    known = {_identity(finding) for finding in before}
    return any(finding.code in place.fault.codes and _identity(finding) not in known for finding in after)


def _identity(finding: Finding) -> tuple[str, int]:
    return finding.code, finding.location.line


def _files(cache: Path, split: str) -> Iterator[Path]:
    """Yield every module of the packages whose labels belong to the set."""
    chosen = dict.fromkeys(file.archive for file in read_labels(LABELS) if file.split == split)
    for archive in chosen:
        yield from (cache / f"{archive}.tree").rglob("*.py")


def _places(faults: Sequence[Fault], files: Sequence[Path], cache: Path, most: int) -> Iterator[Planted]:
    """Yield the first `most` places of each kind in the order of the files, a few a package."""
    count: Counter[str] = Counter()
    used: Counter[tuple[str, str]] = Counter()
    for path in files:
        package = path.relative_to(cache).parts[0]
        open_faults = [each for each in faults if count[each.name] < most and used[each.name, package] < A_PACKAGE]
        try:
            text = path.read_bytes().decode("utf-8")
            tree = ast.parse(text) if any(each.word in text for each in open_faults) else None
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        for fault in open_faults if tree is not None else ():
            places = ((edits[0].node.lineno, _edited(text, edits)) for edits in fault.edits(tree))
            line, source = next(((line, source) for line, source in places if source is not None), (0, None))
            if source is not None:
                count[fault.name] += 1
                used[fault.name, package] += 1
                yield Planted(fault, path, line, source)


def _edited(text: str, edits: Sequence[Edit]) -> bytes | None:
    """Return the file with the edits, each on the lines it had; None if it is no Python then."""
    lines = text.encode().splitlines(keepends=True)
    for edit in sorted(edits, key=lambda edit: (edit.node.lineno, edit.node.col_offset), reverse=True):
        node = edit.node
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        rest = lines[last][node.end_col_offset :]
        blank = b"\\\n" * (last - first)  # later lines stay where they are
        lines[first : last + 1] = [lines[first][: node.col_offset] + edit.text.encode() + b" " + blank + rest]
    edited = b"".join(lines)
    try:
        ast.parse(edited)
    except (SyntaxError, ValueError):
        return None
    return edited


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


if __name__ == "__main__":
    sys.exit(main())
