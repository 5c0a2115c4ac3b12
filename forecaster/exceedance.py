"""When a forecast reaches a level: when memory is full, when enough GPUs are free.

Rule of this file: pure.
"""

import math
from dataclasses import dataclass

import numpy as np

from .series import Array, matched


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
    share = np.array([above(row, levels, limit) for row in values])
    early, half = (_first(share > least - 1e-9, interval_s) for least in (0.1, 0.5))
    return Exceedance(early, half, float(share.max()))


def above(row: Array, levels: Array, limit: float) -> float:
    """The share of futures at or above ``limit``; beyond the outermost levels it falls on as between the outer two.

    Quantiles that equal ``limit`` are at it, however many they are: a memory that is full is no fuller.

    >>> [round(above(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.5, 0.9]), limit), 3) for limit in (0.0, 1.0, 2.5, 4.0)]
    [0.98, 0.9, 0.3, 0.02]
    >>> round(above(np.array([0.9, 1.0, 1.0]), np.array([0.1, 0.5, 0.9]), 1.0), 3)
    0.5
    """
    row = matched(row, limit)
    reached = int(np.searchsorted(row, limit, "left"))
    if 0 < reached < len(row):
        share = (limit - row[reached - 1]) / (row[reached] - row[reached - 1])
        return float(1.0 - levels[reached - 1] - share * (levels[reached] - levels[reached - 1]))
    if reached == 0:
        return 1.0 - _beyond(row[0] - limit, row[1] - row[0], levels[0], levels[1]) if len(row) > 1 else 1.0
    return _beyond(limit - row[-1], row[-1] - row[-2], 1.0 - levels[-1], 1.0 - levels[-2]) if len(row) > 1 else 0.0


def _beyond(distance: float, apart: float, outer: float, inner: float) -> float:
    """What is left so far beyond the outermost level, which is ``apart`` from the next: an exponential tail."""
    if apart <= 0.0:
        return 0.0 if distance > 0.0 else float(outer)
    return float(outer) * math.exp(-float(distance) / float(apart) * math.log(inner / outer))


def _first(reached: np.ndarray[tuple[int], np.dtype[np.bool_]], interval_s: float) -> float | None:
    places = np.flatnonzero(reached)
    return float((places[0] + 1) * interval_s) if places.size else None
