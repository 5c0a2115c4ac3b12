"""``/v1/sessions``: start, stop, recover, export and delete recordings, and look at what they hold."""

import contextlib
import errno
import io
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, BinaryIO, cast

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Receive, Scope, Send

from paceline.recording import Bad, Line
from paceline.web.failures import NOT_FOUND, RefusedError
from paceline.web.token import GUARDED
from paceline.words import listed

from ..book import Book
from ..changes import SessionChanges
from ..export.formats import FORMATS, PLOTS, Format
from ..export.room import BusyError, ExportFile, NoRoomError, Room
from ..export.stat import summary
from ..export.told import Told
from ..sessions.manifest import Definition, Manifest
from ..sessions.numbers import Numbers
from ..sessions.proof import about
from ..sessions.segments import SegmentError, check
from ..sessions.store import NoSessionError, SessionStore
from .shapes import AWAY, BODY, BUSY, CONFLICT, NO_ROOM, Asker, Because, SessionAsked

#: Producers whose numbers one answer tells; runs of missing numbers of each.
MOST_PROOFS, MOST_MISSING = 10_000, 100
#: What is read of a file, and written to it, at a time.
_PIECE = 256 * 1024
#: A session is read for so long at most for one request.
LONGEST_S = 600.0


class EndingError(Exception):
    """A session is read no further: the service ends, or it takes too long."""


class Reading:
    """How sessions are read for exports: ``ending`` is set when the service ends."""

    def __init__(self, store: SessionStore, ending: threading.Event, clock: Callable[[], float]) -> None:
        self._store, self._ending, self._clock = store, ending, clock
        self.room = Room(store.root)

    def lines(self, manifest: Manifest) -> Iterator[Line]:
        """The messages of a session whose segments are what the manifest says.

        Raises:
            SegmentError: one is not.
            EndingError: it takes too long.
            OSError: one cannot be read.
        """
        until_s = self._clock() + LONGEST_S
        folder = self._store.folder(manifest.state.name).path
        for segment in manifest.segments:
            self._go_on(until_s)
            check(folder, segment)
        for number, line in enumerate(self._store.lines(manifest.state.name, manifest)):
            if number % 1000 == 0:
                self._go_on(until_s)
            if not isinstance(line, Bad):
                yield line

    def _go_on(self, until_s: float) -> None:
        if self._ending.is_set():
            raise EndingError("control is ending; ask again when it is back")
        if self._clock() > until_s:
            raise EndingError(f"it takes more than {LONGEST_S:g} s; copy the session's folder instead")


class Session(BaseModel):
    """The state of a session: that of the topic `session`, and the proof of what it holds."""

    model_config = ConfigDict(extra="allow")
    name: str
    state: str = Field(examples=["recording"])
    reason: str = ""
    messages: int = 0
    missing: int = 0
    warnings: list[str] = Field([], description="Of a start: which of its job and nodes have not reported yet.")


class SessionList(BaseModel):
    """All sessions, the newest first."""

    sessions: list[Session]


def router(
    changes: SessionChanges, book: Book, reading: Reading, cluster: str, allowed: Callable[..., None]
) -> APIRouter:
    """The routes over ``changes``, whose changes only who is ``allowed`` may ask for; ``book`` knows who reports."""
    routes = APIRouter(prefix="/v1/sessions", tags=["sessions"])

    @routes.get("")
    def list_sessions() -> SessionList:
        """All sessions: those on this disk, and those of other control services."""
        return SessionList(sessions=[Session(**msgspec.to_builtins(state)) for state in changes.states()])

    @routes.post(
        "",
        status_code=201,
        dependencies=[Depends(allowed)],
        responses={**GUARDED, **CONFLICT, **BODY, **AWAY, **NO_ROOM},
    )
    def start(sent: SessionAsked, asker: Asker) -> Session:
        """Begin to record."""
        only = sent.cluster or (_cluster_of(book, sent.job) if sent.job else "")
        definition = Definition(
            name=sent.name,
            id=secrets.token_hex(8),
            cluster=only or cluster,
            only_cluster=only,
            job=sent.job or "",
            nodes=sent.nodes or [],
            devices=sent.devices,
            interval_s=sent.interval_s,
            adaptive=sent.adaptive,
            keep=sent.keep,
            issuer=asker,
            started_s=time.time(),
        )
        begun = whole(changes.start(definition))
        return begun.model_copy(update={"warnings": unreported(definition, book)})

    @routes.get("/{name}", responses={**NOT_FOUND, **CONFLICT})
    def status(name: str) -> Session:
        """How far a session has come, and the proof: per producer the first and last number, and exactly which lack."""
        return whole(changes.manifest(name))

    _ends(routes, changes, [Depends(allowed)])
    _files(routes, changes, reading)
    return routes


def _ends(routes: APIRouter, changes: SessionChanges, token: Sequence[Any]) -> None:
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
        responses={**GUARDED, **NOT_FOUND, **CONFLICT, **AWAY, **NO_ROOM},
    )
    def recover(name: str, asker: Asker) -> Session:
        """Finish a session whose recorder is gone, with what the brokers still hold."""
        return whole(changes.recover(name, asker))

    @routes.delete(
        "/{name}", status_code=204, dependencies=token, responses={**GUARDED, **NOT_FOUND, **CONFLICT, **AWAY}
    )
    def delete(name: str, asker: Asker) -> None:
        """Delete a session with all that was recorded."""
        changes.delete(name, asker)


def _files(routes: APIRouter, changes: SessionChanges, reading: Reading) -> None:
    answers = {**NOT_FOUND, **CONFLICT, **BODY, **NO_ROOM, **BUSY}

    def made(name: str, kind: Format) -> StreamingResponse:
        manifest = changes.manifest(name)
        with _refusals():
            file = _made(reading, manifest, kind.write)
        headers = {
            "Content-Disposition": f'attachment; filename="{name}{kind.suffix}"',
            "Content-Length": str(file.seek(0, io.SEEK_END)),
        }
        return _Sent(file, headers, kind.content_type)

    @routes.get("/{name}/export", response_class=StreamingResponse, responses=answers)
    def export(
        name: str,
        format: Annotated[str, Query(description="jsonl (a recording), frames, parquet or csv")] = "jsonl",  # noqa: A002
    ) -> StreamingResponse:
        """What was recorded, as a file."""
        return made(name, _chosen(FORMATS, format))

    @routes.get("/{name}/stat", responses={**NOT_FOUND, **CONFLICT, **BUSY})
    def stat(name: str) -> dict[str, Any]:
        """What the session says in numbers: utilisation, memory, power, step time, findings."""
        manifest = changes.manifest(name)
        with _refusals(), reading.room.work():
            return summary(reading.lines(manifest), told(manifest))

    @routes.get("/{name}/plot", response_class=StreamingResponse, responses=answers)
    def plot(
        name: str,
        format: Annotated[str, Query(description="html, png or pdf")] = "html",  # noqa: A002
    ) -> StreamingResponse:
        """The same on one axis of time, as a picture."""
        return made(name, _chosen(PLOTS, format))


class _Sent(StreamingResponse):
    """A file that is gone when its last byte is sent, or its reader is."""

    def __init__(self, file: ExportFile, headers: Mapping[str, str], media_type: str) -> None:
        super().__init__(_pieces(file), headers=headers, media_type=media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with contextlib.closing(self._file):
            await super().__call__(scope, receive, send)


async def _pieces(file: ExportFile) -> AsyncIterator[bytes]:
    await run_in_threadpool(file.seek, 0)
    while piece := await run_in_threadpool(file.read, _PIECE):
        yield piece


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What keeps a session from being read, as it is answered."""
    try:
        yield
    except SegmentError as error:
        raise RefusedError(409, "segments", str(error)) from error
    except NoSessionError as error:
        raise RefusedError(404, "name", f"no session {str(error)[:100]!r} any more") from error
    except (BusyError, EndingError) as error:
        raise RefusedError(503, "format", str(error)) from error
    except NoRoomError as error:
        raise RefusedError(507, "export", str(error)) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise RefusedError(507, "export", f"the disk: {error.strerror}") from error
        raise RefusedError(409, "segments", f"they cannot be read: {error.strerror or error}") from error


def _chosen(formats: Mapping[str, Format], name: str) -> Format:
    if name not in formats:
        raise RefusedError(422, "format", f"{name[:40]!r} is none; there are {', '.join(formats)}")
    return formats[name]


def _made(reading: Reading, manifest: Manifest, write: Callable[[Iterable[Line], Told, BinaryIO], None]) -> ExportFile:
    with reading.room.work():
        file = reading.room.file()
        try:
            buffered = io.BufferedRandom(file, _PIECE)
            write(reading.lines(manifest), told(manifest), cast(BinaryIO, buffered))
            buffered.flush()
            buffered.detach()
        except BaseException:
            file.close()
            raise
    return file


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


def _cluster_of(book: Book, job: str) -> str:
    """The cluster in which a job runs; empty: in none yet.

    Raises:
        RefusedError: 409 it runs in several.
    """
    clusters = book.clusters(job)
    if clusters.running and (reason := clusters.ambiguity(job)):
        raise RefusedError(409, "cluster", reason)
    return clusters.running[0] if clusters.running else ""


def unreported(definition: Definition, book: Book) -> list[str]:
    """Which of a new session's job and nodes have not reported: it may begin before them, or a name is wrong."""
    warnings = []
    if definition.job and (state := _not_running(definition, book)):
        told = f"job {definition.job[:100]!r} {state}; it is recorded as soon as it reports"
        warnings.append(f"{told}; {listed('running job', book.running())}")
    absent = [node for node in definition.nodes if not book.knows_node(node)]
    if absent:
        named = ", ".join(repr(node[:100]) for node in absent[:5]) + (
            f" and {len(absent) - 5} more" * (len(absent) > 5)
        )
        there = listed("node", list(book.nodes(definition.started_s)))
        warnings.append(f"not reported yet: nodes {named}; they are recorded as soon as they report; {there}")
    return warnings


def _not_running(definition: Definition, book: Book) -> str:
    """Why a session's job sends nothing now, empty where it runs."""
    clusters, only = book.clusters(definition.job), definition.only_cluster
    if only in clusters.running:
        return ""
    where = f" in {only[:100]}" if only else ""
    ended = only in clusters.ended if only else bool(clusters.ended)
    return f"has ended{where}" if ended else f"has not reported yet{where}"


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
