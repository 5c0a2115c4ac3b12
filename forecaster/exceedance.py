"""When a forecast reaches a level: when memory is full, when enough GPUs are free.

Rule of this file: pure.
"""

from dataclasses import dataclass

import numpy as np

from .series import Array

#: A value that is less than this share of a level away from it is the level: an average of equals is rounded.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Exceedance:
    """When a level is reached: seconds from the newest value; None where not within the horizon.

    ``early_s`` is when one in ten futures has reached it, ``median_s`` when half of them have. ``probability`` is the
    largest share of futures that are there at one step of the horizon.
    """

    early_s: float | None
    median_s: float | None
    probability: float


def exceedance(values: Array, levels: Array, limit: float, interval_s: float) -> Exceedance:
    """When a series whose quantiles are ``values`` (steps x levels) is at or above ``limit``.

    >>> exceedance(np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]), np.array([0.1, 0.5, 0.9]), 4.0, 60.0)
    Exceedance(early_s=120.0, median_s=120.0, probability=0.5)
    """
    values = np.where(np.abs(values - limit) <= ROUNDING * abs(limit), limit, values)
    share = np.array([above(row, levels, limit) for row in values])
    early, half = (_first(share > least - 1e-9, interval_s) for least in (0.1, 0.5))
    return Exceedance(early, half, float(share.max()))


def above(row: Array, levels: Array, limit: float) -> float:
    """The share of futures at or above ``limit``; outside the outermost levels, theirs."""
    if limit <= row[0]:
        return 1.0 if limit < row[0] else float(1.0 - levels[0])
    if limit > row[-1]:
        return 0.0
    return float(1.0 - np.interp(limit, row, levels))


def _first(reached: np.ndarray[tuple[int], np.dtype[np.bool_]], interval_s: float) -> float | None:
    places = np.flatnonzero(reached)
    return float((places[0] + 1) * interval_s) if places.size else None
