"""Where a sidecar's events go: a recording, the bus, the analyzer's pipe.

Rule of this file: a sink that fails says so once, on one line, and is silent from then on. None of them may block for
long: the recording is a local file, the publisher queues, and the pipe drops what a stuck reader does not take.
"""

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from paceline import wire
from paceline.recording import RecordingError, Writer, render
from paceline.sidecar.batch import Outgoing
from paceline.topics import OP

Warn = Callable[[str], None]

#: What the pipe holds back for a slow analyzer, and for whoever logs to experiment trackers.
MOST_PIPE_BYTES = 64 * 1024 * 1024
MOST_TRACKING_BYTES = 4 * 1024 * 1024


class Sink(Protocol):
    """One place events go to."""

    def put(self, outgoing: Outgoing) -> None:
        """Take an event."""

    def flush(self) -> None:
        """Move on what was put; called several times a second."""

    def settled(self) -> bool:
        """Whether all that was put would outlive this process."""

    def close(self, timeout_s: float) -> None:
        """Move on the rest within ``timeout_s``, and end."""


class RecordingSink:
    """Writes a recording until the disk refuses.

    The file is opened, and so emptied, for the first event or at the end: a sidecar whose command never started
    leaves an older recording as it was.
    """

    def __init__(self, path: str, warn: Warn) -> None:
        self._path = path
        self._warn = warn
        self._writer: Writer | None = None
        self._opened = False

    def put(self, outgoing: Outgoing) -> None:
        """Append the event."""
        writer = self._open()
        if writer is not None:
            line = (outgoing.topic.name, outgoing.key, int(time.time() * 1000), wire.encode(outgoing.event))
            self._guard(lambda: writer.write(*line))

    def flush(self) -> None:
        """Hand the lines to the operating system."""
        if self._writer is not None:
            self._guard(self._writer.flush)

    def settled(self) -> bool:
        """What was flushed is the operating system's."""
        return True

    def close(self, timeout_s: float) -> None:
        """End the file."""
        writer, self._writer = self._open(), None
        if writer is not None:
            self._guard(writer.close)

    def _open(self) -> Writer | None:
        if not self._opened:
            self._opened = True
            try:
                self._writer = Writer(self._path)
            except RecordingError as error:
                self._warn(f"{error}: training goes on without a recording")
        return self._writer

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            self._warn(f"recording {self._path} ends here: {error.strerror}; training goes on")
            writer, self._writer = self._writer, None
            if writer is not None:
                self._abandon(writer)

    @staticmethod
    def _abandon(writer: Writer) -> None:
        with contextlib.suppress(OSError):  # The same disk refuses again; that was said above.
            writer.close()


class PipeSink:
    """Recording lines down a pipe, without ever waiting for its reader."""

    most_bytes = MOST_PIPE_BYTES

    def __init__(self, fd: int, warn: Warn) -> None:
        os.set_blocking(fd, False)
        self._fd: int | None = fd
        self._warn = warn
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self.dropped = 0

    def put(self, outgoing: Outgoing) -> None:
        """Queue the event's line and push what the pipe takes."""
        if self._fd is None:
            return
        line = render(outgoing.topic.name, outgoing.key, int(time.time() * 1000), wire.encode(outgoing.event))
        if self._waiting_bytes + len(line) > self.most_bytes:
            self.dropped += 1
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        self.flush()

    def flush(self) -> None:
        """Push what the pipe takes now."""
        while self._waiting and self._fd is not None:
            chunk = self._waiting.popleft()
            try:
                written = os.write(self._fd, chunk)
            except BlockingIOError:
                self._waiting.appendleft(chunk)
                return
            except OSError:
                # The analyzer has gone; whoever started it says so.
                self._shut()
                return
            self._waiting_bytes -= written
            if written < len(chunk):
                self._waiting.appendleft(chunk[written:])
                return

    def settled(self) -> bool:
        """Whether the pipe holds it all."""
        return not self._waiting

    def close(self, timeout_s: float) -> None:
        """Push the rest for at most ``timeout_s``, then hang up."""
        deadline = time.monotonic() + timeout_s
        while self._waiting and self._fd is not None and time.monotonic() < deadline:
            self.flush()
            time.sleep(0.01 if self._waiting else 0)
        if self.dropped or self._waiting:
            self._warn(f"the analyzer was too slow: {self.dropped + len(self._waiting)} messages are not in the panel")
        self._shut()

    def _shut(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None
        self._waiting.clear()


class TrackingSink(PipeSink):
    """The timings of steps down a pipe, for points in experiment trackers. What of them is lost holds nothing up."""

    most_bytes = MOST_TRACKING_BYTES

    def put(self, outgoing: Outgoing) -> None:
        """Queue the event's line, where it is one of steps."""
        if outgoing.topic is OP:
            super().put(outgoing)

    def settled(self) -> bool:
        """Ranks need not keep anything for it."""
        return True

    def close(self, timeout_s: float) -> None:
        """Push what the pipe takes now, and hang up; whoever reads it says what was not logged."""
        self.flush()
        self._shut()
