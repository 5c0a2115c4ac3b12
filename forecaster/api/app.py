"""The application: routes, refusals, limits, health and metrics around an executor and a memory."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp

from paceline import __version__
from paceline.web import failures
from paceline.web.bodies import BoundedBodies
from paceline.web.middleware import DropAbandoned, KnownHosts

from ..memory import Memory
from . import changes, clusters, forecasts, jobs, series
from .executor import ForecastExecutor
from .meters import Meters
from .parameters import UNKNOWN, known_parameters

#: Bytes of a body: a batch of a thousand series of a day of minutes, every digit written out, twice over.
LARGEST = 64 * 1024 * 1024
#: Bytes of memory that all requests hold at a time, with what their bodies and answers become; a body that is parsed
#: takes up to 128 MiB more while it is. And the parts of one: the values and the timestamps of such a batch.
MEMORY, PARTS = 384 * 1024 * 1024, 3_200_000
DESCRIPTION = """Forecasts with honest intervals, cycles and kinds of job.

`POST` routes below `/v1` that are sent their values are stateless and need no broker. What was measured on the bus is
under `/v1/series`, `/v1/jobs` and `/v1/clusters`. Gaps are `null`, never 0; NaN and infinity are refused."""


def application(
    executor: ForecastExecutor,
    memory: Memory,
    token: str = "",
    ready: Callable[[], str | None] = lambda: None,
    names: Sequence[str] = (),
    restarts: Callable[[], Mapping[str, int]] = dict,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """The service; ``token`` allows changes, ``ready`` tells what it still waits for, or None.

    With ``names`` only requests for one of them are answered; ``restarts`` counts those of each thread. By ``clock``
    a job is silent.
    """
    meters = Meters()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        executor.close()

    app = FastAPI(
        title="Paceline forecaster",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        max_body_size=LARGEST,
    )
    failures.install(app)
    for routes in (
        forecasts.router(executor),
        series.router(memory, executor),
        clusters.router(memory, executor, clock),
        changes.router(memory, executor, token),
        jobs.router(memory, executor, clock),
    ):
        app.include_router(routes, dependencies=[Depends(known_parameters)], responses=UNKNOWN)
    _health(app, ready, lambda: meters.text(memory, executor.waiting, ready() is None, restarts()))

    # The innermost: what it refuses reaches the route as it is.
    app.add_middleware(BoundedBodies, memory=MEMORY, parts=PARTS)

    @app.middleware("http")
    async def measured(request: Request, call_next: Callable[[Request], ASGIApp]) -> Response:
        began = time.perf_counter()
        response: Response = await call_next(request)  # type: ignore[misc]
        route = request.scope.get("route")
        meters.observe(getattr(route, "path", "none"), response.status_code, time.perf_counter() - began)
        return response

    app.add_middleware(DropAbandoned)
    app.add_middleware(KnownHosts, names=names)
    return app


def _health(app: FastAPI, ready: Callable[[], str | None], numbers: Callable[[], str]) -> None:
    @app.get("/healthz", response_class=PlainTextResponse, tags=["health"])
    async def healthz() -> str:
        """The process answers."""
        return "ok\n"

    @app.get("/readyz", tags=["health"], responses={503: {"description": "Not yet; the text says what is missing."}})
    async def readyz() -> PlainTextResponse:
        """Every route can be answered."""
        waits = ready()
        return PlainTextResponse(f"{waits or 'ready'}\n", status_code=503 if waits else 200)

    @app.get("/metrics", response_class=PlainTextResponse, tags=["health"])
    def metrics() -> PlainTextResponse:
        """The numbers in Prometheus' text form."""
        return PlainTextResponse(numbers(), media_type="text/plain; version=0.0.4; charset=utf-8")
