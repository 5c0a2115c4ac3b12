"""The sidecar: one small process a node that makes events of what the ranks of a job wrote down.

Rule of this package: it runs beside training and never in it; what the ranks run is ``paceline.training``.
"""
