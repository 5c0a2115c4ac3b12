"""Timing of PyTorch training from inside the process, at a cost of microseconds a step."""
