"""What code is there for, and where it runs: training, inference, tests, data loading; on which device."""
