"""What a run left, in a file: written on one machine, compared with that of another."""
