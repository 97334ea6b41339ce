"""Check rules/operators.toml against the installed torch: names, signatures, documentation, tags, CPU races.

    python benchmarks/check_operators.py            names, signatures, documentation and tags (seconds)
    python benchmarks/check_operators.py --measure  also every CPU claim, 50 runs on two threads (minutes)
    python benchmarks/check_operators.py --measure --compiled  also those under torch.compile (needs a compiler)

Prints one line a problem and a summary; the exit status is 1 where there is a problem.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from detlint.operators import Operator, by_python_name, in_force, load_operators
from detlint.rulebook import Trigger

sys.path.insert(0, str(Path(__file__).parent))

_BULLET = re.compile(r"\* :(?:class|func):`([\w.]+)`(.*)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="run the CPU cases")
    parser.add_argument("--compiled", action="store_true", help="with --measure: also under torch.compile")
    options = parser.parse_args()
    operators = in_force(load_operators(), torch_version=torch.__version__)
    problems = [
        *aten_names(operators),
        *public_names(operators),
        *condition_parameters(operators),
        *documentation(operators),
        *tags(operators),
    ]
    if options.measure:
        from operator_cases import measure

        problems += measure(operators, compiled=options.compiled)
    for problem in problems:
        print(problem)
    print(f"torch {torch.__version__}: {len(operators)} entries in force, {len(problems)} problems")
    return 1 if problems else 0


def schemas(name: str) -> list[torch.FunctionSchema]:
    """Return the schemas of "aten::name" (every overload) or "aten::name.overload"."""
    namespace, _, rest = name.partition("::")
    packet_name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name, None)
    if packet is None:
        return []
    overloads = [overload] if overload else packet.overloads()
    return [getattr(packet, each)._schema for each in overloads if hasattr(packet, each)]


def aten_names(operators: tuple[Operator, ...]) -> Iterator[str]:
    """Does every aten operator of an entry in force exist? Other packages are looked at where installed."""
    for operator in operators:
        for name in (*operator.aten, *operator.forward):
            if name.startswith("aten::") and not schemas(name):
                yield f"{operator.name}: {name} does not exist"


def public_names(operators: tuple[Operator, ...]) -> Iterator[str]:
    """Does every public name exist, with the parameters and defaults that the table states?"""
    for name, entries in by_python_name(operators).items():
        if not name.startswith(("torch.", "torchvision.")):
            continue
        trigger = next(each for each in entries[0].python if each.name == name)
        try:
            found = find(name)
        except ModuleNotFoundError as error:
            if name.startswith("torch."):
                yield f"{name}: {error}"
            continue
        except AttributeError:
            yield f"{name}: does not exist"
            continue
        yield from signature_problems(trigger, found)


def find(name: str) -> Any:
    """Import the longest module prefix of `name` and walk the attributes after it."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            if cut == 1:
                raise
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def signature_problems(trigger: Trigger, found: Any) -> Iterator[str]:
    # Subscripts are syntax: the table calls what stands in them indices and values, as index_put does.
    if not trigger.parameters or trigger.last.startswith("__"):
        return
    stated = {parameter.name: parameter.default for parameter in trigger.parameters}
    actual = defaults(trigger, found)
    if actual is None:
        return
    for name, default in stated.items():
        if name not in actual:
            yield f"{trigger.name}: no parameter {name!r}; it has {', '.join(actual)}"
        elif default is not None and actual[name] not in (None, default):
            yield f"{trigger.name}: {name} defaults to {actual[name]}, not {default}"


def defaults(trigger: Trigger, found: Any) -> Mapping[str, str | None] | None:
    """Return parameter -> source of its default (None: none or unknown); None where nothing can be told."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        if trigger.name.count(".") > 1 and not trigger.name.startswith("torch.Tensor."):
            return None  # not the aten operator of that name
        arguments = [
            "input" if argument.name == "self" else argument.name
            for schema in schemas(f"aten::{trigger.last}")
            for argument in schema.arguments
        ]
        # The Python binding adds these two itself.
        return dict.fromkeys([*arguments, "out", "requires_grad"]) if arguments else None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    return {
        parameter.name: None if parameter.default is parameter.empty else repr(parameter.default)
        for parameter in parameters
    }


def condition_parameters(operators: tuple[Operator, ...]) -> Iterator[str]:
    """Is every parameter that only aten operators have really one of theirs?"""
    for operator in operators:
        arguments = {
            argument.name for name in operator.aten for schema in schemas(name) for argument in schema.arguments
        }
        for name in operator.table.get("aten-parameters", ()):
            if name not in arguments:
                yield f"{operator.name}: no aten operator of it has a parameter {name!r}"


def documentation(operators: tuple[Operator, ...]) -> Iterator[str]:
    """Is every operator that torch documents there, and every difference to the documentation noted?"""
    by_name = by_python_name(operators)
    for verdict, name in documented():
        entries = by_name.get(name, ())
        if not entries:
            yield f"{name}: documented ({verdict}) but not in the table"
        elif not any(entry.with_flag == verdict or "ocumented" in entry.note for entry in entries):
            yield f"{name}: documented as {verdict}; the table disagrees without a note"


def documented() -> list[tuple[str, str]]:
    """Return (verdict, public name) of every bullet in the documentation of use_deterministic_algorithms."""
    text = inspect.getdoc(torch.use_deterministic_algorithms) or ""
    verdict, found = "", []
    for line in text.splitlines():
        if "will act" in line:
            verdict = "deterministic"
        elif "will throw" in line:
            verdict = "error"
        bullet = _BULLET.search(line)
        if bullet and verdict:
            found.append((verdict, bullet[1]))
    return found


def tags(operators: tuple[Operator, ...]) -> Iterator[str]:
    """Is every operator that torch itself tags as nondeterministic in the table?"""
    tag = getattr(torch.Tag, "nondeterministic_bitwise", None)
    known = {name.partition(".")[0] for operator in operators for name in operator.aten}
    for name in torch._C._dispatch_get_all_op_names() if tag is not None else ():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace != "aten" or f"aten::{packet}" in known:
            continue
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is not None and tag in operator.tags:
            yield f"{name}: tagged nondeterministic_bitwise but not in the table"


if __name__ == "__main__":
    sys.exit(main())
