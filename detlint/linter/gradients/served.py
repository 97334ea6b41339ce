"""Which layers does a project only build in models that it loads and runs? Nobody asks for their gradients.

A class is followed to the models that hold it and the functions that build them, up to code that loads weights and
switches to eval or drops gradients. One use that leads elsewhere, to training or out of sight, and nothing is known.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Set
from pathlib import Path

from detlint.linter.analysis.module import Module
from detlint.linter.analysis.outline import is_main_guard
from detlint.linter.analysis.program import outermost_definition
from detlint.linter.gradients.serving import with_imports
from detlint.linter.programs.evaluation import identifiers
from detlint.linter.programs.training import file_trains
from detlint.linter.source.names import FUNCTIONS, FunctionNode
from detlint.linter.source.nodes import identifier, is_own
from detlint.linter.tables.gradients import gradient_table

_LOADING = ("load_state_dict", "from_pretrained")
_RUNNING = ("eval", "no_grad", "inference_mode")
# Parts of words: what is lossless costs no more than a question unasked.
_TRAINING = (
    "zero_grad",
    "backward",
    "autograd",
    "criterion",
    "optim",
    "Trainer",
    "train_step",
    "training_step",
)
_LOSS = "loss"
# A file that says how its gradients are computed expects some; lines of code that are commented out expect nothing.
_GRADIENTS = re.compile(r"\b(backward(?!\()|autograd)\b")
# A project that holds a word of running in more files than these trains some of its models.
_MOST_FILES = 64
# What more files use is a part of a library; so is what leads on to so many names.
_MOST_USERS = 8
_MOST_NAMES = 12
# Files that run models, the nearest, and files behind each of them.
_MOST_NEAR = 4
_MOST_BEHIND = 48

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def is_only_served(part: tuple[Module, _Definition]) -> bool:
    """Return whether each use of a class or function leads to code that loads weights and infers, and there is one."""
    module, owner = part
    running = module.project.once(_running_files, module)
    if module.path not in module.project.once(_behind, module) or module.index.parents.get(owner) is not module.tree:
        return False
    if file_trains(module) or _GRADIENTS.search(module.source.text):
        return False
    served: set[_Definition] = set()
    pending: list[tuple[Module, _Definition]] = [(module, owner)]
    for place, definition in pending:  # grows on the way
        if len(pending) > _MOST_NAMES or _judges(definition):
            return False
        uses = list(uses_of_definition(place, definition))
        if not uses and isinstance(definition, FUNCTIONS) and definition not in served:
            return False  # a function for others to call
        for use in uses:
            user = outermost_definition(*use) if use is not None else None
            if use is None or user is None or file_trains(use[0]):
                return False
            where = use[0]
            if where.path in running and _runs(user, where):
                served.add(user)
                if isinstance(user, ast.ClassDef) and not _is_layer(user, where):
                    continue  # whoever holds such an object runs the model
            if (where, user) not in pending:
                pending.append((where, user))
    return bool(served)


def is_made_with_weights(module: Module, layer: ast.ClassDef) -> bool:
    """Does a layer load its own weights whenever it is made, so that it is there to be run?

    Not one that judges what others make: a gradient flows through it.
    """
    made = module.inference.class_info(layer).methods.get("__init__")
    steps = [statement.value for statement in made.body if isinstance(statement, ast.Expr)] if made is not None else []
    return not _judges(layer) and any(
        isinstance(step, ast.Call) and is_own(step.func) and identifier(step.func) == _LOADING[0] for step in steps
    )


def _running_files(module: Module) -> frozenset[Path]:
    """Return the files of the project that load weights, run without gradients or in eval mode, and never train."""
    files = sorted(_files(module, _LOADING) & _files(module, _RUNNING))
    return frozenset(path for path in files if not _may_train(module.project.at(path)))


def _may_train(module: Module) -> bool:
    """Does a file mention training? A loss has to be computed: `Net(auxiliary_loss=False)` is an option of a model."""
    text = module.source.text
    if any(word in text for word in _TRAINING):
        return True
    imported = (statement.module or "" for statement in module.index.of_type(ast.ImportFrom))
    names = (*module.index.names_used, *module.index.root.bindings, *imported)
    return _LOSS in text and any(_LOSS in name for name in names)


def _behind(module: Module) -> Set[Path]:
    """Return the nearest files by their folders that run models, and a few of those that each of them imports."""
    running = sorted(module.project.once(_running_files, module))
    running.sort(key=lambda path: -len(os.path.commonpath((path, module.path))))
    nearest = map(module.project.at, running[:_MOST_NEAR])
    return set().union(*(with_imports([place], _MOST_BEHIND) for place in nearest))


def _files(module: Module, words: tuple[str, ...]) -> set[Path]:
    """Return the files of the project that hold one of the words, but for words that too many hold."""
    searches = (module.project.search(word, module, _MOST_FILES) for word in words)
    return {path for search in searches if search is not None for path in search.found or ()}


def _runs(definition: _Definition, module: Module) -> bool:
    """Does code switch to eval or drop gradients? A layer does so by itself if it is made with its weights."""
    if not isinstance(definition, ast.ClassDef) or not _is_layer(definition, module):
        return not set(_RUNNING).isdisjoint(identifiers(definition))
    made = module.inference.class_info(definition).methods.get("__init__")
    return made is not None and _loads_and_evaluates(made)


def _is_layer(definition: ast.ClassDef, module: Module) -> bool:
    return module.inference.is_module_class(module.qualified(definition))


def _loads_and_evaluates(constructor: FunctionNode) -> bool:
    """`self.load_state_dict(weights)` and `self.eval()`, and no choice between the modes."""
    named = list(identifiers(constructor))
    return "eval" in named and "train" not in named and not set(_LOADING).isdisjoint(named)


def uses_of_definition(module: Module, definition: _Definition) -> Iterator[tuple[Module, ast.AST] | None]:
    """Yield where the project uses a class or function outside its own body; None where too many files mention it."""
    found = _that_may_use(definition.name, module)
    if found is None:
        yield None
    qualified = module.qualified(definition)
    for path in found or ():
        other = module if path == module.path else module.project.at(path)
        renamed = (alias for alias, behind in other.index.aliases.items() if definition.name in behind)
        for use in (use for name in (definition.name, *renamed) for use in other.index.names_used.get(name, ())):
            assert isinstance(use, (ast.Name, ast.Attribute))
            around = list(other.index.ancestors(use))
            if definition in around or _only_names(use, around):
                continue
            if qualified in other.inference.resolve(use):
                yield other, use


def _that_may_use(name: str, module: Module) -> tuple[Path, ...] | None:
    """Return the files that may use what a module calls `name`; None where that may be too many.

    What goes by a common name, such as `load`, is used by files that name the module, unless a package hands it on.
    """
    named = module.project.search(name, module, _MOST_USERS)
    if named is None or named.found is not None:
        return named.found if named is not None else None
    importing = module.project.search(module.name.rpartition(".")[2], module, _MOST_USERS)
    if importing is None or importing.found is None:
        return None
    others = [path for path in importing.found if path != module.path]
    return None if any(path.name == "__init__.py" for path in others) else (module.path, *others)


def _only_names(use: ast.AST, around: list[ast.AST]) -> bool:
    """Does it stand in an annotation, a test of a type, or under `if __name__ == "__main__"`?"""
    child = use
    for parent in around:
        if isinstance(parent, ast.Call) and getattr(parent.func, "id", "") in ("isinstance", "issubclass", "super"):
            return True
        if isinstance(parent, (ast.arg, ast.AnnAssign)) and parent.annotation is child:
            return True
        if isinstance(parent, FUNCTIONS) and parent.returns is child:
            return True
        if isinstance(parent, ast.If) and is_main_guard(parent):
            return True
        child = parent
    return False


def _judges(definition: _Definition) -> bool:
    """Does a gradient flow through it to what it judges, though its own weights are fixed?"""
    table = gradient_table()
    return any(pattern.search(definition.name) for pattern in (table.losses, table.judging_classes))
