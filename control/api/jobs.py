"""What may be changed of a job while it runs: its thresholds, and the plan of its shares."""

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends
from pydantic import Field

from paceline.balance.plan import MOST_NUMBER
from paceline.events import MOST_BALANCED, BalancePlan, Thresholds
from paceline.topics import PLAN, THRESHOLD
from paceline.web.failures import NOT_FOUND, RefusedError
from paceline.web.token import GUARDED

from ..book import Book
from .named_job import ClusterAsked, ClusterQuery, cluster_of
from .publishes import Publishes
from .shapes import AWAY, BODY, CONFLICT, Asker, Strict

MOST_THRESHOLDS = 100
#: Why a threshold cannot be set to a value, or None.
ThresholdRefusal = Callable[[str, float], str | None]


class ThresholdsAsked(Strict):
    """Thresholds of the diagnosis of a job; those that are left out go back to their defaults."""

    cluster: ClusterAsked = None
    attempt: int = Field(0, ge=0, le=2**31)
    values: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = Field(
        max_length=MOST_THRESHOLDS, examples=[{"least_excess": 0.05}]
    )
    because: str = Field("", max_length=256)


class PlanAsked(Strict):
    """Samples a rank, for a job whose ranks follow plans of the bus (`source="kafka"`)."""

    cluster: ClusterAsked = None
    shares: list[Annotated[int, Field(ge=1, le=2**31)]] = Field(min_length=1, max_length=MOST_BALANCED)
    because: str = Field("", max_length=256)


def router(
    book: Book,
    outgoing: Publishes,
    own: str,
    allowed: Callable[..., None],
    threshold_refusal: ThresholdRefusal,
) -> APIRouter:
    """The routes over ``book``, for who is ``allowed``; a job that is not known is of the cluster ``own``."""
    routes = APIRouter(prefix="/v1/jobs", tags=["jobs"])
    # A job's name may hold slashes, and %2F is one before routes are matched. One with a newline matches no route.
    token = [Depends(allowed)]
    _thresholds(routes, book, outgoing, own, token, threshold_refusal)
    _plans(routes, book, outgoing, own, token)
    return routes


def _thresholds(
    routes: APIRouter,
    book: Book,
    outgoing: Publishes,
    own: str,
    token: Sequence[Any],
    threshold_refusal: ThresholdRefusal,
) -> None:
    @routes.get("/{job:path}/thresholds", responses={**NOT_FOUND, **CONFLICT, **BODY})
    def thresholds(job: str, cluster: ClusterQuery = None) -> dict[str, Any]:
        """What was set for a job; nothing where all have their defaults."""
        cluster = cluster_of(book, job, cluster, own)
        held = book.thresholds(cluster, job)
        attempt, values = (held.attempt, held.values) if held else (0, {})
        return {"cluster": cluster, "job": job, "attempt": attempt, "values": values}

    @routes.put(
        "/{job:path}/thresholds",
        dependencies=token,
        responses={**GUARDED, **NOT_FOUND, **CONFLICT, **BODY, **AWAY},
    )
    def set_thresholds(job: str, sent: ThresholdsAsked, asker: Asker) -> dict[str, Any]:
        """Change the thresholds of a job, also while it runs."""
        for name, value in sent.values.items():
            if reason := threshold_refusal(name, value):
                raise RefusedError(422, f"values.{name}"[:100], reason[:1000])
        _check_job(job)
        cluster = cluster_of(book, job, sent.cluster, own)
        outgoing.event(THRESHOLD, Thresholds(cluster=cluster, job=job, attempt=sent.attempt, values=sent.values))
        outgoing.audit("set_thresholds", f"job:{job}", asker, sent.because, cluster)
        return {"cluster": cluster, "job": job, "attempt": sent.attempt, "values": sent.values}


def _plans(routes: APIRouter, book: Book, outgoing: Publishes, own: str, token: Sequence[Any]) -> None:
    @routes.get("/{job:path}/plan", responses={**NOT_FOUND, **CONFLICT, **BODY})
    def plan(job: str, cluster: ClusterQuery = None) -> dict[str, Any]:
        """How a job's batches are shared out."""
        return dict(msgspec.to_builtins(_plan(book, job, cluster_of(book, job, cluster, own))))

    @routes.put(
        "/{job:path}/plan",
        status_code=202,
        dependencies=token,
        responses={**GUARDED, **NOT_FOUND, **CONFLICT, **BODY, **AWAY},
    )
    def set_plan(job: str, sent: PlanAsked, asker: Asker) -> dict[str, Any]:
        """Propose shares for a job's ranks; they take effect at a batch that all ranks agree on."""
        held = _plan(book, job, cluster_of(book, job, sent.cluster, own))
        if len(sent.shares) != len(held.shares):
            raise RefusedError(422, "shares", f"{len(sent.shares)} for {len(held.shares)} ranks; give one a rank")
        if sum(sent.shares) != sum(held.shares):
            raise RefusedError(422, "shares", f"they add up to {sum(sent.shares)}; the batch has {sum(held.shares)}")
        if held.version >= MOST_NUMBER:
            raise RefusedError(409, "shares", f"plan {held.version} has the highest version there is")
        proposed = BalancePlan(
            cluster=held.cluster,
            job=job,
            attempt=held.attempt,
            time_s=time.time(),
            version=held.version + 1,
            shares=sent.shares,
            reason=sent.because or f"asked for by {asker}"[:500],
            made_by="control",
            mode=held.mode,
            run=held.run,
        )
        outgoing.event(PLAN, proposed)
        outgoing.audit("set_plan", f"job:{job}", asker, sent.because, held.cluster)
        return dict(msgspec.to_builtins(proposed))


def _check_job(job: str) -> None:
    if not 0 < len(job) <= 200:
        raise RefusedError(422, "job", "a job's name has 1 to 200 characters")


def _plan(book: Book, job: str, cluster: str) -> BalancePlan:
    held = book.plan(cluster, job)
    if held is None:
        named = f"{job[:100]!r} in {cluster[:100]}"
        raise RefusedError(404, "job", f"no plan for {named}: its batches are not shared out by `paceline.balance`")
    return held
