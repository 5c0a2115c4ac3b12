"""What ``paceline benchmark`` measured on this node, in what is said of the node: said again when its file changes.

Rule of this file: no sample and no message waits for a file, for homes are often on a network. ``look`` runs in a
thread of its own and is the only part that reads; all else hands over what was read last.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from paceline import rated
from paceline.events import DeviceSamples, RatedSpeed
from paceline.rated import Rated

from .buffers import DeviceBuffer
from .device_names import Holders

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


class RatedBuffer:
    """``devices``, and what the file at ``path`` says that ``node`` was measured to do."""

    def __init__(
        self, devices: DeviceBuffer, path: Path, node: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._devices, self._path, self._node, self._now = devices, path, node, now
        self._lock = threading.Lock()
        self._seen: _Seen | None = None
        self._looked_s = float("-inf")
        self._told = self._said = _Told(None, None)
        self._inventory: dict[str, Any] | None = None

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
        if told.why_not is not None and told.why_not != self._told.why_not:
            log.warning("no rated speeds: %s", told.why_not)
        with self._lock:
            self._told = told

    def _stat(self) -> _Seen | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return _Seen(found.st_ino, found.st_size, found.st_mtime_ns)

    def inventory(self) -> dict[str, Any] | None:
        """The inventory with the rated speeds, where either is to be said: speeds when they change."""
        fresh = self._devices.inventory()
        with self._lock:
            told = self._told
        if fresh is None and told != self._said and self._inventory is not None:
            fresh = self._inventory | {"time_s": time.time()}
        if fresh is None:
            return None
        self._said, self._inventory = told, fresh
        if told.rated is None:
            why = {} if told.why_not is None else {"rated": told.why_not}
            return fresh | {"not_measured": fresh["not_measured"] | why}
        speeds = [RatedSpeed(**asdict(speed)) for speed in told.rated.speeds]
        return fresh | {"rated": speeds, "versions": dict(told.rated.versions)}

    def sample(self) -> None:
        """Add a row a device."""
        self._devices.sample()

    def cut(self, **producer: Any) -> DeviceSamples | None:
        """The event of the rows since the last cut; None without any."""
        return self._devices.cut(**producer)

    def holders(self) -> Holders:
        """What the pods that hold the devices are found by."""
        return self._devices.holders()

    def close(self) -> None:
        """Give everything back."""
        self._devices.close()
