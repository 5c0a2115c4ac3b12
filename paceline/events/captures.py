"""Captures: profiler traces of chosen ranks, in pieces."""

from typing import Annotated

import msgspec

from paceline.events.base import Count, Event, LongWord, Rank, Whole

#: Bytes of a piece before it is packed for JSON, and pieces of a trace at most.
CAPTURE_PIECE_BYTES, MOST_CAPTURE_PIECES = 256 * 1024, 256
#: What a capture may be called: it becomes a part of file names, addresses and headers.
CAPTURE_NAME = r"^[A-Za-z0-9-]{1,64}$(?!\n)"
_LONGEST = CAPTURE_PIECE_BYTES * 4 // 3 + 4


class CapturePiece(Event, frozen=True, kw_only=True):
    """A piece of the trace that ``rank`` made for the capture ``capture``. Key: job.

    ``content`` is the piece ``piece`` of ``pieces``, base64-coded; all pieces together are ``bytes`` long and have the
    checksum ``sha256``: a Kineto trace, packed by gzip. Where there is none, ``pieces`` is 0 and ``reason`` says why;
    else that is a note on the trace.
    """

    cluster: LongWord
    job: LongWord
    attempt: Whole
    node: LongWord
    rank: Rank
    capture: Annotated[str, msgspec.Meta(pattern=CAPTURE_NAME)]
    piece: Annotated[int, msgspec.Meta(ge=0, lt=MOST_CAPTURE_PIECES)] = 0
    pieces: Annotated[int, msgspec.Meta(ge=0, le=MOST_CAPTURE_PIECES)] = 0
    bytes: Count = 0
    sha256: Annotated[str, msgspec.Meta(max_length=64)] = ""
    content: Annotated[str, msgspec.Meta(max_length=_LONGEST)] = ""
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
