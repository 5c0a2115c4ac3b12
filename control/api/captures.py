"""``/v1/jobs/{job}/captures``: full detail of chosen ranks of a running job, and the traces that come of it."""

import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from paceline.command_rules import job_target
from paceline.events import CAPTURE, RANK_LIMIT
from paceline.web.failures import NOT_FOUND, RefusedError
from paceline.web.token import GUARDED
from paceline.words import listed

from ..book import Book
from ..captures import CaptureBook
from .named_job import ClusterAsked, cluster_of
from .publishes import Publishes
from .shapes import AWAY, BODY, CONFLICT, Asker, Strict

Rank = Annotated[int, Field(ge=0, lt=RANK_LIMIT)]


class CaptureWish(Strict):
    """Which ranks, and how many whole steps of each."""

    cluster: ClusterAsked = None
    ranks: list[Rank] = Field(min_length=1, max_length=16, examples=[[2, 5]])
    steps: int = Field(3, ge=1, le=20)


class CaptureState(BaseModel):
    """The state of a capture; a rank is asked, running, arriving, done or failed."""

    capture: str
    cluster: str
    job: str
    steps: int
    ranks: list[dict[str, Any]]


def router(
    book: CaptureBook,
    jobs: Book,
    outgoing: Publishes,
    own: str,
    allowed: Callable[..., None],
    clock: Callable[[], float] = time.monotonic,
) -> APIRouter:
    """The routes over ``book``; a wish reaches one of ``jobs``, for who is ``allowed``.

    A job that is not known is of the cluster ``own``. ``clock`` is that of whoever reads the answers into ``book``.
    """
    routes = APIRouter(prefix="/v1", tags=["captures"])

    @routes.post(
        "/jobs/{job:path}/captures",
        status_code=202,
        dependencies=[Depends(allowed)],
        responses={**GUARDED, **NOT_FOUND, **CONFLICT, **BODY, **AWAY},
    )
    def begin(job: str, sent: CaptureWish, asker: Asker) -> CaptureState:
        """Ask ranks of a running job for PyTorch profiler traces."""
        ranks = sorted(set(sent.ranks))
        outgoing.check()
        cluster = _check_job(jobs, job, ranks, sent.cluster, own)
        capture = secrets.token_hex(8)
        arguments = {"capture": capture, "ranks": ",".join(map(str, ranks)), "steps": sent.steps}
        command = outgoing.command(job_target(job), CAPTURE, arguments, asker, cluster)
        book.begin(capture, cluster, job, ranks, sent.steps, command, clock())
        return _state(book, capture, clock())

    @routes.get("/captures")
    def every() -> list[CaptureState]:
        """The newest captures."""
        return [CaptureState(**one._asdict()) for one in book.all(clock())]

    @routes.get("/captures/{capture}", responses=NOT_FOUND)
    def state(capture: str) -> CaptureState:
        """How far a capture has come."""
        return _state(book, capture, clock())

    @routes.get(
        "/captures/{capture}/traces/{rank}", response_class=Response, responses={**NOT_FOUND, **CONFLICT, **BODY}
    )
    def trace(capture: str, rank: int) -> Response:
        """A rank's trace: Kineto, packed by gzip."""
        told = _state(book, capture, clock())
        row = next((row for row in told.ranks if row["rank"] == rank), None)
        if row is None:
            raise RefusedError(404, "rank", f"rank {rank} was not asked")
        content = book.trace(capture, rank)
        if content is None:
            raise RefusedError(409, "state", f"it is {row['state']}" + (f": {row['reason']}" if row["reason"] else ""))
        name = f"{told.capture}-rank{rank}.pt.trace.json.gz"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="application/gzip", headers=headers)

    return routes


def _check_job(jobs: Book, job: str, ranks: list[int], asked: str | None, own: str) -> str:
    """The job's cluster; refuses what cannot come: of a job that there is not, that has ended, or without that rank."""
    cluster = cluster_of(jobs, job, asked, own)
    known, name = jobs.job(cluster, job), repr(job[:100])
    where = f" in {cluster[:100]}" if asked is not None else ""
    if known is None:
        raise RefusedError(404, "job", f"no job {name}{where}; {listed('running job', jobs.running())}")
    if known.life.ended_s is not None:
        raise RefusedError(409, "job", f"{name} has ended{where}; {listed('running job', jobs.running())}")
    beyond = [rank for rank in ranks if known.world_size and rank >= known.world_size]
    if beyond:
        none = f"no rank {', '.join(map(str, beyond))} in {name}"
        raise RefusedError(422, "ranks", f"{none}: ranks run from 0 to {known.world_size - 1}")
    return cluster


def _state(book: CaptureBook, capture: str, now_s: float) -> CaptureState:
    told = book.told(capture, now_s)
    if told is None:
        raise RefusedError(404, "capture", f"no capture {capture[:64]!r}; GET /v1/captures lists them")
    return CaptureState(**told._asdict())
