"""Does a project only run trained models? Then nobody asks for a gradient, though its layers could give one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from pathlib import Path

from detlint.linter.analysis.module import Module
from detlint.linter.programs.training import training_steps
from detlint.linter.source.names import FunctionNode

# What code calls that trains, by hand or through a framework.
_LOOPS = ("zero_grad", "training_step", "train_step")
# What files of trained models mention all the same: how they were trained, losses that nobody calls.
_STEPS = ("optim", "optimizer", "optimizers", "Trainer")
_LOSSES = ("loss", "losses", "criterion")
_TRAINING = ("backward", *_LOSSES, *_STEPS)
_RUNNING = (("eval", "inference_mode"), ("no_grad", "inference_mode"), ("load_state_dict", "from_pretrained"))
# Two files that mention training for three that load weights, switch to eval, or drop gradients: of packages that were
# looked at, those above the line only ran models, and below it stand collections of models for others to train.
_MOST_TRAINING = 2 / 3
# Losses that nothing minimises came along with copied models: so many may mention them as run models, in more than one
# file, since one `load` and one `eval` are what libraries of models have too.
_LEAST_RUNNING = 2
# A step that a trainer calls. Copied models bring theirs along: no trainer is named, and four times as many files run
# models. Of more files it is not asked what they do.
_CALLED_BY_TRAINERS = "training_step"
_TRAINER = "Trainer"
_LEAST_RUNNING_A_STEP = 4
_MOST_STEPS = 8
# Methods within methods that train.
_MOST_CALLS = 3
# Files whose code is looked at for a word that their texts hold.
_MOST_MENTIONS = 4
_MOST_FILES = 64
# Files behind a part that trains, the nearest first.
_MOST_TRAINED = 48
# A package by this name says that the project trains, however seldom.
_TRAINS = frozenset({"train", "training", "trainer", "trainers", "finetune", "finetuning"})


def serves(module: Module) -> bool:
    """Return whether the project trains nowhere, loads weights, switches to eval and drops gradients.

    A file outside any project serves nobody; nor does a collection of models, which others train, nor a package that is
    named after training, nor what such a package imports. In a project that gathers programs, each in a folder of its
    own, one of these may serve beside others that do not.
    """
    if not _TRAINS.isdisjoint(module.name.split(".")):
        return False
    package = _Package(_package(module), module)
    if not module.project.for_all(_serves, package):
        return _part(module.path, module) in module.project.for_all(_serving_parts, package)
    return module.path not in module.project.for_all(_trained, package)


@dataclass(frozen=True, slots=True)
class _Package:
    """The folder of a package, and a file that may be any of its files."""

    folder: Path
    module: Module = field(compare=False)


def _serves(package: _Package) -> bool:
    module = package.module
    looping = [_files(module, word, _MOST_STEPS) for word in _LOOPS]
    if any(found is None for found in looping):
        return False
    running = min(len(set().union(*(_files(module, word) or () for word in words))) for words in _RUNNING)
    steps = set().union(*(found or () for found in looping))
    if steps and (running < _LEAST_RUNNING_A_STEP * len(steps) or not _wait_for_trainer(steps, module)):
        return False
    few = int(running * _MOST_TRAINING)
    if running > 0 and _mentioned_in_few(("backward", *_LOSSES), few, module) and _used_in_few(_STEPS, few, module):
        return True
    seldom = _mentioned_in_few(_LOSSES, running, module) or _used_in_few(_LOSSES, 0, module)
    return running >= _LEAST_RUNNING and seldom and _minimises_nothing(module)


def _wait_for_trainer(files: Set[Path], module: Module) -> bool:
    """Do files train in methods alone that a trainer would call, or that nobody calls, and no file names a trainer?"""
    if not _mentioned_in_few((_TRAINER,), 0, module):
        return False
    places = [module.project.at(path) for path in sorted(files)]
    around = ((place, place.index.function_at(step)) for place in places for step in training_steps(place.tree))
    return all(function is not None and _is_left_alone(function, place) for place, function in around)


def _is_left_alone(method: FunctionNode, module: Module, calls: int = _MOST_CALLS) -> bool:
    """`training_step`, or a method that nothing calls but methods which nothing calls: it came along with a model."""
    if method.name == _CALLED_BY_TRAINERS:
        return True
    mentions = _files(module, method.name, _MOST_MENTIONS) if module.index.class_at(method) is not None else None
    if calls == 0 or mentions is None:
        return False
    others = (module.project.at(path) for path in mentions if path != module.path)
    if any(place.index.names_used.get(method.name) for place in others):  # who defines the name anew calls nothing
        return False
    users = [module.index.function_at(use) for use in module.index.names_used.get(method.name, ())]
    return all(user is not None and _is_left_alone(user, module, calls - 1) for user in users)


def _serving_parts(package: _Package) -> Set[Path]:
    """Return the folders right below the package that hold a file which loads, switches to eval and drops gradients.

    Not those in which code names a part of training, as copied models do; and none where it does so anywhere but deep
    in such a folder: that may train any model.
    """
    module = package.module
    running = (set().union(*(_files(module, word) or () for word in words)) for words in _RUNNING)
    parts = {_part(path, module) for path in set.intersection(*running)} - {_package(module)}
    training: set[Path] = set()
    for word in (*_LOOPS, *_TRAINING) if parts else ():
        mentions = _files(module, word, _MOST_FILES)
        if mentions is None:
            return frozenset()
        training |= {path for path in mentions if _names(module.project.at(path), word)}
    copied = {_part(path, module) for path in training}
    deep = all(path.parent not in parts for path in training)
    return parts - copied if deep and copied <= parts else frozenset()


def _package(module: Module) -> Path:
    """Return the folder of the package that a file belongs to, through all that it lies in."""
    return module.path.parents[max(0, module.name.count(".") - (module.path.name != "__init__.py"))]


def _part(path: Path, module: Module) -> Path:
    """Return the folder right below the package that a file lies in, or the package itself."""
    package = _package(module)
    folders = path.relative_to(package).parts[:-1] if path.is_relative_to(package) else ()
    return package.joinpath(*folders[:1])


def _mentioned_in_few(words: tuple[str, ...], few: int, module: Module) -> bool:
    return all(_files(module, word, at_most=few) is not None for word in words)


def _used_in_few(words: tuple[str, ...], few: int, module: Module) -> bool:
    """Do no more files use one of the words than `few`?

    `import torch.optim as optim` stands over many that do not, and comments speak of losses that nobody computes.
    """
    for word in words:
        if _files(module, word, few) is None:
            mentions = _files(module, word, few + _MOST_MENTIONS)
            if mentions is None or sum(_names(module.project.at(path), word) for path in mentions) > few:
                return False
    return True


def _minimises_nothing(module: Module) -> bool:
    """Does no file mention an optimizer, and none differentiate, whatever its comments say of `backward`?"""
    backward = _files(module, "backward", _MOST_MENTIONS)
    if backward is None or not _mentioned_in_few(_STEPS, 0, module):
        return False
    return not any(_names(module.project.at(path), "backward") for path in backward)


def _names(module: Module, word: str) -> bool:
    """Does the code of a file use or define the name, not only its comments and texts?"""
    methods = (function.name for function in module.index.of_type(ast.FunctionDef))
    return bool(module.index.names_used.get(word)) or word in methods


def _trained(package: _Package) -> Set[Path]:
    """Return the files of a part of the project that trains, by its name or by what it does, and what these import.

    A step that waits for a trainer comes along with models of all kinds.
    """
    module = package.module
    files = {path for word in _TRAINING for path in _files(module, word) or ()}
    named = {path for path in files if _is_named_after_training(path, module)}
    stepping = {path for word in _LOOPS for path in _files(module, word, _MOST_STEPS) or ()}
    trained = named | {path for path in stepping if _steps_by_itself(module.project.at(path))}
    return with_imports(map(module.project.at, sorted(trained)), _MOST_TRAINED)


def _steps_by_itself(module: Module) -> bool:
    around = [module.index.function_at(step) for step in training_steps(module.tree)]
    return any(function is None or function.name != _CALLED_BY_TRAINERS for function in around)


def with_imports(modules: Iterable[Module], at_most: int) -> Set[Path]:
    """Return the files of modules and of what they import, one after the other, no more than `at_most`."""
    pending = list(modules)
    found: dict[Path, None] = {}
    for place in pending:  # grows on the way
        if place.path not in found and len(found) < at_most:
            found[place.path] = None
            pending.extend(place.imports)
    return found.keys()


def _is_named_after_training(path: Path, module: Module) -> bool:
    """`package/train/loop.py`, seen from the root of the package."""
    root = module.path.parents[len(module.name.split(".")) - 1] if "." in module.name else module.path.parent
    parts = path.relative_to(root).with_suffix("").parts if path.is_relative_to(root) else ()
    return not _TRAINS.isdisjoint(parts)


def _files(module: Module, word: str, at_most: int = sys.maxsize - 1) -> tuple[Path, ...] | None:
    """Return the files of the project that hold a word, None for more than `at_most` and outside any project."""
    search = module.project.search(word, module, at_most)
    return search.found if search is not None else None
