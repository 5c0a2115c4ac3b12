"""Adaptive intervals: how much wider or narrower they should be, learned from what came after earlier forecasts.

Rule of this file: pure; a state is never changed, ``update`` makes the next one.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from .series import Array

#: What is learned is kept apart by how far ahead a forecast looked: up to so many steps, and beyond.
BUCKETS = (1, 4, 16, 64)
#: The share of values that should lie outside the published interval.
OUTSIDE = 0.2
#: How far one value moves the logarithm of the width, a bucket: the later a forecast learns how it did, the less.
STEP = (0.04, 0.04, 0.03, 0.02, 0.02)
#: How many times as far one step ahead while the newest values disagree. Farther ahead it would learn of a change only
#: when that is over, and forecasts of several moments miss the same value: widths swing (losses 1.5 times as large).
FASTER = 4.0
#: So many newest values are looked at; they disagree where as few or many of them lay outside as chance seldom makes.
RECENT, FEW, MANY = 16, 0, 8
#: What is added to the logarithm of the width before anything was learned, a bucket: back-tests are short of far steps.
START = (0.0, 0.0, 0.05, 0.1, 0.1)
#: No interval becomes more than e to this times wider or narrower.
LARGEST = 3.0


@dataclass(frozen=True)
class Bucket:
    """``log_width``: the logarithm of the factor; ``recent``: 1 for each of the newest values that lay outside."""

    log_width: float = 0.0
    recent: tuple[int, ...] = ()

    def update(self, outside: bool, step: float, faster: float) -> "Bucket":
        """After one more value, which moves it by ``step``, or ``faster`` times as far while the newest disagree."""
        recent = (*self.recent, int(outside))[-RECENT:]
        off = sum(recent) >= MANY or (len(recent) == RECENT and sum(recent) <= FEW)
        moved = self.log_width + step * (faster if off else 1.0) * (int(outside) - OUTSIDE)
        return Bucket(float(np.clip(moved, -LARGEST, LARGEST)), recent)


@dataclass(frozen=True)
class Widths:
    """The state of one series.

    Assumed: the interval is the 80 % one that was published, already at the width of that moment; values come in the
    order of their time. Overlapping forecasts of many steps are allowed, each value counts for each.

    Example:
        >>> state = Widths()
        >>> for _ in range(20):
        ...     state = state.update(1, 0.0, 1.0, 5.0)
        >>> round(float(state.factors(3)[0]), 2), round(float(state.factors(3)[1]), 2)
        (6.61, 1.0)

    Source: Gibbs and Candès, Adaptive Conformal Inference Under Distribution Shift, 2021; the step that grows while the
    newest values disagree after Angelopoulos, Candès and Tibshirani, Conformal PID Control, 2023. Steps and starts
    were chosen on development halves (``experiments.forecasting.published``).
    """

    buckets: tuple[Bucket, ...] = field(default_factory=lambda: (Bucket(),) * (len(BUCKETS) + 1))

    @classmethod
    def of(cls, factor: float) -> "Widths":
        """Before any value came: ``factor``, which must be positive, and a little more far ahead.

        >>> Widths.of(1.5).factors(17).round(3)[[0, 3, 4, 16]].tolist()
        [1.5, 1.5, 1.577, 1.658]
        """
        return cls(tuple(Bucket(float(np.clip(np.log(factor) + more, -LARGEST, LARGEST))) for more in START))

    def update(self, step: int, low: float, high: float, actual: float) -> "Widths":
        """After the value that was forecast ``step`` steps ahead; what was not measured changes nothing.

        Raises:
            ValueError: a step below 1.
        """
        if step < 1:
            raise ValueError(f"a step ahead is at least 1, not {step}")
        if not np.isfinite([low, high, actual]).all():
            return self
        at = int(np.searchsorted(BUCKETS, step))
        moved = self.buckets[at].update(not low <= actual <= high, STEP[at], FASTER if at == 0 else 1.0)
        return replace(self, buckets=(*self.buckets[:at], moved, *self.buckets[at + 1 :]))

    def factors(self, horizon: int) -> Array:
        """By what the distance to the median is multiplied, a step."""
        widths = np.exp([bucket.log_width for bucket in self.buckets])
        return np.asarray(widths[np.searchsorted(BUCKETS, np.arange(1, horizon + 1))])
