"""Values at times to values on a regular grid: gaps are gaps.

Rule of this file: pure; what cannot be put on a grid is refused with a reason.
"""

import numpy as np

from .series import Array

#: A grid may have so many samples, gaps included.
LONGEST = 200_000


class GridError(ValueError):
    """The times make no grid: why, in one line."""


def gridded(values: Array, times_s: Array, interval_s: float | None = None) -> tuple[Array, float]:
    """Values on a grid from the first to the last time, NaN where none fell, and the grid's interval in seconds.

    The interval is the median distance unless given; of several values at one place the last counts.

    Raises:
        GridError: fewer than two times and no interval, times that do not ascend, or too long a grid.

    >>> gridded(np.array([1.0, 2.0, 4.0]), np.array([0.0, 60.0, 180.0]))
    (array([ 1.,  2., nan,  4.]), 60.0)
    """
    steps = np.diff(times_s)
    if (steps <= 0).any():
        raise GridError(f"must ascend; number {int(np.argmax(steps <= 0)) + 1} is not after the one before it")
    if interval_s is None:
        if not steps.size:
            raise GridError("one time alone has no interval; give interval_s")
        interval_s = float(np.quantile(steps, 0.5, method="lower"))
    span = (times_s[-1] - times_s[0]) / interval_s
    if not span < LONGEST:
        raise GridError(f"span {span:.3g} intervals of {interval_s:g} s; at most {LONGEST} are allowed")
    places = np.round((times_s - times_s[0]) / interval_s).astype(np.intp)
    grid = np.full(int(places[-1]) + 1, np.nan)
    grid[places] = values
    return grid, interval_s
