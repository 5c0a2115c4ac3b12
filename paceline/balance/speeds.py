"""How fast one worker is: its seconds a sample, held through noise and replaced at once where it changed.

Rule of this file: pure, and only +, -, * and / on floats, whose bits are the same on every machine.
"""

from __future__ import annotations

import statistics
from typing import Any

#: Noise is never taken to be less, so that a change must be above 6 % to replace a speed at once.
LEAST_NOISE = 0.015
#: What a worker's noise is taken to be before it is known, and how many values that stands for.
FIRST_NOISE, FIRST_WEIGHT = 0.1, 1
#: A mean's and a noise's memory, in values; older ones fade.
MEMORY = 64
#: The CUSUM of Page (1954), in units of noise: what a value adds at most, what is normal, and where it is a change.
#: Two values are needed however far off they are; with normal noise a worker that did not change gives an alarm once
#: in some million values.
CLIP, SLACK, ALARM = 5.0, 1.0, 7.5
#: As many of the newest values are looked back on for the new speed.
RECENT = 5


class Speed:
    """The seconds a sample of one worker.

    >>> speed = Speed()
    >>> [speed.update(value, 0.02) is not None for value in (1.0, 1.02, 0.98, 3.0, 3.1)]
    [False, False, False, False, True]
    >>> speed.level, speed.count
    (3.05, 2)
    """

    def __init__(self) -> None:
        #: None until it was measured.
        self.level: float | None = None
        #: How many values the level stands for.
        self.count = 0
        #: Standard deviation of a value, as a part of the level.
        self.noise = FIRST_NOISE
        self._values = 0
        self._last = 0.0
        self._up = self._down = 0.0
        self._up_run = self._down_run = 0
        self._recent: list[float] = []

    def update(self, value: float, noise: float) -> float | None:
        """Take one more measured ``value``, in seconds a sample.

        Args:
            value: above 0.
            noise: standard deviation of a value, as a part of it, at least; its own counts where it is larger.

        Returns:
            by which factor the level changed, where it was replaced; None otherwise.
        """
        self._recent.append(value)
        if len(self._recent) > RECENT:
            del self._recent[0]
        if self.level is None:
            self.level, self.count, self._last = value, 1, value
            return None
        self._learn_noise(value, self.level)
        unit = max(self.noise, noise, LEAST_NOISE)
        off = _clipped((value / self.level - 1 if value > self.level else 1 - self.level / value) / unit, CLIP)
        self._up += off - SLACK
        self._down -= off + SLACK
        self._up, self._up_run = (self._up, self._up_run + 1) if self._up > 0 else (0.0, 0)
        self._down, self._down_run = (self._down, self._down_run + 1) if self._down > 0 else (0.0, 0)
        if self._up > ALARM or self._down > ALARM:
            return self._replace(self._up_run if self._up > ALARM else self._down_run, self.level)
        if self.count < 2 * MEMORY:
            self.count += 1
        self.level += _clipped(value - self.level, 3 * unit * self.level) / min(self.count, MEMORY)
        return None

    def doubt(self, count: int) -> None:
        """The level stands for ``count`` values at most: it comes from another share."""
        self.count = min(self.count, count)

    def rescale(self, factor: float) -> None:
        """Everything is in another unit: ``factor`` times as much."""
        if self.level is not None:
            self.level *= factor
        self._last *= factor
        self._recent = [value * factor for value in self._recent]
        self._up = self._down = 0.0
        self._up_run = self._down_run = 0

    def _learn_noise(self, value: float, level: float) -> None:
        """Differences between neighbours are sqrt(2) noise, whatever the level is; 0.886 turns their mean into it."""
        if self._values < MEMORY:
            self._values += 1
        apart = min(0.886 * abs(value - self._last) / level, 4 * self.noise)
        self.noise += (apart - self.noise) / min(self._values + FIRST_WEIGHT, MEMORY)
        self._last = value

    def _replace(self, run: int, before: float) -> float:
        """The level is the median of the values since it changed."""
        since = self._recent[-min(run, RECENT) :]
        self.level, self.count = statistics.median(since), len(since)
        self._up = self._down = 0.0
        self._up_run = self._down_run = 0
        return self.level / before

    def snapshot(self) -> list[Any]:
        """All of it, as JSON has it."""
        return [
            *(self.level, self.count, self.noise, self._values, self._last),
            *(self._up, self._up_run, self._down, self._down_run, list(self._recent)),
        ]

    def restore(self, state: list[Any]) -> None:
        """Continue from a snapshot."""
        self.level, self.count, self.noise, self._values, self._last = state[:5]
        self._up, self._up_run, self._down, self._down_run, recent = state[5:]
        self._recent = list(recent)


def _clipped(value: float, limit: float) -> float:
    """``value``, or the nearer end of what lies within ``limit`` of 0."""
    if value > limit:
        return limit
    return -limit if value < -limit else value
