"""Tempo: the length of single cycles, followed through the record; and where in its cycle the signal stands.

A comb over many cycles finds the commonest length. Where iterations vary, the median cycle is longer than that, and
only following them shows it, and whether they drift.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Cycles are looked for between these multiples of the comb's period.
SHORTEST, LONGEST = 0.7, 1.4
MOST_LAGS = 41
#: A stretch resembles the next one well enough to say how long it was.
ALIKE = 0.5


@dataclass(frozen=True)
class Tempo:
    """Median length of a cycle in cells, share of the record that told, mean likeness of neighbours, and drift."""

    period: float
    told: float
    likeness: float
    drift_ratio: float | None


def tempo(flat: NDArray[np.float64], period: float) -> Tempo | None:
    """Follow the cycles of ``flat`` (mean 0) near ``period`` cells; None where the record is too short for it.

    At every quarter of a cycle, the lag at which the next stretch of one cycle's length resembles this one most.
    """
    lags = np.unique(np.linspace(SHORTEST * period, LONGEST * period, MOST_LAGS).round().astype(int))
    width = max(3, round(period))
    last = len(flat) - int(lags[-1]) - width + 1
    if last < 2 * period or len(lags) < 3:
        return None
    at = np.arange(0, last, max(1, int(period // 4)))
    likeness = np.array([_likeness(flat, int(lag), width)[at] for lag in lags])
    best = np.clip(np.argmax(likeness, axis=0), 1, len(lags) - 2)
    column = np.arange(len(at))
    before, peak, after = likeness[best - 1, column], likeness[best, column], likeness[best + 1, column]
    hill = (peak >= before) & (peak >= after) & (peak > ALIKE)
    if int(hill.sum()) < 4:
        return None
    bend = before - 2 * peak + after
    offset = np.where(bend < 0, 0.5 * (before - after) / np.where(bend < 0, bend, -1.0), 0.0)
    spacing = float(np.median(np.diff(lags)))
    lengths = (lags[best] + offset * spacing)[hill]
    return Tempo(
        period=float(np.median(lengths)),
        told=float(hill.mean()),
        likeness=float(np.mean(likeness.max(axis=0))),
        drift_ratio=drift(lengths),
    )


def _likeness(flat: NDArray[np.float64], lag: int, width: int) -> NDArray[np.float64]:
    """Correlation of every stretch of ``width`` cells with the one ``lag`` cells later."""
    early, late = flat[:-lag], flat[lag:]

    def over(product: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.concatenate(([0.0], np.cumsum(product)))
        result: NDArray[np.float64] = total[width:] - total[:-width]
        return result

    energy = np.sqrt(np.maximum(over(early * early) * over(late * late), 0.0))
    result: NDArray[np.float64] = over(early * late) / np.maximum(energy, 1e-12)
    return result


def drift(lengths: NDArray[np.float64]) -> float | None:
    """How much longer the last third of the cycles is than the first, relative to all; None below nine."""
    third = len(lengths) // 3
    if third < 3:
        return None
    early, late = float(np.median(lengths[:third])), float(np.median(lengths[-third:]))
    return (late - early) / float(np.median(lengths))


def until_mark(flat: NDArray[np.float64], measured: NDArray[np.bool_], period: float, cycles: int = 4) -> float:
    """Cells from the last one until the cycle's mark, its deepest dip or highest peak, comes again (0 < x <= period).

    The last cycles are laid over each other; the mark is the phase that stands out most.
    """
    reach = min(len(flat), int(cycles * period) + 1)
    age = np.arange(reach)[::-1].astype(np.float64)
    bins = int(np.clip(period, 3, 64))
    phase = np.minimum((age % period) / period * bins, bins - 1).astype(int)
    weight = measured[-reach:].astype(np.float64)
    count = np.bincount(phase, weight, bins)
    mean = np.bincount(phase, weight * flat[-reach:], bins) / np.maximum(count, 1.0)
    apart = np.where(count > 0, np.abs(mean - np.median(mean[count > 0])) if count.any() else 0.0, -1.0)
    mark = (int(np.argmax(apart)) + 0.5) / bins * period
    return period - mark
