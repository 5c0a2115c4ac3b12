"""Is a memory filling up, and when will it be full?

Rule of this file: pure. Two spans are looked at: two minutes, for what fills fast, and half an hour, for slow leaks.
"""

from statistics import median
from typing import NamedTuple

from ..stored import Kept, Stored

_POINTS_LEAST = 6


#: A rise must be so many times the spread within a part; along a straight line it is eight times.
_NOISE = 4.0


class Risk(NamedTuple):
    """How full (a ratio), how fast it rises, seconds until it is full at that pace, seen over how long."""

    ratio: float
    bytes_per_s: float
    full_in_s: float
    over_s: float


class TrendSpan(NamedTuple):
    """A span that is looked at: its points, its length, how much of it there must be; full within ``horizon_s``."""

    every_s: float
    length_s: float
    least_s: float
    horizon_s: float


SPANS = (TrendSpan(0.0, 120.0, 90.0, 1800.0), TrendSpan(60.0, 1800.0, 600.0, 21_600.0))


class MemoryTrend(Stored):
    """Readings of one memory over time.

    A span is cut into three parts; the memory fills where the medians of the parts rise twice, the second time as well
    as the first: one big allocation rises once, an allocator's ups and downs not at all (Tukey's three-group line).

    >>> trend, seen = MemoryTrend(rise=0.005, gap_s=150.0), []
    >>> for second in range(200):  # 91 % full, and rising by 0.02 % a second
    ...     trend.push(float(second), 91.0 + 0.02 * second, total=100.0)
    ...     seen.append(trend.risk(from_ratio=0.9) is not None)
    >>> seen.index(True), round(trend.risk(from_ratio=0.9).full_in_s)
    (90, 251)
    """

    total: Kept[float]
    points: Kept[list[list[tuple[float, float]]]]

    def __init__(self, rise: float, gap_s: float) -> None:
        self.rise = rise
        self.gap_s = gap_s
        self.total = 0.0
        self.points = [[] for _ in SPANS]

    def push(self, at_s: float, used: float, total: float) -> None:
        """Take in a reading in bytes."""
        last = self.points[0][-1][0] if self.points[0] else at_s
        if total != self.total or not 0.0 <= at_s - last <= self.gap_s:
            self.points = [[] for _ in SPANS]
        self.total = total
        for span, points in zip(SPANS, self.points, strict=True):
            if not points or at_s - points[-1][0] >= span.every_s:
                points.append((at_s, used))
            while points[0][0] < at_s - span.length_s:
                del points[0]

    def risk(self, from_ratio: float) -> Risk | None:
        """The risk there is, above ``from_ratio`` of the whole."""
        if not self.points[0] or self.total <= 0.0:
            return None
        ratio = self.points[0][-1][1] / self.total
        if ratio <= from_ratio:
            return None
        for span, points in zip(SPANS, self.points, strict=True):
            pace = self._pace(points, span.least_s)
            if pace is not None:
                full_in_s = max(self.total - self.points[0][-1][1], 0.0) / pace
                if full_in_s <= span.horizon_s:
                    return Risk(ratio, pace, full_in_s, points[-1][0] - points[0][0])
        return None

    def _pace(self, points: list[tuple[float, float]], least_s: float) -> float | None:
        """Bytes per second by which it rises; None where it does not."""
        if len(points) < _POINTS_LEAST or points[-1][0] - points[0][0] < least_s:
            return None
        third = len(points) // 3
        parts = (points[:third], points[third : len(points) - third], points[len(points) - third :])
        low, middle, high = (median(used for _, used in part) for part in parts)
        rise = high - low
        if rise < self.rise * self.total or min(middle - low, high - middle) < 0.2 * rise:
            return None
        if rise < _NOISE * sum(_spread(part) for part in parts) / 3:
            return None
        return float(rise / (median(at for at, _ in parts[2]) - median(at for at, _ in parts[0])))


def _spread(part: list[tuple[float, float]]) -> float:
    """Median absolute deviation of the readings."""
    middle = median(used for _, used in part)
    return median(abs(used - middle) for _, used in part)
