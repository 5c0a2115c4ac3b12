"""The application: routes, refusals, limits, health and metrics."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp

from paceline import __version__
from paceline.web import failures
from paceline.web.middleware import KnownHosts

from ..meters import Meters

#: Bytes of a body: a plan of 16,384 ranks, many times over.
LARGEST = 1024 * 1024
DESCRIPTION = """Sessions and changes: suggestions, thresholds, plans, captures.

Any client that reaches the service can read. Changes need `Authorization: Bearer` with the token, and
`X-Paceline-Issuer` with a name for the audit log."""


class Parts(NamedTuple):
    """What the application is made of: its routes, what it waits for (None: nothing), the names it answers to."""

    routers: Sequence[APIRouter]
    ready: Callable[[], str | None]
    meters: Meters
    names: Sequence[str] = ()


def application(parts: Parts) -> FastAPI:
    """The service."""
    app = FastAPI(title="Paceline control", version=__version__, description=DESCRIPTION, max_body_size=LARGEST)
    failures.install(app)
    for router in parts.routers:
        app.include_router(router)
    _health(app, parts)

    @app.middleware("http")
    async def measured(request: Request, call_next: Callable[[Request], ASGIApp]) -> Response:
        began = time.perf_counter()
        response: Response = await call_next(request)  # type: ignore[misc]
        route = request.scope.get("route")
        parts.meters.observe(getattr(route, "path", "none"), response.status_code, time.perf_counter() - began)
        return response

    app.add_middleware(KnownHosts, names=parts.names)
    return app


def _health(app: FastAPI, parts: Parts) -> None:
    @app.get("/healthz", response_class=PlainTextResponse, tags=["health"])
    async def healthz() -> str:
        """The process answers."""
        return "ok\n"

    @app.get("/readyz", tags=["health"], responses={503: {"description": "Not yet; the text says what is missing."}})
    async def readyz() -> PlainTextResponse:
        """The brokers answer, and what they hold was read."""
        waits = parts.ready()
        return PlainTextResponse(f"{waits or 'ready'}\n", status_code=503 if waits else 200)

    @app.get("/metrics", response_class=PlainTextResponse, tags=["health"])
    def metrics() -> PlainTextResponse:
        """The numbers in Prometheus' text form."""
        return PlainTextResponse(parts.meters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
