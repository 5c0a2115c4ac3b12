"""Captures: profiler traces of ranks, put together from their pieces.

Rule of this file: bounded, whatever comes: pieces in any order and twice, of captures that nobody here asked for, with
sizes and checksums that do not fit. A trace is handed out only when it is what its sender summed up. Time is an
argument, of a monotonic clock: no wait moves when somebody sets the machine's.
"""

import base64
import binascii
import hashlib
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from paceline.events import CAPTURE_PIECE_BYTES, AuditEntry, CapturePiece
from paceline.events.silence import CAPTURE_SILENT_S
from paceline.held_bytes import size_of

#: Captures and bytes that are kept, with the names of their jobs and nodes: the oldest go first.
MOST_CAPTURES, MOST_BYTES = 100, 512 * 1024 * 1024
#: What a piece that waits for the others takes beside its bytes.
_PART_BYTES = 128
#: Whoever has a rank answers within this of the others; and when none has answered at all, there is nobody.
SETTLED_S, UNHEARD_S = 10.0, 60.0
NOBODY = "no answer: is the job running, with its sidecars on this Kafka?"
NOT_HERE = "no node of this job that answered has this rank"


class _Trace:
    def __init__(self) -> None:
        self.state, self.reason, self.bytes = "asked", "", 0
        self.node = ""
        self.parts: dict[int, bytes] = {}
        self.whole: bytes | None = None
        self.about: tuple[int, int, str] | None = None

    @property
    def size(self) -> int:
        """What it takes in memory: its bytes, and the name of its node, which comes from outside."""
        return self.bytes + _PART_BYTES * len(self.parts) + size_of(self.node)

    def take(self, piece: CapturePiece) -> None:
        """Take in a piece; what does not fit the others fails the trace."""
        if self.whole is not None or self.state == "failed":
            return
        self.node = piece.node
        if piece.pieces == 0:
            self.fail(piece.reason or "no reason was given")
            return
        self.reason = piece.reason
        about = (piece.pieces, piece.bytes, piece.sha256)
        try:
            content = base64.b64decode(piece.content, validate=True)
        except (binascii.Error, ValueError):
            self.fail("a piece is no base64")
            return
        if self.about not in (None, about) or piece.piece >= piece.pieces or len(content) > CAPTURE_PIECE_BYTES:
            self.fail("its pieces do not fit one another")
            return
        self.about, self.state = about, "arriving"
        if piece.piece not in self.parts:
            self.parts[piece.piece] = content
            self.bytes += len(content)
        if len(self.parts) == piece.pieces:
            self._end(b"".join(self.parts[number] for number in range(piece.pieces)), piece)

    def _end(self, whole: bytes, piece: CapturePiece) -> None:
        if len(whole) != piece.bytes or hashlib.sha256(whole).hexdigest() != piece.sha256:
            self.fail("what arrived is not what was sent: its checksum differs")
            return
        self.whole, self.state, self.parts = whole, "done", {}

    def fail(self, reason: str) -> None:
        self.state, self.reason, self.parts, self.bytes, self.whole = "failed", reason, {}, 0, None


class CaptureTold(NamedTuple):
    """A capture as it stands: its ranks with state, reason and bytes so far."""

    capture: str
    cluster: str
    job: str
    steps: int
    ranks: list[dict[str, Any]]


class _Capture:
    def __init__(self, cluster: str, job: str, steps: int, asked_s: float | None) -> None:
        #: ``asked_s`` None: another control asked for it.
        self.cluster, self.job, self.steps, self.asked_s = cluster, job, steps, asked_s
        self.ranks: OrderedDict[int, _Trace] = OrderedDict()
        self.answered_s: float | None = None

    @property
    def size(self) -> int:
        """What it takes in memory, with the names of its cluster and job."""
        return size_of(self.cluster) + size_of(self.job) + sum(trace.size for trace in self.ranks.values())

    def tick(self, now_s: float) -> None:
        """Give up ranks of whom nothing more will come."""
        if self.asked_s is None:
            return
        for trace in self.ranks.values():
            if trace.state == "asked" and self.answered_s is not None and now_s - self.answered_s > SETTLED_S:
                trace.fail(trace.reason or NOT_HERE)
            elif trace.state == "asked" and now_s - self.asked_s > UNHEARD_S:
                trace.fail(NOBODY)
            elif trace.state in ("running", "arriving") and now_s - self.asked_s > CAPTURE_SILENT_S:
                trace.fail("its trace did not come")


class CaptureBook:
    """The newest captures; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures: OrderedDict[str, _Capture] = OrderedDict()
        self._commands: OrderedDict[str, str] = OrderedDict()

    def begin(
        self, capture: str, cluster: str, job: str, ranks: list[int], steps: int, command: str, now_s: float
    ) -> None:
        """It was asked for, by a command with this id."""
        with self._lock:
            made = self._captures[capture] = _Capture(cluster, job, steps, now_s)
            made.ranks = OrderedDict((rank, _Trace()) for rank in ranks)
            self._commands[command] = capture
            self._bound(made)

    def update(self, piece: CapturePiece) -> None:
        """A piece came; of a capture that another control asked for, too."""
        with self._lock:
            held = self._captures.get(piece.capture)
            if held is None:
                held = self._captures[piece.capture] = _Capture(piece.cluster, piece.job, 0, None)
            own = (held.cluster, held.job) == (piece.cluster, piece.job)
            if own and (piece.rank in held.ranks or (held.steps == 0 and len(held.ranks) < 64)):
                trace = held.ranks.setdefault(piece.rank, _Trace())
                trace.take(piece)
                self._bound(held, trace)
            else:
                self._bound(held)

    def answered(self, entry: AuditEntry, now_s: float) -> None:
        """A sidecar has said what comes of it."""
        with self._lock:
            held = self._captures.get(self._commands.get(entry.command_id, ""))
            if held is None:
                return
            held.answered_s = now_s
            for rank, trace in held.ranks.items():
                named = f" {rank}," in f" {entry.reason.partition('ranks')[2].replace(' are', ',')}"
                if entry.outcome == "accepted" and named and trace.state == "asked":
                    trace.state = "running"
            waiting = [trace for trace in held.ranks.values() if trace.state == "asked"]
            if entry.outcome != "accepted":  # Another node may have the rank all the same.
                for trace in waiting:
                    trace.reason = f"{entry.outcome.replace('_', ' ')} on {entry.node}: {entry.reason}"[:500]

    def told(self, capture: str, now_s: float) -> CaptureTold | None:
        """How a capture stands; None of one that nobody knows."""
        with self._lock:
            held = self._captures.get(capture)
            if held is None:
                return None
            held.tick(now_s)
            rows = [
                {"rank": rank, "state": one.state, "reason": one.reason, "bytes": one.bytes, "node": one.node}
                for rank, one in held.ranks.items()
            ]
            return CaptureTold(capture, held.cluster, held.job, held.steps, rows)

    def all(self, now_s: float) -> list[CaptureTold]:
        """All that are kept, the newest first."""
        with self._lock:
            names = list(self._captures)
        told = [self.told(name, now_s) for name in reversed(names)]
        return [one for one in told if one is not None]

    def trace(self, capture: str, rank: int) -> bytes | None:
        """A rank's trace, packed by gzip; None while it is not whole."""
        with self._lock:
            held = self._captures.get(capture)
            one = None if held is None else held.ranks.get(rank)
            return None if one is None else one.whole

    def _bound(self, newest: _Capture, arriving: _Trace | None = None) -> None:
        """Forget the oldest, first of those that nobody here asked for; then the trace that has no room."""
        size = sum(one.size for one in self._captures.values())
        while (size > MOST_BYTES or len(self._captures) > MOST_CAPTURES) and len(self._captures) > 1:
            others = [(one.steps > 0, name) for name, one in self._captures.items() if one is not newest]
            oldest = next((name for ours, name in others if not ours), others[0][1])
            size -= self._captures.pop(oldest).size
        if size > MOST_BYTES and arriving is not None:
            arriving.node = ""
            arriving.fail(f"no room: control keeps {MOST_BYTES >> 20} MiB of traces; ask for fewer ranks or steps")
        while len(self._commands) > MOST_CAPTURES:
            self._commands.popitem(last=False)
