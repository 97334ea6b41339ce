"""detlint finds what makes a PyTorch program give different results from the same input."""

from detlint.version import __version__

__all__ = ["__version__"]
