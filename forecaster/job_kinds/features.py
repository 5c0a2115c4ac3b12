"""What a window looks like, in numbers that do not depend on the machine: shapes, shares, relative rates.

Rule of this file: a decision. Activity is taken relative to the job's own peak; a feature whose series was not measured
is NaN. Shares count seconds; logarithms are to base 10. What a job reads, how often it waits and how its memory changes
say more of the machine than of the job: with them, programs that the model has not seen are told worse.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: Feature -> the series it is made of (``activity`` is whichever activity series there is).
FEATURES = {
    "level": "activity",  # log mean activity
    "fill": "activity",  # mean over peak
    "busy": "activity",  # share of seconds above 30 % of the peak
    "quiet": "activity",  # log longest pause, s
    "switches": "activity",  # log changes between busy and quiet a second
    "roughness": "activity",  # mean change from second to second over the mean
    "variation": "activity",  # standard deviation over the mean
    "echo1": "activity",  # autocorrelation after one second
    "echo2": "activity",  # … and after two
    "write_share": "disk_write_bytes_per_s",  # share of seconds with more than 100 kB written
    "write_rate": "disk_write_bytes_per_s",  # log mean rate
    "write_burst": "disk_write_bytes_per_s",  # log peak over mean
}
BUSY = 0.3
ACTIVE_BYTES_PER_S = 1e5


def features(window: Mapping[str, NDArray[np.float64]], row_s: float) -> NDArray[np.float64]:
    """One number a feature, in the order of ``FEATURES``; ``window`` has its activity under ``activity``."""
    values: dict[str, float] = {}
    activity = window.get("activity")
    if activity is not None:
        values |= _activity(activity, row_s)
    rate = window.get("disk_write_bytes_per_s")
    if rate is not None:
        values |= {
            "write_share": float(np.mean(rate > ACTIVE_BYTES_PER_S)),
            "write_rate": math.log10(max(float(rate.mean()), 0.0) + 1e3),
            "write_burst": math.log10(max(_ratio(rate.max(), rate.mean(), 1e3), 0.0) + 1),
        }
    return np.array([values.get(name, math.nan) for name in FEATURES])


def _activity(activity: NDArray[np.float64], row_s: float) -> dict[str, float]:
    peak = max(float(np.quantile(activity, 0.95)), 0.05)
    mean = float(activity.mean())
    busy = activity > BUSY * peak
    edges = np.flatnonzero(np.diff(busy.astype(np.int8))) + 1
    bounds = np.concatenate(([0], edges, [len(busy)]))
    pauses = [int(high - low) for low, high in pairwise(bounds) if not busy[low]]
    centred = activity - mean
    energy = float(np.sum(centred**2))
    return {
        "level": math.log10(min(max(mean, 0.003), 1.0)),
        "fill": min(mean / peak, 1.2),
        "busy": float(np.mean(busy)),
        "quiet": math.log10(max(pauses, default=0) * row_s + 0.5),
        "switches": math.log10(len(edges) / (len(activity) * row_s) + 0.02),
        "roughness": float(np.mean(np.abs(np.diff(activity)))) / max(mean, 0.02),
        "variation": float(activity.std()) / max(mean, 0.02),
        "echo1": float(np.sum(centred[:-1] * centred[1:])) / energy if energy > 1e-6 else 0.0,
        "echo2": float(np.sum(centred[:-2] * centred[2:])) / energy if energy > 1e-6 else 0.0,
    }


def _ratio(number: float | np.float64, base: float | np.float64, least: float) -> float:
    return float(number) / max(float(base), least)
