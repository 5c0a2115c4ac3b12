"""The forecast itself: from a question about one series to quantiles, the model behind them and how far to trust it.

Rule of this file: pure, the same question always has the same answer.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import backtest, ensemble, zero_inflation
from .choice import Choice, choose, covered, naive_of, untested
from .conformal import Widths
from .context import ForecastContext
from .models.model import Model, each
from .models.registry import NAMES, Registry
from .question import ENSEMBLE, SCORED, THOROUGH, Asked, ForecastResult, Question, loss_in, prepared, unit_of
from .series import Array

#: Every name that a question may hold.
MODELS = (ENSEMBLE, THOROUGH, *NAMES)
#: A model that is no member of the ensemble is tried at so many earlier moments.
NAMED_MOMENTS = 2


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
    asked = Asked.of(question)
    if question.model in (ENSEMBLE, THOROUGH):
        forecasts, choice = _decided(asked, models)
        return asked.in_units(_combined(choice, asked, forecasts))
    return asked.in_units(_single(asked, models))


def chosen(question: Question, models: Registry, widths: Widths | None = None) -> tuple[Choice, ForecastResult]:
    """The ensemble's answer, and the choice behind it for ``repeated``. ``widths``: in place of the back-test's factor.

    Raises:
        ValueError: nothing was measured.
    """
    asked = Asked.of(replace(question, model=ENSEMBLE))
    forecasts, choice = _decided(asked, models)
    result = asked.in_units(_combined(choice, asked, forecasts, widths))
    return replace(choice, loss=result.loss, naive_loss=result.naive_loss), result


@dataclass(frozen=True)
class Repeat:
    """A question about a series for which a ``choice`` was made earlier, or None yet. ``widths``: as in ``chosen``."""

    question: Question
    choice: Choice | None
    widths: Widths | None = None


def repeated(repeats: Sequence[Repeat], models: Registry) -> list[ForecastResult]:
    """The answer to each of ``repeats`` by its choice; no back-test is made, and each model is asked once about all.

    A choice of which no member can forecast any more counts as none.

    Raises:
        ValueError: of one of the series nothing was measured.
    """
    choices = [one.choice or untested(models) for one in repeats]
    seasons = [one.choice.season if one.choice else one.question.season for one in repeats]
    asked = [
        Asked.of(replace(one.question, model=ENSEMBLE, season=season))
        for one, season in zip(repeats, seasons, strict=True)
    ]
    wanted = [{*choice.shares, choice.naive} for choice in choices]
    forecasts = _answers([one.context for one in asked], models.members, wanted)
    return [_repeated(*row, models) for row in zip(repeats, asked, choices, forecasts, strict=True)]


def _repeated(
    repeat: Repeat, asked: Asked, choice: Choice, forecasts: Mapping[str, Array], models: Registry
) -> ForecastResult:
    shares = {name: share for name, share in choice.shares.items() if name in forecasts}
    if repeat.choice and not shares:
        (result,) = repeated([replace(repeat, choice=None)], models)
        return result
    total = sum(shares.values())
    kept = replace(choice, shares={name: share / total for name, share in shares.items()})
    result = asked.in_units(_combined(kept, asked, forecasts, repeat.widths))
    return replace(result, loss=kept.loss, naive_loss=kept.naive_loss)


def backtests(question: Question, models: Registry) -> list[tuple[str, float | None, float | None]]:
    """Each member's back-test: name, loss and coverage of its 80 % interval, the best first; None: untried.

    Raises:
        ValueError: nothing was measured.
    """
    unit = unit_of(question.values)
    test = backtest.run(prepared(question, unit), question.horizon, SCORED, models.members)
    rows = [
        (name, loss_in(test.losses[name], unit), covered(test, test.forecasts[name]))
        if name in test.losses
        else (name, None, None)
        for name in models.members
    ]
    return sorted(rows, key=lambda row: math.inf if row[1] is None else row[1])


def _decided(asked: Asked, models: Registry) -> tuple[dict[str, Array], Choice]:
    """Each member's forecast, and what share each of them has."""
    members = {**models.members, **(models.named if asked.question.model == THOROUGH else {})}
    (forecasts,) = _answers([asked.context], members, [members])
    test = backtest.run(asked.series, asked.context.horizon, asked.context.levels, members)
    return forecasts, choose(asked, models, forecasts, test)


def _combined(
    choice: Choice, asked: Asked, forecasts: Mapping[str, Array], widths: Widths | None = None
) -> ForecastResult:
    """The answer of those that were chosen."""
    context = asked.context
    factors = np.full(context.horizon, choice.factor)
    if widths is not None:
        factors[asked.gap :] = widths.factors(context.horizon - asked.gap)
    values = ensemble.widened(ensemble.averaged(forecasts, choice.shares), context.levels, factors)
    naive, share = forecasts.get(choice.naive), choice.naive_share
    if naive is not None and share > 0.0:
        values = ensemble.mixed(values, naive, share)
    return ForecastResult(
        model=choice.model,
        values=np.sort(context.series.clipped(values), axis=1),
        loss=choice.loss,
        naive_loss=choice.naive_loss,
        coverage=choice.coverage,
        moments=choice.moments,
        steps=choice.steps,
        history=int(np.isfinite(context.series.values).sum()),
        season=context.series.season,
        above_rest=_above_rest(context),
        weights=choice.weights,
        notes=(*asked.notes, *choice.notes),
        naive=None if naive is None else naive[:, np.searchsorted(context.levels, 0.5)],
    )


def _answers(
    contexts: Sequence[ForecastContext], members: Mapping[str, Model], wanted: Sequence[Container[str]]
) -> list[dict[str, Array]]:
    """For each context the forecasts of those of its ``wanted`` members that can make one."""
    forecasts: list[dict[str, Array]] = [{} for _ in contexts]
    for name, model in members.items():
        places = [place for place, names in enumerate(wanted) if name in names]
        made = each(model, [contexts[place] for place in places])
        for place, values in zip(places, made, strict=True):
            if values is not None:
                forecasts[place][name] = np.sort(contexts[place].series.clipped(values), axis=1)
    return forecasts


def _single(asked: Asked, models: Registry) -> ForecastResult:
    question, series, context, notes = asked.question, asked.series, asked.context, list(asked.notes)
    model = models.members.get(question.model) or models.named[question.model]
    values = np.sort(series.clipped(model(context)), axis=1)
    naive = {name: models.members[name] for name in ensemble.BASELINES}
    wanted = NAMED_MOMENTS if question.model in models.named else backtest.MOMENTS
    test = backtest.run(series, context.horizon, context.levels, {**naive, question.model: model}, wanted)
    made, loss = test.forecasts.get(question.model), test.losses.get(question.model)
    naive_loss = test.losses.get(naive_of(test))
    if loss is not None and naive_loss is not None and loss > naive_loss:
        notes.append(f"in the back-test this model lost to {naive_of(test)}")
    return ForecastResult(
        model=question.model,
        values=values,
        loss=loss,
        naive_loss=naive_loss,
        coverage=covered(test, made),
        moments=test.moments,
        steps=test.actual.shape[1] if test.moments else 0,
        history=int(np.isfinite(series.values).sum()),
        season=series.season,
        above_rest=_above_rest(context),
        weights={question.model: 1.0},
        notes=tuple(notes),
    )


def _above_rest(context: ForecastContext) -> Array | None:
    rest = zero_inflation.resting_level(context.series)
    if rest is None or len(context.origins) <= 1:
        return None
    return zero_inflation.probability(context, rest)
