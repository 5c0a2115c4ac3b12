"""A question about one series, how it is worked on, and what is answered.

Rule of this file: pure data, and the ways between the series' unit and the one in which it is worked on.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from . import backtest
from .context import ForecastContext
from .models import season as seasons
from .series import Array, Series

#: Levels that every back-test is scored at, whatever was asked for.
SCORED = np.arange(1, 10) / 10
#: More history than this tells the ensemble nothing new, but for the season.
HISTORY = 2880
#: What a question calls the ensemble of the members, and that of all models.
ENSEMBLE, THOROUGH = "pool", "thorough"
#: Less than this share of the largest value is 0: no measurement is so fine.
NOTHING = 1e-9


@dataclass(frozen=True)
class Question:
    """``values``: one a sample, NaN for a gap. ``season``: samples a season, 0 for none, None to find it.

    ``model``: ``pool`` (the ensemble), ``thorough`` (the ensemble with every other model that is installed), or one
    model's name. ``notes``: what the answer says beside its own.
    """

    values: Array
    interval_s: float
    horizon: int
    levels: Array
    low: float | None = None
    high: float | None = None
    season: int | None = None
    model: str = ENSEMBLE
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForecastResult:
    """The answer. ``values``: horizon x levels. Losses are mean pinball losses in the series' unit; None: untested.

    ``above_rest``: each step's probability to be above the level that the series often rests on; None: it does not.
    ``naive``: the median of the naive forecast that the back-test compares with, a step; None: it cannot be made.
    """

    model: str
    values: Array
    loss: float | None
    naive_loss: float | None
    coverage: float | None
    moments: int
    steps: int
    history: int
    season: int
    above_rest: Array | None
    weights: Mapping[str, float]
    notes: tuple[str, ...]
    naive: Array | None = None


@dataclass(frozen=True)
class Asked:
    """A question as it is worked on: in a ``unit`` that suits its values, beyond the ``gap`` that ends them."""

    question: Question
    series: Series
    context: ForecastContext
    unit: float
    gap: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, question: Question) -> "Asked":
        """The question, ready.

        Raises:
            ValueError: nothing was measured.
        """
        unit = unit_of(question.values)
        series, gap = prepared(question, unit), trailing_gap(question.values)
        context = ForecastContext(series, question.horizon + gap, np.union1d(SCORED, question.levels))
        return cls(question, series, context, unit, gap, tuple(_notes(question, series)))

    def in_units(self, result: ForecastResult) -> ForecastResult:
        """The result as it is answered: in the series' unit, after the gap, at the levels that were asked for."""
        columns = np.searchsorted(self.context.levels, self.question.levels)
        return _in_units(result, self.unit, self.gap, columns)


def unit_of(values: Array) -> float:
    """By what values are divided before anything is computed: a power of two, so that only their exponents change.

    Raises:
        ValueError: nothing was measured.
    """
    measured = values[np.isfinite(values)]
    if not measured.size:
        raise ValueError("nothing was measured")
    return float(2.0 ** (math.frexp(float(np.abs(measured).max()))[1] - 1)) if measured.any() else 1.0


def prepared(question: Question, unit: float) -> Series:
    """The series that is forecast: in ``unit``, in its range, with its season, no longer than is of use."""
    scaled = [None if bound is None else _finite(bound / unit) for bound in (question.low, question.high)]
    if scaled[0] is None and np.nanmin(question.values) >= 0.0:
        scaled[0] = 0.0  # what was never negative is a quantity
    series = Series.of(question.values / unit, question.interval_s, 0, *scaled)
    season = question.season
    if season is None:
        season = seasons.of_clock(question.interval_s, len(series)) or seasons.of_values(series.filled[-HISTORY:])
    kept = series.last(max(HISTORY, 4 * season))
    return replace(kept, season=season)


def trailing_gap(values: Array) -> int:
    """How many of the newest samples are gaps."""
    return len(values) - 1 - int(np.flatnonzero(np.isfinite(values))[-1])


def _notes(question: Question, series: Series) -> list[str]:
    notes = list(question.notes)
    gaps = int(np.isnan(series.values).sum())
    if gaps:
        notes.append(f"{gaps} of {len(series)} samples are gaps")
    if gap := trailing_gap(question.values):
        notes.append(f"the newest {gap} samples are gaps; the forecast begins after them")
    if len(series) < backtest.LEAST + 3:
        if (measured := np.unique(question.values[np.isfinite(question.values)])).size == 1:
            which = "one value was measured" if len(series) == 1 + gaps else f"all values measured are {measured[0]:g}"
            notes.append(f"{which}: nothing is known of how the series varies, and the intervals are too narrow")
        notes.append(f"too little history ({len(series)} samples) for a back-test")
    return notes


def _in_units(result: ForecastResult, unit: float, skipped: int, columns: NDArray[np.intp]) -> ForecastResult:
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        values = np.clip(_or_nothing(result.values[skipped:, columns]) * unit, -largest, largest)
        losses = [None if loss is None else loss_in(loss, unit) for loss in (result.loss, result.naive_loss)]
        naive = None if result.naive is None else np.clip(result.naive[skipped:] * unit, -largest, largest)
    above_rest = None if result.above_rest is None else result.above_rest[skipped:]
    return replace(result, values=values, loss=losses[0], naive_loss=losses[1], above_rest=above_rest, naive=naive)


def _or_nothing(values: Array) -> Array:
    """``values`` of a series that reaches 1 or so, without what is left over of averages whose terms cancel."""
    return np.where(np.abs(values) < NOTHING, 0.0, values)


def loss_in(loss: float, unit: float) -> float:
    """A loss on a series that reaches 1 or so, in the series' own unit."""
    return 0.0 if loss < NOTHING else _finite(loss * unit)


def _finite(value: float) -> float:
    return float(np.clip(value, -np.finfo(np.float64).max, np.finfo(np.float64).max))
