"""Simple exponential smoothing with the errors that its level would have made."""

from functools import partial

import numpy as np
import pandas

from ..context import ForecastContext, spread
from ..series import Array

#: Shares of the newest value in the level; the one with the smallest errors is taken.
RATES = (0.02, 0.06, 0.2, 0.5)


def level(filled: Array, rate: float) -> Array:
    """The smoothed level after each sample, begun at the first value. Source: Brown, 1956."""
    return np.asarray(pandas.Series(filled).ewm(alpha=rate, adjust=False).mean())


def smoothing(context: ForecastContext) -> Array:
    """The level, spread by its errors after each number of steps."""
    best, chosen, now = np.inf, None, 0.0
    for rate in RATES:
        levels = context.series.causal(f"level {rate}", partial(level, rate=rate))
        errors = context.followers - levels[context.origins][:, None]
        size = float(np.nanmean(np.abs(errors))) if errors.size else 0.0
        if size < best:
            best, chosen, now = size, errors, float(levels[-1])
    assert chosen is not None  # the mean of finite errors is below infinity
    return np.asarray(now + context.across(spread(chosen, context.levels)))
