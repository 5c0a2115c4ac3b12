"""``POST /v1/cycle``, ``POST /v1/job-type`` and ``GET /v1/jobs/{job}/profile``: cycle and kind of job."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Self

import numpy as np
from fastapi import APIRouter, HTTPException, Query
from msgspec import structs
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.types import JsonValue

from paceline.events import JobProfile
from paceline.web.failures import NOT_FOUND, REFUSALS, RefusedError
from paceline.web.parsing import off_loop

from ..cycles import Cycle, find_cycle, from_events
from ..job_end import silence
from ..job_kinds import JOB_KINDS, classify
from ..memory import Memory
from .executor import ForecastExecutor
from .questions import (
    OPENED,
    WAVE,
    Interval,
    Listed,
    ListedGaps,
    Strict,
    Times,
    Values,
    check_sampling,
    finite,
    refused,
)

#: Fields of a profile that say when a job ends.
ENDS = ("end_s", "end_low_s", "end_high_s")
MINUTE: list[JsonValue] = [round(0.2 + 0.1 * (second % 7 == 0), 2) for second in range(60)]


class CycleQuestion(Strict):
    """A signal, or the times of events: steps, evaluations, collectives. Events are more exact."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"values": WAVE, "interval_s": 2.0}]})

    values: Values | None = Field(None, description="One a sample, oldest first; null for a gap. Or give `events_s`.")
    interval_s: Interval | None = None
    timestamps: Times | None = None
    events_s: Listed | None = Field(None, description="When each event happened, in seconds, ascending.")

    @model_validator(mode="after")
    def _one_of_both(self) -> "CycleQuestion":
        if (self.values is None) == (self.events_s is None):
            raise refused("values", "give either values or events_s")
        if self.values is not None:
            check_sampling(self.values, self.interval_s, self.timestamps)
        if self.events_s is not None:
            finite("events_s", self.events_s)
            if any(later <= sooner for sooner, later in zip(self.events_s, self.events_s[1:], strict=False)):
                raise refused("events_s", "must ascend")
        return self


class CycleAnswer(BaseModel):
    """A cycle; null: there is no stable one, and the note says why."""

    period_s: float | None
    confidence: float = Field(ge=0.0, le=1.0)
    next_s: float | None = Field(description="Seconds after the last sample or event until the next cycle.")
    drift_ratio: float | None = Field(description="How much longer the cycles became, relative to the period.")
    note: str


class KindQuestion(Strict):
    """What was measured of a job, each series at the same interval."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"series": {"utilization_ratio": MINUTE}, "interval_s": 1.0}]}
    )

    lists: ClassVar[int] = 16

    series: dict[str, ListedGaps] = Field(max_length=lists)
    interval_s: Interval
    has_steps: bool = Field(False, description="Whether it reports training steps.")

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """As of any question; what is wrong with each of many series would take more than their values."""
        if body.count(b":") > OPENED:
            raise HTTPException(413, f"more than {OPENED:,} series and fields")
        return super().from_json(body)

    @model_validator(mode="after")
    def _measured(self) -> "KindQuestion":
        finite("interval_s", [self.interval_s])
        for name, values in self.series.items():
            finite(f"series.{name}", values)
        return self


class KindAnswer(BaseModel):
    """The kind of job, or `unknown`."""

    kind: str = Field(description=f"One of {', '.join(JOB_KINDS)}, unknown.")
    probability: float
    probabilities: dict[str, float]
    note: str


class ProfileAnswer(BaseModel):
    """What is known of a job; null is unknown."""

    cluster: str
    job: str
    attempt: int
    time_s: float | None = Field(description="Of what was measured last; null is never.")
    kind: str | None
    kind_probability: float | None
    kind_probabilities: dict[str, float]
    cycle_period_s: float | None
    cycle_confidence: float | None
    cycle_next_s: float | None
    cycle_drift_ratio: float | None
    end_s: float | None = Field(
        description="Unix time of the last step, where the number of steps is known; null: a note has why, of a job "
        "that has ended or is silent."
    )
    end_low_s: float | None = Field(description="It ends between this and `end_high_s` with 80 %.")
    end_high_s: float | None
    notes: list[str]


def router(memory: Memory, executor: ForecastExecutor, clock: Callable[[], float]) -> APIRouter:
    """The routes; by ``clock`` a job is silent."""
    routes = APIRouter(prefix="/v1", tags=["jobs"], route_class=off_loop(executor.parsing))

    @routes.post("/cycle", responses=REFUSALS)
    async def cycle(asked: CycleQuestion) -> CycleAnswer:
        """The cycle of a signal or of events that are sent along."""
        try:
            answer = await executor.run(_cycle, asked)
        except ValueError as error:
            raise RefusedError(422, "events_s" if asked.values is None else "values", str(error)) from error
        return CycleAnswer(
            period_s=answer.period_s,
            confidence=answer.confidence,
            next_s=answer.next_s,
            drift_ratio=answer.drift_ratio,
            note=answer.note,
        )

    @routes.post("/job-type", responses=REFUSALS)
    async def job_type(asked: KindQuestion) -> KindAnswer:
        """The kind of a job whose measurements are sent along."""
        try:
            estimate = await executor.run(classify, asked.series, asked.interval_s, asked.has_steps)
        except ValueError as error:
            raise RefusedError(422, "series", str(error)) from error
        return KindAnswer(
            kind=estimate.kind,
            probability=estimate.probability,
            probabilities=dict(estimate.probabilities),
            note=estimate.note,
        )

    @routes.get("/jobs/{job:path}/profile", responses={**NOT_FOUND, **REFUSALS})
    async def profile(
        job: str,
        cluster: Annotated[str | None, Query(max_length=200)] = None,
        total_steps: Annotated[int | None, Query(ge=1, le=2**53, description="To say when it ends.")] = None,
    ) -> ProfileAnswer:
        """What kind of job it is, its cycle, and its end."""
        profiles = await executor.run(memory.profiles, job)
        of_job = next((one for one in profiles if cluster in (None, one.cluster)), None)
        if of_job is None:
            raise RefusedError(404, "job", f"no job {job!r} has reported")
        if total_steps is not None:
            end = await executor.run(memory.end, of_job.cluster, job, total_steps)
            times = (None, None, None) if end is None else (end.time_s, end.low_s, end.high_s)
            of_job = structs.replace(of_job, **dict(zip(ENDS, times, strict=True)))
        return _profile_answer(_heard(of_job, clock()))

    return routes


def _heard(profile: JobProfile, now_s: float) -> JobProfile:
    """``profile`` as it is at ``now_s``: of a job that has fallen silent it has no end."""
    silent = None if profile.end_s is None else silence(profile.time_s, now_s)
    if silent is None:
        return profile
    noted = structs.replace(profile, notes=[silent.note, *profile.notes])
    return structs.replace(noted, cycle_next_s=None, **dict.fromkeys(ENDS)) if silent.over else noted


def _profile_answer(profile: JobProfile) -> ProfileAnswer:
    return ProfileAnswer(
        cluster=profile.cluster,
        job=profile.job,
        attempt=profile.attempt,
        time_s=profile.time_s,
        kind=profile.kind,
        kind_probability=profile.kind_probability,
        kind_probabilities=profile.kind_probabilities,
        cycle_period_s=profile.cycle_period_s,
        cycle_confidence=profile.cycle_confidence,
        cycle_next_s=profile.cycle_next_s,
        cycle_drift_ratio=profile.cycle_drift_ratio,
        end_s=profile.end_s,
        end_low_s=profile.end_low_s,
        end_high_s=profile.end_high_s,
        notes=profile.notes,
    )


def _cycle(asked: CycleQuestion) -> Cycle:
    if asked.events_s is not None:
        return from_events(asked.events_s)
    assert asked.values is not None  # the question's own check
    times_s, interval_s = asked.timestamps, asked.interval_s
    if interval_s is None:
        interval_s = float(np.median(np.diff(times_s))) if times_s is not None and len(times_s) > 1 else 1.0
    return find_cycle(asked.values, interval_s, times_s)
