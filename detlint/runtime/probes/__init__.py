"""The probes, one a module: importing the package registers them all."""

from importlib import import_module
from pkgutil import iter_modules

from detlint.runtime.probes.registry import PROBES

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["PROBES"]
