"""A seasonal profile and a level beside it that decays: today is a bit busier than usual, tomorrow less so."""

import numpy as np

from ..context import ForecastContext, spread
from ..series import Array
from .model import UnsuitedError
from .smoothing import level

#: The newest season counts once, the one before it FADE of that, and so on; at most SEASONS of them.
FADE, SEASONS = 0.7, 8
RATE = 0.1


def profile(context: ForecastContext) -> Array:
    """The profile at each step, plus what remains of today's deviation, spread by the errors.

    Raises:
        UnsuitedError: no season, or fewer than two of them.
    """
    series, season = context.series, context.series.season
    seasons = min(SEASONS, len(series) // season) if season > 1 else 0
    if seasons < 2:
        raise UnsuitedError("needs a season and two of them")
    table = series.filled[-seasons * season :].reshape(seasons, season)
    weights = FADE ** np.arange(seasons - 1, -1, -1)
    total = (table * weights[:, None]).sum(axis=0)
    usual = total / weights.sum()
    # Each sample against the profile of the other seasons: against its own it would look better than it is.
    others = (total[None, :] - table * weights[:, None]) / (weights.sum() - weights)[:, None]
    deviation = (table - others).ravel()
    smooth = level(deviation, RATE)
    newest = len(deviation) - 1
    origins = context.origins[context.origins >= len(series) - len(deviation)] - (len(series) - len(deviation))
    where = origins[:, None] + context.knots
    after = np.where(where <= newest, deviation[np.minimum(where, newest)], np.nan)
    before = smooth[origins][:, None]
    measured = np.isfinite(after)
    kept = np.where(measured, after * before, 0.0).sum(axis=0) / np.maximum((measured * before**2).sum(axis=0), 1e-12)
    kept = np.clip(kept, 0.0, 1.0)
    rows = kept[:, None] * smooth[-1] + spread(after - kept * before, context.levels)
    profile_ahead = usual[np.arange(context.horizon) % season]
    return np.asarray(profile_ahead[:, None] + context.across(rows))
