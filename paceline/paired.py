"""Pairs of measurements, with and without: how much the difference is, and how sure that is.

Rule of this file: pure, and the one home of the formula: of what `paceline run --measure-overhead` tells, and of
``make bench-overhead``.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

#: Fewer pairs than this have no interval of 95 %: their lowest and highest difference hold less.
LEAST_PAIRS = 6


class Interval(NamedTuple):
    """A median and its interval of 95 %."""

    middle: float
    low: float
    high: float


def median_interval(differences: Sequence[float]) -> Interval:
    """The median of ``differences``, and an interval that holds the true one in at least 95 of 100 cases.

    The sign test's interval: how many of n independent differences lie below the true median is binomial with p = 1/2,
    whatever they are distributed like, so it lies between the k-th lowest and the k-th highest with a probability that
    only n and k decide. k is the largest with which that is 95 % or more. (Conover, Practical Nonparametric Statistics,
    section 3.2.)

    Raises:
        ValueError: there are fewer than ``LEAST_PAIRS``.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 6.0, 8.0, 7.0])
    Interval(middle=5.0, low=2.0, high=8.0)
    """
    n = len(differences)
    if n < LEAST_PAIRS:
        raise ValueError(f"{n} differences have no interval of 95 %; {LEAST_PAIRS} have")
    ordered = sorted(differences)
    below, k = 1, 0  # in units of 2**-n: the chance that at most k of n lie below
    while 40 * (below + math.comb(n, k + 1)) <= 2**n:
        k += 1
        below += math.comb(n, k)
    return Interval(statistics.median(ordered), ordered[k], ordered[n - 1 - k])
