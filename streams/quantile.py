"""A quantile of few numbers.

Rule of this file: ``np.quantile`` takes a tenth of a millisecond however few they are; this gives the same to the last
bit.
"""

import math

import numpy as np

from .robust import Array


def quantile(values: Array, share: float) -> float:
    """What ``share`` of ``values`` are not above, interpolated linearly: type 7 of Hyndman and Fan (1996).

    >>> quantile(np.array([4.0, 1.0, 2.0, 3.0]), 0.5)
    2.5

    Args:
        values: one-dimensional, at least one, without NaN.
        share: from 0 to 1.
    """
    ordered = np.sort(values)
    place = (ordered.size - 1) * share
    at = math.floor(place)
    if at >= ordered.size - 1:
        return float(ordered[-1])
    low, high = float(ordered[at]), float(ordered[at + 1])
    part = place - at
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part
