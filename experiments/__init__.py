"""Reproducible comparisons, run by hand; results are in docs/benchmarks.md."""
