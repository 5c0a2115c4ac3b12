"""Naive and seasonal naive: as now, as a season ago, with the errors that this would have made."""

import numpy as np

from ..context import Scene, spread
from ..series import Array, carried
from .model import UnsuitedError


def naive(scene: Scene) -> Array:
    """The last value, spread by the differences seen over each number of steps."""
    values = scene.past.values
    errors = scene.followers - scene.past.filled[scene.origins][:, None]
    return np.asarray(values[-1] + scene.across(spread(errors, scene.levels)))


def seasonal_naive(scene: Scene) -> Array:
    """The value one season ago, spread by the differences seen over a season.

    Raises:
        UnsuitedError: no season, or less than a season and a half of history.
    """
    past, season = scene.past, scene.past.season
    if season < 2 or len(past) < season + season // 2:
        raise UnsuitedError("needs a season and one and a half of them")
    differences = past.values[season:] - past.values[:-season]
    rows = spread(differences[:, None], scene.levels)
    return np.asarray(repeated(past.values, season, scene.horizon)[:, None] + rows)


def repeated(values: Array, season: int, horizon: int) -> Array:
    """The newest season, over and over; a gap in it takes the value before.

    >>> repeated(np.array([9.0, 1.0, 2.0]), 2, 3).tolist()
    [1.0, 2.0, 1.0]
    """
    newest = carried(values)[-season:]
    return np.asarray(newest[np.arange(horizon) % season])
