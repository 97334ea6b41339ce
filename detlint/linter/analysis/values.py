"""What an expression can be: values as the linter's local typing sees them, and the tables behind that typing."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from detlint.tables import RULES_FOLDER, check_keys, read_table

if TYPE_CHECKING:
    from detlint.linter.analysis.module import Module


class Kind(Enum):
    """The kinds that rules ask for."""

    TENSOR = "tensor"
    MODULE = "module"  # an instance of torch.nn.Module or of a subclass
    INSTANCE = "instance"  # an instance of another class; `type` names it
    CLASS = "class"
    FUNCTION = "function"
    ARRAY = "array"  # NumPy
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    NONE = "none"
    LIST = "list"
    TUPLE = "tuple"
    SET = "set"
    DICT = "dict"
    ITERATOR = "iterator"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Value:
    """One possible value of an expression.

    `type` is the qualified name of the class (instances, modules) or of the thing itself (classes, functions);
    for UNKNOWN results of calls, the qualified name of what was called. `dtype` is a torch dtype's name ("float16")
    or a family ("float", "int", "bool") where that is known. `node` in `module` is where the value is made: the
    call, literal, parameter or definition. `elements` are the values of a tuple or list display.
    """

    kind: Kind
    type: str = ""
    dtype: str | None = None
    node: ast.AST | None = None
    module: Module | None = None
    elements: tuple[tuple[Value, ...], ...] = ()

    def __hash__(self) -> int:
        return hash((self.type, self.node))  # all that differs, as a rule, and quickly told of long displays

    @property
    def is_integral(self) -> bool:
        return self.dtype is not None and self.dtype.startswith(("int", "uint", "bool", "long", "short"))

    @property
    def is_floating(self) -> bool:
        return self.dtype is not None and self.dtype.startswith(("float", "bfloat", "half", "double", "complex"))


UNKNOWN = Value(Kind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Types:
    """`rules/types.toml`: what gives tensors or floats, module classes, wrappers, and names that mean the same."""

    tensors: frozenset[str]
    tensor_tuples: frozenset[str]
    with_positions: frozenset[str]
    dtypes: Mapping[str, str]
    tensor_attributes: frozenset[str]
    modules: frozenset[str]
    module_bases: frozenset[str]
    wrappers: frozenset[str]
    module_methods: frozenset[str]
    bars: frozenset[str]
    kernel_floats: frozenset[str]
    kernel_dtypes: frozenset[str]
    kernel_float_dtypes: frozenset[str]
    aliases: Mapping[str, str]

    def canonical(self, name: str) -> str:
        """Return the one spelling detlint uses for a name that torch offers under several."""
        prefix = name
        while prefix:
            target = self.aliases.get(prefix)
            if target is not None:
                return self.canonical(target + name[len(prefix) :])
            prefix = prefix.rpartition(".")[0]
        return name


@cache
def load_types(path: Path = RULES_FOLDER / "types.toml") -> Types:
    """Return a table, read and validated once.

    Raises:
        RuleError: the file is broken; names key and reason.
    """
    parts = ("tensor", "modules", "iteration", "kernels", "submodules", "aliases")
    table = read_table(path, dict.fromkeys(parts, dict))
    tensor, modules = table["tensor"], table["modules"]
    check_keys(
        path, tensor, dict.fromkeys(("functions", "tuples", "positions", "dtypes", "attributes"), dict), {}, "tensor"
    )
    keys = {"classes": list, "bases": list, "wrappers": list, "methods": list}
    check_keys(path, modules, keys, {}, "modules")
    check_keys(path, table["iteration"], {"bars": list}, {}, "iteration")
    kernels = table["kernels"]
    check_keys(path, kernels, dict.fromkeys(("floats", "float-dtypes", "other-dtypes"), dict), {}, "kernels")
    submodules = {f"{home}.{name}": home for home, names in table["submodules"].items() for name in names}
    classes = frozenset(f"torch.nn.{name}" for name in modules["classes"])
    return Types(
        tensors=_qualified(tensor["functions"]),
        tensor_tuples=_qualified(tensor["tuples"]),
        with_positions=frozenset(tensor["positions"]["names"]),
        dtypes={name: dtype for dtype, names in tensor["dtypes"].items() for name in names},
        tensor_attributes=frozenset(tensor["attributes"]["names"]),
        modules=classes,
        module_bases=classes | frozenset(modules["bases"]),
        wrappers=frozenset(modules["wrappers"]),
        module_methods=frozenset(modules["methods"]),
        bars=frozenset(table["iteration"]["bars"]),
        kernel_floats=_qualified(kernels["floats"]),
        kernel_dtypes=_qualified(kernels["float-dtypes"]) | _qualified(kernels["other-dtypes"]),
        kernel_float_dtypes=_qualified(kernels["float-dtypes"]),
        aliases=table["aliases"] | submodules,
    )


def _qualified(table: Mapping[str, list[str]]) -> frozenset[str]:
    return frozenset(f"{prefix}.{name}" for prefix, names in table.items() for name in names)
