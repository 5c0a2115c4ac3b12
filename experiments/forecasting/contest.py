"""The contest: every model and the default forecast the same cases; scores beside the seasonal naive point forecast.

MASE, wQL and MSIS are means over a task's cases, scaled by each case's in-sample naive error; MASE and wQL are given
relative to repeating the last season (the last value where there is none). A model that is unsuited answers as
``naive`` and is counted.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from forecaster import scores
from forecaster.forecast import forecast
from forecaster.models import season
from forecaster.models.model import UnsuitedError
from forecaster.models.naive import repeated
from forecaster.models.registry import Registry
from forecaster.question import ENSEMBLE, Question
from forecaster.series import Series

from .data import Array, Case

LEVELS = np.arange(1, 10) / 10
#: What is asked for: also the ends of the 95 % interval.
ASKED = np.array([0.025, *LEVELS, 0.975])
BASE = "repeated season"
#: The ensemble with nothing learned but its prior.
UNGATED = "pool without the gate"
#: Coverage is given for each third of the steps.
PARTS = 3


@dataclass
class Tally:
    """One model's scores on one task, a case each; ``unsuited`` is how many it could not forecast.

    ``spans``: the interval scores at 80 and 95 %; ``inside``: the share inside the 80 % interval, of all steps and in
    each third of them; ``clusters``: whose cases belong together, for the bootstrap.
    """

    errors: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    inside_95: list[float] = field(default_factory=list)
    thirds: list[tuple[float, ...]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    unsuited: int = 0

    def append(self, case: Case, quantiles: Array, scale: float, took_s: float) -> None:
        """Score one forecast: steps x ``ASKED``."""
        measured = np.isfinite(case.actual)
        actual, made = case.actual[measured], quantiles[measured]
        within = np.where(measured, (case.actual >= quantiles[:, 1]) & (case.actual <= quantiles[:, -2]), np.nan)
        self.errors.append(float(np.abs(actual - made[:, 5]).mean() / scale))
        self.losses.append(float(scores.pinball(actual, made[:, 1:-1], LEVELS).mean() / scale))
        self.spans.append(
            (span(actual, made[:, 1], made[:, -2], 0.2) / scale, span(actual, made[:, 0], made[:, -1], 0.05) / scale)
        )
        self.inside.append(float(np.nanmean(within)))
        self.inside_95.append(float(np.mean((actual >= made[:, 0]) & (actual <= made[:, -1]))))
        self.thirds.append(
            tuple(
                float(np.nanmean([0.8, *one])) if not np.isfinite(one).any() else float(np.nanmean(one))
                for one in np.array_split(within, PARTS)
            )
        )
        self.seconds.append(took_s)
        self.clusters.append(case.series.key.rsplit("/", 1)[0] if "/" in case.series.key else case.series.key)


def span(actual: Array, low: Array, high: Array, outside: float) -> float:
    """The interval score: its width, and what lies outside of it times 2 / ``outside``.

    >>> span(np.array([0.0, 3.0]), np.array([0.0, 0.0]), np.array([2.0, 2.0]), 0.2)
    7.0

    Source: Gneiting and Raftery, Strictly Proper Scoring Rules, 2007.
    """
    missed = np.maximum(low - actual, 0.0) + np.maximum(actual - high, 0.0)
    return float((high - low + 2.0 / outside * missed).mean())


def season_of(case: Case) -> int:
    """The season that the base repeats: a day where there are two of them, else one sample."""
    return max(1, season.of_clock(case.series.interval_s, len(case.context)))


def scale_of(case: Case) -> float:
    """What a case's errors are divided by: its own naive error, at least a hundredth of the range of its series.

    Without that least, one case whose past stood still and then moved would weigh more than all others of its task.
    """
    scale = scores.naive_scale(case.context, season_of(case)) or 0.0
    return max(scale, 1e-2 * float(np.nanmax(case.series.values) - np.nanmin(case.series.values)))


def base_of(case: Case, horizon: int) -> Array:
    """The newest season, over and over."""
    gap = len(case.context) - 1 - int(np.flatnonzero(np.isfinite(case.context))[-1])
    return repeated(Series.of(case.context, case.series.interval_s).values, season_of(case), horizon + gap)[gap:]


def asked(case: Case, horizon: int, model: str) -> Question:
    """The question that a case is."""
    series = case.series
    return Question(case.context, series.interval_s, horizon, ASKED, series.low, series.high, model=model)


def contest(
    cases: list[Case], horizon: int, names: list[str], models: Registry, said: Callable[[str], None]
) -> dict[str, Tally]:
    """Name -> its tally; ``BASE`` is among them."""
    tallies = {name: Tally() for name in (BASE, *names)}
    for number, case in enumerate(cases):
        scale, base = scale_of(case), base_of(case, horizon)
        tallies[BASE].append(case, np.repeat(base[:, None], len(ASKED), axis=1), scale, 0.0)
        for name in names:
            began_s = time.perf_counter()
            chosen, model = (replace(models, gate=None), ENSEMBLE) if name == UNGATED else (models, name)
            try:
                made = forecast(asked(case, horizon, model), chosen).values
            except UnsuitedError:
                tallies[name].unsuited += 1
                made = forecast(asked(case, horizon, "naive"), models).values
            tallies[name].append(case, made, scale, time.perf_counter() - began_s)
        said(f"{number + 1} of {len(cases)}")
    return tallies


def relative(tallies: Mapping[str, Tally], name: str) -> tuple[float, float]:
    """MASE and wQL of ``name`` over those of ``BASE``."""
    own, base = tallies[name], tallies[BASE]
    return float(np.mean(own.errors) / np.mean(base.errors)), float(np.mean(own.losses) / np.mean(base.losses))


def ratios(tallies: Mapping[str, Tally], over: str, under: str, draws: int = 1000, seed: int = 0) -> Array:
    """``draws`` bootstrap values of the wQL of ``over`` divided by that of ``under``.

    Whole clusters are drawn, for the cases of one series are alike; cases where there are fewer than four clusters.
    """
    clusters = np.array(tallies[over].clusters)
    _, where = np.unique(clusters, return_inverse=True)
    if where.max() < 3:
        where = np.arange(len(clusters))
    sums = np.stack([np.bincount(where, tallies[name].losses) for name in (over, under)])
    drawn = np.random.default_rng(seed).integers(sums.shape[1], size=(draws, sums.shape[1]))
    total = sums[:, drawn].sum(axis=2)
    return np.asarray(total[0] / np.maximum(total[1], 1e-12))
