"""A door: the bus is followed, and what it tells goes into the book.

Rule of this file: nothing is written before all that the topics hold has been read (``caught_up``): what came and went
while this was away is told to nobody. Of what was there before, the time of hearing is the broker's, never after now.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from paceline import topics, wire
from paceline.kafka.follow import BEGINNING, ConsumerRecord, Follower, Start
from paceline.kafka.follow_words import reports
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.sequences import Sequences
from paceline.supervised import SupervisedThread
from paceline.topics import Topic

from .book import Book

#: How far back each topic is read: findings of a day, samples of the last minutes, all of what is compacted.
STARTS: Mapping[Topic, Start] = {
    topics.NODE: BEGINNING,
    topics.JOB: BEGINNING,
    topics.PROFILE: BEGINNING,
    topics.FINDING: Start(seconds=24 * 3600.0),
    topics.DEVICE: Start(seconds=90.0),
}
#: Samples that are passed over where reading is further behind: they would be of long ago.
MOST_BEHIND = {topics.DEVICE: 200_000}


class BusReader:
    """Reads into ``book``; ``lock`` is held while it changes."""

    def __init__(
        self,
        settings: BrokerSettings,
        book: Book,
        lock: threading.Lock,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._settings, self._book, self._lock, self._stop, self._say = settings, book, lock, stop, say
        self._samples = Sequences()
        self.thread = SupervisedThread("the bus reader", self._run, stop)
        #: Whether all that was there at the start has been read once; why nothing is heard now.
        self.caught_up, self.trouble = False, "connecting to the broker"
        self.lag: dict[Topic, int] = {}
        self.unusable = 0
        #: Why the annotator has to be started again; empty while it has not.
        self.ended = ""

    def waits(self) -> str | None:
        """What is missing; None where all is heard."""
        return self.thread.failure or self.trouble or None

    def _run(self) -> None:
        with Follower(
            self._settings,
            STARTS,
            "paceline-annotator",
            resume=True,
            most_behind=MOST_BEHIND,
            on_lost=self._lost,
            on_unreadable=reports(self._say)["on_unreadable"],
            on_skip=self._leave_out,
            on_cluster=self._end,
            budget=StartBudget(),
            stop=self._stop,
        ) as follower:
            live = False  # A thread that was started again reads from before, too.
            while not self._stop.is_set():
                for topic, records in follower.poll():
                    self._take(topic, records, live)
                self.lag = follower.lag
                if follower.state == "connected":
                    self.thread.well()
                    live = live or follower.caught_up or follower.nothing_there
                    self.caught_up |= live
                    self.trouble = "" if self.caught_up else "reading what there is"

    def _leave_out(self, topic: Topic, messages: int) -> None:
        if topic not in MOST_BEHIND:
            self._say(f"{topic.name}: the oldest {messages} messages are left out: a start reads a bounded number")

    def _end(self, cause: str) -> None:
        """What is known, and was written, is of another cluster: whoever starts the annotator again reads this one."""
        self.ended = cause
        self._say(f"{cause}; ending, to be started again")
        self._stop.set()

    def _lost(self, cause: str) -> None:
        self.trouble = f"no answer from Kafka: {cause}"
        reports(self._say)["on_lost"](cause)

    def _take(self, topic: Topic, records: Sequence[ConsumerRecord], live: bool) -> None:
        for record in records:
            if record.value is None:
                continue
            now_s = time.time()
            heard_s = now_s if live else min(now_s, record.timestamp / 1000)
            try:
                event = wire.decode(topic, record.value)
            except wire.WireError:
                self.unusable += 1
                continue
            if topic == topics.DEVICE and not self._samples.admit(event.producer, event.sequence):
                continue
            with self._lock:
                self._book.update(event, heard_s)
