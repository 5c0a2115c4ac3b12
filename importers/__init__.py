"""Importers: what people already have (profiler traces, NCCL Inspector logs, op timelines) into the contract's events.

Rule of this package: open streams come in, events and notes come out; files and output belong to the command. What a
source does not say is left out, never made up; what could not be used is counted in the notes. It needs numpy, which
``paceline`` itself does not.
"""
