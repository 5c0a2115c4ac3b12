"""Captures that were asked of this node's ranks: who is still to be asked, whose trace is there, who takes too long.

Rule of this file: it waits for nobody. A rank is told where its trace shall lie, in the socket's folder; once a turn it
is looked for, and goes out in pieces, a few a turn, so that timings are not held up behind it.
"""

import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.events import CAPTURE_PIECE_BYTES, MOST_CAPTURE_PIECES, CapturePiece
from paceline.training.capture_messages import MOST_TRACE_BYTES
from paceline.training.capture_messages import Capture as Wish

#: Captures of this node that are under way, how long a rank may take, and pieces that go out in one turn.
MOST_UNDER_WAY, PATIENCE_S, PIECES_A_TURN = 32, 600.0, 2
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
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


class Captures:
    """Those of one sidecar, of ``cluster`` on ``node``, with traces by way of ``folder``."""

    def __init__(self, cluster: str, node: str, folder: Path, clock: Callable[[], float]) -> None:
        self._cluster, self._node, self._folder, self._clock = cluster, node, folder, clock
        self._asked: list[Asked] = []
        self._going: deque[Iterator[CapturePiece]] = deque()

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
        until_s = self._clock() + PATIENCE_S
        for rank in ranks:
            path = self._folder / f"{capture}-{rank}.json.gz"
            self._asked.append(Asked(*job, rank, capture, steps, path, until_s))

    def wishes(self) -> Iterator[tuple[Asked, Wish]]:
        """What is to be told to ranks; whoever was told sets ``sent``."""
        for one in self._asked:
            if not one.sent:
                yield one, Wish(one.steps, str(one.path))

    def turn(self) -> list[CapturePiece]:
        """What is to go out now."""
        now_s = self._clock()
        for one in list(self._asked):
            pieces = self._looked(one, now_s)
            if pieces is not None:
                self._asked.remove(one)
                self._going.append(pieces)
        out: list[CapturePiece] = []
        while self._going and len(out) < PIECES_A_TURN:
            piece = next(self._going[0], None)
            if piece is None:
                self._going.popleft()
            else:
                out.append(piece)
        return out

    def _looked(self, one: Asked, now_s: float) -> Iterator[CapturePiece] | None:
        why = one.path.with_name(one.path.name + ".why")
        try:
            if one.path.exists():
                return self._pieces(one)
            if why.exists():
                reason = str(json.loads(why.read_bytes()[:4096])["reason"])
                why.unlink()
                return self._failed(one, reason)
        except (OSError, ValueError, LookupError, TypeError) as error:
            return self._failed(one, f"its trace cannot be read: {error}")
        return self._failed(one, TOO_LATE) if now_s >= one.until_s else None

    def _failed(self, one: Asked, reason: str) -> Iterator[CapturePiece]:
        yield CapturePiece(**self._about(one), reason=reason[:500])

    def _pieces(self, one: Asked) -> Iterator[CapturePiece]:
        size = one.path.stat().st_size
        if not 0 < size <= min(MOST_TRACE_BYTES, CAPTURE_PIECE_BYTES * MOST_CAPTURE_PIECES):
            one.path.unlink()
            return self._failed(one, f"its trace has {size} bytes; {MOST_TRACE_BYTES} at most")
        with one.path.open("rb") as file:
            one.path.unlink()  # It is ours alone from here on, and gone whatever ends us.
            content = file.read()
        return self._cut(one, content)

    def _cut(self, one: Asked, content: bytes) -> Iterator[CapturePiece]:
        checksum = hashlib.sha256(content).hexdigest()
        pieces = -(-len(content) // CAPTURE_PIECE_BYTES)
        for piece in range(pieces):
            part = content[piece * CAPTURE_PIECE_BYTES : (piece + 1) * CAPTURE_PIECE_BYTES]
            yield CapturePiece(
                **self._about(one),
                piece=piece,
                pieces=pieces,
                bytes=len(content),
                sha256=checksum,
                content=base64.b64encode(part).decode(),
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
