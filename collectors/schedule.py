"""When to do the next of something that is done every so often.

Rule of this file: a decision. Time is an argument, in seconds of a monotonic clock.
"""

import math


class Schedule:
    """The instants ``start + n * interval``, free of drift: how long the work takes moves none of them.

    Work that takes longer than an interval misses instants. They are skipped and counted, never made up for in a burst.

    >>> schedule = Schedule(interval_s=1.0, start_s=10.0)
    >>> schedule.wait_s(10.0), schedule.wait_s(10.25), schedule.wait_s(12.5), schedule.missed
    (0.0, 0.75, 0.5, 1)
    """

    def __init__(self, interval_s: float, start_s: float) -> None:
        self.interval_s = interval_s
        self.missed = 0
        self._start_s = start_s
        self._next = 0

    def wait_s(self, now_s: float) -> float:
        """Take the next instant that is not over yet, and return how long it is until then."""
        # A clock's rounding must not make an instant that is now look like one that is over.
        ahead = math.ceil((now_s - self._start_s) / self.interval_s - 1e-6)
        if ahead > self._next:
            self.missed += ahead - self._next
            self._next = ahead
        due_s = self._start_s + self._next * self.interval_s
        self._next += 1
        return max(0.0, due_s - now_s)
