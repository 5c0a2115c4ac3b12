"""Quantiles of any number of values in fixed space: counted in bins of 1 %.

Rule of this file: pure and bounded. Values are seconds, from a microsecond to some months; what lies outside counts in
the first or last bin.
"""

import math

import numpy as np

_LEAST = 1e-6
_BIN = math.log(1.01)
_BINS = 3000


class Histogram:
    """Weighted counts by value.

    >>> histogram = Histogram()
    >>> for value in (0.1, 0.2, 0.4):
    ...     histogram.add(value, 1.0)
    >>> round(histogram.quantile(0.5), 2)
    0.2
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS)

    def add(self, value: float, weight: float) -> None:
        """Count ``value`` in, ``weight`` times."""
        place = int(math.log(max(value, _LEAST) / _LEAST) / _BIN)
        self._counts[min(place, _BINS - 1)] += weight

    def quantile(self, part: float) -> float | None:
        """The value below which ``part`` of the weight lies, to half a percent; None before the first."""
        total = self._counts.sum()
        if not total > 0:
            return None
        place = int(np.searchsorted(np.cumsum(self._counts), part * total))
        return float(_LEAST * math.exp((min(place, _BINS - 1) + 0.5) * _BIN))
