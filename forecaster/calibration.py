"""How published quantiles did: of the values that came later, the share that lay at or below each of them.

Rule of this file: it keeps counts and does no I/O. There is one state a series, and a fleet has fifty thousand.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .series import Array, matched

#: The steps ahead whose quantiles are kept until the value comes: one of each width that is learned (``conformal``).
STEPS = (1, 3, 10, 40)
#: The levels that are kept, ascending: the edges of the 95, 80 and 50 % intervals, and the median.
LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
#: With so many values counted, each counts half as much from then on: the newest say most.
COUNTED = 960
_LOW, _HIGH = LEVELS.index(0.1), LEVELS.index(0.9)
_LEVELS = np.array(LEVELS)
#: Where the rows of each step begin: a row is read ``step`` places later at the latest, so it has as many rows.
_FIRST = tuple(sum(STEPS[:number]) for number in range(len(STEPS)))


class Compared(NamedTuple):
    """A value beside the 80 % interval that was published for it ``step`` places earlier."""

    step: int
    low: float
    high: float
    inside: bool


class Scored(NamedTuple):
    """Of ``values`` that came ``steps`` after a forecast: the share inside its 80 % interval, and at or below each of
    ``LEVELS``."""

    steps: int
    values: int
    inside_80_ratio: float
    below_ratios: Array


class Calibration:
    """The state of one series. Places count samples on its grid and go up."""

    def __init__(self) -> None:
        self._places = np.full(sum(STEPS), -1, dtype=np.int64)
        self._quantiles = np.full((sum(STEPS), len(LEVELS)), np.nan, dtype=np.float64)
        self._values = [0] * len(STEPS)
        self._inside = [0.0] * len(STEPS)
        self._below = np.zeros((len(STEPS), len(LEVELS)), dtype=np.float64)

    def publish(self, place: int, quantiles: Array) -> None:
        """Quantiles, steps ahead x ``LEVELS``, were published at ``place``."""
        for number, step in enumerate(STEPS):
            if step <= len(quantiles):
                row = _FIRST[number] + place % step
                self._places[row], self._quantiles[row] = place, quantiles[step - 1]

    def compare(self, place: int, value: float) -> Iterator[Compared]:
        """The value at ``place`` beside what was published for it; what was not measured is compared with nothing."""
        if not np.isfinite(value):
            return
        for number, step in enumerate(STEPS):
            row = _FIRST[number] + place % step
            quantiles = self._quantiles[row]
            if self._places[row] != place - step or not np.isfinite(quantiles).all():
                continue
            quantiles = matched(quantiles, value)
            low, high = float(quantiles[_LOW]), float(quantiles[_HIGH])
            inside = low <= value <= high
            self._count(number, inside, below(quantiles, value))
            yield Compared(step, low, high, inside)

    def scored(self) -> list[Scored]:
        """Of those steps ahead after which values came."""
        return [
            Scored(step, values, self._inside[number] / values, self._below[number] / values)
            for number, (step, values) in enumerate(zip(STEPS, self._values, strict=True))
            if values
        ]

    def _count(self, number: int, inside: bool, shares: Array) -> None:
        if self._values[number] >= COUNTED:
            fewer = self._values[number] // 2
            kept = fewer / self._values[number]
            self._values[number] = fewer
            self._inside[number] *= kept
            self._below[number] *= kept
        self._values[number] += 1
        self._inside[number] += inside
        self._below[number] += shares


def below(quantiles: Array, value: float) -> Array:
    """How far ``value`` counts as at or below each of ``LEVELS``: 0 or 1 where it differs from the quantiles.

    A value that equals several of them, a series at rest say, may lie anywhere among these levels, each place as
    likely. Where they end between two levels is not known: in the middle is as good as any.

    >>> below(np.arange(7.0), 2.5).tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    >>> below(np.zeros(7), 0.0).tolist() == list(LEVELS)
    True

    Source: the randomised probability integral transform, Czado, Gneiting and Held, 2009, without the dice.
    """
    left, right = (int(np.searchsorted(quantiles, value, side)) for side in ("left", "right"))
    if left == right:
        return np.asarray((np.arange(len(_LEVELS)) >= left).astype(np.float64))
    low = (_LEVELS[left - 1] + _LEVELS[left]) / 2.0 if left else 0.0
    high = (_LEVELS[right - 1] + _LEVELS[right]) / 2.0 if right < len(_LEVELS) else 1.0
    return np.asarray(np.clip((_LEVELS - low) / (high - low), 0.0, 1.0))
