"""Reports: what a whole recording amounts to, for a person: the panel, the summary behind it, the GPUs' numbers.

Rule of this package: pure. It words what was decided elsewhere and judges nothing.
"""
