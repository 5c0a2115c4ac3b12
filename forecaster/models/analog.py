"""What followed the moments most like now: for series that jump between states."""

from functools import partial

import numpy as np

from ..context import ForecastContext, spread
from ..series import Array
from .model import UnsuitedError

#: A moment is described by its value and the means of so many samples up to it.
MEANS = (4, 16, 60)
#: The share of moments that count as like now, and their least number.
SHARE, LEAST = 0.2, 30


def _like_now(context: ForecastContext) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    if len(context.origins) < 2 * LEAST:
        raise UnsuitedError(f"needs {2 * LEAST} samples")
    filled = context.series.filled
    columns = [filled]
    for window in MEANS:
        if window * 4 <= len(filled):
            columns.append(context.series.causal(f"mean {window}", partial(mean, window=window)))
    now = np.array([column[-1] for column in columns])[:, None]
    features = np.stack([column[context.origins] for column in columns])
    scale = np.maximum(features.std(axis=1, keepdims=True), 1e-12)
    distance = (((features - now) / scale) ** 2).sum(axis=0)
    count = max(LEAST, int(SHARE * len(distance)))
    return np.argpartition(distance, count - 1)[:count]


def mean(filled: Array, window: int) -> Array:
    """The mean of the ``window`` samples up to each sample, as if the first had been there for ever.

    >>> mean(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [1.0, 2.0, 4.0]
    """
    return np.convolve(np.concatenate([np.full(window - 1, filled[0]), filled]), np.full(window, 1.0 / window), "valid")


def analog(context: ForecastContext) -> Array:
    """Quantiles of the values that followed.

    Raises:
        UnsuitedError: fewer than 60 samples.
    """
    chosen = _like_now(context)
    return context.across(spread(context.followers[chosen], context.levels))


def analog_change(context: ForecastContext) -> Array:
    """The last value and quantiles of the changes that followed.

    Raises:
        UnsuitedError: fewer than 60 samples.
    """
    chosen = _like_now(context)
    changes = context.followers[chosen] - context.series.filled[context.origins[chosen]][:, None]
    return np.asarray(context.series.filled[-1] + context.across(spread(changes, context.levels)))
