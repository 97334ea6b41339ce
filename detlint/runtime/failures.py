"""What to tell users whose model raised: what, where, and what about the call explains it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

import torch

from detlint.errors import one_line
from detlint.runtime.frames import raised_at

if TYPE_CHECKING:
    from detlint.runtime.passes import Case

_NO_GRAPH: Final = "does not require grad and does not have a grad_fn"
_SECOND_BACKWARD: Final = "backward through the graph a second time"
"""What torch says where a program calls `backward` itself."""


def model_raised(error: BaseException, case: Case) -> str:
    """Say in one line what a model raised, where, and what may have led to it."""
    return f"the model raised {one_line(error)}{raised_at(error)}{_hint(error, case)}"


def _hint(error: BaseException, case: Case) -> str:
    if isinstance(error, TypeError) and len(case.sample.args) > 1 and not _takes_sample(case):
        return "; a sample that is a tuple is taken apart into arguments: write (batch,) to pass it as one"
    if _NO_GRAPH in str(error) and not case.backward:
        return "; it ran under no_grad: write `with torch.enable_grad():` around what needs gradients"
    if _SECOND_BACKWARD in str(error) and case.backward:
        return "; backward=True calls backward() on what the model returns: leave it out where the model does so itself"
    return ""


def _takes_sample(case: Case) -> bool:
    """Does the signature of the model take these arguments, as far as it can be read?"""
    model = case.model.forward if isinstance(case.model, torch.nn.Module) else case.model
    try:
        inspect.signature(model).bind(*case.sample.args, **case.sample.kwargs)
    except TypeError:
        return False
    except ValueError:  # functions in C that tell none
        return True
    return True
