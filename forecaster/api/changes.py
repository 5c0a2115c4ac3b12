"""``POST`` and ``DELETE /v1/series/{key}``: values from elsewhere. Both want the token."""

import math
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from paceline.events import LATEST_S
from paceline.settings import FORECASTER_TOKEN
from paceline.web.failures import NOT_FOUND, REFUSALS, RefusedError
from paceline.web.parsing import off_loop
from paceline.web.token import GUARDED, guard

from ..history import SeriesSubject
from ..memory import Memory
from ..value_bounds import Bounds, bounds
from .executor import ForecastExecutor
from .questions import SHORTEST_S, Listed, Number, Strict

#: Values up to this can be kept.
LARGEST = 3e38


class Append(Strict):
    """Values of a series that comes from elsewhere."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"interval_s": 60.0, "times_s": [1.8e9, 1.8e9 + 60.0], "values": [310.0, 305.5], "unit": "W"}]
        }
    )

    interval_s: Annotated[Number, Field(ge=SHORTEST_S, le=86_400.0, description="Seconds of a sample.")]
    times_s: Annotated[Listed, Field(description="Unix time at which the sample of each value begins, in any order.")]
    values: Annotated[Listed, Field(description="One a time; a sample without one is a gap.")]
    unit: str = Field("", max_length=40)
    minimum: Number | None = Field(None, description="No value is below it, and no forecast.")
    maximum: Number | None = Field(None, description="No value is above it, and no forecast.")


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
        low, high = _check(key, sent)
        held = memory.find(key)
        if held is not None and held.subject.interval_s != sent.interval_s:
            grids = (
                f"the samples of {key!r} are {held.subject.interval_s:g} s long; send such, or DELETE the series first"
            )
            raise RefusedError(422, "interval_s", grids)
        subject = SeriesSubject(key, sent.unit, sent.interval_s, "posted", low=low, high=high)
        return Kept(kept=memory.put(subject, list(sent.times_s), [float(value) for value in sent.values]))

    @routes.delete(
        "/series/{key:path}", dependencies=[Depends(allowed)], responses={**GUARDED, **NOT_FOUND}, status_code=204
    )
    def forget(key: str) -> None:
        """Drop a series."""
        if not memory.forget(key):
            raise RefusedError(404, "key", f"no series {key!r}")

    return routes


def _check(key: str, sent: Append) -> Bounds:
    """The bounds of what is ``sent``.

    Raises:
        RefusedError: it is no series, or a value is outside.
    """
    if not key.strip("/") or len(key) > 300:
        raise RefusedError(422, "key", "1 to 300 characters")
    if len(sent.times_s) != len(sent.values):
        raise RefusedError(422, "times_s", f"{len(sent.times_s)} for {len(sent.values)} values; give one a value")
    for name, bound in (("minimum", sent.minimum), ("maximum", sent.maximum)):
        if bound is not None and not math.isfinite(bound):
            raise RefusedError(422, name, "not a finite number")
    least, most = bounds(key, sent.unit)
    low = max((bound for bound in (least, sent.minimum) if bound is not None), default=None)
    high = min((bound for bound in (most, sent.maximum) if bound is not None), default=None)
    if low is not None and high is not None and not low < high:
        raise RefusedError(422, "minimum", f"{low:g} is not below the maximum, {high:g}")
    _within("times_s", sent.times_s, 0.0, LATEST_S)
    _within("values", sent.values, -LARGEST if low is None else low, LARGEST if high is None else high)
    return low, high


def _within(name: str, numbers: Sequence[float], least: float, most: float) -> None:
    for place, value in enumerate(numbers):
        if not least <= value <= most:
            raise RefusedError(422, f"{name}[{place}]", f"{value} is not between {least:g} and {most:g}")
