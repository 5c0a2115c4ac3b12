"""The thread that follows the bus for what routes answer.

Rule of this file: a door. It ends for nothing: brokers that are away are waited for, and readiness says so.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from paceline import topics, wire
from paceline.events import AuditEntry, CapturePiece
from paceline.kafka.follow import BEGINNING, NOW, ConsumerRecord, Follower, Start
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.supervised import SupervisedThread
from paceline.topics import Topic

from .book import Book
from .captures import CaptureBook

logger = logging.getLogger("paceline.control")
#: Where each topic is first read.
STARTS: Mapping[Topic, Start] = {
    topics.SESSION: BEGINNING,
    topics.SUGGESTION: BEGINNING,
    topics.THRESHOLD: BEGINNING,
    topics.PLAN: BEGINNING,
    topics.JOB: BEGINNING,
    topics.NODE: Start(seconds=3600.0),  # Collectors repeat it every ten minutes.
    topics.AUDIT: Start(seconds=24 * 3600.0),
    topics.CAPTURE: Start(seconds=3600.0),
    topics.DEVICE: NOW,
    topics.HOST: NOW,
}


class BusReader:
    """Reads the bus into ``book`` and ``captures``; ``on_back`` is called each time that all was read.

    ``clock`` is the monotonic one by which captures wait; what is known of nodes is dated by that which people read.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        book: Book,
        captures: CaptureBook,
        on_back: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._book, self._captures, self._on_back = settings, book, captures, on_back
        self._clock = clock
        self._stop = threading.Event()
        self._thread = SupervisedThread("the bus reader", self._run, self._stop)
        self._state = "connecting to the broker"
        #: Messages that a start had no room for, by topic.
        self.left_out: Counter[str] = Counter()
        #: Set once the brokers have answered, or it is known why they do not.
        self._settled = threading.Event()

    @property
    def restarts(self) -> int:
        """How often the thread was started again."""
        return self._thread.restarts

    def waits(self) -> str | None:
        """What is still missing; None when the topics were read to their ends."""
        return self._thread.failure or self._state or None

    def settled(self, patience_s: float) -> str | None:
        """As ``waits``, once that is known after a start: for so long at most."""
        self._settled.wait(patience_s)
        return self.waits()

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and wait for the thread."""
        self._thread.stop(15)

    def _run(self) -> None:
        self._state = "connecting to the broker"
        with Follower(
            self._settings,
            STARTS,
            "paceline-control",
            resume=True,
            on_lost=self._lost,
            on_skip=self._leave_out,
            on_cluster=self._start_anew,
            budget=StartBudget(),
            stop=self._stop,
        ) as follower:
            while not self._stop.is_set():
                for topic, records in follower.poll():
                    self._take(topic, records)
                self._thread.well()
                if follower.state == "connected" and follower.caught_up and self._state:
                    self._state = ""
                    self._settled.set()
                    self._on_back()

    def _lost(self, cause: str) -> None:
        logger.warning("%s", cause)
        self._state = cause
        self._settled.set()

    def _leave_out(self, topic: Topic, messages: int) -> None:
        logger.warning("%s: the oldest %d messages are left out: a start reads a bounded number", topic.name, messages)
        self.left_out[topic.short] += messages

    def _start_anew(self, cause: str) -> None:
        """What is known is of another cluster; captures are kept, for those who asked for them."""
        logger.warning("%s", cause)
        self._book.clear()
        self._state = cause

    def _take(self, topic: Topic, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            key = (record.key or b"").decode(errors="replace")
            if not record.value:
                self._book.forget(topic, key)
                continue
            try:
                event = wire.decode(topic, record.value)
            except wire.WireError as error:
                if not self._book.undecodable:
                    logger.warning("an event that cannot be used on %s: %s", topic.name, error)
                self._book.undecodable += 1
                continue
            if isinstance(event, CapturePiece):
                self._captures.update(event)
            else:
                if isinstance(event, AuditEntry):
                    self._captures.answered(event, self._clock())
                self._book.update(topic, key, event, record.value, time.time())
