"""`python -m detlint`."""

from detlint.cli import main

main()
