"""Memory that nobody has written yet, and copies that a device may still be writing."""
