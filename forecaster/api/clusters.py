"""``/v1/clusters``: when so many GPUs are free, within the hour and within the day."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from paceline.events import BY_QUARTER_HOUR, FREE_GPUS
from paceline.web.failures import NOT_FOUND, REFUSALS, Refusal, RefusedError

from ..exceedance import exceedance
from ..free_gpus import hours as hours_of
from ..free_gpus import shortage, too_many, too_old, unknown
from ..held_forecast import rounded
from ..memory import Held, Memory
from ..quarters import QUARTER_S
from ..quarters import of as by_quarter_hour
from .answers import Trust, trust
from .executor import ForecastExecutor
from .series import Horizon, ReachedAnswer, reached, submitted

Gpus = Annotated[int, Query(ge=1, le=1_000_000, description="So many at the same time.")]
NOT_YET: dict[int | str, dict[str, Any]] = {
    409: {"model": Refusal, "description": "Too little is known yet; the text has when to ask again."}
}


class FreeAnswer(Trust):
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
    probability: float = Field(
        description="That as many as were asked for are free: never 0 or 1, the nearer the more is known."
    )


class HoursAnswer(Trust):
    """The next day of a cluster, hour by hour; the first and the last hour may not be whole."""

    cluster: str
    gpus: int
    time_s: float = Field(description="Unix time up to which the quarter hours are known.")
    hours: list[HourAnswer]


def router(memory: Memory, executor: ForecastExecutor, clock: Callable[[], float]) -> APIRouter:
    """The routes over ``memory``; by ``clock`` a sample is old."""
    routes = APIRouter(
        prefix="/v1/clusters/{cluster}", tags=["clusters"], responses={**NOT_FOUND, **REFUSALS, **NOT_YET}
    )

    @routes.get("/free")
    async def free(cluster: str, gpus: Gpus = 1, horizon: Horizon = None) -> FreeAnswer:
        """When so many GPUs will be free at the same time."""
        held = _enough(memory, cluster, FREE_GPUS)
        asked, result = await submitted(executor, held, horizon)
        free_at = exceedance(result.values, asked.levels, float(gpus), asked.interval_s)
        grounds = trust(result)
        return FreeAnswer(
            **dict(grounds) | {"notes": grounds.notes + too_many(gpus, held) + too_old(held, clock())},
            cluster=cluster,
            gpus=gpus,
            now=float(rounded(held.values[-1:])[0]) if np.isfinite(held.values[-1]) else None,
            time_s=held.time_s,
            free=reached(free_at, float(gpus), result.history),
        )

    @routes.get("/hours")
    async def hours(cluster: str, gpus: Gpus = 1) -> HoursAnswer:
        """How many GPUs will be free in each hour of the next day, and how probably so many are."""
        held = _enough(memory, cluster, FREE_GPUS + BY_QUARTER_HOUR)
        asked, result = await submitted(executor, held, None)
        grounds = trust(result)
        return HoursAnswer(
            **dict(grounds) | {"notes": grounds.notes + too_many(gpus, held) + too_old(held, clock())},
            cluster=cluster,
            gpus=gpus,
            time_s=held.time_s,
            hours=[HourAnswer(**asdict(one)) for one in hours_of(held, asked, result.values, result.history, gpus)],
        )

    return routes


def _enough(memory: Memory, cluster: str, field: str) -> Held:
    """The cluster's series, where enough of it is known.

    Raises:
        RefusedError: too little is, or nothing.
    """
    held = memory.find(f"{cluster}/cluster/{field}")
    if held is not None:
        missing = shortage(held.values, held.subject.interval_s)
        if missing is None:
            return held
    else:
        minutes = memory.find(f"{cluster}/cluster/{FREE_GPUS}")
        if minutes is None:
            keys = memory.keys()
            raise RefusedError(404, "cluster", unknown(cluster, (key for key, _ in keys)))
        if by_quarter_hour(minutes.subject) is None:
            reason = f"its free GPUs were posted; post them by the quarter hour, too, to /v1/series/{cluster}/cluster/"
            raise RefusedError(404, "cluster", reason + field)
        missing = shortage(np.empty(0), QUARTER_S)
    raise RefusedError(409, "cluster", f"free GPUs of cluster {cluster!r}: {missing}")
