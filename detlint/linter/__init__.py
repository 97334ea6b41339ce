"""The linter: reads source, and never imports torch or runs what it reads."""
