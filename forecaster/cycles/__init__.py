"""Cycles: how long a job's cycle is, when the next one comes, and when there is none.

Rule of this package: pure decisions; numbers in, a ``Cycle`` out. ``from_events`` (steps, collectives) is exact and
comes first; ``find_cycle`` reads a signal (power, utilisation) where there are no events.
"""

from .cycle import Cycle
from .occurrences import from_events
from .signals import find_cycle

__all__ = ["Cycle", "find_cycle", "from_events"]
