"""What every model looks at: the series, the steps asked for, and what followed earlier moments.

Rule of this file: pure; made once a forecast and shared, because models differ only in what they compare it with.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .series import Array, Series

#: Errors are measured at no more than so many moments of the past, and at so many steps ahead; between, interpolated.
ORIGINS, KNOTS = 320, 14


@dataclass(frozen=True)
class ForecastContext:
    """A series, how many steps ahead, and at which levels (ascending)."""

    series: Series
    horizon: int
    levels: Array

    @cached_property
    def knots(self) -> NDArray[np.intp]:
        """Steps ahead at which errors are measured: geometric from 1 to the horizon, if the series is long enough."""
        farthest = max(1, min(self.horizon, (2 * len(self.series)) // 3))
        if farthest <= KNOTS:
            return np.arange(1, farthest + 1)
        return np.unique(np.geomspace(1, farthest, KNOTS).round().astype(np.intp))

    @cached_property
    def origins(self) -> NDArray[np.intp]:
        """Earlier moments (indices) that are looked back at, evenly thinned; the newest has one follower."""
        newest = len(self.series) - 1
        oldest = max(0, newest - max(3 * ORIGINS, int(self.knots[-1]) + ORIGINS))
        step = max(1, (newest - oldest) // ORIGINS)
        return np.arange(newest - 1, oldest - 1, -step)[::-1] if newest > 0 else np.zeros(0, dtype=np.intp)

    @cached_property
    def followers(self) -> Array:
        """origins x knots: the value that followed each origin after each knot; NaN where unknown."""
        where = self.origins[:, None] + self.knots[None, :]
        newest = len(self.series) - 1
        values = self.series.values[np.minimum(where, newest)]
        return np.where(where <= newest, values, np.nan)

    def across(self, rows: Array) -> Array:
        """knots x levels to horizon x levels: linear between knots, the last one held beyond them."""
        if len(self.knots) == self.horizon:
            return rows
        return np.asarray(self._between @ rows)

    @cached_property
    def _between(self) -> Array:
        """horizon x knots: the weights that make a step's value from those at its two knots."""
        steps = np.arange(1, self.horizon + 1)
        right = np.clip(np.searchsorted(self.knots, steps), 1 if len(self.knots) > 1 else 0, len(self.knots) - 1)
        left = np.maximum(right - 1, 0)
        share = np.clip((steps - self.knots[left]) / np.maximum(self.knots[right] - self.knots[left], 1), 0.0, 1.0)
        table = np.zeros((self.horizon, len(self.knots)))
        table[steps - 1, left] += 1.0 - share
        table[steps - 1, right] += share
        return table


def spread(errors: Array, levels: Array) -> Array:
    """origins x knots to knots x levels: each column's quantiles, NaN left out.

    A column without any value takes its left neighbour's; where there is none at all, 0.

    >>> spread(np.array([[0.0], [2.0], [np.nan]]), np.array([0.5])).tolist()
    [[1.0]]
    """
    ordered = np.sort(errors, axis=0)
    count = np.isfinite(ordered).sum(axis=0)
    if not len(ordered):
        return np.zeros((errors.shape[1], len(levels)))
    place = levels[None, :] * np.maximum(count - 1, 0)[:, None]
    below = place.astype(np.intp)
    above = np.minimum(below + 1, np.maximum(count - 1, 0)[:, None])
    columns = np.arange(errors.shape[1])[:, None]
    share = place - below
    quantiles = ordered[below, columns] * (1.0 - share) + ordered[above, columns] * share
    for column in np.flatnonzero(count == 0):
        quantiles[column] = quantiles[column - 1] if column else 0.0
    return np.asarray(quantiles)
