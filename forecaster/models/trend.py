"""A straight line through the newest values, with the errors that it would have made: memory that fills up."""

from functools import partial

import numpy as np

from ..context import ForecastContext, spread
from ..series import Array
from .model import UnsuitedError

WINDOWS = (12, 40, 80)


def slope(filled: Array, window: int) -> Array:
    """The least-squares slope a sample over the ``window`` samples up to each sample; NaN before there are as many.

    >>> slope(np.arange(5.0), 3).round(6).tolist()
    [nan, nan, 1.0, 1.0, 1.0]
    """
    places = np.arange(window) - (window - 1) / 2
    weights = places[::-1] / (places**2).sum()
    slopes = np.full(len(filled), np.nan)
    slopes[window - 1 :] = np.convolve(filled, weights, "valid")
    return slopes


def trend(context: ForecastContext) -> Array:
    """The last value and the line's slope, spread by the line's errors after each number of steps.

    Raises:
        UnsuitedError: fewer than 24 samples.
    """
    if len(context.series) < 24:
        raise UnsuitedError("needs 24 samples")
    best, chosen, now = np.inf, None, 0.0
    for window in WINDOWS:
        if len(context.series) < 2 * window:
            continue
        slopes = context.series.causal(f"slope {window}", partial(slope, window=window))
        expected = context.series.filled[context.origins][:, None] + slopes[context.origins][:, None] * context.knots
        errors = context.followers - expected
        size = float(np.nanmean(np.abs(errors)))
        if size < best:
            best, chosen, now = size, errors, float(slopes[-1])
    assert chosen is not None  # 24 samples are enough for the shortest window
    line = context.series.filled[-1] + now * np.arange(1, context.horizon + 1)
    return np.asarray(line[:, None] + context.across(spread(chosen, context.levels)))
