"""What an audit must leave as it was."""

from __future__ import annotations

import copy
import random
import threading
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from detlint.runtime.flags import read_flags


def state_of(model: nn.Module) -> dict[str, Any]:
    """Everything about a model and the process that an audit could change."""
    state: dict[str, Any] = {"flags": read_flags(), "grad": torch.is_grad_enabled()}
    state["dtype"], state["threads"] = torch.get_default_dtype(), torch.get_num_threads()
    state["device"] = torch.empty(0).device
    state["python"], state["numpy"] = random.getstate(), repr(np.random.get_state())
    state["torch"] = torch.get_rng_state().tolist()
    state["start"] = threading.Thread.start
    hooks = torch.nn.modules.module
    state["global hooks"] = (dict(hooks._global_forward_hooks), dict(hooks._global_forward_pre_hooks))
    for name, module in model.named_modules():
        plain = {k: v for k, v in vars(module).items() if not k.startswith("_")}
        state[f"attributes of {name}"] = copy.deepcopy(
            tree_map_only(torch.Tensor, torch.Tensor.tolist, {k: v for k, v in plain.items() if k != "action"})
        )
        state[f"hooks of {name}"] = {k: list(v) for k, v in vars(module).items() if k.endswith("_hooks")}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        state[f"content of {name}"] = tensor.detach().clone().tolist()
        state[f"address of {name}"] = (id(tensor), tensor.data_ptr(), tensor.stride())
        state[f"flag of {name}"] = tensor.requires_grad
        state[f"gradient of {name}"] = None if tensor.grad is None else (id(tensor.grad), tensor.grad.tolist())
    return state


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert before.keys() == after.keys()
    for name in before:
        assert before[name] == after[name], name
