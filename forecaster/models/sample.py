"""Quantiles of the newest values: what a series without memory will do next."""

import numpy as np

from ..context import ForecastContext, spread
from ..series import Array


def _newest(context: ForecastContext, samples: int) -> Array:
    row = spread(context.series.values[-samples:][:, None], context.levels)
    return np.repeat(row, context.horizon, axis=0)


def last_30(context: ForecastContext) -> Array:
    """Quantiles of the last 30 samples."""
    return _newest(context, 30)


def last_60(context: ForecastContext) -> Array:
    """Quantiles of the last 60 samples."""
    return _newest(context, 60)


def last_120(context: ForecastContext) -> Array:
    """Quantiles of the last 120 samples."""
    return _newest(context, 120)


def last_240(context: ForecastContext) -> Array:
    """Quantiles of the last 240 samples."""
    return _newest(context, 240)
