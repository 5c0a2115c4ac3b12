"""``/v1/sessions``: start, stop, recover, export and delete recordings, and look at what they hold."""

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from fastapi import APIRouter, BackgroundTasks, Depends, Query
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from paceline.recording import Bad, Line
from paceline.web.failures import NOT_FOUND, RefusedError
from paceline.web.token import GUARDED

from ..changes import SessionChanges
from ..export.formats import FORMATS, PLOTS, Format
from ..export.stat import summary
from ..export.told import Told
from ..sessions.manifest import Definition, Manifest
from ..sessions.numbers import Numbers
from ..sessions.proof import about
from ..sessions.segments import SegmentError, check
from ..sessions.store import SessionStore
from .shapes import BODY, CONFLICT, NO_ROOM, Because, SessionAsked, issuer

#: Files that are made at a time; producers whose numbers one answer tells; runs of missing numbers of each.
MOST_FILES, MOST_PROOFS, MOST_MISSING = 2, 10_000, 100


class Session(BaseModel):
    """A session as it stands: that of the topic `session`, and the proof of what it holds."""

    model_config = ConfigDict(extra="allow")
    name: str
    state: str = Field(examples=["recording"])
    reason: str = ""
    messages: int = 0
    missing: int = 0


class SessionList(BaseModel):
    """All sessions, the newest first."""

    sessions: list[Session]


def router(changes: SessionChanges, store: SessionStore, cluster: str, allowed: Callable[..., None]) -> APIRouter:
    """The routes over ``changes``, whose changes only who is ``allowed`` may ask for."""
    routes = APIRouter(prefix="/v1/sessions", tags=["sessions"])
    token = [Depends(allowed)]
    Asker = Annotated[str, Depends(issuer)]  # noqa: N806 - a type

    @routes.get("")
    def list_sessions() -> SessionList:
        """All sessions: those on this disk, and those that other controls tell of."""
        return SessionList(sessions=[Session(**msgspec.to_builtins(state)) for state in changes.states()])

    @routes.post("", status_code=201, dependencies=token, responses={**GUARDED, **CONFLICT, **BODY, **NO_ROOM})
    def start(sent: SessionAsked, asker: Asker) -> Session:
        """Begin to record."""
        definition = Definition(
            name=sent.name,
            id=secrets.token_hex(8),
            cluster=cluster,
            job=sent.job or "",
            nodes=sent.nodes or [],
            devices=sent.devices,
            interval_s=sent.interval_s,
            adaptive=sent.adaptive,
            issuer=asker,
            started_s=time.time(),
        )
        return whole(changes.start(definition))

    @routes.get("/{name}", responses={**NOT_FOUND, **CONFLICT})
    def status(name: str) -> Session:
        """How far a session has come, and the proof: per producer the first and last number, and exactly which lack."""
        return whole(changes.manifest(name))

    @routes.post(
        "/{name}/stop", status_code=202, dependencies=token, responses={**GUARDED, **NOT_FOUND, **CONFLICT, **BODY}
    )
    def stop(name: str, asker: Asker, sent: Because | None = None) -> Session:
        """Read the rest, and end."""
        return whole(changes.stop(name, asker, sent.because if sent else ""))

    @routes.post(
        "/{name}/recover",
        status_code=202,
        dependencies=token,
        responses={**GUARDED, **NOT_FOUND, **CONFLICT, **NO_ROOM},
    )
    def recover(name: str, asker: Asker) -> Session:
        """Finish a session whose recorder is gone, with what the brokers still hold."""
        return whole(changes.recover(name, asker))

    @routes.delete("/{name}", status_code=204, dependencies=token, responses={**GUARDED, **NOT_FOUND, **CONFLICT})
    def delete(name: str, asker: Asker) -> None:
        """Delete a session with all that was recorded."""
        changes.delete(name, asker)

    _files(routes, changes, store)
    return routes


def _files(routes: APIRouter, changes: SessionChanges, store: SessionStore) -> None:
    making = threading.BoundedSemaphore(MOST_FILES)

    def made(name: str, kind: Format, tasks: BackgroundTasks) -> FileResponse:
        manifest = changes.manifest(name)
        if not making.acquire(blocking=False):
            raise RefusedError(503, "format", f"{MOST_FILES} files are being made already; ask again in a while")
        try:
            path = _made(store, manifest, kind.write)
        finally:
            making.release()
        tasks.add_task(path.unlink, missing_ok=True)
        return FileResponse(path, media_type=kind.content_type, filename=f"{name}{kind.suffix}", background=tasks)

    @routes.get("/{name}/export", response_class=FileResponse, responses={**NOT_FOUND, **CONFLICT, **BODY, **NO_ROOM})
    def export(
        name: str,
        tasks: BackgroundTasks,
        format: Annotated[str, Query(description="jsonl (a recording), frames, parquet or csv")] = "jsonl",  # noqa: A002
    ) -> FileResponse:
        """What was recorded, as a file."""
        return made(name, _chosen(FORMATS, format), tasks)

    @routes.get("/{name}/stat", responses={**NOT_FOUND, **CONFLICT})
    def stat(name: str) -> dict[str, Any]:
        """What the session says in numbers: utilisation, memory, power, step time, findings."""
        manifest = changes.manifest(name)
        return summary(_readable(store, manifest), told(manifest))

    @routes.get("/{name}/plot", response_class=FileResponse, responses={**NOT_FOUND, **CONFLICT, **BODY, **NO_ROOM})
    def plot(
        name: str,
        tasks: BackgroundTasks,
        format: Annotated[str, Query(description="html, png or pdf")] = "html",  # noqa: A002
    ) -> FileResponse:
        """The same on one axis of time, as a picture."""
        return made(name, _chosen(PLOTS, format), tasks)


def _chosen(formats: Mapping[str, Format], name: str) -> Format:
    if name not in formats:
        raise RefusedError(422, "format", f"{name[:40]!r} is none; there are {', '.join(formats)}")
    return formats[name]


def _made(store: SessionStore, manifest: Manifest, write: Callable[[Iterable[Line], Told, BinaryIO], None]) -> Path:
    try:
        with tempfile.NamedTemporaryFile(dir=store.root, prefix=".export-", delete=False) as file:
            path = Path(file.name)
            try:
                write(_readable(store, manifest), told(manifest), file)  # type: ignore[arg-type]
            except BaseException:
                path.unlink(missing_ok=True)
                raise
    except SegmentError as error:
        raise RefusedError(409, "segments", str(error)) from error
    except OSError as error:
        raise RefusedError(507, "export", f"{store.root}: {error.strerror}") from error
    return path


def _readable(store: SessionStore, manifest: Manifest) -> Iterable[Line]:
    """The messages of a session whose segments are what the manifest says."""
    folder = store.folder(manifest.state.name).path
    for segment in manifest.segments:
        check(folder, segment)
    return (line for line in store.lines(manifest.state.name, manifest) if not isinstance(line, Bad))


def told(manifest: Manifest) -> Told:
    """What exports tell beside the messages."""
    state = manifest.state
    return Told(
        name=state.name,
        started_s=state.started_s,
        stopped_s=state.stopped_s,
        devices=tuple(state.devices),
        silences=tuple((one.client, one.from_s, one.to_s) for one in manifest.silences),
        gaps=tuple(f"{gap.topic} partition {gap.partition}: {gap.reason}" for gap in manifest.gaps),
        complete=_complete(manifest),
        missing_count=state.missing,
        interval_s=state.interval_s,
    )


def _complete(manifest: Manifest) -> bool:
    state = manifest.state
    return state.state == "stopped" and not state.missing and not state.gap_count and not manifest.unproved


def whole(manifest: Manifest) -> Session:
    """A session with its proof."""
    producers = []
    for one in about(manifest.proof)[:MOST_PROOFS]:
        numbers = Numbers(one.runs, one.repeated, one.forgotten)
        producers.append(
            {
                "topic": one.topic,
                "producer": one.producer,
                "node": one.node,
                "first": numbers.first,
                "last": numbers.last,
                "received": numbers.received,
                "kept": one.kept,
                "repeated": one.repeated,
                "missing": numbers.missing()[:MOST_MISSING],
                "missing_count": numbers.missing_count,
            }
        )
    return Session.model_validate(
        {
            **msgspec.to_builtins(manifest.state),
            "proof": {"complete": _complete(manifest), "producers": producers},
            "gaps": msgspec.to_builtins(manifest.gaps),
            "silences": msgspec.to_builtins(manifest.silences),
            "segments": msgspec.to_builtins(manifest.segments),
        }
    )
