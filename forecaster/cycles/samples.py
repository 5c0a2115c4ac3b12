"""From samples to a regular grid with marked holes, without the run's ramps.

Rule of this file: a hole stays a hole (``measured`` is False there); nothing is invented for it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Hostile or broken times cannot make a grid longer than this many cells a sample.
MOST_CELLS_A_SAMPLE = 4
#: No signal is beyond this; squares of larger numbers overflow.
LARGEST = 1e100
#: Share of a neighbourhood that must be at working level for the job to count as working there.
WORKING_SHARE = 0.6
#: What repeats is there as often at least: a record with a cycle holds 3.5 of them.
EXTREMES = 4
#: Samples dropped beside a ramp: power meters smooth over a few of their own samples.
RAMP_MARGIN = 3


@dataclass(frozen=True)
class Samples:
    """Values on a regular grid (one entry a cell), which of them were measured, and seconds a cell."""

    values: NDArray[np.float64]
    measured: NDArray[np.bool_]
    interval_s: float

    def __len__(self) -> int:
        return len(self.values)

    def part(self, start: int, stop: int) -> "Samples":
        """Cells ``start`` to ``stop``."""
        return Samples(self.values[start:stop], self.measured[start:stop], self.interval_s)


def on_grid(values: NDArray[np.float64], interval_s: float, times_s: NDArray[np.float64] | None) -> Samples:
    """Samples at ``times_s`` (any order) on a grid of their median spacing; without times, the samples as they are.

    NaN, infinite and absurd values are holes: bridged by straight lines, so that filters have a number, and marked.

    Raises:
        ValueError: the shapes differ, the interval is not positive, or times are not finite or stand still.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError("values: one column of numbers is needed")
    if not (np.isfinite(interval_s) and interval_s > 0):
        raise ValueError("interval_s: a positive number of seconds is needed")
    measured = np.abs(values) <= LARGEST
    if times_s is None:
        cells, interval = np.flatnonzero(measured).astype(np.float64), interval_s
        length = len(values)
    else:
        times = _checked_times(times_s, len(values))
        order = np.argsort(times, kind="stable")
        values, times, measured = values[order], times[order], measured[order]
        interval = float(np.median(np.diff(times))) if len(times) > 1 else interval_s
        if interval <= 0:
            raise ValueError("times_s: most times are the same")
        recent = times >= times[-1] - MOST_CELLS_A_SAMPLE * len(times) * interval if len(times) else measured
        values, times = values[measured & recent], times[measured & recent]
        measured = np.ones(len(values), dtype=bool)
        cells = (times - times[0]) / interval if len(times) else times
        length = round(float(cells[-1])) + 1 if len(cells) else 0
    if not len(cells):
        return Samples(np.zeros(0), np.zeros(0, dtype=bool), interval)
    cell_measured = np.zeros(length, dtype=bool)
    cell_measured[np.round(cells).astype(int)] = True
    return Samples(np.interp(np.arange(length), cells, values[measured]), cell_measured, interval)


def _checked_times(times_s: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    times = np.asarray(times_s, dtype=np.float64)
    if times.shape != (length,):
        raise ValueError("times_s: one time a value is needed")
    if not np.all(np.isfinite(times)):
        raise ValueError("times_s: finite times are needed")
    return times


def box_sum(column: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Sum over the ``width`` cells around each cell; fewer at the ends. Linear in the length, whatever the width."""
    half = width // 2
    total = np.concatenate(([0.0], np.cumsum(column)))
    cell = np.arange(len(column))
    high = np.minimum(cell + half + 1, len(column))
    result: NDArray[np.float64] = total[high] - total[np.maximum(cell - half, 0)]
    return result


def without_ramps(samples: Samples) -> Samples:
    """The stretch in which the job works: start-up, cool-down and the ramps beside them are left out.

    A job whose signal is low most of the time has no working level in this sense and is left whole.
    """
    values, length = samples.values, len(samples)
    low, high = np.percentile(values[samples.measured], [2, 98])
    middle = (low + high) / 2
    width = max(5, length // 25) | 1
    share = box_sum((values > middle).astype(np.float64), width) / box_sum(np.ones(length), width)
    working = np.flatnonzero(share > WORKING_SHARE)
    if len(working) < 0.3 * length:
        return samples
    start, stop = int(working[0]), int(working[-1]) + 1
    q1, q3 = np.percentile(values[start:stop], [25, 75])
    level = np.flatnonzero(values[start:stop] >= max(middle, q1 - (q3 - q1)))
    first = start + int(level[0]) + RAMP_MARGIN if start > 0 else 0
    last = start + int(level[-1]) + 1 - RAMP_MARGIN if stop < length else length
    return samples.part(first, max(first, last))


def flattened(samples: Samples, width: float) -> NDArray[np.float64]:
    """Values less their moving average over ``width`` cells, cut to between the ``EXTREMES``-th lowest and highest.

    That tames single outliers and keeps rare short dips, which may be the cycle. Holes are 0.
    """
    weight = samples.measured.astype(np.float64)
    cells = max(3, int(width)) | 1
    tame = _cut(samples.values, samples.measured)
    centred = tame - tame[samples.measured].mean()
    level = box_sum(np.where(samples.measured, centred, 0.0), cells) / np.maximum(box_sum(weight, cells), 1.0)
    flat = _cut(centred - level, samples.measured)
    flat -= flat[samples.measured].mean()
    result: NDArray[np.float64] = np.where(samples.measured, flat, 0.0)
    return result


def _cut(values: NDArray[np.float64], measured: NDArray[np.bool_]) -> NDArray[np.float64]:
    """To between the ``EXTREMES``-th lowest and highest of those that were measured, of which there must be one."""
    ordered = np.sort(values[measured])
    at = min(EXTREMES, (len(ordered) + 1) // 2) - 1
    return np.clip(values, ordered[at], ordered[-at - 1])
