"""The one consumer loop: topics followed from a chosen start, through outages, in the caller's own thread.

Rule of this file: a door without threads. Its reader calls ``poll`` again and again, and what the messages mean is the
reader's business. An outage ends nothing: it is reported once, and the brokers are tried again until they answer.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol

from kafka import KafkaConsumer, TopicPartition, errors

from paceline.backoff import Backoff
from paceline.kafka import compat
from paceline.kafka.clients import consumer
from paceline.kafka.errors import BusError, explained, refused
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.start_budget import StartBudget, StartReading, shares
from paceline.settings import SettingError
from paceline.topics import Topic
from paceline.visible import visible

#: How long a poll waits for messages; how often new topics and the lag are asked for; how long the answer may take;
#: how long a broker may hold a fetch back while nothing comes. (The embedded one looks four times in it: that is what
#: a message may wait there.) A reader sees that it should stop once its poll is over, and each poll costs 0.3 ms.
POLL_S, ASK_S, ANSWER_S, FETCH_S = 1.0, 4.0, 5.0, 1.0
#: How long a poll waits in a command that somebody ends by Ctrl-C.
PROMPT_S = 0.25
#: The same where little is expected, and how long a broker holds a fetch back then: shorter than an answer may take.
SELDOM_ASK_S, SELDOM_FETCH_S = 10.0, 2.5
#: Messages that one poll hands on at most.
MOST_MESSAGES = 500
#: The first and the longest wait between two attempts to connect.
RETRY_FIRST_S, RETRY_CAP_S = 0.5, 2.0


@dataclass(frozen=True)
class Start:
    """Where a partition is first read: so many messages or seconds before its end; all of it where neither is said."""

    messages: int | None = None
    seconds: float | None = None


BEGINNING = Start()
#: What is published from now on. A partition that comes into being later holds nothing else, and is read whole.
NOW = Start(messages=0)


class ConsumerRecord(Protocol):
    """What is read of kafka-python's record of this name; ``timestamp`` is in milliseconds."""

    @property
    def topic(self) -> str: ...  # noqa: D102
    @property
    def partition(self) -> int: ...  # noqa: D102
    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def timestamp(self) -> int: ...  # noqa: D102
    @property
    def key(self) -> bytes | None: ...  # noqa: D102
    @property
    def value(self) -> bytes | None: ...  # noqa: D102


class PartitionRecords(NamedTuple):
    """Records of one partition, in their order."""

    topic: Topic
    records: Sequence[ConsumerRecord]


#: A partition: its topic's name and its number.
Place = tuple[str, int]


class Jump(NamedTuple):
    """Reading could not go on at ``expected``: the partition holds ``first`` to before ``end``, and ``first`` is next.

    ``remade``: the brokers do not know what was read, for the topic is another one or they have forgotten it.
    """

    topic: Topic
    partition: int
    expected: int
    first: int
    end: int

    @property
    def remade(self) -> bool:
        """Whether what was read before is of another life of the topic: how much is missing cannot be reported."""
        return self.expected > self.end


class Follower:
    """Follows the topics of ``starts``, those that come into being later too. One thread may use it.

    After an outage reading starts as at first, for readers that drop repeats; with ``resume`` it goes on where it was,
    or with all there is where the brokers have lost that place. A topic that is deleted and made again is read whole
    (brokers before Apache Kafka 2.8 do not say that it is another one). Where a topic of ``most_behind`` is further
    behind, the rest is passed over and ``on_skip`` told how much. ``on_lost`` is told the cause of an outage once, and
    again what waiting cannot fix (a refused login, a topic that may not be seen: the others are read all the same, and
    it is asked for again until it may be); ``on_unreadable`` a topic and a reason for every batch passed over
    because it cannot be unpacked or is too large then. A wait for brokers or topics ends as soon as ``stop`` is set.
    ``places`` are offsets to go on from, with ``resume``, in topics that had ``topic_ids``; ``on_jump`` is told where
    one is not there any more, and where messages are deleted before they are read.
    Where ``budget`` is given, a start reads no more than that of what the topics hold, the newest of each partition;
    ``on_skip`` is told what is left out. After an outage with ``resume``, and from ``places`` on, all is read.
    Where the brokers turn out to be another cluster, its topics are joined as at first (those "from now on" whole)
    and nothing of it is handed on before ``on_jump`` was told of each place, and ``on_cluster`` in a line for a person:
    then is the time to forget what was read of the other one.
    ``seldom`` is for a topic that every node follows and on which little comes: it costs the brokers a fifth of the
    requests, messages come no later, and new topics, outages and the lag are noticed within ten seconds.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        starts: Mapping[Topic, Start],
        client_id: str,
        *,
        resume: bool = False,
        seldom: bool = False,
        most_behind: Mapping[Topic, int] | None = None,
        on_lost: Callable[[str], None] = lambda cause: None,
        on_skip: Callable[[Topic, int], None] = lambda topic, messages: None,
        on_unreadable: Callable[[Topic, str], None] = lambda topic, reason: None,
        on_jump: Callable[[Jump], None] = lambda jump: None,
        on_cluster: Callable[[str], None] = lambda cause: None,
        budget: StartBudget | None = None,
        places: Mapping[Place, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._settings, self._starts, self._client_id, self._resume = settings, starts, client_id, resume
        self._seldom, self._most_behind = seldom, most_behind or {}
        self._on_lost, self._on_skip, self._on_unreadable = on_lost, on_skip, on_unreadable
        self._on_jump, self._on_cluster, self._budget = on_jump, on_cluster, budget
        self._stop = stop or threading.Event()
        self._topics = {topic.name: topic for topic in starts}
        self._backoff = Backoff(RETRY_FIRST_S, RETRY_CAP_S, Random())
        self._client: KafkaConsumer | None = None
        self._ask_at = self._retry_at = 0.0
        #: The next offset of each partition that was ever followed, and its end when it was joined.
        self._next = {TopicPartition(*place): offset for place, offset in (places or {}).items()}
        #: Whether the topics were looked at once, or ``places`` say so: what comes into being from then on is new.
        self._began = bool(self._next)
        self._ends: dict[TopicPartition, int] = {}
        #: The partitions that the client goes on with elsewhere, and where it was: not reported yet.
        self._resets: dict[TopicPartition, int] = {}
        #: The partitions that are read by the budget, and what was read of them.
        self._budgeted: set[TopicPartition] = set()
        self._reading: StartReading | None = None
        #: When the messages that are worked on now were handed on; None: none are.
        self._handed_s: float | None = None
        #: The cluster that was joined; empty where the brokers do not tell.
        self._cluster, self._met_another = "", False
        #: What each topic's id was when it was last there.
        self._ids = dict(topic_ids or {})
        self.state: Literal["connecting", "connected", "refused", "lost"] = "connecting"
        #: Why the brokers are lost, or what they refuse, in a line for a person; empty while all is well.
        self.cause = ""
        #: The kinds of causes that were told since the brokers answered.
        self._told: set[str] = set()
        #: Messages of each followed topic still to be read, as of the last question.
        self.lag: dict[Topic, int] = {}
        #: Whether all that the topics held when they were joined has been handed on.
        self.caught_up = False

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the brokers; the next ``poll`` would connect again."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(BusError), explained(self._settings):
                client.close()

    @property
    def cluster(self) -> str:
        """The id of the cluster that is followed; empty where the brokers do not tell."""
        return self._cluster

    def follows(self, topic: Topic) -> bool:
        """Whether ``topic`` is there and nothing of it is missed any more."""
        return topic in self.lag

    @property
    def nothing_there(self) -> bool:
        """Whether the brokers answer and none of the topics has been made yet."""
        return self.state == "connected" and not self.lag

    def places(self) -> dict[Place, int]:
        """The next offset of each partition that is or was followed, as far as what ``poll`` has handed on."""
        return {(at.topic, at.partition): offset for at, offset in self._next.items()}

    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that are there, where the brokers tell them."""
        return dict(self._ids)

    def ends(self) -> dict[Place, int]:
        """Where each followed partition ends now, asked of the brokers.

        Raises:
            BusError: they do not answer.
        """
        if self._client is None:
            raise BusError(self._settings.address, self.cause or "not connected", "wait until it answers")
        with explained(self._settings):
            ends = compat.offsets(self._client.end_offsets, list(self._client.assignment()), ANSWER_S)
        return {(at.topic, at.partition): offset for at, offset in ends.items()}

    def connect(self) -> KafkaConsumer:
        """Connect and join the topics that are there: what is published after this is not missed.

        Raises:
            BusError: no broker can be reached; ``poll`` would try again.
            SettingError: a certificate file is missing.
        """
        self._ends.clear()
        self._resets.clear()
        self._budgeted.clear()
        self._handed_s = None
        options: dict[str, Any] = {"fetch_max_wait_ms": int((SELDOM_FETCH_S if self._seldom else FETCH_S) * 1000)}
        self._client = consumer(self._settings, client_id=self._client_id, from_beginning=self._resume, **options)
        compat.bound(self._client, lambda name, reason: self._on_unreadable(self._topics[name], reason))
        if self._resume:
            compat.on_reset(self._client, self._resets.__setitem__)
        try:
            with explained(self._settings):
                self._ask(self._client)
        except BusError:
            self.close()
            raise
        return self._client

    def poll(self, timeout_s: float = POLL_S) -> list[PartitionRecords]:
        """What has come, waiting up to ``timeout_s`` for it; nothing while the brokers are away."""
        wait_s = self._retry_at - time.monotonic()
        if self._client is None and wait_s > 0:
            self._stop.wait(min(wait_s, timeout_s))
            return []
        try:
            return self._poll_connected(timeout_s)
        except (BusError, SettingError) as error:
            self._lose(error)
            return []

    def _poll_connected(self, timeout_s: float) -> list[PartitionRecords]:
        if self._client is not None:
            try:
                with explained(self._settings):
                    return self._poll(self._client, timeout_s)
            except BusError:
                # Why a connection broke, the next attempt tells: a token may have ended on its way, and the next holds.
                self.close()
        client = self.connect()
        with explained(self._settings):
            return self._poll(client, timeout_s)

    def _poll(self, client: KafkaConsumer, timeout_s: float) -> list[PartitionRecords]:
        if time.monotonic() >= self._ask_at:
            self._ask(client)
        if self._met_another:
            self._met_another = False
            return []
        if not client.assignment():
            self._ask_at = self._ask_at if self._seldom or self.state == "refused" else 0.0
            self._stop.wait(timeout_s)
            return []
        began_s = time.monotonic()
        may_catch_up = not self.caught_up and self.state != "refused"
        # All may have been read already, as of an empty topic: who asks for all there is must not wait for a message.
        wait_s = 0.0 if may_catch_up and self._at_ends(client) else timeout_s
        polled = client.poll(timeout_ms=int(wait_s * 1000), max_records=MOST_MESSAGES)
        if self._cluster != (compat.cluster_id(client) or self._cluster):
            self._ask_at = 0.0  # Of which of the two clusters these are cannot be told.
            return []
        self._report_deleted(client, polled)
        for partition, records in polled.items():
            self._next[partition] = records[-1].offset + 1
        now_s, since_s = time.monotonic(), began_s if self._handed_s is None else self._handed_s
        self._handed_s = now_s if polled else None
        self._spend(client, polled, now_s - since_s)
        if may_catch_up:
            self.caught_up = self._at_ends(client)
        return [PartitionRecords(self._topics[partition.topic], records) for partition, records in polled.items()]

    def _report_deleted(self, client: KafkaConsumer, polled: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        """Report what was deleted before it was read; the client goes on with the first message that there is."""
        gone = list(self._resets.keys() & client.assignment())
        if gone:
            firsts = compat.offsets(client.beginning_offsets, gone, ANSWER_S)
            ends = compat.offsets(client.end_offsets, gone, ANSWER_S)
            for at in gone:
                # More may have been deleted since, of what has come.
                first = min([firsts[at], *(record.offset for record in polled.get(at, ())[:1])])
                if first > self._resets[at]:
                    self._on_jump(Jump(self._topics[at.topic], at.partition, self._resets[at], first, ends[at]))
        self._resets.clear()

    def _at_ends(self, client: KafkaConsumer) -> bool:
        """Whether all that the topics held when they were joined has been read."""
        return all(_position(client, partition) >= end for partition, end in self._ends.items())

    def _lose(self, error: BusError | SettingError) -> None:
        self.close()
        # Brokers that are away may be reset, refused and silent by turns: waiting mends it all, and it is one outage.
        # What waiting cannot mend is told apart by its mend, for the client may word the same cause anew each time.
        kind = str(error) if isinstance(error, SettingError) else error.mend if error.permanent else ""
        told = kind in self._told
        self._told.add(kind)
        self.state, self.cause, self.caught_up = "lost", str(error), False
        self._retry_at = time.monotonic() + self._backoff.next_s()
        if not told:
            self._on_lost(self.cause)

    def _ask(self, client: KafkaConsumer) -> None:
        """Learn the lag and the new partitions, which also proves that the brokers answer."""
        present = compat.topics(client, ANSWER_S)
        self._leave_cluster(client)
        self._leave_remade(client)
        assigned = client.assignment()
        added = [
            partition
            for topic in self._starts
            for number in ((client.partitions_for_topic(topic.name) or ()) if topic.name in present else ())
            if (partition := TopicPartition(topic.name, number)) not in assigned
        ]
        if added:
            self._join(client, added)
        missing = [name for name in self._topics if name not in present]
        unseen = compat.refused_topics(client, missing, ANSWER_S) if missing else set()
        self._measure(client)
        self._ask_at = time.monotonic() + (SELDOM_ASK_S if self._seldom else ASK_S)
        self._began = True
        self._backoff.reset()
        if unseen:
            self._refuse(unseen)
        else:
            self.state, self.cause = "connected", ""
            self._told.clear()

    def _refuse(self, names: set[str]) -> None:
        """The brokers answer, and do not let us see some topics."""
        self.state, self.cause, self.caught_up = "refused", str(refused(self._settings.address, names)), False
        told = self.cause in self._told
        self._told = {self.cause}
        if not told:
            self._on_lost(self.cause)

    def _leave_cluster(self, client: KafkaConsumer) -> None:
        """Forget every place where the brokers are another cluster than the one that was joined."""
        before, now = self._cluster, compat.cluster_id(client)
        self._cluster = now or before
        if not before or self._cluster == before:
            return
        for at, offset in self._next.items():
            if at.topic in self._topics:  # ``places`` may be of others, too.
                self._on_jump(Jump(self._topics[at.topic], at.partition, offset, 0, -1))
        self._next, self._ends, self._ids = {}, {}, {}
        self._budgeted.clear()
        self.caught_up, self._met_another = False, True
        client.assign([])
        self._on_cluster(
            f"Kafka at {self._settings.address} is another cluster now ({visible(now)}, was {visible(before)}): "
            "its topics are read from the start"
        )

    def _leave_remade(self, client: KafkaConsumer) -> None:
        """Forget the place in a topic that was deleted and made again: it is another one, and joined as such."""
        ids = {name: now for name in self._topics if (now := compat.topic_id(client, name))}
        remade = {name for name, now in ids.items() if self._ids.get(name, now) != now}
        self._ids.update(ids)
        if remade:
            for at, offset in self._next.items():
                if at.topic in remade:
                    self._on_jump(Jump(self._topics[at.topic], at.partition, offset, 0, -1))
            self._next = {at: offset for at, offset in self._next.items() if at.topic not in remade}
            self._ends = {at: end for at, end in self._ends.items() if at.topic not in remade}
            self._budgeted = {at for at in self._budgeted if at.topic not in remade}
            client.assign([at for at in client.assignment() if at.topic not in remade])

    def _join(self, client: KafkaConsumer, added: list[TopicPartition]) -> None:
        client.assign([*client.assignment(), *added])
        firsts = compat.offsets(client.beginning_offsets, added, ANSWER_S)
        ends = compat.offsets(client.end_offsets, added, ANSWER_S)
        now_ms = time.time() * 1000.0
        times = {
            partition: int(now_ms - seconds * 1000)
            for partition in added
            if (seconds := self._starts[self._topics[partition.topic]].seconds) is not None
        }
        at_times = client.offsets_for_times(times, timeout_ms=int(ANSWER_S * 1000)) if times else {}
        if not self._budgeted:
            self._reading = None if self._budget is None else StartReading(self._budget)
        self._budgeted |= {partition for partition in added if not (self._resume and partition in self._next)}
        for partition in added:
            at = at_times.get(partition)
            offset = self._first(partition, firsts[partition], ends[partition], None if at is None else at.offset)
            client.seek(partition, offset)
            self._next[partition] = offset
        self._ends.update(ends)
        self.caught_up = False
        self._pass_over(client)

    def _spend(
        self, client: KafkaConsumer, polled: Mapping[TopicPartition, Sequence[ConsumerRecord]], took_s: float
    ) -> None:
        """Count what was read of the budget, and keep to it."""
        read = [record for at, records in polled.items() if at in self._budgeted for record in records]
        if self._reading is not None and read:
            size = sum(len(record.value or b"") + len(record.key or b"") for record in read)
            self._reading.read(len(read), size, took_s)
            self._pass_over(client)

    def _pass_over(self, client: KafkaConsumer) -> None:
        """Leave out the oldest of what the budget has no room for."""
        remaining = {at: left for at in self._budgeted if (left := self._ends[at] - self._next[at]) > 0}
        self._budgeted = set(remaining)
        most = sum(remaining.values()) if self._reading is None else self._reading.allows(sum(remaining.values()))
        skipped: Counter[Topic] = Counter()
        for at, share in shares(remaining, most).items():
            if share < remaining[at]:
                self._next[at] = self._ends[at] - share
                client.seek(at, self._next[at])
                skipped[self._topics[at.topic]] += remaining[at] - share
        for topic, messages in skipped.items():
            self._on_skip(topic, messages)

    def _first(self, partition: TopicPartition, first: int, end: int, at_time: int | None) -> int:
        """The offset to start from, in a partition that holds ``first`` to ``end``."""
        held = self._next.get(partition)
        if self._resume and held is not None:
            # The embedded broker tells an end that is a little early; the topic is the same one, and so is the place.
            if first <= held and (held <= end or partition.topic in self._ids):
                return held
            self._on_jump(Jump(self._topics[partition.topic], partition.partition, held, first, end))
            return first
        start = self._starts[self._topics[partition.topic]]
        if start.seconds is not None:
            return max(first, end if at_time is None else at_time)
        if start.messages is None or (start == NOW and self._began):
            return first
        return max(first, end - start.messages)

    def _measure(self, client: KafkaConsumer) -> None:
        """Learn each topic's lag, and jump forward where it is hopeless."""
        lag: Counter[Topic] = Counter()
        assigned = list(client.assignment())
        ends = compat.offsets(client.end_offsets, assigned, ANSWER_S) if assigned else {}
        for partition, end in ends.items():
            topic = self._topics[partition.topic]
            behind = max(0, end - _position(client, partition))
            if behind > self._most_behind.get(topic, behind):
                client.seek(partition, end)
                self._next[partition] = end
                self._on_skip(topic, behind)
                behind = 0
            lag[topic] += behind
        self.lag = dict(lag)


def _position(client: KafkaConsumer, partition: TopicPartition) -> int:
    position: int | None = client.position(partition, timeout_ms=int(ANSWER_S * 1000))
    if position is None:
        raise errors.KafkaTimeoutError(f"timed out: no position in {partition.topic}")
    return position
