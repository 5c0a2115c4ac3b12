"""A source asked on its schedule, in a thread of its own, and what it tells handed to whoever writes the archive.

Rule of this file: one addition is on its way at a time, and the next is made when it is committed, so that what a
source sees in the archive is all that it has told. A source that is away is asked again; the archive waits for none.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol

from paceline.supervised import SupervisedThread

from ..addition import Addition, SourceError
from ..writer import Writer

log = logging.getLogger("paceline.archive")
#: How soon a source that failed is asked again, at the latest.
RETRY_S = 60.0
_TICK_S = 0.2


class Source(Protocol):
    """Something that is asked again and again for what the archive does not have yet."""

    #: What it is called in logs and metrics, and how often it is asked.
    name: str
    every_s: float

    def turns(self, now_s: float) -> Generator[Addition, None, None]:
        """What is new at ``now_s`` (Unix time), piece by piece; each is committed before the next is asked for.

        Raises:
            SourceError, StoreError, QueryError: it cannot be told now.
        """


class _Handed(NamedTuple):
    addition: Addition
    done: threading.Event
    taken: list[bool]


class Feeder:
    """Asks ``source`` until ``stop`` is set."""

    def __init__(self, source: Source, stop: threading.Event, clock: Callable[[], float] = time.time) -> None:
        self.source, self._stop, self._clock = source, stop, clock
        self.thread = SupervisedThread(f"the source {source.name}", self._run, stop)
        self._waiting: queue.Queue[_Handed] = queue.Queue(1)
        #: Rows committed; rounds that went well, and that failed; when the last one went well, and why one did not.
        self.rows = self.rounds = self.failures = 0
        #: Whether the source is being asked now.
        self.asking = False
        self.well_s: float | None = None
        self.failure = ""

    def serve(self, writer: Writer) -> bool:
        """Commit what waits; False where nothing does. Called by the one who writes, between two commits.

        Raises:
            StoreError: it could not be committed, and is asked for again.
        """
        try:
            handed = self._waiting.get_nowait()
        except queue.Empty:
            return False
        try:
            if writer.add(handed.addition):
                self.rows += 0 if handed.addition.instead_of else handed.addition.rows
                handed.taken.append(True)
        finally:
            handed.done.set()
        return True

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._ask()
                self._stop.wait(self.source.every_s)
            except SourceError as error:
                self._failed(str(error))
                self._stop.wait(min(RETRY_S, self.source.every_s))

    def _ask(self) -> None:
        self.asking = True
        try:
            self._round()
        finally:
            self.asking = False

    def _round(self) -> None:
        # What a source holds open while it is asked is closed at a stop, too.
        with contextlib.closing(self.source.turns(self._clock())) as turns:
            for addition in turns:
                if not self._hand_over(addition):
                    return
        self.rounds, self.well_s, self.failure = self.rounds + 1, self._clock(), ""
        self.thread.well()

    def _hand_over(self, addition: Addition) -> bool:
        """Wait until it is committed; False where the archive ends before."""
        handed = _Handed(addition, threading.Event(), [])
        self._waiting.put(handed)
        while not handed.done.wait(_TICK_S):
            if self._stop.is_set():
                return False
        if not handed.taken:
            raise SourceError(f"{self.source.name}: the archive did not accept the rows; they are requested again")
        return True

    def _failed(self, cause: str) -> None:
        self.failures += 1
        if cause != self.failure:  # The same once more is not logged at every attempt.
            log.warning("%s", cause)
        self.failure = cause
