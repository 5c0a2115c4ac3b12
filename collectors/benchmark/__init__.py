"""Micro-benchmarks of a node: what its devices can do, measured in seconds."""
