"""Checks what is to be audited before anything runs: the model, its modules, its device."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING

import torch
from torch.utils._pytree import tree_map

from detlint.errors import AuditError
from detlint.runtime.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def modules_of(model: object) -> tuple[torch.nn.Module, ...]:
    """Return the modules that a model consists of: itself, or those that a function or an object holds.

    Looks at bound methods, partials, closures and the attributes of callable objects.
    """
    found: dict[int, torch.nn.Module] = {id(module): module for module in _held(model)}
    inner = {id(child) for module in found.values() for child in module.modules() if child is not module}
    return tuple(module for key, module in found.items() if key not in inner)


def _held(model: object) -> Iterator[torch.nn.Module]:
    if isinstance(model, torch.nn.Module):
        yield model
    elif isinstance(model, functools.partial):
        for part in (model.func, *model.args, *model.keywords.values()):
            yield from _held(part)
    elif hasattr(model, "__self__"):
        yield from _held(model.__self__)
    elif hasattr(model, "__closure__"):
        cells = [cell.cell_contents for cell in model.__closure__ or () if _filled(cell)]
        yield from (cell for cell in cells if isinstance(cell, torch.nn.Module))
    else:
        attributes = getattr(model, "__dict__", {}).values()
        yield from (value for value in attributes if isinstance(value, torch.nn.Module))


def _filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018
    except ValueError:
        return False
    return True


def moved_to(model: Callable[..., object], sample: Sample, device: str | None) -> tuple[Callable[..., object], Sample]:
    """Bring model and sample to `device`; the user's model stays where it is, so a copy is made.

    Raises:
        AuditError: sample and model are on different devices, there is no such device, or a function cannot be
            moved.
    """
    if device is not None:
        wanted = _device(device)
        places = {tensor.device for module in modules_of(model) for tensor in module.parameters()}
        if any(place.type != wanted.type for place in places):
            if not isinstance(model, torch.nn.Module):
                raise AuditError(f"device={device!r}: only a module can be moved; build the model there")
            model = copy.deepcopy(model).to(wanted)
        args, kwargs = tree_map(
            lambda leaf: leaf.to(wanted) if isinstance(leaf, torch.Tensor) else leaf,
            (sample.args, dict(sample.kwargs)),
        )
        sample = Sample(args, kwargs)
    _check_devices(model, sample)
    return model, sample


def _device(name: str) -> torch.device:
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either where a device is missing
        raise AuditError(f"device={name!r}: {(str(error).splitlines() or [''])[0]}") from None


def _check_devices(model: Callable[..., object], sample: Sample) -> None:
    places = {
        str(tensor.device)
        for module in modules_of(model)
        for tensor in module.parameters()
        if tensor.device.type != "meta"
    }
    if len(places) != 1:  # no parameters, or spread over devices by a plan of its own
        return
    (place,) = places
    for name, tensor in sample.tensors().items():
        if str(tensor.device) != place:
            raise AuditError(
                f"sample: {name} is on {tensor.device}, but the model is on {place}: move one, or pass device=…"
            )
