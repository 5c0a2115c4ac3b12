"""What the gate knows of a series: its shape in a few numbers, whatever its unit and level.

Rule of this file: pure. The order of the numbers is part of the gate's version: change one, raise ``VERSION``.
"""

import numpy as np

from . import zero_inflation
from .series import Array, Series

VERSION = 1
NAMES = (
    "history",
    "horizon",
    "horizon_of_history",
    "seasonal",
    "season_strength",
    "horizon_of_season",
    "rest_share",
    "rests",
    "unchanged_share",
    "memory_1",
    "memory_8",
    "memory_60",
    "entropy",
    "level_shift",
    "calmer",
    "step_size",
    "skewness",
    "outliers",
    "gap_share",
    "levels",
)
#: Everything is read from so many of the newest samples, the season apart.
NEWEST = 480
#: No number is farther from 0 than this, whatever the values.
LARGEST = 6.0


def traits(series: Series, horizon: int) -> Array:
    """The numbers of ``NAMES``, each finite and at most ``LARGEST``.

    >>> dict(zip(NAMES, traits(Series.of(np.tile([0.0, 4.0], 50), 60.0), 10).round(2)))["memory_1"]
    np.float64(-0.99)
    """
    newest, season = series.filled[-NEWEST:], series.season
    spread = float(newest.std())
    values = (newest - newest.mean()) / spread if spread > 1e-9 * float(np.abs(newest).max()) else np.zeros(len(newest))
    changes = np.diff(values) if len(values) > 1 else np.zeros(1)
    rest = zero_inflation.floor(series.values, series.low)
    at_rest = newest[-240:] <= rest + zero_inflation.tolerance(series.values)
    recent, before = values[-30:], values[-270:-30] if len(values) > 60 else values
    numbers = [
        np.log(len(series) / 240.0),
        np.log(horizon / 60.0),
        np.log(horizon / len(series)),
        float(season > 1),
        _season_strength(series),
        np.log1p(horizon / season) if season > 1 else 0.0,
        at_rest.mean(),
        float(zero_inflation.resting(series.values, rest)),
        np.mean(np.abs(changes) < 1e-9),
        *(_memory(values, lag) for lag in (1, 8, 60)),
        _entropy(values),
        np.abs(recent.mean() - before.mean()),
        np.log((recent.std() + 0.05) / (before.std() + 0.05)),
        np.log(changes.std() + 0.05),
        np.mean(values**3) / 3.0,
        np.log(np.abs(values).max() + 1.0),
        np.isnan(series.values[-NEWEST:]).mean(),
        np.log(len(np.unique(newest)) / len(newest)),
    ]
    return np.clip(np.array(numbers, dtype=np.float64), -LARGEST, LARGEST)


def _memory(values: Array, lag: int) -> float:
    """The correlation with ``lag`` samples before."""
    return float((values[lag:] * values[:-lag]).sum() / len(values)) if len(values) > 2 * lag else 0.0


def _entropy(values: Array) -> float:
    """How evenly the variance is spread over frequencies: 0 for one wave, 1 for white noise."""
    power = np.abs(np.fft.rfft(values))[1:] ** 2
    total = float(power.sum())
    if total < 1e-9 or len(power) < 2:
        return 0.0
    share = power / total
    return float(-(share * np.log(share + 1e-12)).sum() / np.log(len(power)))


def _season_strength(series: Series) -> float:
    """1 where every season is as the one before, 0 where a season tells nothing."""
    season = series.season
    if season < 2 or len(series) < 2 * season:
        return 0.0
    values = series.filled[-4 * season :]
    variance = float(values.var())
    if variance <= 1e-18 * float(np.abs(values).max()) ** 2:
        return 0.0
    return float(np.clip(1.0 - (values[season:] - values[:-season]).var() / (2.0 * variance), 0.0, 1.0))
