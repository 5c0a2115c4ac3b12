"""Series on one axis of time, in so many bins: however long a session is, it takes no more.

Rule of this file: pure. A bin holds least, sum, count and most; where a bin more were needed, two become one.
"""

from collections.abc import Iterator

import msgspec

#: Bins of a series, and series; names come from outside.
MOST_BINS, MOST_SERIES = 1000, 256


class Bin(msgspec.Struct, frozen=True):
    """What was measured in a stretch of time."""

    least: float
    total: float
    count: int
    most: float

    def joined(self, other: "Bin") -> "Bin":
        """Both together."""
        return Bin(
            min(self.least, other.least), self.total + other.total, self.count + other.count, max(self.most, other.most)
        )


class Timeline:
    """Values by series and time.

    >>> timeline = Timeline(bins=2)
    >>> for time_s in range(8):
    ...     timeline.add("power", 100.0 + time_s, float(time_s))
    >>> timeline.bin_s, [(start, one.total / one.count) for start, one in timeline.series("power")]
    (4.0, [(100.0, 1.5), (104.0, 5.5)])
    """

    def __init__(self, bins: int = MOST_BINS) -> None:
        self._most_bins = bins
        self.bin_s = 1.0
        self._series: dict[str, dict[int, Bin]] = {}
        self._first: int | None = None
        self._last = 0

    def add(self, series: str, time_s: float, value: float | None) -> None:
        """``value`` was measured then; None was not."""
        if value is None or (series not in self._series and len(self._series) >= MOST_SERIES):
            return
        number = int(time_s // self.bin_s)
        self._first = number if self._first is None else min(self._first, number)
        self._last = max(self._last, number)
        bins = self._series.setdefault(series, {})
        one = Bin(value, value, 1, value)
        bins[number] = bins[number].joined(one) if number in bins else one
        while self._last - self._first + 1 > self._most_bins:
            self._halve()

    def names(self) -> list[str]:
        """The series, by name."""
        return sorted(self._series)

    def series(self, name: str) -> Iterator[tuple[float, Bin]]:
        """Start of each bin in seconds, and what it holds."""
        for number, one in sorted(self._series.get(name, {}).items()):
            yield number * self.bin_s, one

    def _halve(self) -> None:
        self.bin_s *= 2
        for name, bins in self._series.items():
            joined: dict[int, Bin] = {}
            for number, one in bins.items():
                place = number // 2
                joined[place] = joined[place].joined(one) if place in joined else one
            self._series[name] = joined
        assert self._first is not None
        self._first, self._last = self._first // 2, self._last // 2
