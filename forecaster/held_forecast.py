"""The forecast of a series that is held: how far ahead, at which levels, and as the event that is published.

Rule of this file: pure.
"""

import numpy as np

from paceline.events import Backtest, Forecast

from .forecast import POOL, Outlook, Question
from .memory import Held

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: How far ahead is published, in steps.
HORIZON = 60
#: Fewer measured samples than this are not worth a published forecast.
FEWEST = 12


def question(held: Held, horizon: int = HORIZON, levels: tuple[float, ...] = LEVELS, model: str = POOL) -> Question:
    """The question about a series that is held."""
    subject = held.subject
    return Question(held.values, subject.interval_s, horizon, np.array(levels), subject.low, subject.high, None, model)


def event(held: Held, asked: Question, outlook: Outlook) -> Forecast:
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
        model=outlook.model,
        levels=asked.levels.tolist(),
        values=outlook.values.tolist(),
        history=outlook.history,
        season_s=outlook.season * subject.interval_s if outlook.season else None,
        busy_ratio=None if outlook.busy is None else outlook.busy.tolist(),
        backtest=Backtest(
            moments=outlook.moments,
            steps=outlook.steps,
            loss=outlook.loss,
            naive_loss=outlook.naive_loss,
            coverage_80_ratio=outlook.coverage,
        ),
        notes=list(outlook.notes),
    )
