"""The forecast of a series that is held: how far ahead, at which levels, and as the event that is published.

Rule of this file: pure.
"""

from collections.abc import Sequence

import numpy as np

from paceline.events import Backtest, Forecast, IntervalScore

from . import group_sizes, quarters
from .history import SeriesSubject
from .memory import Held
from .question import ENSEMBLE, ForecastResult, Question
from .series import Array

#: Those of the intervals that hold 50, 80 and 95 %, and each tenth.
LEVELS = (0.025, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.975)
#: How many of the newest values go with a published forecast: what a picture of it shows.
RECENT = 120
#: How far ahead is published, in steps; of a cluster by the quarter hour a day.
HORIZON, DAY_AHEAD = 60, 96
#: Fewer measured samples than this are not worth a published forecast.
FEWEST = 12


def question(
    held: Held, horizon: int | None = None, levels: tuple[float, ...] = LEVELS, model: str = ENSEMBLE
) -> Question:
    """The question about a series that is held; without a ``horizon`` what is published of it.

    More memory may be wanted than there is: it is forecast as if it had no end. Members that know the end say less than
    it, each by a little, and so does their average, until it is too late. Sums over a cluster
    that had another number of GPUs count as shares of the present number.
    """
    subject, size = held.subject, memory_size(held.subject)
    high = subject.high if size is None else None
    if horizon is None:
        horizon = DAY_AHEAD if subject.interval_s == quarters.QUARTER_S else HORIZON
    values, notes = held.values, list[str]()
    if held.sizes is not None:
        values, others = group_sizes.of_present_size(held.values, held.sizes)
        notes += [f"{others} samples, of another number of GPUs, count as shares of the present one"] if others else []
    return Question(values, subject.interval_s, horizon, np.array(levels), subject.low, high, None, model, tuple(notes))


def memory_size(subject: SeriesSubject) -> float | None:
    """How much memory there is, of a series of memory that is used; None for others, and where it is not known."""
    return subject.high if subject.key.endswith("_bytes") else None


def rounded(values: Array, low: float | None = None, high: float | None = None) -> Array:
    """``values`` with six significant digits, from ``low`` to ``high``: written out they are a third as long.

    >>> rounded(np.array([0.0, 123456.789, -1.23456789e-7, np.nan]), high=123456.9).tolist()
    [0.0, 123456.9, -1.23457e-07, nan]
    """
    size = np.abs(values)
    with np.errstate(over="ignore", invalid="ignore"):
        digits = np.clip(5.0 - np.floor(np.log10(np.where(size > 0.0, size, 1.0))), -290.0, 290.0)
        power = 10.0 ** np.abs(digits)
        fine = np.where(digits >= 0, np.round(values * power) / power, np.round(values / power) * power)
    kept = np.where(np.isfinite(fine), fine, values)
    return within(kept, low, high)


def within(values: Array, low: float | None, high: float | None) -> Array:
    """``values`` from ``low`` to ``high``; None: without that bound."""
    return np.clip(values, -np.inf if low is None else low, np.inf if high is None else high)


def event(held: Held, asked: Question, result: ForecastResult, scores: Sequence[IntervalScore] = ()) -> Forecast:
    """The answer as it is published; ``scores``: of those published before."""
    subject = held.subject
    return Forecast(
        cluster=subject.cluster,
        series=subject.key,
        unit=subject.unit,
        job=subject.job,
        node=subject.node,
        device=subject.device,
        time_s=held.time_s,
        interval_s=subject.interval_s,
        model=result.model,
        levels=asked.levels.tolist(),
        values=rounded(result.values, subject.low, subject.high).tolist(),
        history=result.history,
        season_s=result.season * subject.interval_s if result.season else None,
        busy_ratio=None if result.above_rest is None else rounded(result.above_rest).tolist(),
        backtest=Backtest(
            moments=result.moments,
            steps=result.steps,
            loss=result.loss,
            naive_loss=result.naive_loss,
            coverage_80_ratio=result.coverage,
        ),
        notes=list(result.notes),
        recent_values=[value if np.isfinite(value) else None for value in rounded(held.values[-RECENT:]).tolist()],
        naive_values=[] if result.naive is None else rounded(result.naive, subject.low, subject.high).tolist(),
        maximum=subject.high,
        interval_scores=list(scores),
    )
