"""Jobs, findings and suggestions followed on the bus and written down: a thread of its own.

Rule of this file: a door. Rows and the place up to which the bus was read are one transaction, so that an end at any
moment neither loses nor doubles a row. Nothing is buffered while the database is away: the topics hold it, and reading
waits. What the database refuses of a single row is passed over, told and counted; it would refuse it the next time.
"""

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from paceline import topics, wire
from paceline.backoff import Backoff
from paceline.kafka.follow import BEGINNING, ConsumerRecord, Follower, Jump, PartitionRecords, Start
from paceline.kafka.settings import BrokerSettings
from paceline.supervised import SupervisedThread
from paceline.topics import Topic
from paceline.visible import visible

from . import rows, schema
from .address import address
from .engine import engine
from .errors import DatabaseError, explained, of_a_row, said
from .positions import Positions
from .writing import Batch, read_positions, write, write_positions

logger = logging.getLogger("paceline.archive")

#: What is followed; all that the topics hold at first, and then from where it was.
STARTS: Mapping[Topic, Start] = {topics.JOB: BEGINNING, topics.FINDING: BEGINNING, topics.SUGGESTION: BEGINNING}
#: The first and the longest wait before a database that is away is tried again.
RETRY_FIRST_S, RETRY_CAP_S = 0.5, 10.0
#: A commit that takes longer is told in readiness: the database hangs, or another holds its tables.
SLOW_S = 15.0
#: How often a database to which nothing is written is asked whether it is there.
ASK_S = 5.0
#: How long a commit may take at the end.
STOP_S = 30.0


class DatabaseMirror:
    """Follows the topics of ``STARTS`` into the database at ``url``, until ``stop`` is set."""

    def __init__(self, settings: BrokerSettings, url: str, stop: threading.Event) -> None:
        """Nothing is opened before ``start``.

        Raises:
            SettingError: ``url`` is no address of a database.
        """
        self._settings, self._at, self._stop = settings, address(url), stop
        self.thread = SupervisedThread("the database's writer", self._run, stop)
        self._backoff = Backoff(RETRY_FIRST_S, RETRY_CAP_S, Random())
        self._away, self._bus = f"waiting for the database at {self._at.shown}", "connecting to the broker"
        #: What was told of it in the log, and is not told again before something was written.
        self._told = ""
        #: When the commit began that goes on now.
        self._writing_s: float | None = None
        self._caught_up = False
        #: Rows that are new or changed, by table; messages that could not be used, by topic and why.
        self.rows: Counter[str] = Counter(job=0, finding=0, suggestion=0)
        self.unusable: Counter[tuple[str, str]] = Counter()
        self.lag: dict[str, int] = {}
        #: Messages that the brokers let go of before they were read.
        self.gone = 0
        self.committed_s = self._answered_s = time.monotonic()

    @property
    def shown(self) -> str:
        """The database's address, without a login."""
        return self._at.shown

    def start(self) -> None:
        """Begin; it may be asked for again."""
        self.thread.start()

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """Stop, and wait for the commit that goes on; False where it hangs, and is undone."""
        return self.thread.stop(timeout_s)

    def waits(self) -> str | None:
        """What is missing before all that the topics hold is in the database; None where nothing is."""
        began_s = self._writing_s
        if began_s is not None and (for_s := time.monotonic() - began_s) > SLOW_S:
            return f"waiting for the database at {self.shown} (no answer for {for_s:.0f} s)"
        return self.thread.failure or self._away or self._bus or None

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._open()
            except DatabaseError as error:
                self._lost(error)
                self._stop.wait(self._backoff.next_s())

    def _lost(self, error: DatabaseError) -> None:
        away = f"waiting for the database at {self.shown} ({error.cause}; {error.mend})"
        if away != self._told:
            logger.warning("%s", away)
        self._away, self._told, self.lag = away, away, {}

    def _open(self) -> None:
        """Connect, make the tables what they must be, and follow the bus from where they say.

        Raises:
            DatabaseError: the database is away, or is refused.
        """
        with explained(self._at, OSError):
            made = engine(self._at)
        with explained(self._at), made.connect() as connection:
            with connection.begin():
                schema.prepare(connection, self.shown)
                positions = read_positions(connection)
            self._bus, self._caught_up = "connecting to the broker", False
            self._follow(connection, positions)

    def _follow(self, connection: Connection, positions: Positions) -> None:
        with Follower(
            self._settings, STARTS, "paceline-archive-database",
            resume=True, places=positions.places, topic_ids=positions.ids,
            on_lost=self._bus_lost, on_unreadable=self._unreadable, on_jump=self._jumped,
            on_cluster=lambda cause: logger.warning("%s", cause), stop=self._stop,
        ) as follower:  # fmt: skip
            while not self._stop.is_set():
                polled = follower.poll()
                now = Positions(follower.places(), follower.topic_ids())
                if polled or positions.changed(now) or positions.remade(now):
                    self._commit(connection, self._batch(polled), positions, now)
                    positions = now
                elif time.monotonic() - self._answered_s > ASK_S:
                    self._ask(connection)
                self._heard(follower)

    def _heard(self, follower: Follower) -> None:
        self.thread.well()
        self._away = ""
        self.lag = {topic.short: behind for topic, behind in follower.lag.items()}
        if not any(self.lag.values()):
            self._well()
        if follower.state == "connected":
            self._caught_up = self._caught_up or follower.caught_up or follower.nothing_there
            self._bus = "" if self._caught_up else "reading what the topics hold"

    def _well(self) -> None:
        """The database has taken something, or there is nothing for it to take."""
        self._backoff.reset()
        self._told = ""

    def _ask(self, connection: Connection) -> None:
        """Notice that the database is away also while nothing comes that is to be written."""
        with self._asked(), connection.begin():
            connection.execute(text("SELECT 1"))

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Readiness sees how long the database takes to answer."""
        self._writing_s = time.monotonic()
        try:
            yield
        finally:
            self._writing_s = None
        self._answered_s = time.monotonic()

    def _commit(self, connection: Connection, batch: Batch, before: Positions, now: Positions) -> None:
        with self._asked():
            try:
                with connection.begin():
                    written = write(connection, batch)
                    write_positions(connection, before, now)
            except DBAPIError as error:
                if error.connection_invalidated or not of_a_row(error):
                    raise
                written = self._commit_singly(connection, batch, before, now)
        self.rows.update(written)
        self.committed_s = time.monotonic()
        self._well()

    def _commit_singly(self, connection: Connection, batch: Batch, before: Positions, now: Positions) -> Counter[str]:
        """Write what the database takes of ``batch``, and pass over the rest."""
        written: Counter[str] = Counter()
        with connection.begin():
            for one in batch.one_by_one():
                try:
                    with connection.begin_nested():
                        written.update(write(connection, one))
                except DBAPIError as error:
                    if error.connection_invalidated or not of_a_row(error):
                        raise
                    self._unusable(_topic_of(one), "refused", said(error))
            write_positions(connection, before, now)
        return written

    def _batch(self, polled: Sequence[PartitionRecords]) -> Batch:
        told: dict[Topic, list[rows.Row]] = {topic: [] for topic in STARTS}
        for topic, records in polled:
            told[topic] += [row for record in records if (row := self._row(topic, record)) is not None]
        return Batch(told[topics.JOB], told[topics.FINDING], told[topics.SUGGESTION])

    def _row(self, topic: Topic, record: ConsumerRecord) -> rows.Row | None:
        """The row that a message says; a tombstone lets the topic forget, not the history."""
        if record.value is None:
            return None
        try:
            return rows.row(topic, record.value, rows.heard_s(record.timestamp, time.time()))
        except (wire.WireError, RecursionError) as error:
            self._unusable(topic, "undecodable", str(error))
            return None

    def _unusable(self, topic: Topic, why: str, reason: str) -> None:
        if not self.unusable[topic.short, why]:
            logger.warning("passed over a message on %s that is %s: %s", topic.name, why, visible(reason))
        self.unusable[topic.short, why] += 1

    def _unreadable(self, topic: Topic, reason: str) -> None:
        self._unusable(topic, "unreadable", reason)

    def _bus_lost(self, cause: str) -> None:
        self._bus = f"no answer from Kafka: {cause}"
        logger.warning("%s", cause)

    def _jumped(self, jump: Jump) -> None:
        if jump.remade:
            logger.warning("%s was deleted and made again: it is read from its start", jump.topic.name)
            return
        self.gone += jump.first - jump.expected
        logger.warning(
            "%d messages of %s, partition %d, were gone before they were read",
            jump.first - jump.expected, jump.topic.name, jump.partition,
        )  # fmt: skip


def _topic_of(batch: Batch) -> Topic:
    """The topic of a batch of one row."""
    if batch.jobs:
        return topics.JOB
    return topics.FINDING if batch.findings else topics.SUGGESTION
