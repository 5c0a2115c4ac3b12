"""How the intervals of published forecasts do: recorded series followed a sample at a time, as on the bus.

A choice stands for a while and intervals follow what came (``forecaster.standing_forecasts``), unlike the contest's, in
which each forecast is asked for once and knows nothing of those before.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.calibration import STEPS
from forecaster.history import SeriesSubject
from forecaster.memory import Memory
from forecaster.models.registry import Registry
from forecaster.standing_forecasts import StandingForecasts
from paceline.events import IntervalScore

from .data import CONTEXT, EvaluationSeries, Part, Task, tasks

#: Series of a task that are followed, and samples of each.
SERIES, SAMPLES = 6, 300
#: Samples that are known before the first forecast, where the series has as many.
KNOWN = 120


def followed(series: EvaluationSeries, part: Part, models: Registry) -> list[IntervalScore]:
    """How the forecasts of one series did, from a moment of ``part`` on; by steps ahead, empty where none came."""
    values = series.values
    first = len(values) // 2 if series.part is None and part == "held-out" else 0
    last = len(values) // 2 if series.part is None and part == "dev" else len(values)
    first = max(first, min(KNOWN, (last - first) // 2))
    memory = Memory()
    subject = SeriesSubject(series.key, "", series.interval_s, "", low=series.low, high=series.high)
    standing, made = StandingForecasts(memory, models), None
    for place in range(max(0, first - CONTEXT), min(last, first + SAMPLES) - 1):
        if not np.isfinite(values[place]):  # What was not measured is not published.
            continue
        memory.put(subject, [(place + 0.5) * series.interval_s], [float(values[place])])
        if place >= first - 1:
            standing.begin([series.key])
            made = standing.forecasts([series.key]).get(series.key)
    return [] if made is None else made.interval_scores


def _row(task: Task, part: Part, models: Registry) -> dict[str, Any]:
    """Of the values that came so many steps after a forecast, the share inside its 80 % interval."""
    able = [one for one in task.series if one.part in (None, part) and len(one.values) > KNOWN]
    at = np.random.default_rng(9).permutation(len(able))[:SERIES]
    scores = [score for place in at for score in followed(able[place], part, models)]
    row: dict[str, Any] = {"task": task.name, "series": len(at)}
    for step in STEPS:
        own = [score for score in scores if score.steps == step]
        values = sum(score.values for score in own)
        inside = sum(score.inside_80_ratio * score.values for score in own)
        row[f"{step} ahead"] = inside / values if values else None
    return row


def evaluate(folder: Path, part: Part, models: Registry) -> Iterator[dict[str, Any]]:
    """Each recorded series once, whatever the horizons that tasks ask for."""
    seen: set[tuple[str, ...]] = set()
    for task in tasks(folder):
        keys = tuple(one.key for one in task.series)
        if keys not in seen:
            seen.add(keys)
            yield _row(task, part, models)
            print(task.name, file=sys.stderr, flush=True)
