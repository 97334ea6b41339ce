"""The one place that holds detlint's version."""

__version__ = "0.1.0"
