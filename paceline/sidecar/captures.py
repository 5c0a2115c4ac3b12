"""Captures that were asked of this node's ranks: who is still to be asked, whose trace is there, who takes too long.

Rule of this file: it waits for nobody, and holds no trace in memory. A rank is told where its trace shall lie, in the
socket's folder; there it waits until the bus has room, and goes out in pieces, one a turn, so that no timing gives way
to it. The folder is this sidecar's alone: what lies in it and belongs to no capture under way is removed.
"""

import base64
import contextlib
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from paceline.events import CAPTURE_NAME, CAPTURE_PIECE_BYTES, MOST_CAPTURE_PIECES, CapturePiece
from paceline.training.capture_messages import MOST_TRACE_BYTES, NOTE, WHY
from paceline.training.capture_messages import Capture as Wish

#: Captures of this node that are under way, how long a rank may take, and how long, from then on, its trace may wait
#: for the bus: control gives up after both.
MOST_UNDER_WAY, PATIENCE_S, WAITS_S = 32, 600.0, 300.0
#: Bytes that are summed up in one turn, and how often the folder is looked through.
SUMMED_A_TURN, SWEEP_EVERY_S = 4 * 1024 * 1024, 10.0
_NAME = re.compile(CAPTURE_NAME)
TOO_LATE = f"no trace within {PATIENCE_S:.0f} s: it may have left, make steps of minutes, or run an earlier Paceline"


@dataclass
class Asked:
    """A rank that was asked, or is to be."""

    job: str
    attempt: int
    rank: int
    capture: str
    steps: int
    path: Path
    until_s: float
    sent: bool = False


#: What a trace does in one turn: nothing yet, or one piece.
Turn = Generator[CapturePiece | None, None, None]


class Captures:
    """Those of one sidecar, of ``cluster`` on ``node``, with traces by way of ``folder``."""

    def __init__(self, cluster: str, node: str, folder: Path, clock: Callable[[], float]) -> None:
        self._cluster, self._node, self._folder, self._clock = cluster, node, folder, clock
        self._asked: list[Asked] = []
        self._going: deque[tuple[Asked, Turn]] = deque()
        self._sweep_at = 0.0

    def ask(self, job: tuple[str, int], ranks: list[int], capture: str, steps: int) -> None:
        """Ask these ranks of a job's attempt, all of which are here.

        Raises:
            ValueError: the capture's name is none, one of that name is under way, or there are too many.
        """
        if not _NAME.match(capture):
            raise ValueError("a capture's name has letters, digits and -, 64 at most")
        if any(one.capture == capture and one.rank in ranks for one in self._asked):
            raise ValueError("it is under way already")
        if len(self._asked) + len(ranks) > MOST_UNDER_WAY:
            raise ValueError(
                f"{len(self._asked)} ranks of this node are being captured; at most {MOST_UNDER_WAY} at a time"
            )
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep_at = self._clock() + SWEEP_EVERY_S
        until_s = self._clock() + PATIENCE_S
        for rank in ranks:
            path = self._folder / f"{capture}-{rank}.json.gz"
            self._asked.append(Asked(*job, rank, capture, steps, path, until_s))

    def wishes(self) -> Iterator[tuple[Asked, Wish]]:
        """What is to be told to ranks; whoever was told sets ``sent``."""
        for one in self._asked:
            if not one.sent:
                yield one, Wish(one.steps, str(one.path))

    def turn(self, *, room: bool) -> list[CapturePiece]:
        """What is to go out now; nothing where the bus has no ``room``."""
        now_s = self._clock()
        for one in list(self._asked):
            pieces = self._looked(one, now_s)
            if pieces is not None:
                self._asked.remove(one)
                self._going.append((one, pieces))
        while self._going and now_s >= self._going[0][0].until_s + WAITS_S:
            self._going.popleft()[1].close()
        self._sweep(now_s)
        if not room or not self._going:
            return []
        one, pieces = self._going[0]
        try:
            piece = next(pieces)
        except StopIteration:
            self._going.popleft()
            return []
        except (OSError, ValueError, LookupError, TypeError) as error:
            self._going[0] = one, self._failed(one, f"its trace cannot be read: {error}")
            return []
        return [] if piece is None else [piece]

    def close(self) -> None:
        """No trace will go out any more."""
        for _, pieces in self._going:
            pieces.close()
        self._asked, self._going = [], deque()
        self._remove_others()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _sweep(self, now_s: float) -> None:
        if now_s >= self._sweep_at:
            self._sweep_at = now_s + SWEEP_EVERY_S
            self._remove_others()

    def _remove_others(self) -> None:
        """Remove what is nobody's: of ranks that were given up, or asked by a sidecar that died."""
        ours = tuple(one.path.name for one in [*self._asked, *(one for one, _ in self._going)])
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if not (ours and path.name.startswith(ours)):
                    path.unlink(missing_ok=True)

    def _looked(self, one: Asked, now_s: float) -> Turn | None:
        if one.path.exists():
            return self._pieces(one)
        if one.path.with_name(one.path.name + WHY).exists():
            return self._why(one)
        return self._failed(one, TOO_LATE) if now_s >= one.until_s else None

    def _why(self, one: Asked) -> Turn:
        yield from self._failed(one, _told(one.path, WHY))

    def _failed(self, one: Asked, reason: str) -> Turn:
        yield CapturePiece(**self._about(one), reason=reason[:500])

    def _pieces(self, one: Asked) -> Turn:
        noted = one.path.with_name(one.path.name + NOTE).exists()
        note = _told(one.path, NOTE) if noted else ""
        with one.path.open("rb") as file:
            one.path.unlink()  # It is ours alone from here on, and gone whatever ends us.
            size = file.seek(0, 2)
            if 0 < size <= min(MOST_TRACE_BYTES, CAPTURE_PIECE_BYTES * MOST_CAPTURE_PIECES):
                yield from self._cut(one, file, size, note)
            else:
                yield from self._failed(one, f"its trace has {size} bytes; {MOST_TRACE_BYTES} at most")

    def _cut(self, one: Asked, file: BinaryIO, size: int, note: str) -> Turn:
        """A little a turn, read as it goes: first what it sums up to, then its pieces."""
        file.seek(0)
        checksum = hashlib.sha256()
        while part := file.read(SUMMED_A_TURN):
            checksum.update(part)
            yield None
        file.seek(0)
        pieces = -(-size // CAPTURE_PIECE_BYTES)
        for piece in range(pieces):
            yield CapturePiece(
                **self._about(one),
                piece=piece,
                pieces=pieces,
                bytes=size,
                sha256=checksum.hexdigest(),
                content=base64.b64encode(file.read(CAPTURE_PIECE_BYTES)).decode(),
                reason=note[:500],
            )

    def _about(self, one: Asked) -> dict[str, Any]:
        return {
            "cluster": self._cluster,
            "job": one.job,
            "attempt": one.attempt,
            "node": self._node,
            "rank": one.rank,
            "capture": one.capture,
        }


def _told(path: Path, ending: str) -> str:
    """What the rank says in the file beside its trace, which is removed."""
    beside = path.with_name(path.name + ending)
    with beside.open("rb") as file:
        raw = file.read(4096)
    beside.unlink()
    return str(json.loads(raw)["reason"])
