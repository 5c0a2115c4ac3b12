"""How the sidecar of a node asks a rank for a capture, on the socket that timings come over.

Rule of this file: as of ``messages``: data, by the standard library alone. The trace itself goes by a file in the
socket's folder, which belongs to both: beside it lies ``WHY`` where there is none. A rank of an earlier version
passes the wish over, and the sidecar's patience ends.
"""

from __future__ import annotations

import json
from typing import NamedTuple

#: The word under which a sidecar asks.
CAPTURE = "capture"
#: Steps of one capture, and bytes of its packed trace, at most.
MOST_STEPS, MOST_TRACE_BYTES = 20, 64 * 1024 * 1024
#: What the names of two files add to the trace's: why there is none, and, written before it, a note on it.
WHY, NOTE = ".why", ".note"


class Capture(NamedTuple):
    """A wish: ``steps`` whole steps from the next on, and where the packed trace is to lie."""

    steps: int
    path: str


def encode(capture: Capture) -> bytes:
    """``capture`` as it travels."""
    return json.dumps({CAPTURE: capture._asdict()}).encode()


def decode(data: bytes) -> Capture | None:
    """What a sidecar asked for; None where that is no wish for a capture.

    >>> decode(encode(Capture(3, "/run/x")))
    Capture(steps=3, path='/run/x')
    >>> decode(b'{"capture":{"steps":0,"path":"x"}}'), decode(b'{"hears":[]}'), decode(b"[")
    (None, None, None)
    """
    try:
        told = json.loads(data)[CAPTURE]
        capture = Capture(told["steps"], told["path"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if type(capture.steps) is not int or not 1 <= capture.steps <= MOST_STEPS or type(capture.path) is not str:
        return None
    return capture if capture.path.startswith("/") else None
