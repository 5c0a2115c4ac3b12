"""At which pace messages go out: as far apart as they were, so many times faster, or as fast as they can.

Rule of this file: pure but for the clock it is given; whoever sends does the waiting.
"""

import argparse
import time
from collections.abc import Callable


def speed(raw: str) -> float:
    """How many times faster ``raw`` says: a number, or 0 for ``max``, as fast as possible; a 0 means the same.

    Raises:
        argparse.ArgumentTypeError: it says none.
    """
    if raw == "max":
        return 0.0
    try:
        value = float(raw)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{raw}: a number of 0 or more, or max")
    return value


class Pace:
    """When messages are due that were ``speed`` times as far apart; the first one is due at once.

    >>> pace = Pace(10.0, clock=lambda: 500.0)
    >>> pace.due(1_700_000_000.0), pace.due(1_700_000_020.0)
    (500.0, 502.0)
    """

    def __init__(self, speed: float, first_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._speed = speed
        self._first_s = first_s
        self._started = clock()

    def due(self, time_s: float) -> float:
        """When, on the monotonic clock, a message of ``time_s`` is due; the start where there is no pace to keep."""
        if self._first_s is None:
            self._first_s = time_s
        return self._started + (time_s - self._first_s) / self._speed if self._speed else self._started
