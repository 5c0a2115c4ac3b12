"""A series up to now: its values on a regular grid, gaps as gaps, its season and its physical range.

Rule of this file: pure data. Nothing here forecasts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Series are held as single precision: of a number, so large a share may be lost.
PRECISION = 1e-7


@dataclass(frozen=True)
class Series:
    """``values``: one a sample, NaN where nothing was measured; neither the first nor the last is NaN.

    ``filled`` holds the same with gaps closed by the value before them, for filters that need every sample.
    ``season`` is the samples in a season, 0 where there is none; ``low`` and ``high`` bound what can be measured.
    """

    values: Array
    filled: Array
    interval_s: float
    season: int = 0
    low: float | None = None
    high: float | None = None
    _filtered: dict[str, Array] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, values: Array, interval_s: float, season: int = 0, low: float | None = None, high: float | None = None
    ) -> "Series":
        """The series in ``values``, without the gaps at its two ends.

        Raises:
            ValueError: nothing was measured.
        """
        measured = np.flatnonzero(np.isfinite(values))
        if not measured.size:
            raise ValueError("nothing was measured")
        kept = np.asarray(values[measured[0] : measured[-1] + 1], dtype=np.float64)
        return cls(kept, carried(kept), interval_s, season, low, high)

    def __len__(self) -> int:
        return len(self.values)

    def until(self, end: int) -> "Series":
        """The same as it was after its first ``end`` samples; it shares what this one has filtered."""
        measured = np.flatnonzero(np.isfinite(self.values[:end]))
        kept = slice(0, int(measured[-1]) + 1)
        return replace(self, values=self.values[kept], filled=self.filled[kept])

    def causal(self, name: str, filter_: Callable[[Array], Array]) -> Array:
        """``filter_`` of ``filled``, made once for this series and all its beginnings.

        Each number may depend on the samples up to its own alone: then a beginning's numbers are those of the whole.
        """
        filtered = self._filtered.get(name)
        if filtered is None or len(filtered) < len(self):
            filtered = self._filtered[name] = filter_(self.filled)
        return filtered[: len(self)]

    def last(self, samples: int) -> "Series":
        """No more than the newest ``samples``."""
        if len(self) <= samples:
            return self
        return Series.of(self.values[-samples:], self.interval_s, self.season, self.low, self.high)

    def clipped(self, values: Array) -> Array:
        """``values`` inside the physical range."""
        if self.low is None and self.high is None:
            return values
        return np.clip(values, self.low, self.high)


def carried(values: Array) -> Array:
    """``values`` with every gap closed by the value before it; the first is no gap.

    >>> carried(np.array([1.0, np.nan, 3.0])).tolist()
    [1.0, 1.0, 3.0]
    """
    measured = np.isfinite(values)
    if measured.all():
        return values
    source = np.maximum.accumulate(np.where(measured, np.arange(len(values)), 0))
    return np.asarray(values[source])


def matched(values: Array, value: float) -> Array:
    """``values``, where those that single precision cannot tell from ``value`` are ``value``.

    >>> matched(np.array([0.99999999, 0.9999, np.nan]), 1.0).tolist()
    [1.0, 0.9999, nan]
    """
    return np.where(np.abs(values - value) <= PRECISION * abs(value), value, values)
