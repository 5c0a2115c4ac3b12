"""From counters to rates.

Rule of this file: a decision. Time is an argument, in seconds of a monotonic clock.
"""


class Rate:
    """Units per second of a counter that only grows.

    The first reading, a counter that was reset or has wrapped, and a gap in the readings give None: nothing is known
    of the interval, and 0 would be a claim.

    >>> rate = Rate()
    >>> rate.update(1000, now_s=1.0), rate.update(3000, now_s=2.0), rate.update(10, now_s=3.0)
    (None, 2000.0, None)
    """

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def update(self, counter: float | None, now_s: float) -> float | None:
        """The rate between the reading before and this one."""
        before, self._last = self._last, None if counter is None else (counter, now_s)
        if before is None or counter is None or counter < before[0] or now_s <= before[1]:
            return None
        return (counter - before[0]) / (now_s - before[1])
