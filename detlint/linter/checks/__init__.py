"""Checks by topic. Each module registers its own; loading them all is what `registry` does."""
