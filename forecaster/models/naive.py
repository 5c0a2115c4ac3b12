"""Naive and seasonal naive: as now, as a season ago, with the errors that this would have made."""

import numpy as np

from ..context import ForecastContext, spread
from ..series import Array, carried
from .model import UnsuitedError


def naive(context: ForecastContext) -> Array:
    """The last value, spread by the differences seen over each number of steps."""
    values = context.series.values
    errors = context.followers - context.series.filled[context.origins][:, None]
    return np.asarray(values[-1] + context.across(spread(errors, context.levels)))


def seasonal_naive(context: ForecastContext) -> Array:
    """The value one season ago, spread by the differences seen over a season.

    Raises:
        UnsuitedError: no season, or less than a season and a half of history.
    """
    series, season = context.series, context.series.season
    if season < 2 or len(series) < season + season // 2:
        raise UnsuitedError("needs a season and one and a half of them")
    differences = series.values[season:] - series.values[:-season]
    rows = spread(differences[:, None], context.levels)
    return np.asarray(repeated(series.values, season, context.horizon)[:, None] + rows)


def repeated(values: Array, season: int, horizon: int) -> Array:
    """The newest season, over and over; a gap in it takes the value before.

    >>> repeated(np.array([9.0, 1.0, 2.0]), 2, 3).tolist()
    [1.0, 2.0, 1.0]
    """
    newest = carried(values)[-season:]
    return np.asarray(newest[np.arange(horizon) % season])
