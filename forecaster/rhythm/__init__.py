"""Cycles: which period a job has, from its events or, failing those, from a signal."""
