"""``/v1/series``, ``/v1/backtest``: what was measured, and what comes next of it."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from paceline.web.failures import NOT_FOUND, REFUSALS, RefusedError

from .. import held_forecast
from ..exceedance import Exceedance, exceedance
from ..forecast import MODELS
from ..free_gpus import probability
from ..history import SeriesSubject
from ..memory import Held, Memory
from ..models.model import UnsuitedError
from ..question import ENSEMBLE, ForecastResult, Question
from .answers import ForecastAnswer, answered, rendered
from .executor import ForecastExecutor
from .questions import HORIZON

Horizon = Annotated[
    int | None,
    Query(ge=1, le=HORIZON, description="Steps ahead; 60 where it is not given, of a series by the quarter hour 96."),
]
ModelName = Annotated[str, Query(max_length=64, description=f"One of {', '.join(MODELS)}.")]


class SeriesLine(BaseModel):
    """A series that is held."""

    key: str
    unit: str
    interval_s: float
    samples: int = Field(description="From the first measured one to the newest, gaps included.")
    time_s: float = Field(description="Unix time at which the newest sample ends.")
    job: str | None
    node: str | None
    device: str | None


class SeriesList(BaseModel):
    """All of them, by key."""

    series: list[SeriesLine]


class ReachedAnswer(BaseModel):
    """When a level is reached, in seconds from the newest sample; null: not within the horizon."""

    limit: float
    early_s: float | None = Field(description="One in ten futures has reached it.")
    median_s: float | None = Field(description="Half of them have.")
    probability: float = Field(description="The largest share of futures that have reached it at one step.")


class SeriesForecast(ForecastAnswer):
    """The forecast of a series that is held."""

    series: str
    unit: str
    time_s: float = Field(description="Unix time of the newest sample: the first step is one interval later.")
    full: ReachedAnswer | None = Field(description="When it reaches its maximum, for series that have one: memory.")


class BacktestLine(BaseModel):
    """One model's back-test."""

    model: str
    loss: float | None = Field(description="Mean pinball loss; null: it could not be tried.")
    coverage_80: float | None


class BacktestAnswer(BaseModel):
    """How each quick model did at earlier moments of a series, the best first."""

    series: str
    horizon: int
    models: list[BacktestLine]


def router(memory: Memory, executor: ForecastExecutor) -> APIRouter:
    """The routes over ``memory``."""
    routes = APIRouter(prefix="/v1", tags=["series"])

    @routes.get("/series")
    def listed() -> SeriesList:
        """The series that are held."""
        return SeriesList(series=[_line(one.subject, one.samples, one.time_s) for one in memory.lines()])

    @routes.get("/series/{key:path}/forecast", responses={**NOT_FOUND, **REFUSALS}, response_model=SeriesForecast)
    async def forecast(key: str, horizon: Horizon = None, model: ModelName = ENSEMBLE) -> Response:
        """What comes next of a series that is held."""
        held = _held(memory, key)
        return await rendered(executor, _series_forecast, held, *await submitted(executor, held, horizon, model))

    @routes.get("/backtest/{key:path}", responses={**NOT_FOUND, **REFUSALS})
    async def backtest(key: str, horizon: Horizon = None) -> BacktestAnswer:
        """How each quick model would have done."""
        held = _held(memory, key)
        asked = held_forecast.question(held, horizon)
        lines = await executor.backtests(asked)
        rows = [BacktestLine(model=name, loss=loss, coverage_80=covered) for name, loss, covered in lines]
        return BacktestAnswer(series=key, horizon=asked.horizon, models=rows)

    return routes


def _series_forecast(held: Held, asked: Question, result: ForecastResult) -> SeriesForecast:
    size = held_forecast.memory_size(held.subject)
    cut = replace(result, values=held_forecast.within(result.values, None, size))
    full = None if size is None else exceedance(result.values, asked.levels, size, asked.interval_s)
    return SeriesForecast(
        **answered(cut, asked.levels.tolist(), asked.interval_s).model_dump(),
        series=held.subject.key,
        unit=held.subject.unit,
        time_s=held.time_s,
        full=None if full is None or size is None else reached(full, size, result.history),
    )


def _held(memory: Memory, key: str) -> Held:
    held = memory.find(key)
    if held is None:
        raise RefusedError(404, "key", f"no series {key!r}; GET /v1/series lists them")
    if not len(held.values):
        wait_s = held.subject.interval_s
        raise RefusedError(404, "key", f"nothing of series {key!r} is measured yet; ask again in {wait_s:g} s")
    return held


async def submitted(
    executor: ForecastExecutor, held: Held, horizon: int | None, model: str = ENSEMBLE
) -> tuple[Question, ForecastResult]:
    """The question about ``held``, and its answer.

    Raises:
        RefusedError: no such model, or it cannot.
    """
    if model not in MODELS:
        raise RefusedError(422, "model", f"there is none called {model!r}; there are {', '.join(MODELS)}")
    asked = held_forecast.question(held, horizon, model=model)
    try:
        return asked, await executor.submit(asked)
    except UnsuitedError as error:
        raise RefusedError(422, "model", f"{model}: {error}") from error


def _line(subject: SeriesSubject, samples: int, time_s: float) -> SeriesLine:
    return SeriesLine(
        key=subject.key,
        unit=subject.unit,
        interval_s=subject.interval_s,
        samples=samples,
        time_s=time_s,
        job=subject.job,
        node=subject.node,
        device=subject.device,
    )


def reached(level: Exceedance, limit: float, history: int) -> ReachedAnswer:
    """When ``limit`` is reached, of a series of which so many samples are known."""
    share = probability(level.probability, history)
    return ReachedAnswer(limit=limit, early_s=level.early_s, median_s=level.median_s, probability=share)
