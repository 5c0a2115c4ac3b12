"""Clusters a day ahead by the quarter hour: the ensemble with and without what it knows of days and weeks."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.forecast import forecast
from forecaster.held_forecast import DAY_AHEAD, LEVELS
from forecaster.models.registry import Registry
from forecaster.quarters import QUARTER_S
from forecaster.question import Question
from forecaster.scores import pinball
from forecaster.series import Array

from .data import EvaluationSeries, centre

SOURCES = ("alibaba2018", "google2019")
#: Values of five minutes in a quarter hour; days that are known at the first moment, and moments of each series.
FIVE_MINUTES, KNOWN_DAYS, MOMENTS = 3, 4, 24
#: The distances ahead that are scored, in hours.
HOURS = (1, 4, 8, 12, 24)


def quarter_hours(series: EvaluationSeries) -> Array:
    """The means of a series of five minutes; NaN where nothing was measured."""
    kept = series.values[len(series.values) % FIVE_MINUTES :].reshape(-1, FIVE_MINUTES)
    measured = np.isfinite(kept).sum(axis=1)
    return np.asarray(np.where(measured > 0, np.nansum(kept, axis=1) / np.maximum(measured, 1), np.nan))


def evaluate(folder: Path, models: Registry) -> Iterator[dict[str, Any]]:
    """A row a source and hours ahead: losses as shares of repeating yesterday's, and shares inside 80 % intervals."""
    without = replace(models, members={name: one for name, one in models.members.items() if name != "calendar"})
    for source in SOURCES:
        told = {hours: _Scores() for hours in HOURS}
        for series in centre(folder, source, QUARTER_S / FIVE_MINUTES):
            _follow(series, (models, without), told)
        yield from (scores.row(source, hours) for hours, scores in told.items())
        print(source, file=sys.stderr, flush=True)


class _Scores:
    """Of one distance ahead: losses, each as a share of its series' mean loss of yesterday's value, and hits."""

    def __init__(self) -> None:
        self.losses: list[tuple[float, float]] = []
        self.inside: list[tuple[bool, bool]] = []

    def row(self, source: str, hours: int) -> dict[str, Any]:
        loss, loss_without, inside, inside_without = (
            float(mean) for scores in (self.losses, self.inside) for mean in np.mean(scores, axis=0)
        )
        return {
            "source": source,
            "hours ahead": hours,
            "forecasts": len(self.losses),
            "loss": loss,
            "without the calendar": loss_without,
            "inside 80 %": inside,
            "inside without": inside_without,
        }


def _follow(series: EvaluationSeries, by: tuple[Registry, Registry], told: dict[int, _Scores]) -> None:
    values, levels, day = quarter_hours(series), np.array(LEVELS), DAY_AHEAD
    usual = float(np.nanmean(np.abs(values[day:] - values[:-day])))
    low, high = LEVELS.index(0.1), LEVELS.index(0.9)
    for at in np.random.default_rng(3).integers(KNOWN_DAYS * day, len(values) - day, MOMENTS):
        asked = Question(values[:at], QUARTER_S, day, levels, series.low, series.high)
        made = [forecast(asked, models).values for models in by]
        for hours, scores in told.items():
            step = round(hours * 3600.0 / QUARTER_S)
            came = values[at + step - 1 : at + step]
            if np.isfinite(came).all():
                rows = [one[step - 1 : step] for one in made]
                loss, other = (float(pinball(came, row, levels).mean()) / usual for row in rows)
                scores.losses.append((loss, other))
                hit, miss = (bool(row[0, low] <= came[0] <= row[0, high]) for row in rows)
                scores.inside.append((hit, miss))
