"""Floats: which were computed, how precise they are, and how exactly they are compared."""
