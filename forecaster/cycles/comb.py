"""The comb: a period is good when the signal resembles itself at T, 2T, 3T … and not half-way between.

Rule of this file: a decision. Periods are in cells of the grid here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .autocorrelation import Autocorrelation

#: Fewer samples a cycle than this alias into longer periods that are not there.
FEWEST_SAMPLES = 3.6
#: The record must hold this many cycles.
FEWEST_CYCLES = 3.5
#: Multiples of the period that the comb looks at.
TEETH = 6
#: The shortest period whose score is at least this share of the best wins: multiples of a period score as high.
SHORTEST_SHARE = 0.85
#: Below this many samples a cycle the grid itself blurs the comb, so a lower share is as good there.
COARSE_SAMPLES = 8.0
COARSE_SHARE = 0.7
#: Candidates this near are the same period, told better or worse.
SAME = 0.12
#: Each candidate is tried at these factors, too: cycles are no whole number of samples.
FINE = np.linspace(0.97, 1.03, 13)
MOST_CANDIDATES = 100


@dataclass(frozen=True)
class Tooth:
    """A period in cells, its score (-2 to 2), and that score in standard deviations of what chance gives."""

    period: float
    score: float
    sigmas: float


def best_period(correlation: Autocorrelation) -> Tooth | None:
    """The shortest period that the comb likes about as well as any; None where it likes none."""
    tried = comb(correlation, candidates(correlation))
    if not tried or max(one.score for one in tried) <= 0:
        return None
    best = max(one.score for one in tried)
    good = [one for one in tried if one.score >= best * _share(one.period)]
    shortest = min(one.period for one in good)
    return max((one for one in tried if abs(one.period / shortest - 1) < SAME), key=lambda one: one.score)


def _share(period: float) -> float:
    return COARSE_SHARE if period < COARSE_SAMPLES else SHORTEST_SHARE


def candidates(correlation: Autocorrelation) -> NDArray[np.float64]:
    """Periods worth trying: peaks of the autocorrelation, and the ten highest of the spectrum."""
    longest = len(correlation.ratio) / FEWEST_CYCLES
    ratio = correlation.ratio[: int(longest) + 2]
    lag = np.arange(1, len(ratio) - 1)
    hills = lag[(ratio[1:-1] > ratio[:-2]) & (ratio[1:-1] >= ratio[2:]) & (ratio[1:-1] > 0)]
    hills = hills[np.argsort(-ratio[hills])[:MOST_CANDIDATES]]
    power = correlation.power
    index = np.arange(1, len(power) - 1)
    peaks = index[(power[1:-1] >= power[:-2]) & (power[1:-1] >= power[2:])]
    peaks = peaks[(correlation.padded / peaks <= longest) & (correlation.padded / peaks >= FEWEST_SAMPLES)]
    peaks = peaks[np.argsort(-power[peaks])[:10]]
    both = np.unique(np.concatenate((hills.astype(np.float64), correlation.padded / peaks)))
    return both[(both >= FEWEST_SAMPLES) & (both <= longest)]


def comb(correlation: Autocorrelation, periods: NDArray[np.float64]) -> list[Tooth]:
    """Each period's best nearby score: mean of r(kT) - r((k - 1/2)T) over k = 1 … 6, as far as the record reaches."""
    if not len(periods):
        return []
    ratio = correlation.ratio
    length, lags = len(ratio), np.arange(len(ratio))
    period = np.maximum(periods[:, None] * FINE, FEWEST_SAMPLES)
    teeth = np.clip((0.8 * length / period).astype(int), 0, TEETH)
    total, variance = np.zeros(period.shape), np.zeros(period.shape)
    for tooth in range(1, TEETH + 1):
        use = teeth >= tooth
        contrast = np.interp(period * tooth, lags, ratio) - np.interp(period * (tooth - 0.5), lags, ratio)
        total += np.where(use, contrast, 0.0)
        variance += np.where(use, 2 * correlation.variance * length / np.maximum(length - period * tooth, 1.0), 0.0)
    score = np.where(teeth >= 2, total / np.maximum(teeth, 1), -np.inf)
    best = np.argmax(score, axis=1)
    row = np.arange(len(periods))
    sigmas = total / np.sqrt(np.maximum(variance, 1e-12))
    return [
        Tooth(float(period[i, j]), float(score[i, j]), float(sigmas[i, j]))
        for i, j in zip(row, best, strict=True)
        if np.isfinite(score[i, j])
    ]
