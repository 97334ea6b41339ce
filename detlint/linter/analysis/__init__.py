"""What code means, whatever it is about: names, values, flow, callers, programs, and what a check sees of them."""
