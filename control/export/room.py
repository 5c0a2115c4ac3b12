"""The files of exports: they have no name, so nothing is left of them, and take no more of the disk than may be missed.

Rule of this file: a file that is handed out here is gone when it is closed, whatever ends the process. Recordings come
first: exports leave free what a recording needs, and at most half of what is free is theirs.
"""

import contextlib
import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

#: Files that are made at a time, and that are there at a time, made or being sent.
MOST_MADE, MOST_SENT = 2, 8
#: What stays free: what a new session wants, and half as much.
LEAST_FREE_BYTES = 192 * 1024 * 1024
#: Between two looks at the disk.
_LOOK_BYTES = 1024 * 1024


class BusyError(Exception):
    """Too many files are being made or sent already."""


class NoRoomError(OSError):
    """The disk has no room for an export."""


class Room:
    """Where exports are made: in ``folder``, bounded in number and size."""

    def __init__(self, folder: Path, free_bytes: Callable[[], int] | None = None) -> None:
        self._folder = folder
        self._free_bytes = free_bytes or (lambda: _free(folder))
        self._making = threading.BoundedSemaphore(MOST_MADE)
        self._lock = threading.Lock()
        self._held: dict[int, int] = {}

    @property
    def held(self) -> int:
        """Files that are there now."""
        with self._lock:
            return len(self._held)

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Do what reads a whole session.

        Raises:
            BusyError: others do.
        """
        if not self._making.acquire(blocking=False):
            raise BusyError(f"{MOST_MADE} sessions are being read already; ask again in a while")
        try:
            yield
        finally:
            self._making.release()

    def file(self) -> "ExportFile":
        """A file to be written, then read; it is there until it is closed.

        Raises:
            BusyError: too many are there.
            OSError: it cannot be made.
        """
        with self._lock:
            if len(self._held) >= MOST_SENT:
                raise BusyError(f"{MOST_SENT} files are being sent already; ask again in a while")
            with tempfile.TemporaryFile(dir=self._folder, buffering=0) as unnamed:
                made = ExportFile(os.dup(unnamed.fileno()), self)
            self._held[id(made)] = 0
        made.check()
        return made

    def check(self, file: "ExportFile", size: int) -> None:
        """``file`` is about to be so large.

        Raises:
            NoRoomError: that is more than may be taken.
        """
        with self._lock:
            self._held[id(file)] = size
            held = sum(self._held.values())
        free = self._free_bytes()
        if free < LEAST_FREE_BYTES or held > free:
            raise NoRoomError(f"exports take {held >> 20} MiB and only {free >> 20} MiB are free; ask again later")

    def gone(self, file: "ExportFile") -> None:
        """``file`` is closed."""
        with self._lock:
            self._held.pop(id(file), None)


class ExportFile(io.FileIO):
    """A file without a name, whose size its room watches."""

    def __init__(self, descriptor: int, room: Room) -> None:
        super().__init__(descriptor, "r+b")
        self._room, self._size, self._looked = room, 0, 0

    def check(self) -> None:
        """Whether there is room for more.

        Raises:
            NoRoomError: there is not.
        """
        self._looked = self._size
        try:
            self._room.check(self, self._size)
        except OSError:
            self.close()
            raise

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        """Append ``data``, whole.

        Raises:
            OSError: there is no room for it.
        """
        left = memoryview(data).cast("B")
        self._size += len(left)
        if self._size - self._looked >= _LOOK_BYTES:
            self.check()
        while left:
            left = left[super().write(left) :]
        return len(memoryview(data).cast("B"))

    def close(self) -> None:
        """Be gone."""
        self._room.gone(self)
        super().close()


def _free(folder: Path) -> int:
    about = os.statvfs(folder)
    return about.f_bavail * about.f_frsize
