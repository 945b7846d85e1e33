"""Benchmarks: each figure is a ratio of two things measured in one run. `make bench`."""
