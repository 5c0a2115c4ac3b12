"""What is usual at this hour and on this day of the week, and how far from that it is now: for a day ahead.

The other members look at the newest thousand samples or at the newest season; of a cluster that people use, weeks say
more of tomorrow than the last hours do. No day of the week is named, so a week-end may lie anywhere, in any time zone.
"""

import numpy as np
from numpy.typing import NDArray

from ..context import ForecastContext, spread
from ..series import Array
from .model import UnsuitedError

DAY_S, DAYS_IN_WEEK = 86_400.0, 7
#: A series on a finer grid holds too few days; one with fewer days knows none of them well.
FINEST_S, FEWEST_DAYS = 600.0, 4
#: What lies so near counts as the same time of the day, and of the week.
NEAR_DAY_S, NEAR_WEEK_S = 1800.0, 21_600.0
#: The effect of a time counts as if it had been 0 on so many days, and in so many weeks, besides.
DAYS_PRIOR, WEEKS_PRIOR = 1.0, 2.0


def calendar(context: ForecastContext) -> Array:
    """The usual value at each step, plus what remains of the newest deviation, spread by the errors.

    Raises:
        UnsuitedError: the grid is too fine or no day is a whole number of samples, or there are too few days.
    """
    series = context.series
    day = round(DAY_S / series.interval_s)
    if series.interval_s < FINEST_S or day < 2 or day * series.interval_s != DAY_S:
        raise UnsuitedError(f"needs a sample every {FINEST_S / 60.0:.0f} minutes or more, and a day of them")
    if len(series) < FEWEST_DAYS * day:
        raise UnsuitedError(f"needs {FEWEST_DAYS} days")
    week = DAYS_IN_WEEK * day
    values = np.concatenate([np.full(-len(series) % week, np.nan), series.values])
    mean = float(np.nanmean(values))
    by_day, without_day = _effects(values - mean, day, round(NEAR_DAY_S / series.interval_s), DAYS_PRIOR)
    rest = values - mean - without_day
    by_week, without_week = _effects(rest, week, round(NEAR_WEEK_S / series.interval_s), WEEKS_PRIOR)
    deviation = rest - without_week
    newest = values[-1] - mean - by_day[-1] - by_week[-1]
    kept, errors = _carried_on(deviation, context.knots)
    rows = kept[:, None] * newest + spread(errors, context.levels)
    steps = np.arange(context.horizon)
    usual = mean + by_day[steps % day] + by_week[steps % week]
    return np.asarray(usual[:, None] + context.across(rows))


def _effects(values: Array, period: int, near: int, prior: float) -> tuple[Array, Array]:
    """What each time of a period adds, and at each sample the same by the other periods alone.

    ``values``: whole periods, NaN for gaps. Against an effect that knows it a sample would look better than it is.
    """
    measured = np.isfinite(values)
    sums = _around(np.where(measured, values, 0.0).reshape(-1, period), near)
    counts = _around(measured.astype(np.float64).reshape(-1, period), near)
    total, number = sums.sum(axis=0), counts.sum(axis=0)
    return total / (number + prior), ((total - sums) / (number - counts + prior)).ravel()


def _around(rows: Array, near: int) -> Array:
    """The mean over those that are up to ``near`` places away, in a circle."""
    total = np.zeros_like(rows)
    for shift in range(-near, near + 1):
        total += np.roll(rows, shift, axis=1)
    return np.asarray(total / (2 * near + 1))


def _carried_on(deviation: Array, knots: NDArray[np.intp]) -> tuple[Array, Array]:
    """After each of ``knots`` steps: the share of a deviation that is left, from 0 to 1, and the errors of saying so.

    Errors are samples x knots, NaN where one of the two values was not measured.
    """
    where = np.arange(len(deviation))[:, None] + knots
    after = np.where(where < len(deviation), deviation[np.minimum(where, len(deviation) - 1)], np.nan)
    before = np.where(np.isfinite(after), deviation[:, None], np.nan)
    squares = np.nansum(before**2, axis=0)
    kept = np.clip(np.nansum(before * after, axis=0) / np.where(squares > 0.0, squares, 1.0), 0.0, 1.0)
    return kept, after - kept * before
