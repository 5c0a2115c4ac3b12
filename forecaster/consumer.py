"""The consumer: one thread that fills the memory from the bus, from as far back as it holds, and again after a loss.

Rule of this file: a door. What restarts with the service is read from the bus again; nothing is stored beside it.
"""

import logging
import threading
from collections.abc import Mapping, Sequence

from paceline import topics, wire
from paceline.events import Produced
from paceline.kafka import follow
from paceline.kafka.follow import BEGINNING, ConsumerRecord, Start
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.sequences import Sequences
from paceline.supervised import SupervisedThread
from paceline.topics import Topic

from .history import SAMPLES
from .memory import Memory
from .subjects import NODES_S

logger = logging.getLogger("paceline.forecaster")

#: How far back each topic is read at the start.
#: Messages and seconds of a start at most: windows of eight hours of a large cluster.
MOST_MESSAGES, START_S = 2_000_000, 120.0
STARTS: Mapping[Topic, Start] = {
    topics.JOB: BEGINNING,
    topics.WINDOW: Start(seconds=SAMPLES * NODES_S),
    topics.DEVICE: Start(seconds=900.0),
}


class EventConsumer:
    """Reads ``job``, ``window`` and ``device`` into a memory."""

    def __init__(self, settings: BrokerSettings, memory: Memory) -> None:
        self._settings, self._memory = settings, memory
        self._stop = threading.Event()
        self._thread = SupervisedThread("the event consumer", self._run, self._stop)
        self.state = "connecting to the broker"
        self._sequences = {topic: Sequences() for topic in STARTS}

    @property
    def restarts(self) -> tuple[str, int]:
        """The thread's name, and how often it was started again."""
        return "consumer", self._thread.restarts

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading and wait for the thread."""
        self._thread.stop(15)

    def waits(self) -> str | None:
        """What the memory still lacks, or None when it has caught up."""
        return self._thread.failure or self.state or None

    def _run(self) -> None:
        client_id = "paceline-forecaster"
        self.state = "connecting to the broker"
        with follow.Follower(
            self._settings,
            STARTS,
            client_id,
            on_lost=self._lost,
            on_unreadable=self._unusable,
            on_skip=self._leave_out,
            on_cluster=self._start_anew,
            budget=StartBudget(messages=MOST_MESSAGES, seconds=START_S),
            stop=self._stop,
        ) as follower:
            while not self._stop.is_set():
                for topic, records in follower.poll():
                    self._take(topic, records)
                known = follower.lag if follower.state == "connected" else {}
                self._memory.counts.lag = {topic.short: behind for topic, behind in known.items()}
                self._thread.well()
                if self.state and follower.caught_up:
                    self.state = ""
                    logger.info("caught up: %d series", len(self._memory))

    def _leave_out(self, topic: Topic, messages: int) -> None:
        logger.warning("%s: the oldest %d messages are left out: a start reads a bounded number", topic.name, messages)
        self._memory.counts.left_out[topic.short] = self._memory.counts.left_out.get(topic.short, 0) + messages

    def _start_anew(self, cause: str) -> None:
        logger.warning("%s", cause)
        self._memory.begin_cluster()
        self._sequences = {topic: Sequences() for topic in STARTS}
        self.state = cause

    def _lost(self, cause: str) -> None:
        logger.warning("%s", cause)
        self.state = cause

    def _take(self, topic: Topic, records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            if record.value is None:
                continue
            try:
                event = wire.decode(topic, record.value)
                if isinstance(event, Produced):
                    self._sequences[topic].admit(event.producer, event.sequence)
                    self._memory.counts.missing[topic.short] = self._sequences[topic].missing
                self._memory.update(event, record.timestamp / 1000 if record.timestamp > 0 else None)
            except Exception as error:  # Reading it again would fail again: what follows it must not wait for it.
                self._unusable(topic, str(error))

    def _unusable(self, topic: Topic, reason: str) -> None:
        if not self._memory.counts.undecodable:
            logger.warning("an event that cannot be used on %s: %s", topic.name, reason)
        self._memory.counts.undecodable += 1
