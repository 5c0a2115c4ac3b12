"""Streaming decisions over training events: who holds a job back, since when, and why."""
