"""Knowledge of the linter that no rule holds, read from `rules/` and validated once at load."""
