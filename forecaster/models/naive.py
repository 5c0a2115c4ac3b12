"""The two baselines and what they lack: naive repeats the last value, seasonal naive the last season, as they are.

Rule of this file: a baseline's median is the value that it repeats, whatever happened before; how far its past errors
went, up or down, is its interval. ``changes`` and ``seasonal_changes`` add the changes that were seen: a history that
fell goes on falling. They are members of the ensemble, and not called naive.
"""

import numpy as np

from ..context import ForecastContext, spread
from ..series import Array, carried
from .model import UnsuitedError


def naive(context: ForecastContext) -> Array:
    """The last value at every step; intervals as wide as the changes seen over each number of steps, up or down."""
    return np.asarray(
        context.series.values[-1] + context.across(spread(_either_way(_changes(context)), context.levels))
    )


def seasonal_naive(context: ForecastContext) -> Array:
    """The newest season again; intervals as wide as the changes seen over a season, up or down.

    Raises:
        UnsuitedError: no season, or less than a season and a half of history.
    """
    return _seasonal(context, _either_way(_season_changes(context)))


def changes(context: ForecastContext) -> Array:
    """The last value plus the changes seen over each number of steps."""
    return np.asarray(context.series.values[-1] + context.across(spread(_changes(context), context.levels)))


def seasonal_changes(context: ForecastContext) -> Array:
    """The value one season ago plus the changes seen over a season.

    Raises:
        UnsuitedError: no season, or less than a season and a half of history.
    """
    return _seasonal(context, _season_changes(context))


def repeated(values: Array, season: int, horizon: int) -> Array:
    """The newest season, over and over; a gap in it takes the value before.

    >>> repeated(np.array([9.0, 1.0, 2.0]), 2, 3).tolist()
    [1.0, 2.0, 1.0]
    """
    newest = carried(values)[-season:]
    return np.asarray(newest[np.arange(horizon) % season])


def _changes(context: ForecastContext) -> Array:
    """origins x knots: how far each earlier moment's value had moved after each number of steps."""
    return np.asarray(context.followers - context.series.filled[context.origins][:, None])


def _season_changes(context: ForecastContext) -> Array:
    series, season = context.series, context.series.season
    if season < 2 or len(series) < season + season // 2:
        raise UnsuitedError("needs a season and one and a half of them")
    return np.asarray((series.values[season:] - series.values[:-season])[:, None])


def _seasonal(context: ForecastContext, errors: Array) -> Array:
    again = repeated(context.series.values, context.series.season, context.horizon)
    return np.asarray(again[:, None] + spread(errors, context.levels))


def _either_way(errors: Array) -> Array:
    """The errors and their opposites: as likely up as down, so that their median is 0."""
    return np.concatenate([errors, -errors])
