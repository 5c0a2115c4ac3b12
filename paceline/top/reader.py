"""The reader: one thread that fills the model from the bus, and says how it is doing.

Rule of this file: a door. What the events mean is the model's business. A broker that is lost is no end: what is known
stays, and reading goes on when it is back.
"""

import threading
import time
from typing import NamedTuple

from paceline import topics, wire
from paceline.kafka.follow import ConsumerRecord, Follower, Start
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget
from paceline.supervised import SupervisedThread
from paceline.topics import Topic

from .model import Model
from .picture import Picture, picture

#: Messages of each partition to look back at the start.
STARTS = {
    topics.JOB: Start(messages=20_000),
    topics.WINDOW: Start(messages=2_000),
    topics.FINDING: Start(messages=5_000),
    topics.SUGGESTION: Start(messages=5_000),
    # That samples come is enough: whether workers make windows of them.
    topics.HOST: Start(seconds=60.0),
}


class Connection(NamedTuple):
    """How reading goes: connecting, connected, lost or failed; since when; why; and whether all has been read."""

    state: str
    since_s: float
    cause: str
    caught_up: bool


class Reader:
    """Follows the topics and answers with pictures."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.address = settings.address
        self._settings, self._model, self._lock = settings, Model(), threading.Lock()
        self._stop = threading.Event()
        self._connection = Connection("connecting", time.time(), "", False)
        self._thread = SupervisedThread("the reader", self._run, self._stop)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; a thread that hangs is left behind."""
        self._thread.stop(2.0)

    @property
    def connection(self) -> Connection:
        """How reading goes."""
        if self._thread.failure:
            return Connection("failed", self._connection.since_s, self._thread.failure, False)
        return self._connection

    def picture(self, chosen: tuple[str, str] | None, only: str | None) -> Picture:
        """What is known now."""
        with self._lock:
            return picture(self._model, time.time(), chosen, only)

    def _run(self) -> None:
        with Follower(
            self._settings,
            STARTS,
            "paceline-top",
            on_cluster=self._start_anew,
            budget=StartBudget(),
            stop=self._stop,
        ) as follower:
            live = False
            while not self._stop.is_set():
                polled = follower.poll()
                for topic, records in polled:
                    for record in records:
                        self._take(topic, record, live)
                empty = follower.state == "connected" and not any(map(follower.follows, STARTS))
                live = follower.caught_up or empty
                self._tell(follower.state, follower.cause, live)
                self._thread.well()

    def _start_anew(self, cause: str) -> None:
        """What is known is of another cluster."""
        with self._lock:
            self._model = Model()

    def _tell(self, state: str, cause: str, caught_up: bool) -> None:
        held = self._connection
        since_s = held.since_s if held.state == state else time.time()
        self._connection = Connection(state, since_s, cause, caught_up)

    def _take(self, topic: Topic, record: ConsumerRecord, live: bool) -> None:
        """Live, the time of hearing is our own clock's, so that clocks that are off call no job silent."""
        now_s = time.time()
        with self._lock:
            if topic is topics.HOST:
                self._model.sampled(now_s if live else min(now_s, record.timestamp / 1000))
                return
            if record.value is None:
                if topic is topics.SUGGESTION and record.key is not None:
                    self._model.forget_suggestion(record.key.decode(errors="replace"))
                return
            try:
                event = wire.decode(topic, record.value)
            except wire.WireError:
                self._model.unusable += 1
                return
            self._model.update(event, now_s if live else min(now_s, record.timestamp / 1000))
