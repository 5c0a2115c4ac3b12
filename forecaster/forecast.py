"""The forecast itself: from a question about one series to quantiles, the model behind them and how far to trust it.

Rule of this file: pure, the same question always has the same answer. The gate is here: what lost to the seasonal
naive forecast in the back-test is not what the ensemble answers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from . import backtest, ensemble, zero_inflation
from .backtest import Backtest
from .context import ForecastContext
from .models import season as seasons
from .models.model import UnsuitedError
from .models.registry import NAMES, Registry
from .series import Array, Series

#: Levels that every back-test is scored at, whatever was asked for.
SCORED = np.arange(1, 10) / 10
#: More history than this tells the ensemble nothing new, but for the season.
HISTORY = 2880
#: What a question calls the ensemble of the members, and that of all models.
ENSEMBLE, THOROUGH = "pool", "thorough"
#: Every name that a question may hold.
MODELS = (ENSEMBLE, THOROUGH, *NAMES)
#: Less than this share of the largest value is 0: no measurement is so fine.
NOTHING = 1e-9
#: A model that is no member of the ensemble is tried at so many earlier moments.
NAMED_MOMENTS = 2


@dataclass(frozen=True)
class Question:
    """``values``: one a sample, NaN for a gap. ``season``: samples a season, 0 for none, None to find it.

    ``model``: ``pool`` (the ensemble), ``thorough`` (the ensemble with every other model that is installed), or one
    model's name.
    """

    values: Array
    interval_s: float
    horizon: int
    levels: Array
    low: float | None = None
    high: float | None = None
    season: int | None = None
    model: str = ENSEMBLE


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


class UnknownModelError(ValueError):
    """There is no model of this name."""


def forecast(question: Question, models: Registry) -> ForecastResult:
    """The answer to ``question`` by ``models``.

    Raises:
        UnknownModelError: no such model.
        UnsuitedError: the named model cannot forecast from this past, or its package is not installed.
        ValueError: nothing was measured.
    """
    if question.model not in (ENSEMBLE, THOROUGH, *models.names):
        raise UnknownModelError(f"no model {question.model!r}; there are {', '.join(MODELS)}")
    unit = _unit(question.values)
    series, gap = _series(question, unit), _gap(question.values)
    levels = np.union1d(SCORED, question.levels)
    notes = _notes(question, series)
    question = replace(question, horizon=question.horizon + gap)
    if question.model in (ENSEMBLE, THOROUGH):
        result = _combined(question, models, series, levels, notes)
    else:
        result = _single(question, models, series, levels, notes)
    return _in_units(result, unit, gap, np.searchsorted(levels, question.levels))


def backtests(question: Question, models: Registry) -> list[tuple[str, float | None, float | None]]:
    """Each member's back-test: name, loss and coverage of its 80 % interval, the best first; None: untried.

    Raises:
        ValueError: nothing was measured.
    """
    unit = _unit(question.values)
    test = backtest.run(_series(question, unit), question.horizon, SCORED, models.members)
    rows = [
        (name, _lost(test.losses[name], unit), _covered(test, test.forecasts[name]))
        if name in test.losses
        else (name, None, None)
        for name in models.members
    ]
    return sorted(rows, key=lambda row: math.inf if row[1] is None else row[1])


def _covered(test: Backtest, made: Array | None) -> float | None:
    """The share of the back-test's values inside the 80 % interval."""
    measured = np.isfinite(test.actual)
    if made is None or not measured.any():
        return None
    low, high = (int(np.searchsorted(test.levels, level)) for level in (0.1, 0.9))
    inside = (test.actual >= made[..., low]) & (test.actual <= made[..., high])
    return float(inside[measured].mean())


def _unit(values: Array) -> float:
    """By what values are divided before anything is computed: a power of two, so that only their exponents change.

    Raises:
        ValueError: nothing was measured.
    """
    measured = values[np.isfinite(values)]
    if not measured.size:
        raise ValueError("nothing was measured")
    return float(2.0 ** (math.frexp(float(np.abs(measured).max()))[1] - 1)) if measured.any() else 1.0


def _series(question: Question, unit: float) -> Series:
    scaled = [None if bound is None else _finite(bound / unit) for bound in (question.low, question.high)]
    if scaled[0] is None and np.nanmin(question.values) >= 0.0:
        scaled[0] = 0.0  # what was never negative is a quantity
    series = Series.of(question.values / unit, question.interval_s, 0, *scaled)
    season = question.season
    if season is None:
        season = seasons.of_clock(question.interval_s, len(series)) or seasons.of_values(series.filled[-HISTORY:])
    kept = series.last(max(HISTORY, 4 * season))
    return replace(kept, season=season)


def _gap(values: Array) -> int:
    """How many of the newest samples are gaps."""
    return len(values) - 1 - int(np.flatnonzero(np.isfinite(values))[-1])


def _notes(question: Question, series: Series) -> list[str]:
    notes = []
    gaps = int(np.isnan(series.values).sum())
    if gaps:
        notes.append(f"{gaps} of {len(series)} samples are gaps")
    if gap := _gap(question.values):
        notes.append(f"the newest {gap} samples are gaps; the forecast begins after them")
    if len(series) < backtest.LEAST + 3:
        notes.append(f"too little history ({len(series)} samples) for a back-test")
    return notes


def _combined(question: Question, models: Registry, series: Series, levels: Array, notes: list[str]) -> ForecastResult:
    members = {**models.members, **(models.named if question.model == THOROUGH else {})}
    rest = zero_inflation.resting_level(series)
    speaking = tuple(name for name in members if name not in ensemble.BASELINES) if rest is None else ensemble.STATES
    test = backtest.run(series, question.horizon, levels, members)
    context, forecasts = ForecastContext(series, question.horizon, levels), {}
    for name, model in members.items():
        try:
            forecasts[name] = np.sort(series.clipped(model(context)), axis=1)
        except UnsuitedError:
            continue
    shares = ensemble.weights(forecasts, test.losses, speaking)
    values = ensemble.averaged(forecasts, shares)
    made, naive = None, _naive(test)
    if test.moments and test.forecasts:
        made = ensemble.hindcast(test, speaking)
        factor = ensemble.width(test, made)
        values, made = ensemble.widened(values, levels, factor), ensemble.widened(made, levels, factor)
    loss, naive_loss = None if made is None else ensemble.loss(test, made), test.losses.get(naive)
    chosen = question.model
    if made is not None and loss is not None and naive_loss is not None and loss > naive_loss and naive in forecasts:
        share = ensemble.naive_share(test, made, naive)
        made = ensemble.mixed(made, test.forecasts[naive], share)
        values, loss = ensemble.mixed(values, forecasts[naive], share), ensemble.loss(test, made)
        shares = {name: (1.0 - share) * own + share * (name == naive) for name, own in ({naive: 0.0} | shares).items()}
        notes.append(f"the models lost to {naive} in the back-test; its share of the answer is {share:.0%}")
        chosen = naive if share == 1.0 else chosen
    answer = _result(chosen, context, rest, values, test, made, loss, shares, notes)
    baseline = forecasts.get(naive)
    return answer if baseline is None else replace(answer, naive=baseline[:, np.searchsorted(levels, 0.5)])


def _single(question: Question, models: Registry, series: Series, levels: Array, notes: list[str]) -> ForecastResult:
    model = models.members.get(question.model) or models.named[question.model]
    context = ForecastContext(series, question.horizon, levels)
    values = np.sort(series.clipped(model(context)), axis=1)
    naive = {name: models.members[name] for name in ensemble.BASELINES}
    wanted = NAMED_MOMENTS if question.model in models.named else backtest.MOMENTS
    test = backtest.run(series, question.horizon, levels, {**naive, question.model: model}, wanted)
    made, loss = test.forecasts.get(question.model), test.losses.get(question.model)
    naive_loss = test.losses.get(_naive(test))
    if loss is not None and naive_loss is not None and loss > naive_loss:
        notes.append(f"in the back-test this model lost to {_naive(test)}")
    rest = zero_inflation.resting_level(series)
    return _result(question.model, context, rest, values, test, made, loss, {question.model: 1.0}, notes)


def _naive(test: Backtest) -> str:
    return "seasonal_naive" if "seasonal_naive" in test.losses else "naive"


def _result(
    model: str,
    context: ForecastContext,
    rest: float | None,
    values: Array,
    test: Backtest,
    made: Array | None,
    loss: float | None,
    shares: Mapping[str, float],
    notes: list[str],
) -> ForecastResult:
    series = context.series
    above_rest = None
    if rest is not None and len(context.origins) > 1:
        above_rest = zero_inflation.probability(context, rest)
    return ForecastResult(
        model=model,
        values=np.sort(series.clipped(values), axis=1),
        loss=loss,
        naive_loss=test.losses.get(_naive(test)),
        coverage=_covered(test, made),
        moments=test.moments,
        steps=test.actual.shape[1] if test.moments else 0,
        history=int(np.isfinite(series.values).sum()),
        season=series.season,
        above_rest=above_rest,
        weights=dict(sorted(shares.items(), key=lambda item: -item[1])),
        notes=tuple(notes),
    )


def _in_units(result: ForecastResult, unit: float, skipped: int, columns: NDArray[np.intp]) -> ForecastResult:
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        values = np.clip(_or_nothing(result.values[skipped:, columns]) * unit, -largest, largest)
        losses = [None if loss is None else _lost(loss, unit) for loss in (result.loss, result.naive_loss)]
        naive = None if result.naive is None else np.clip(result.naive[skipped:] * unit, -largest, largest)
    above_rest = None if result.above_rest is None else result.above_rest[skipped:]
    return replace(result, values=values, loss=losses[0], naive_loss=losses[1], above_rest=above_rest, naive=naive)


def _or_nothing(values: Array) -> Array:
    """``values`` of a series that reaches 1 or so, without what is left over of averages whose terms cancel."""
    return np.where(np.abs(values) < NOTHING, 0.0, values)


def _lost(loss: float, unit: float) -> float:
    return 0.0 if loss < NOTHING else _finite(loss * unit)


def _finite(value: float) -> float:
    return float(np.clip(value, -np.finfo(np.float64).max, np.finfo(np.float64).max))
