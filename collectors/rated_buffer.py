"""What ``paceline benchmark`` measured on this node, in what is said of the node: said again when its file changes.

Rule of this file: no sample and no message waits for a file, for homes are often on a network. ``look`` runs in a
thread of its own and is the only part that reads; all else hands over what was read last.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from paceline import rated
from paceline.events import RatedSpeed
from paceline.rated import Rated

from .adding_buffer import AddingBuffer
from .buffers import DeviceBuffer

log = logging.getLogger("paceline.collect.rated")
#: Seconds between two looks at whether the file is another.
LOOK_S = 5.0


class _Seen(NamedTuple):
    """What tells a file from the one before."""

    inode: int
    size: int
    changed_ns: int


class _Told(NamedTuple):
    """What the file said; and why it says nothing, where it is there."""

    rated: Rated | None
    why_not: str | None


class RatedBuffer(AddingBuffer[_Told]):
    """``devices``, and what the file at ``path`` says that ``node`` was measured to do."""

    def __init__(
        self, devices: DeviceBuffer, path: Path, node: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(devices, _Told(None, None))
        self._path, self._node, self._now = path, node, now
        self._seen: _Seen | None = None
        self._looked_s = float("-inf")

    def look(self) -> None:
        """Read the file, if it is time and the file is another."""
        now_s = self._now()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        seen = self._stat()
        if seen is not None and seen == self._seen:
            return
        told = _Told(*rated.look(self._path, self._node))
        self._seen = seen
        if told.why_not is not None and told.why_not != self._found.why_not:
            log.warning("no rated speeds: %s", told.why_not)
        self._find(told)

    def _stat(self) -> _Seen | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return _Seen(found.st_ino, found.st_size, found.st_mtime_ns)

    def _fields(self, found: _Told) -> tuple[dict[str, Any], dict[str, str]]:
        if found.rated is None:
            return {}, {} if found.why_not is None else {"rated": found.why_not}
        speeds = [RatedSpeed(**asdict(speed)) for speed in found.rated.speeds]
        return {"rated": speeds, "versions": dict(found.rated.versions)}, {}
