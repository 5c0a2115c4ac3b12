"""``/v1/series``, ``/v1/backtest``, ``/v1/clusters``: what was measured, and what comes next of it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from paceline.clock_hours import clock_hours
from paceline.events import BY_QUARTER_HOUR, FREE_GPUS
from paceline.web.failures import NOT_FOUND, REFUSALS, RefusedError

from .. import held_forecast
from ..exceedance import Exceedance, above, exceedance
from ..forecast import MODELS
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
Gpus = Annotated[int, Query(ge=1, le=1_000_000, description="So many at the same time.")]
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


class FreeAnswer(BaseModel):
    """When so many GPUs are free at the same time."""

    cluster: str
    gpus: int
    now: float | None = Field(description="Free at the newest sample.")
    time_s: float
    free: ReachedAnswer


class HourAnswer(BaseModel):
    """An hour of the clock; its numbers are of the quarter of it in which the fewest GPUs are free."""

    start_s: float = Field(description="Unix time.")
    low: float = Field(description="So many and more are free in nine of ten futures.")
    median: float
    high: float = Field(description="So many and more are free in one of ten futures.")
    probability: float = Field(description="That as many as were asked for are free.")


class HoursAnswer(BaseModel):
    """The next day of a cluster, hour by hour; the first and the last hour may not be whole."""

    cluster: str
    gpus: int
    time_s: float = Field(description="Unix time up to which the quarter hours are known.")
    hours: list[HourAnswer]


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
        return await rendered(executor, _series_forecast, held, *await _forecast(executor, held, horizon, model))

    @routes.get("/backtest/{key:path}", responses={**NOT_FOUND, **REFUSALS})
    async def backtest(key: str, horizon: Horizon = None) -> BacktestAnswer:
        """How each quick model would have done."""
        held = _held(memory, key)
        asked = held_forecast.question(held, horizon)
        lines = await executor.backtests(asked)
        rows = [BacktestLine(model=name, loss=loss, coverage_80=covered) for name, loss, covered in lines]
        return BacktestAnswer(series=key, horizon=asked.horizon, models=rows)

    @routes.get("/clusters/{cluster}/free", responses={**NOT_FOUND, **REFUSALS})
    async def free(cluster: str, gpus: Gpus = 1, horizon: Horizon = None) -> FreeAnswer:
        """When so many GPUs will be free at the same time."""
        held = _held(memory, f"{cluster}/cluster/{FREE_GPUS}")
        asked, result = await _forecast(executor, held, horizon, ENSEMBLE)
        free_at = exceedance(result.values, asked.levels, float(gpus), asked.interval_s)
        now = float(held.values[-1]) if len(held.values) and np.isfinite(held.values[-1]) else None
        return FreeAnswer(
            cluster=cluster, gpus=gpus, now=now, time_s=held.time_s, free=_reached_answer(free_at, float(gpus))
        )

    @routes.get("/clusters/{cluster}/hours", responses={**NOT_FOUND, **REFUSALS})
    async def hours(cluster: str, gpus: Gpus = 1) -> HoursAnswer:
        """How many GPUs will be free in each hour of the next day, and how probably so many are."""
        held = _held(memory, f"{cluster}/cluster/{FREE_GPUS}{BY_QUARTER_HOUR}")
        asked, result = await _forecast(executor, held, None, ENSEMBLE)
        return HoursAnswer(
            cluster=cluster, gpus=gpus, time_s=held.time_s, hours=list(_hours(held.time_s, asked, result, float(gpus)))
        )

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
        full=None if full is None or size is None else _reached_answer(full, size),
    )


def _hours(time_s: float, asked: Question, result: ForecastResult, gpus: float) -> Iterator[HourAnswer]:
    low, middle, high = (held_forecast.LEVELS.index(level) for level in (0.1, 0.5, 0.9))
    for start_s, steps in clock_hours(time_s, asked.interval_s, len(result.values)):
        least = min(result.values[steps], key=lambda row: float(row[middle]))
        yield HourAnswer(
            start_s=start_s,
            low=float(least[low]),
            median=float(least[middle]),
            high=float(least[high]),
            probability=above(least, asked.levels, gpus),
        )


def _held(memory: Memory, key: str) -> Held:
    held = memory.find(key)
    if held is None or not len(held.values):
        raise RefusedError(404, "key", f"no series {key!r}; GET /v1/series lists them")
    return held


async def _forecast(
    executor: ForecastExecutor, held: Held, horizon: int | None, model: str
) -> tuple[Question, ForecastResult]:
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


def _reached_answer(level: Exceedance, limit: float) -> ReachedAnswer:
    return ReachedAnswer(limit=limit, early_s=level.early_s, median_s=level.median_s, probability=level.probability)
