"""How likely a series that often rests on its minimum is above it, step by step: a GPU that idles between requests.

Rule of this file: pure.
"""

import numpy as np

from .context import Scene
from .series import Array

#: Resting this often in the newest samples makes a series zero-inflated.
SHARE, NEWEST = 0.3, 240
#: Moments count as like now where the same share (in tenths) of the last so many samples was busy.
LOOKBACK, TENTHS = 10, 10
#: So many made-up moments at the long-run share keep a rare state from certainty.
DOUBT = 4.0


def floor(values: Array, low: float | None) -> float:
    """The value that counts as rest: the given minimum, or the smallest seen."""
    return float(np.nanmin(values)) if low is None else low


def resting(values: Array, rest: float) -> bool:
    """Whether at least ``SHARE`` of the newest values, and not all of them, are at ``rest``."""
    newest = values[-NEWEST:]
    newest = newest[np.isfinite(newest)]
    share = float(np.mean(newest <= rest + tolerance(values)))
    return SHARE <= share < 1.0


def tolerance(values: Array) -> float:
    """What still counts as at rest: a thousandth of the range."""
    return 1e-3 * float(np.nanmax(values) - np.nanmin(values))


def probability(scene: Scene, rest: float) -> Array:
    """P(above rest) for each step of the horizon, from moments of the past that were as busy as now."""
    past = scene.past
    above = (past.filled > rest + tolerance(past.values)).astype(np.float64)
    share = np.convolve(above, np.full(LOOKBACK, 1.0 / LOOKBACK))[: len(above)]
    state = np.round(share * TENTHS) + (TENTHS + 1) * above
    alike = state[scene.origins] == state[-1]
    followers = np.where(np.isfinite(scene.followers), scene.followers > rest + tolerance(past.values), np.nan)
    seen = np.isfinite(followers[alike])
    usual = float(np.mean(above))
    found = (np.where(seen, followers[alike], 0.0).sum(axis=0) + DOUBT * usual) / (seen.sum(axis=0) + DOUBT)
    return scene.across(found[:, None])[:, 0]
