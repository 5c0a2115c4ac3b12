"""The forecast of a series that is held: how far ahead, at which levels, and as the event that is published.

Rule of this file: pure.
"""

import numpy as np

from paceline.events import Backtest, Forecast

from .memory import Held
from .question import ENSEMBLE, ForecastResult, Question

#: Those of the intervals that hold 50, 80 and 95 %, and each tenth.
LEVELS = (0.025, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.975)
#: How many of the newest values go with a published forecast: what a picture of it shows.
RECENT = 120
#: How far ahead is published, in steps.
HORIZON = 60
#: Fewer measured samples than this are not worth a published forecast.
FEWEST = 12


def question(held: Held, horizon: int = HORIZON, levels: tuple[float, ...] = LEVELS, model: str = ENSEMBLE) -> Question:
    """The question about a series that is held."""
    subject = held.subject
    return Question(held.values, subject.interval_s, horizon, np.array(levels), subject.low, subject.high, None, model)


def event(held: Held, asked: Question, result: ForecastResult) -> Forecast:
    """The answer as it is published."""
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
        values=result.values.tolist(),
        history=result.history,
        season_s=result.season * subject.interval_s if result.season else None,
        busy_ratio=None if result.above_rest is None else result.above_rest.tolist(),
        backtest=Backtest(
            moments=result.moments,
            steps=result.steps,
            loss=result.loss,
            naive_loss=result.naive_loss,
            coverage_80_ratio=result.coverage,
        ),
        notes=list(result.notes),
        recent_values=[float(value) if np.isfinite(value) else None for value in held.values[-RECENT:]],
        naive_values=[] if result.naive is None else result.naive.tolist(),
        maximum=subject.high,
    )
