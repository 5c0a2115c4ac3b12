"""The spool: a bounded queue of messages on disk, for the time the broker is away.

Rule of this file: segments in one folder, written at the tail, read at the head, removed when everything in them has
been delivered. The oldest segment goes when the spool is full. It outlives its process, not a power cut; a message
read but not yet marked done when the process dies is read again. One process owns a folder at a time.
"""

import contextlib
import errno
import fcntl
import os
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

from paceline.delivery.outbox import Message
from paceline.delivery.segment import MAGIC, Record, frame, scan

SUFFIX = ".spool"
LOCK = "lock"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class SpoolError(RuntimeError):
    """The spool cannot be used: folder and reason on one line."""


@dataclass
class _Segment:
    path: Path
    size: int = 0
    unread: Counter[str] = field(default_factory=Counter)


class Spool:
    """A queue in ``folder`` that takes at most ``limit_bytes`` of disk.

    ``shed`` counts exactly, by topic, what was dropped to stay within the limit; ``corrupt`` what damage took.

    Raises:
        SpoolError: the folder cannot be made, read or locked.
    """

    def __init__(self, folder: Path, limit_bytes: int, segment_bytes: int = 1024 * 1024) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.segment_bytes = min(segment_bytes, max(1, limit_bytes // 4))
        self.shed: Counter[str] = Counter()
        self.corrupt = 0
        self._segments: deque[_Segment] = deque()
        self._read: list[Record] = []
        #: Whether what was read is on its way: until ``done`` it is not dropped to make room.
        self._reading = False
        self._offset = 0
        self._tail: int | None = None
        self._number = 0
        self._lock = -1
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(self._lock).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "removed by another process")
            self._open()
        except OSError as error:
            self.close()
            raise self._error(error) from error

    def __len__(self) -> int:
        return sum(segment.unread.total() for segment in self._segments)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._segments)

    def append(self, message: Message) -> None:
        """Add ``message`` as the newest; drop the oldest segments until it fits.

        Raises:
            SpoolError: it could not be written; what is in the spool stays readable.
        """
        record = frame(message)
        if len(record) + len(MAGIC) > self.limit_bytes:
            self.shed[message.topic] += 1
            return
        while self.size + len(record) + len(MAGIC) > self.limit_bytes:
            if not self._drop_oldest():
                self.shed[message.topic] += 1
                return
        try:
            segment = self._segment_for(len(record))
            self._write(segment, record)
        except OSError as error:
            raise self._error(error) from error
        segment.unread[message.topic] += 1

    def read(self, limit_messages: int = 1000) -> list[Message]:
        """The oldest messages, which stay until ``done``; asked again, the same."""
        while not self._read and self._segments:
            head = self._segments[0]
            try:
                scanned = scan(head.path.read_bytes(), self._offset, limit_messages)
            except OSError:
                # Taken away by somebody, or unreadable: lost like any other damage.
                scanned = scan(b"")
            self._read = scanned.records
            if not self._read:
                self.corrupt += head.unread.total()
                self._remove_head()
        self._reading = bool(self._read)
        return [record.message for record in self._read]

    def done(self, count: int) -> None:
        """Forget the first ``count`` messages of what ``read`` returned."""
        self._reading = False
        if not count:
            return
        head = self._segments[0]
        for record in self._read[:count]:
            head.unread[record.message.topic] -= 1
        self._offset = self._read[count - 1].end
        del self._read[:count]
        if not self._read and not head.unread.total():
            self._remove_head()

    def close(self) -> None:
        """Release the folder; what is in it stays."""
        self._close_tail()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def drop(self) -> int:
        """Forget all that is in the spool; how many messages that were."""
        dropped = len(self)
        while self._segments:
            self._remove_head()
        return dropped

    def remove(self) -> None:
        """Release the folder and, where nothing is left in it, take it away."""
        self._close_tail()
        if not len(self):
            with contextlib.suppress(OSError):
                # While the lock is held: whoever opens the folder next makes a lock of their own.
                (self.folder / LOCK).unlink()
                self.folder.rmdir()
        self.close()

    # --- segments -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            if not path.stem.isdecimal():
                continue
            self._number = max(self._number, int(path.stem))
            if path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            scanned = scan(data)
            self.corrupt += scanned.corrupt
            if not scanned.records:
                path.unlink()
                continue
            unread = Counter(record.message.topic for record in scanned.records)
            self._segments.append(_Segment(path, len(data), unread))

    def _segment_for(self, size: int) -> _Segment:
        if self._tail is not None and self._segments[-1].size + size <= self.segment_bytes:
            return self._segments[-1]
        self._close_tail()
        self._number += 1
        segment = _Segment(self.folder / f"{self._number:012d}{SUFFIX}")
        self._tail = os.open(segment.path, _CREATE, 0o600)
        self._segments.append(segment)
        self._write(segment, MAGIC)
        return segment

    def _write(self, segment: _Segment, data: bytes) -> None:
        """Write all of ``data`` or nothing."""
        assert self._tail is not None
        try:
            written = os.write(self._tail, data)
            if written != len(data):
                raise OSError(28, os.strerror(28))
        except OSError:
            self._undo(segment)
            raise
        segment.size += len(data)

    def _undo(self, segment: _Segment) -> None:
        assert self._tail is not None
        if segment.unread.total():
            try:
                os.ftruncate(self._tail, segment.size)
            except OSError:
                # The torn record is skipped on reading; a new segment begins after it.
                self._close_tail()
            return
        self._close_tail()
        self._segments.pop()
        self._forget(segment)

    def _drop_oldest(self) -> bool:
        """Drop the oldest segment that nobody reads from; False where there is none."""
        if not self._reading:
            self.shed.update(+self._segments[0].unread)
            self._remove_head()
            return True
        if len(self._segments) == 1:
            return False
        if len(self._segments) == 2:
            self._close_tail()
        self.shed.update(+self._segments[1].unread)
        self._forget(self._segments[1])
        del self._segments[1]
        return True

    def _remove_head(self) -> None:
        self._read, self._offset = [], 0
        if len(self._segments) == 1:
            self._close_tail()
        self._forget(self._segments.popleft())

    @staticmethod
    def _forget(segment: _Segment) -> None:
        try:
            segment.path.unlink(missing_ok=True)
        except OSError:
            # Read-only by now: it would be delivered again by a later process, never lost.
            return

    def _close_tail(self) -> None:
        if self._tail is not None:
            os.close(self._tail)
            self._tail = None

    def _error(self, error: OSError) -> SpoolError:
        reason = "in use by another process" if isinstance(error, BlockingIOError) else error.strerror or str(error)
        return SpoolError(f"spool {self.folder}: {reason}")
