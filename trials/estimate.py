"""Samples a second of a placement with its interval, from blocks of steps of all of its runs.

Rule of this file: pure, and the same for the same seed. Steps that follow each other resemble each other, and so do
the blocks of one run: runs are drawn first, then blocks within them (a hierarchical bootstrap). That sees too little
of what differs from run to run where there are two or three, so an interval is no narrower than Student's t makes it by
how much runs of one placement differ, pooled over all placements of a trial: it is the same machine's noise.

It assumes of its input: step times of one run in order, in seconds, of steps that follow each other without a gap;
steps whose time is no positive number are left out.
"""

from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Blocks a run: as many as there are steps for, of at least ``LEAST_STEPS`` steps each.
MOST_BLOCKS, LEAST_BLOCKS, LEAST_STEPS = 40, 6, 2
DRAWS = 1000
LEVEL = 0.95

_Array = NDArray[np.float64]


#: Student's t for 95 % by degrees of freedom, from 1 on.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


class Interval(NamedTuple):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def overlaps(self, other: "Interval") -> bool:
        """Whether the two cannot be told apart."""
        return self.low <= other.high and other.low <= self.high


def blocks(step_s: Sequence[float]) -> list[float]:
    """Mean seconds a step of consecutive blocks; what is left over at the start is left out.

    >>> blocks([1.0, 3.0] * 6)
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    steps = np.asarray([one for one in step_s if 0 < one < float("inf")], dtype=np.float64)
    count = min(MOST_BLOCKS, steps.size // LEAST_STEPS)
    if not count:
        return []
    each = steps.size // count
    return [float(one) for one in steps[steps.size - count * each :].reshape(count, each).mean(axis=1)]


def rate(runs: Sequence[Sequence[float]], samples: float, seed: int = 0) -> Interval | None:
    """Samples a second by the median block; ``runs`` are blocks' seconds a step, ``samples`` those of one step.

    None where no run has enough blocks.

    >>> rate([[0.5] * 8], 4.0)
    Interval(value=8.0, low=8.0, high=8.0)
    """
    held = [np.asarray(run, dtype=np.float64) for run in runs if len(run) >= LEAST_BLOCKS]
    if not held:
        return None
    generator = np.random.default_rng(seed)
    drawn = _drawn(held, generator)
    fastest, slowest = np.quantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    middle = float(np.mean([np.median(run) for run in held]))
    # The median of few draws may lie a little beside the middle: the interval holds it always.
    low, high = samples / max(float(slowest), middle), samples / min(float(fastest), middle)
    return Interval(samples / middle, low, high)


def level(run: Sequence[float]) -> float:
    """The logarithm of a run's median block: differences of it are ratios."""
    return log(float(np.median(run)))


def margin(levels: Sequence[Sequence[float]], runs: int) -> float:
    """How far the mean of so many ``runs`` may lie from the truth, as a logarithm; ``levels`` are of each placement's
    runs. 0.0 where no placement ran twice, for then nobody knows.

    >>> round(margin([[0.0, 0.02], [1.0, 1.02]], 2), 4)
    0.043
    """
    told = [held for held in levels if len(held) > 1]
    freedom = sum(len(held) - 1 for held in told)
    if not freedom:
        return 0.0
    squares = sum((one - fmean(held)) ** 2 for held in told for one in held)
    return student_t(freedom) * sqrt(squares / freedom / runs)


def student_t(freedom: int) -> float:
    """The factor for a 95 % interval of a mean with so many degrees of freedom.

    >>> student_t(1), round(student_t(60), 2)
    (12.706, 2.0)
    """
    return _T[freedom - 1] if freedom <= len(_T) else 1.96 + 2.5 / freedom


def widened(interval: Interval, far: float) -> Interval:
    """``interval``, reaching as ``far`` (a logarithm) at least.

    >>> widened(Interval(100.0, 99.0, 103.0), 0.02)
    Interval(value=100.0, low=98.01986733067552, high=103.0)
    """
    value, low, high = interval
    return Interval(value, min(low, value * exp(-far)), max(high, value * exp(far)))


def _drawn(runs: list[_Array], generator: np.random.Generator) -> _Array:
    """Seconds a step of each resample: the mean over the runs drawn of their median blocks."""
    chosen = generator.integers(len(runs), size=(DRAWS, len(runs)))
    medians = np.empty(chosen.shape)
    for at, run in enumerate(runs):
        places = chosen == at
        medians[places] = np.median(generator.choice(run, size=(int(places.sum()), run.size)), axis=1)
    drawn: _Array = medians.mean(axis=1)
    return drawn
