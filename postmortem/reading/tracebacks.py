"""Tracebacks of Python in a log where several ranks speak at once: each voice has its own.

Rule of this file: pure, bounded in voices, frames and lines. Of a chain of exceptions the one that tells most counts:
one that a row of the table knows, else the last; of an exception that a loader's worker hands on, the worker's own.
"""

import re
from collections.abc import Iterator

import msgspec

from ..evidence import Failure, Place, Role, Source
from ..places import innermost
from . import ray_lines
from .job_lines import classified, failure
from .rich_boxes import RichBox

_MOST_FRAMES = 512
_MOST_VOICES = 8192
_FRAME = re.compile(r'\s+File "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,200}))?')
#: What is drawn before the lines of an exception group.
_GROUPED = re.compile(r"\s{1,80}(?:\+ Exception Group |\| )(?=\S|\s{2}File )")
_RAISED = re.compile(r"([A-Za-z_][\w.]{0,200}?)(?:: (.{0,4000}).{0,65536})?$")
_ORIGINAL = (
    "Original Traceback (most recent call last):",
    "The above exception was the direct cause",
    "During handling of the above",
)
#: Exceptions of somebody who is being shut down, or of a launcher that repeats what a rank has said.
_TEARDOWN = frozenset(
    [
        "KeyboardInterrupt",
        "SystemExit",
        "SignalException",
        "ChildFailedError",
        "CalledProcessError",
        "ProcessExitedException",
        "ProcessRaisedException",
        "RayTaskError",
        "RayActorError",
        "ActorDiedError",
        "WorkerCrashedError",
        "GeneratorExit",
        "ExceptionGroup",  # Those in it follow, each with its own traceback.
        "BaseExceptionGroup",
        "TrainingFailedError",
        "WorkerGroupError",
        "ControllerError",
        "ActorUnavailableError",
    ]
)
#: Exceptions that follow when another process has gone.
_VICTIMS = frozenset(
    [
        "BrokenPipeError",
        "ConnectionResetError",
        "ConnectionRefusedError",
        "ConnectionAbortedError",
        "EOFError",
        "DistNetworkError",
        "DistStoreError",
        "RendezvousConnectionError",
        "RendezvousClosedError",
        "HorovodInternalError",
    ]
)


#: A failure, and the voice that it is of.
Voiced = tuple[str, Failure]


class _Open(msgspec.Struct):
    """A traceback that is being read, and the failures before it in its chain."""

    rank: int | None
    node: str
    source: Source
    #: Of a worker's traceback in another's words: its process, and ranks that share it.
    pid: int | None = None
    ranks: tuple[int, ...] = ()
    remote: bool = False
    chained: bool = False
    #: Where it is drawn in one.
    box: RichBox | None = None
    frames: list[Place] = msgspec.field(default_factory=list)
    ended: list[Failure] = msgspec.field(default_factory=list)
    reading: bool = True
    idle: int = 0


class Tracebacks:
    """Those of one file, fed line by line."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    @property
    def reading(self) -> bool:
        """Whether some traceback needs the next lines."""
        return bool(self._open)

    def has(self, voice: str) -> bool:
        """Whether this voice has a traceback that may go on."""
        return voice in self._open

    def line(self, voice: str, text: str, rank: int | None, node: str, source: Source) -> Iterator[Voiced]:
        """Take a line; gives what is complete by it, each with its voice."""
        if text.startswith("  ") and (voice in self._open or "Traceback (most" in text):
            text = _GROUPED.sub("", text, count=1)
        box = RichBox(text) if RichBox.begins(text) else None
        if box is not None or text.startswith("Traceback (most recent call last)"):
            yield from self._begin(voice, rank, node, source)
            if voice in self._open:
                self._open[voice].box = box
            return
        if found := ray_lines.remote(text):
            yield from self._begin_remote(voice, found, source)
            return
        yield from self._aged(voice)
        current = self._open.get(voice)
        if current is None:
            return
        if current.reading:
            self._read(current, text, source)
        elif text.startswith(_ORIGINAL):
            # A worker's own traceback replaces the one of who waited for it; a chain goes on with another.
            current.reading, current.frames = text.startswith("Original"), []
            current.idle, current.chained = 0, True
        else:
            current.idle += 1
            if current.idle > 3:
                yield from self._close(voice)

    def _aged(self, voice: str) -> Iterator[Voiced]:
        """Tracebacks of voices that have been silent for long."""
        for other in [name for name, one in self._open.items() if name != voice and not one.reading]:
            one = self._open[other]
            one.idle += 1
            if one.idle > 400:
                yield from self._close(other)

    def _close(self, voice: str) -> Iterator[Voiced]:
        yield from ((voice, failed) for failed in _telling(self._open.pop(voice)))

    def _begin_remote(self, voice: str, of: ray_lines.Remote, source: Source) -> Iterator[Voiced]:
        """A worker's frames follow: those before them are of who waited for it."""
        current = self._open.pop(voice, None)
        if current is not None and current.remote and current.ended:
            yield from ((voice, failed) for failed in _telling(current))
        if len(self._open) < _MOST_VOICES:
            rank = of.ranks[0] if len(of.ranks) == 1 else None
            self._open[voice] = _Open(rank, of.node, source, pid=of.pid, ranks=of.ranks, remote=True)

    def _begin(self, voice: str, rank: int | None, node: str, source: Source) -> Iterator[Voiced]:
        current = self._open.get(voice)
        if current is not None and current.reading and not current.frames and current.ended:
            return  # It has just begun: the log has each line twice.
        if current is not None and current.ended and not current.chained:
            yield from self._close(voice)
            current = None
        if current is not None:
            current.reading, current.frames, current.idle, current.chained = True, [], 0, False
        elif len(self._open) < _MOST_VOICES:
            self._open[voice] = _Open(rank, node, source)

    def _read(self, current: _Open, text: str, source: Source) -> None:
        if current.box is not None and current.box.open:
            if (place := current.box.read(text)) and len(current.frames) < _MOST_FRAMES:
                current.frames.append(place)
        elif found := _FRAME.match(text):
            if len(current.frames) < _MOST_FRAMES:
                current.frames.append(Place(found[1], int(found[2]), found[3] or ""))
        elif text[:1] not in (" ", "\t") and (found := _RAISED.match(text)):
            source = Source(current.source.kind, current.source.file, source.line, text[:400])
            current.ended = [*current.ended[-20:], raised(found[1], found[2] or "", current, source)]
            current.reading = False
        elif text[:1] not in (" ", "\t") and not text.startswith("..."):
            current.reading = False

    def end(self) -> Iterator[Voiced]:
        """What is left at the file's end."""
        for voice, one in self._open.items():
            if one.ended:
                yield from ((voice, failed) for failed in _telling(one))
        self._open.clear()


def raised(kind: str, text: str, of: _Open, source: Source) -> Failure:
    """An exception: by the table's row if one knows it, else its own."""
    frames = tuple(reversed(of.frames))
    row = classified(f"{kind}: {text}")
    if row is not None and row[0].name not in ("timeout", "progress"):
        made = failure(*row, of.rank, of.node, source, text)
        return msgspec.structs.replace(made, type=kind, frames=frames)
    return Failure(
        rank=of.rank,
        node=of.node,
        source=source,
        role=role_of(kind, row),
        name="exception",
        text=text,
        type=kind,
        frames=frames,
    )


def role_of(kind: str, row: object) -> Role:
    """What an exception says of who raised it, if no row but that of waiting has its text."""
    short = kind.rpartition(".")[2]
    if row is not None:
        return "waiter"
    return "teardown" if short in _TEARDOWN else "victim" if short in _VICTIMS else "own"


def _telling(one: _Open) -> Iterator[Failure]:
    """Of a chain the failure that says most, once for each rank that it is of."""
    if not one.ended:
        yield Failure(rank=one.rank, node=one.node, source=one.source, role="teardown", name="cut", text="")
        return
    known = [failed for failed in one.ended if failed.name != "exception"]
    failed = known[0] if known else one.ended[-1]
    if innermost(failed.frames) is None:  # As where a library raises it inside its own ``with``.
        frames = next((other.frames for other in one.ended if innermost(other.frames) is not None), failed.frames)
        failed = msgspec.structs.replace(failed, frames=frames)
    for rank in one.ranks or (failed.rank,):
        yield msgspec.structs.replace(failed, rank=rank, of_pid=one.pid)
