"""How likely a series that often rests on its minimum is above it, step by step: a GPU that idles between requests.

Rule of this file: pure.
"""

import numpy as np

from .context import ForecastContext
from .series import Array, Series

#: Resting this often in the newest samples makes a series zero-inflated.
SHARE, NEWEST = 0.3, 240
#: Moments count as like now where the same share (in tenths) of the last so many samples was above rest.
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


def resting_level(series: Series) -> float | None:
    """The level that the series often rests on; None where it does not."""
    rest = floor(series.values, series.low)
    return rest if resting(series.values, rest) else None


def tolerance(values: Array) -> float:
    """What still counts as at rest: a thousandth of the range."""
    return 1e-3 * float(np.nanmax(values) - np.nanmin(values))


def probability(context: ForecastContext, rest: float) -> Array:
    """P(above rest) for each step of the horizon, from moments of the series that were as active as now."""
    series = context.series
    above = (series.filled > rest + tolerance(series.values)).astype(np.float64)
    share = np.convolve(above, np.full(LOOKBACK, 1.0 / LOOKBACK))[: len(above)]
    state = np.round(share * TENTHS) + (TENTHS + 1) * above
    alike = state[context.origins] == state[-1]
    followers = np.where(np.isfinite(context.followers), context.followers > rest + tolerance(series.values), np.nan)
    seen = np.isfinite(followers[alike])
    usual = float(np.mean(above))
    chance = (np.where(seen, followers[alike], 0.0).sum(axis=0) + DOUBT * usual) / (seen.sum(axis=0) + DOUBT)
    return context.across(chance[:, None])[:, 0]
