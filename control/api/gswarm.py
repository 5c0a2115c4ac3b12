"""gswarm's routes, for programs that were written for it: what they asked for, done by sessions.

Rule of this file: a thin alias. Names and shapes are gswarm's; units are those that its documentation promised.
"""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from paceline import __version__
from paceline.events import SESSION_NAME
from paceline.recording import Line
from paceline.topics import DEVICE, HOST, NODE
from paceline.web.failures import NOT_FOUND, RefusedError
from paceline.web.token import GUARDED

from ..book import UNHEALTHY_S, Book
from ..changes import SessionChanges
from ..export.frames import newest
from ..export.told import Told
from ..sessions.manifest import Definition
from ..sessions.store import LIVE
from .shapes import BODY, CONFLICT, NO_ROOM, Asker

#: A frame is made of all that is known of all nodes: not for each who asks.
FRESH_S = 1.0


class Start(BaseModel):
    """gswarm's wish to begin; fields of its own that mean nothing here are passed over."""

    model_config = ConfigDict(extra="ignore")
    name: str | None = Field(None, pattern=SESSION_NAME)
    freq: float | None = Field(None, ge=1 / 60, le=20.0, description="Samples a second.")


class Stop(BaseModel):
    """gswarm's wish to end: by name, or the only session that is recorded."""

    model_config = ConfigDict(extra="ignore")
    name: str | None = Field(None, max_length=100)


def router(book: Book, changes: SessionChanges, cluster: str, allowed: Callable[..., None]) -> APIRouter:
    """The routes over ``book`` and ``changes``."""
    routes = APIRouter(tags=["gswarm"])
    _state(routes, book, changes)
    _profiling(routes, changes, cluster, [Depends(allowed)])
    _lists(routes, book, changes)
    return routes


def _state(routes: APIRouter, book: Book, changes: SessionChanges) -> None:
    @routes.get("/")
    def root() -> dict[str, Any]:
        """What this is."""
        return {"service": "paceline control", "version": __version__, "docs": "/docs", "openapi": "/openapi.json"}

    @routes.get("/status")
    def status() -> dict[str, Any]:
        """Whether anything is recorded, and which nodes report."""
        live = [state for state in changes.states() if state.state in LIVE]
        clients = _clients(book, time.time())
        return {
            "status": "profiling" if live else "idle",
            "is_profiling": bool(live),
            "sessions": [state.name for state in live],
            "connected_clients": sum(client["healthy"] for client in clients),
            "clients": [client["client_id"] for client in clients],
        }


def _profiling(routes: APIRouter, changes: SessionChanges, cluster: str, token: Sequence[Any]) -> None:
    @routes.post("/profiling/start", dependencies=token, responses={**GUARDED, **CONFLICT, **BODY, **NO_ROOM})
    def start(asker: Asker, sent: Start | None = None) -> dict[str, Any]:
        """Record everything, under a name of yours or one that is made."""
        sent = sent or Start.model_validate({})
        name = sent.name or time.strftime("session-%Y%m%d-%H%M%S", time.gmtime()) + "-" + secrets.token_hex(2)
        definition = Definition(
            name=name,
            id=secrets.token_hex(8),
            cluster=cluster,
            interval_s=None if sent.freq is None else 1.0 / sent.freq,
            issuer=asker,
            started_s=time.time(),
        )
        state = changes.start(definition).state
        return {"success": True, "message": f"{name} is being recorded", "name": name, "session_id": state.id}

    @routes.post("/profiling/stop", dependencies=token, responses={**GUARDED, **CONFLICT, **NOT_FOUND, **BODY})
    def stop(asker: Asker, sent: Stop | None = None) -> dict[str, Any]:
        """End the session of that name, or the only one."""
        name = sent.name if sent and sent.name is not None else _only(changes)
        state = changes.stop(name, asker, "").state
        return {"success": True, "message": f"{name} is ending", "name": name, "session_id": state.id}


def _lists(routes: APIRouter, book: Book, changes: SessionChanges) -> None:
    @routes.get("/profiling/sessions")
    def sessions() -> dict[str, Any]:
        """All sessions there are."""
        rows = [
            {
                "session_id": state.id,
                "name": state.name,
                "status": state.state,
                "start_time": state.started_s,
                "end_time": state.stopped_s,
                "frame_count": state.messages,
            }
            for state in changes.states()
        ]
        return {"sessions": rows}

    @routes.get("/clients")
    def clients() -> dict[str, Any]:
        """Nodes that reported within a day; unhealthy after 30 s without a message."""
        return {"clients": _clients(book, time.time())}

    frame = Fresh(lambda: newest_frame(book, time.time()), time.monotonic)

    @routes.get("/metrics/latest")
    def latest() -> dict[str, Any]:
        """The newest frame: the last values of every GPU, at most a second old."""
        return frame.get()


def _only(changes: SessionChanges) -> str:
    """The name of the only session that is recorded."""
    live = [state.name for state in changes.states() if state.state in LIVE]
    if not live:
        raise RefusedError(409, "name", "none is recorded")
    if len(live) > 1:
        raise RefusedError(409, "name", f"{len(live)} sessions are recorded ({', '.join(live[:10])}): say which")
    return live[0]


class Fresh:
    """What ``make`` makes, made again when it is older than ``FRESH_S``: once for as many as ask."""

    def __init__(self, make: Callable[[], dict[str, Any]], clock: Callable[[], float]) -> None:
        self._make, self._clock = make, clock
        self._turn = threading.Lock()
        self._held: tuple[float, dict[str, Any]] | None = None

    def get(self) -> dict[str, Any]:
        """It; while it is made again, as it was before."""
        held = self._held
        if held is not None and (self._clock() - held[0] < FRESH_S or self._turn.locked()):
            return held[1]
        with self._turn:
            if self._held is None or self._clock() - self._held[0] >= FRESH_S:
                self._held = (self._clock(), self._make())
            return self._held[1]


def _clients(book: Book, now_s: float) -> list[dict[str, Any]]:
    return [
        {
            "client_id": node,
            "hostname": node,
            "healthy": now_s - heard.last_s < UNHEALTHY_S,
            "last_seen": heard.last_s,
            "silent_s": max(0.0, now_s - heard.last_s),
        }
        for node, heard in sorted(book.nodes(now_s).items())
    ]


def newest_frame(book: Book, now_s: float) -> dict[str, Any]:
    """One frame of the last values; without any GPU its lists are empty."""
    stamp = int(now_s * 1000)
    lines = [Line(0, NODE.name, None, stamp, raw) for raw in book.inventory()]
    silent = []
    for node, heard in sorted(book.nodes(now_s).items()):
        if now_s - heard.last_s >= UNHEALTHY_S:
            silent.append((node, heard.last_s, None))
            continue
        lines += [
            Line(0, topic.name, node, stamp, raw) for topic, raw in ((DEVICE, heard.device), (HOST, heard.host)) if raw
        ]
    told = Told(
        name="latest",
        started_s=0.0,
        stopped_s=None,
        devices=(),
        silences=tuple(silent),
        gaps=(),
        complete=True,
        missing_count=0,
    )
    return newest(lines, told, now_s) or {"gpu_id": [], "gpu_util": [], "gpu_memory": [], "time": None}
