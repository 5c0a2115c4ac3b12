"""The door to the sidecar: its timings come down a pipe, a recording's line each.

Rule of this file: it never waits, and takes what is no timing for nothing.
"""

import os
from collections.abc import Iterator

from paceline import recording, topics, wire
from paceline.events import StepTimings

PIECE_BYTES = 256 * 1024


class MessagesPipe:
    """Reads descriptor ``fd``, until its writers have gone (``ended``)."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.ended = False
        #: Bytes that were taken.
        self.taken = 0
        self._rest = b""

    def read(self) -> Iterator[StepTimings]:
        """The timings that have come."""
        try:
            data = os.read(self.fd, PIECE_BYTES)
        except BlockingIOError:
            return
        self.ended = not data
        self.taken += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > recording.LONGEST_LINE:
            self._rest = b""
        for line in lines:
            yield from _timings(line)


def _timings(line: bytes) -> Iterator[StepTimings]:
    item = recording.parse(0, line) if line else None
    if not isinstance(item, recording.Line) or item.topic != topics.OP.name:
        return
    try:
        event = wire.decode(topics.OP, item.value)
    except wire.WireError:
        return
    if isinstance(event, StepTimings):
        yield event
