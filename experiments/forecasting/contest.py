"""The contest: every model and the default forecast the same cases; scores beside the seasonal naive point forecast.

MASE and wQL are means over a task's cases, scaled by each case's in-sample naive error, relative to repeating the last
season (the last value where there is none). A model that is unsuited answers as ``naive`` and is counted.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from forecaster import scores
from forecaster.forecast import Question, forecast
from forecaster.models import season
from forecaster.models.model import UnsuitedError
from forecaster.models.naive import repeated
from forecaster.models.registry import Registry
from forecaster.series import Series

from .data import Array, Case

LEVELS = np.arange(1, 10) / 10
BASE = "repeated season"


@dataclass
class Tally:
    """One model's scores on one task, a case each; ``unsuited`` is how many it could not forecast."""

    errors: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    unsuited: int = 0

    def append(self, case: Case, quantiles: Array, scale: float, took_s: float) -> None:
        """Score one forecast."""
        measured = np.isfinite(case.actual)
        self.errors.append(float(np.abs(case.actual - quantiles[:, 4])[measured].mean() / scale))
        self.losses.append(float(scores.pinball(case.actual[measured], quantiles[measured], LEVELS).mean() / scale))
        self.inside.append(scores.coverage(case.actual, quantiles[:, 0], quantiles[:, -1]) or 0.0)
        self.seconds.append(took_s)


def scale_of(case: Case, length: int) -> float:
    """What a case's errors are divided by: its own naive error, at least a thousandth of its range."""
    scale = scores.naive_scale(case.context, length) or 0.0
    return max(scale, 1e-3 * float(np.nanmax(case.context) - np.nanmin(case.context)), 1e-9)


def asked(case: Case, horizon: int, model: str) -> Question:
    """The question that a case is."""
    series = case.series
    return Question(case.context, series.interval_s, horizon, LEVELS, series.low, series.high, model=model)


def contest(
    cases: list[Case], horizon: int, names: list[str], models: Registry, said: Callable[[str], None]
) -> dict[str, Tally]:
    """Name -> its tally; ``BASE`` is among them."""
    tallies = {name: Tally() for name in (BASE, *names)}
    for number, case in enumerate(cases):
        length = max(1, season.of_clock(case.series.interval_s, len(case.context)))
        scale, past = scale_of(case, length), Series.of(case.context, case.series.interval_s)
        gap = len(case.context) - 1 - int(np.flatnonzero(np.isfinite(case.context))[-1])
        base = repeated(past.values, length, horizon + gap)[gap:]
        tallies[BASE].append(case, np.repeat(base[:, None], len(LEVELS), axis=1), scale, 0.0)
        for name in names:
            began_s = time.perf_counter()
            try:
                made = forecast(asked(case, horizon, name), models).values
            except UnsuitedError:
                tallies[name].unsuited += 1
                made = forecast(asked(case, horizon, "naive"), models).values
            tallies[name].append(case, made, scale, time.perf_counter() - began_s)
        said(f"{number + 1} of {len(cases)}")
    return tallies


def relative(tallies: dict[str, Tally], name: str) -> tuple[float, float]:
    """MASE and wQL of ``name`` over those of ``BASE``."""
    own, base = tallies[name], tallies[BASE]
    return float(np.mean(own.errors) / np.mean(base.errors)), float(np.mean(own.losses) / np.mean(base.losses))
