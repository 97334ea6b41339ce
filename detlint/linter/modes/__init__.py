"""Train and eval mode: which models there are, which mode they are in, and whether that makes a difference."""
