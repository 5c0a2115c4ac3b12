"""``POST`` and ``DELETE /v1/series/{key}``: values from elsewhere. Both want the token."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from paceline.events import LATEST_S
from paceline.settings import FORECASTER_TOKEN
from paceline.web.failures import NOT_FOUND, REFUSALS, RefusedError
from paceline.web.parsing import off_loop
from paceline.web.token import GUARDED, guard

from ..history import SeriesSubject
from ..memory import Memory
from .executor import ForecastExecutor
from .questions import SHORTEST_S, Listed, Number, Strict


class Append(Strict):
    """Values of a series that comes from elsewhere."""

    interval_s: Annotated[Number, Field(ge=SHORTEST_S, le=86_400.0)]
    times_s: Listed
    values: Listed
    unit: str = Field("", max_length=40)
    minimum: Number | None = None
    maximum: Number | None = None


class Kept(BaseModel):
    """How many values were kept; others were too old."""

    kept: int


def router(memory: Memory, executor: ForecastExecutor, token: str) -> APIRouter:
    """The routes over ``memory``, for clients that know ``token``; for no client where it is empty."""
    routes = APIRouter(prefix="/v1", tags=["changes"], route_class=off_loop(executor.parsing))

    allowed = guard(token, FORECASTER_TOKEN)

    # A key with a line end is no path that the router knows: 404.
    @routes.post("/series/{key:path}", dependencies=[Depends(allowed)], responses={**GUARDED, **REFUSALS, **NOT_FOUND})
    def append(key: str, sent: Append) -> Kept:
        """Keep values of a series under a name of your own."""
        _check(key, sent)
        subject = SeriesSubject(key, sent.unit, sent.interval_s, "posted", low=sent.minimum, high=sent.maximum)
        return Kept(kept=memory.put(subject, list(sent.times_s), [float(value) for value in sent.values]))

    @routes.delete(
        "/series/{key:path}", dependencies=[Depends(allowed)], responses={**GUARDED, **NOT_FOUND}, status_code=204
    )
    def forget(key: str) -> None:
        """Drop a series."""
        if not memory.forget(key):
            raise RefusedError(404, "key", f"no series {key!r}")

    return routes


def _check(key: str, sent: Append) -> None:
    if not key.strip("/") or len(key) > 300:
        raise RefusedError(422, "key", "1 to 300 characters")
    if len(sent.times_s) != len(sent.values):
        raise RefusedError(422, "times_s", f"{len(sent.times_s)} for {len(sent.values)} values; give one a value")
    for name, numbers, least, most in (("times_s", sent.times_s, 0.0, LATEST_S), ("values", sent.values, -3e38, 3e38)):
        for place, value in enumerate(numbers):
            if not least <= value <= most:
                raise RefusedError(422, f"{name}[{place}]", f"{value} is not between {least:g} and {most:g}")
