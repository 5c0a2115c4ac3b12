"""How the intervals of published forecasts do: recorded series followed a sample at a time, as on the bus.

A choice stands for a while and intervals follow what came (``forecaster.standing``), unlike the contest's, in which
each forecast is asked for once and knows nothing of those before.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.calibration import LEVELS, STEPS, Scored
from forecaster.forecast import Repeat, chosen, repeated
from forecaster.held_forecast import HORIZON
from forecaster.models.registry import Registry
from forecaster.question import Question
from forecaster.standing import Standing

from .data import CONTEXT, EvaluationSeries, Part, Task, tasks

#: Series of a task that are followed, and samples of each.
SERIES, SAMPLES = 6, 300
#: Samples that are known before the first forecast, where the series has as many.
KNOWN = 120


def followed(series: EvaluationSeries, part: Part, models: Registry) -> list[Scored]:
    """How the forecasts of one series did, from a moment of ``part`` on."""
    values = series.values
    first = len(values) // 2 if series.part is None and part == "held-out" else 0
    last = len(values) // 2 if series.part is None and part == "dev" else len(values)
    first = max(first, min(KNOWN, (last - first) // 2))
    state = Standing()
    for end in range(first, min(last, first + SAMPLES)):
        if not np.isfinite(values[end - 1]):  # What was not measured is not published.
            continue
        known = values[max(0, end - CONTEXT) : end]
        state.update(end - 1, known)
        question = Question(known, series.interval_s, HORIZON, np.array(LEVELS), series.low, series.high)
        widths = None if state.choice is None else state.widths
        if state.outdated():
            choice, result = chosen(question, models, widths)
            state.choose(choice)
        else:
            (result,) = repeated([Repeat(question, state.choice, widths)], models)
        state.publish(result.values)
    return state.scored()


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
