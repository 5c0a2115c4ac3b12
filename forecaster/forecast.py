"""The forecast itself: from a question about one series to quantiles, the model behind them and how far to trust it.

Rule of this file: pure, the same question always has the same answer. The gate is here: what lost to the seasonal
naive forecast in the back-test is not what the pool answers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from . import backtest, ensemble, zero_inflation
from .backtest import Backtest
from .context import Scene
from .models import season as seasons
from .models.model import Model, UnsuitedError
from .models.registry import MEMBERS
from .models.slow import SLOW
from .series import Array, Past

#: Levels that every back-test is scored at, whatever was asked for.
SCORED = np.arange(1, 10) / 10
#: More history than this tells the pool nothing new, but for the season.
HISTORY = 2880
POOL, THOROUGH = "pool", "thorough"
#: A slow model is tried at so many earlier moments.
SLOW_MOMENTS = 2


@dataclass(frozen=True)
class Question:
    """``values``: one a sample, NaN for a gap. ``season``: samples a season, 0 for none, None to find it.

    ``model``: ``pool``, ``thorough`` (the pool with the slow models that are installed), or one model's name.
    """

    values: Array
    interval_s: float
    horizon: int
    levels: Array
    low: float | None = None
    high: float | None = None
    season: int | None = None
    model: str = POOL


@dataclass(frozen=True)
class Outlook:
    """The answer. ``values``: horizon x levels. Losses are mean pinball losses in the series' unit; None: untested."""

    model: str
    values: Array
    loss: float | None
    naive_loss: float | None
    coverage: float | None
    moments: int
    steps: int
    history: int
    season: int
    busy: Array | None
    weights: Mapping[str, float]
    notes: tuple[str, ...]


class UnknownModelError(ValueError):
    """There is no model of this name."""


def models() -> tuple[str, ...]:
    """The names that a question may hold."""
    return (POOL, THOROUGH, *MEMBERS, *SLOW)


def ahead(question: Question) -> Outlook:
    """The answer to ``question``.

    Raises:
        UnknownModelError: no such model.
        UnsuitedError: the named model cannot forecast from this past, or its package is not installed.
        ValueError: nothing was measured.
    """
    if question.model not in models():
        raise UnknownModelError(f"no model {question.model!r}; there are {', '.join(models())}")
    measured = question.values[np.isfinite(question.values)]
    if not measured.size:
        raise ValueError("nothing was measured")
    # By a power of two, so that no value changes but its exponent and none overflows.
    unit = 2.0 ** (math.frexp(float(np.abs(measured).max()))[1] - 1) if measured.any() else 1.0
    past, gap = _past(question, unit), _gap(question.values)
    levels = np.union1d(SCORED, question.levels)
    notes = _notes(question, past)
    question = replace(question, horizon=question.horizon + gap)
    if question.model in (POOL, THOROUGH):
        outlook = _pooled(question, past, levels, notes)
    else:
        outlook = _single(question, past, levels, notes)
    return _in_units(outlook, unit, gap, np.searchsorted(levels, question.levels))


def tried(question: Question) -> list[tuple[str, float | None, float | None]]:
    """Each quick model's back-test: name, loss and coverage of its 80 % interval, the best first; None: untried.

    Raises:
        ValueError: nothing was measured.
    """
    past = _past(question, 1.0)
    test = backtest.run(past, question.horizon, SCORED, MEMBERS)
    rows = [
        (name, test.losses.get(name), _covered(test, test.forecasts.get(name)) if name in test.losses else None)
        for name in MEMBERS
    ]
    return sorted(rows, key=lambda row: math.inf if row[1] is None else row[1])


def _covered(test: Backtest, made: Array | None) -> float | None:
    """The share of the back-test's values inside the 80 % interval."""
    known = np.isfinite(test.actual)
    if made is None or not known.any():
        return None
    low, high = (int(np.searchsorted(test.levels, level)) for level in (0.1, 0.9))
    inside = (test.actual >= made[..., low]) & (test.actual <= made[..., high])
    return float(inside[known].mean())


def _past(question: Question, unit: float) -> Past:
    scaled = [None if bound is None else _finite(bound / unit) for bound in (question.low, question.high)]
    if scaled[0] is None and np.nanmin(question.values) >= 0.0:
        scaled[0] = 0.0  # what was never negative is a quantity
    past = Past.of(question.values / unit, question.interval_s, 0, *scaled)
    found = question.season
    if found is None:
        found = seasons.of_clock(question.interval_s, len(past)) or seasons.of_values(past.filled[-HISTORY:])
    kept = past.last(max(HISTORY, 4 * found))
    return replace(kept, season=found)


def _gap(values: Array) -> int:
    """How many of the newest samples are gaps."""
    return len(values) - 1 - int(np.flatnonzero(np.isfinite(values))[-1])


def _notes(question: Question, past: Past) -> list[str]:
    notes = []
    gaps = int(np.isnan(past.values).sum())
    if gaps:
        notes.append(f"{gaps} of {len(past)} samples are gaps")
    if gap := _gap(question.values):
        notes.append(f"the newest {gap} samples are gaps; the forecast begins after them")
    if len(past) < backtest.LEAST + 3:
        notes.append(f"too little history ({len(past)} samples) for a back-test")
    return notes


def _pooled(question: Question, past: Past, levels: Array, notes: list[str]) -> Outlook:
    members: dict[str, Model] = {**MEMBERS, **(SLOW if question.model == THOROUGH else {})}
    speaking = (
        ensemble.STATES
        if zero_inflation.resting(past.values, zero_inflation.floor(past.values, past.low))
        else tuple(members)
    )
    test = backtest.run(past, question.horizon, levels, members)
    scene, forecasts = _scene(question, past, levels), {}
    for name, model in members.items():
        try:
            forecasts[name] = np.sort(past.clipped(model(scene)), axis=1)
        except UnsuitedError:
            continue
    shares = ensemble.weights(forecasts, test.losses, speaking)
    values = ensemble.averaged(forecasts, shares)
    made, naive = None, _naive(test)
    if test.moments and test.forecasts:
        made = ensemble.retold(test, speaking)
        factor = ensemble.width(test, made)
        values, made = ensemble.widened(values, levels, factor), ensemble.widened(made, levels, factor)
    loss, naive_loss = None if made is None else ensemble.loss(test, made), test.losses.get(naive)
    chosen = question.model
    if made is not None and loss is not None and naive_loss is not None and loss > naive_loss and naive in forecasts:
        share = ensemble.yielded(test, made, naive)
        made = ensemble.mixed(made, test.forecasts[naive], share)
        values, loss = ensemble.mixed(values, forecasts[naive], share), ensemble.loss(test, made)
        shares = {name: (1.0 - share) * own + share * (name == naive) for name, own in ({naive: 0.0} | shares).items()}
        notes.append(f"the pool lost to {naive} in the back-test, which answers for {share:.0%}")
        chosen = naive if share == 1.0 else chosen
    return _outlook(chosen, scene, values, test, made, loss, shares, notes)


def _single(question: Question, past: Past, levels: Array, notes: list[str]) -> Outlook:
    model = MEMBERS.get(question.model) or SLOW[question.model]
    scene = _scene(question, past, levels)
    values = np.sort(past.clipped(model(scene)), axis=1)
    naive = {name: MEMBERS[name] for name in ("naive", "seasonal_naive")}
    wanted = SLOW_MOMENTS if question.model in SLOW else backtest.MOMENTS
    test = backtest.run(past, question.horizon, levels, {**naive, question.model: model}, wanted)
    made, loss = test.forecasts.get(question.model), test.losses.get(question.model)
    naive_loss = test.losses.get(_naive(test))
    if loss is not None and naive_loss is not None and loss > naive_loss:
        notes.append(f"in the back-test this model lost to {_naive(test)}")
    return _outlook(question.model, scene, values, test, made, loss, {question.model: 1.0}, notes)


def _scene(question: Question, past: Past, levels: Array) -> Scene:
    return Scene(past, question.horizon, levels)


def _naive(test: Backtest) -> str:
    return "seasonal_naive" if "seasonal_naive" in test.losses else "naive"


def _outlook(
    model: str,
    scene: Scene,
    values: Array,
    test: Backtest,
    made: Array | None,
    loss: float | None,
    shares: Mapping[str, float],
    notes: list[str],
) -> Outlook:
    past = scene.past
    rest = zero_inflation.floor(past.values, past.low)
    chance = (
        zero_inflation.probability(scene, rest)
        if zero_inflation.resting(past.values, rest) and len(scene.origins) > 1
        else None
    )
    return Outlook(
        model=model,
        values=np.sort(past.clipped(values), axis=1),
        loss=loss,
        naive_loss=test.losses.get(_naive(test)),
        coverage=_covered(test, made),
        moments=test.moments,
        steps=test.actual.shape[1] if test.moments else 0,
        history=int(np.isfinite(past.values).sum()),
        season=past.season,
        busy=chance,
        weights=dict(sorted(shares.items(), key=lambda item: -item[1])),
        notes=tuple(notes),
    )


def _in_units(outlook: Outlook, unit: float, skipped: int, columns: NDArray[np.intp]) -> Outlook:
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        values = np.clip(outlook.values[skipped:, columns] * unit, -largest, largest)
        losses = [None if loss is None else _finite(loss * unit) for loss in (outlook.loss, outlook.naive_loss)]
    chance = None if outlook.busy is None else outlook.busy[skipped:]
    return replace(outlook, values=values, loss=losses[0], naive_loss=losses[1], busy=chance)


def _finite(value: float) -> float:
    return float(np.clip(value, -np.finfo(np.float64).max, np.finfo(np.float64).max))
