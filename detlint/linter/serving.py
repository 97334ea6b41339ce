"""Does a project only run trained models? Then nobody asks for a gradient, though its layers could give one."""

from __future__ import annotations

from detlint.linter.project import Module

_TRAINING = (
    *("backward", "loss", "losses", "criterion", "optim", "optimizer", "optimizers"),
    *("Trainer", "train_step", "training_step"),
)
_INFERRING = (("eval",), ("no_grad", "inference_mode"), ("load_state_dict", "from_pretrained"))


def serves(module: Module) -> bool:
    """Return whether the project holds no word of training and loads weights, switches to eval and drops gradients.

    A file outside any project serves nobody; nor does a collection of models, which others train.
    """
    return module.project.once(_serves, module)


def _serves(module: Module) -> bool:
    if any(_holds(module, word) for word in _TRAINING):
        return False
    return all(any(_holds(module, word) for word in words) for words in _INFERRING)


def _holds(module: Module, word: str) -> bool:
    search = module.project.search(word, module, at_most=0)
    return search is not None and search.found is None
