"""How sure a difference of two means is, where neighbouring values are alike: the block bootstrap.

Rule of this file: pure and seeded; the same values give the same interval.
"""

import math
from typing import Any, NamedTuple

import numpy as np

Values = np.ndarray[Any, np.dtype[np.float64]]
#: Fewer values than this have no interval.
LEAST_VALUES = 20
REPEATS = 600
#: More values than this are averaged by neighbours first: blocks are longer than that anyway.
MOST_VALUES = 600
STRETCHES = 5
_Z = 1.959964


class Series(NamedTuple):
    """Means of stretches, in order, and how much each counts."""

    values: Values
    weights: Values

    @property
    def mean(self) -> float:
        """The weighted mean."""
        return float(np.average(self.values, weights=self.weights))


class Difference(NamedTuple):
    """How much more the second is than the first, as a share of the first, with an interval of 95 %."""

    ratio: float
    low: float
    high: float


def difference(first: Series, second: Series, seed: int = 0) -> Difference:
    """The difference of the means of ``first`` and ``second``, all values above 0.

    Blocks of neighbours are drawn again, around a circle, with a length that fits how alike neighbours are (Carlstein,
    "The use of subseries values for estimating the variance of a general statistic from a stationary sequence", 1986).
    Few blocks tell too little of their own spread, so the interval is Student's with as many degrees of freedom as
    there are blocks, and it is never narrower than the one that a few long stretches tell, independent or nearly so.

    Raises:
        ValueError: there are fewer than ``LEAST_VALUES`` of either.

    >>> dice = np.random.default_rng(7)
    >>> before, after = (Series(dice.normal(mean, 0.01, 80), np.ones(80)) for mean in (1.0, 1.1))
    >>> [round(one, 2) for one in difference(before, after)]
    [0.1, 0.1, 0.1]
    """
    dice = np.random.default_rng(seed)
    spreads, stretches, blocks = [], [], 0
    for series in (first, second):
        if len(series.values) < LEAST_VALUES:
            raise ValueError(f"{len(series.values)} values have no interval; {LEAST_VALUES} have")
        joined = _joined(series)
        spread, count = _spread(joined, dice)
        spreads.append(spread)
        stretches.append(_of_stretches(joined))
        blocks += count
    middle = math.log(second.mean / first.mean)
    by_stretches = _student(2 * (STRETCHES - 1)) * math.hypot(*stretches)
    reach = max(_student(max(blocks - 2, 2)) * math.hypot(*spreads), by_stretches)
    return Difference(*(math.expm1(one) for one in (middle, middle - reach, middle + reach)))


def _joined(series: Series) -> Series:
    """Neighbours averaged, so that no more than ``MOST_VALUES`` are left."""
    together = -(-len(series.values) // MOST_VALUES)
    if together == 1:
        return series
    starts = np.arange(0, len(series.values), together)
    weights = np.add.reduceat(series.weights, starts)
    return Series(np.add.reduceat(series.values * series.weights, starts) / weights, weights)


def _spread(series: Series, dice: np.random.Generator) -> tuple[float, int]:
    """The standard error of the mean, relative to it, and how many blocks tell of it."""
    size = len(series.values)
    length = block_length(series.values)
    blocks = -(-size // length)
    starts = dice.integers(0, size, (REPEATS, blocks))
    places = ((starts[:, :, None] + np.arange(length)) % size).reshape(REPEATS, -1)[:, :size]
    weights = series.weights[places]
    means = (series.values[places] * weights).sum(axis=1) / weights.sum(axis=1)
    return float(means.std()) / series.mean, blocks


def _of_stretches(series: Series) -> float:
    """The same by the means of a few long stretches."""
    starts = np.linspace(0, len(series.values), STRETCHES + 1).astype(int)[:-1]
    weights = np.add.reduceat(series.weights, starts)
    means = np.add.reduceat(series.values * series.weights, starts) / weights
    return float(means.std(ddof=1) / math.sqrt(STRETCHES)) / series.mean


def block_length(values: Values) -> int:
    """How many neighbours belong together: 1 where they are independent, no more than an eighth of all.

    >>> block_length(np.array([1.0, 2.0] * 50)), block_length(np.repeat([1.0, 2.0], 50))
    (1, 12)
    """
    size = len(values)
    centred = values - values.mean()
    power = float(centred @ centred)
    alike = float(centred[1:] @ centred[:-1]) / power if power > 0 else 0.0
    alike = min(alike + (1 + 4 * alike) / size, 0.97)  # Kendall's correction: short series look less alike
    if alike <= 0:
        return 1
    length: int = math.ceil((2 * alike / (1 - alike**2)) ** (2 / 3) * size ** (1 / 3))
    return max(min(length, size // 8), 1)


def _student(freedom: int) -> float:
    """Student's 97.5 % quantile, by Cornish and Fisher's expansion; within 2 % from 3 degrees of freedom on."""
    z = _Z
    terms = (
        z,
        (z**3 + z) / (4 * freedom),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3),
    )
    return sum(terms)
