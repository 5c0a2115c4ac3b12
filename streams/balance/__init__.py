"""Balancing over Kafka: what the ranks of a job measured in, plans for them out.

Rule of this package: pure. It decides by the very code that ranks decide by among themselves (``paceline.balance``);
from which batch on a plan holds, and whether at all, is theirs.
"""
