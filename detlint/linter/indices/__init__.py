"""What an operator is given: its arguments, dimensions, and whether two of its indices can meet in one place."""
