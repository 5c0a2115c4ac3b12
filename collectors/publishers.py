"""Where messages go: to the bus, or to standard output as a recording.

Rule of this file: a publisher takes an event and its topic, and never blocks the one who publishes.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from paceline import recording, wire
from paceline.topics import Topic

log = logging.getLogger("paceline.collect")


class EventPublisher(Protocol):
    """What the agent publishes through; ``paceline.delivery``'s publisher is one."""

    def publish(self, topic: Topic, event: Any, *, key: str | None = None) -> None:
        """Hand over ``event``."""

    def close(self, timeout_s: float) -> Any:
        """Send what is still held, for so long at most."""


class RecordingPublisher:
    """Writes a recording to standard output, a line a message, flushed so that a pipe sees it at once."""

    def __init__(self, path: str = "-", on_broken: Callable[[], None] = lambda: None) -> None:
        self._writer = recording.Writer(path)
        self._on_broken = on_broken
        self._broken = False

    def publish(self, topic: Topic, event: msgspec.Struct, *, key: str | None = None) -> None:
        """Write ``event`` on a line."""
        if self._broken:
            return
        key = wire.key_of(topic, event) if key is None else key
        try:
            self._writer.write(topic.name, key, time.time_ns() // 1_000_000, wire.encode(event))
            self._writer.flush()
        except OSError as error:
            # The reader has gone (a closed pipe says nothing wrong), or the disk is full.
            self._broken = True
            if not isinstance(error, BrokenPipeError):
                log.warning("the recording breaks off: %s", error.strerror)
            self._on_broken()

    def close(self, timeout_s: float) -> None:
        """End the recording."""
        with contextlib.suppress(OSError):
            self._writer.close()
