"""A seasonal profile and a level beside it that decays: today is a bit busier than usual, tomorrow less so."""

import numpy as np

from ..context import Scene, spread
from ..series import Array
from .model import UnsuitedError
from .smoothing import level

#: The newest season counts once, the one before it FADE of that, and so on; at most SEASONS of them.
FADE, SEASONS = 0.7, 8
RATE = 0.1


def profile(scene: Scene) -> Array:
    """The profile at each step, plus what remains of today's deviation, spread by the errors.

    Raises:
        UnsuitedError: no season, or fewer than two of them.
    """
    past, season = scene.past, scene.past.season
    seasons = min(SEASONS, len(past) // season) if season > 1 else 0
    if seasons < 2:
        raise UnsuitedError("needs a season and two of them")
    table = past.filled[-seasons * season :].reshape(seasons, season)
    weights = FADE ** np.arange(seasons - 1, -1, -1)
    total = (table * weights[:, None]).sum(axis=0)
    usual = total / weights.sum()
    # Each sample against the profile of the other seasons: against its own it would look better than it is.
    others = (total[None, :] - table * weights[:, None]) / (weights.sum() - weights)[:, None]
    deviation = (table - others).ravel()
    smooth = level(deviation, RATE)
    newest = len(deviation) - 1
    origins = scene.origins[scene.origins >= len(past) - len(deviation)] - (len(past) - len(deviation))
    where = origins[:, None] + scene.knots
    after = np.where(where <= newest, deviation[np.minimum(where, newest)], np.nan)
    before = smooth[origins][:, None]
    known = np.isfinite(after)
    kept = np.where(known, after * before, 0.0).sum(axis=0) / np.maximum((known * before**2).sum(axis=0), 1e-12)
    kept = np.clip(kept, 0.0, 1.0)
    rows = kept[:, None] * smooth[-1] + spread(after - kept * before, scene.levels)
    ahead = usual[np.arange(scene.horizon) % season]
    return np.asarray(ahead[:, None] + scene.across(rows))
