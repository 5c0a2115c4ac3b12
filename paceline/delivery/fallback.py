"""The fallback: a spool that may be missing, full or broken, and never raises.

Rule of this file: it turns a spool's errors into a count of what was kept and a sentence about where events wait. Its
numbers may be read from any thread.
"""

import threading
from collections import Counter
from pathlib import Path

from paceline.delivery.outbox import Message
from paceline.delivery.spool import SUFFIX, Spool, SpoolError

_MIB = 1024 * 1024


class Fallback:
    """The spool in ``folder`` if there is to be one; opened when first needed."""

    def __init__(self, folder: Path | None, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._lock = threading.RLock()
        self._spool: Spool | None = None
        self._closed = False
        self.error: str | None = None
        self.count = 0
        self.bytes = 0
        self.recovered = 0
        self.corrupt = 0
        self.shed: Counter[str] = Counter()

    @property
    def usable(self) -> bool:
        """Whether there is a point in trying to keep something."""
        return self._folder is not None and not self._closed

    def open_existing(self) -> None:
        """Open what an earlier process left behind; make nothing."""
        if self._folder is not None and self._folder.is_dir() and any(self._folder.glob(f"*{SUFFIX}")):
            with self._lock:
                self._open()

    def keep(self, messages: list[Message]) -> int:
        """Write ``messages`` until one fails; return how many were taken."""
        if not messages:
            return 0
        with self._lock:
            kept = 0
            try:
                spool = self._open()
                while spool is not None and kept < len(messages):
                    spool.append(messages[kept])
                    kept += 1
            except SpoolError as error:
                self.error = str(error)
            else:
                self.error = self.error if spool is None else None
            self._count()
            return kept

    def read(self, limit_messages: int) -> list[Message]:
        """The oldest messages kept; see ``Spool.read``."""
        with self._lock:
            messages = [] if self._spool is None else self._spool.read(limit_messages)
            self._count()
            return messages

    def done(self, count: int) -> None:
        """Forget the first ``count`` of what was read."""
        with self._lock:
            if self._spool is not None:
                self._spool.done(count)
            self._count()

    def close(self) -> None:
        """Release the folder."""
        with self._lock:
            self._closed = True
            if self._spool is not None:
                self._spool.close()
                self._spool = None

    def describe(self, memory_bytes: int) -> str:
        """Where events wait, in a sentence."""
        memory = f"in memory, the newest {max(1, memory_bytes // _MIB)} MiB"
        if self._folder is None:
            return f"Events wait {memory}"
        with self._lock:
            self._open()
        if self.error is not None:
            return f"{self.error[0].upper()}{self.error[1:]}. Events wait {memory}"
        most = f"the newest {max(1, self._limit_bytes // _MIB)} MiB"
        return f"Events wait in {self._folder}, {most}, for this run or the next"

    def _open(self) -> Spool | None:
        if self._spool is None and self._folder is not None and not self._closed:
            try:
                self._spool = Spool(self._folder, self._limit_bytes)
            except SpoolError as error:
                self.error = str(error)
                return None
            self.recovered = len(self._spool)
            self._count()
        return self._spool

    def _count(self) -> None:
        if self._spool is not None:
            self.count, self.bytes, self.corrupt = len(self._spool), self._spool.size, self._spool.corrupt
            self.shed = +self._spool.shed
