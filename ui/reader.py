"""The reader: two threads a process that fill the feed from Kafka, one for raw events and one for the rest.

Rule of this file: a door. It looks back a bounded number of messages, falls forward rather than behind, and comes back
by itself when the broker does; what the events mean is the feed's business.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from paceline import topics, wire
from paceline.kafka.clients import BrokerSettings, BusError, consumer
from paceline.kafka.errors import explain
from paceline.settings import SettingError
from paceline.topics import Topic

from .feed import Feed
from .snapshot import Link, Snapshot

#: Messages of each partition to look back at the start: what a page has use for.
DERIVED: Mapping[Topic, int] = {topics.JOB: 20_000, topics.WINDOW: 2_000, topics.FINDING: 5_000, topics.DEADLETTER: 50}
RAW: Mapping[Topic, int] = {topics.OP: 2_000, topics.DEVICE: 50, topics.HOST: 50}
#: Messages of a partition the page may lag behind before it jumps to the newest.
LAG_MAX = 5_000
#: How often to ask for new topics and the lag; how long the broker may take; how long to wait when it does not answer.
ASK_S, ANSWER_S, RETRY_S = 2.0, 3.0, 1.0


class Reader:
    """Follows the topics and answers with snapshots."""

    def __init__(self, settings: BrokerSettings, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock = settings, clock
        self._feed = Feed()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        start = Link("connecting", settings.address, clock())
        self._links = {"raw": start, "derived": start}
        self._threads = [
            threading.Thread(target=self._run, args=(name, looks_back), name=f"reader-{name}", daemon=True)
            for name, looks_back in (("raw", RAW), ("derived", DERIVED))
        ]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop reading and wait for the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def snapshot(self, job: str | None) -> Snapshot:
        """What is known now; of the jobs in full only ``job``, or the first of the list where it is None or gone."""
        with self._lock:
            lines = self._feed.lines()
            chosen = next((line for line in lines if line.name == job), lines[0] if lines else None)
            return Snapshot(
                now_s=self._clock(),
                link=self._link(),
                jobs=lines,
                job=self._feed.view(chosen.cluster, chosen.job) if chosen else None,
                topics=self._feed.topics(),
                nodes=self._feed.nodes(),
                dead_letters=list(self._feed.dead_letters),
                missing=self._feed.sequences.missing,
                node_findings=self._feed.node_findings.episodes(),
            )

    def _link(self) -> Link:
        """The worse of the two threads' links."""
        rank = {"lost": 0, "connecting": 1, "connected": 2}
        return min(self._links.values(), key=lambda link: rank[link.state])

    def _tell(self, name: str, state: str, cause: str = "") -> None:
        with self._lock:
            held = self._links[name]
            since_s = held.since_s if held.state == state else self._clock()
            self._links[name] = Link(state, self._settings.address, since_s, cause)  # type: ignore[arg-type]

    def _run(self, name: str, looks_back: Mapping[Topic, int]) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.closing(consumer(self._settings, client_id=f"paceline-ui-{name}")) as client:
                    self._follow(name, client, looks_back)
            except (BusError, SettingError) as error:
                self._lost(name, str(error))
            except KafkaError as error:
                self._lost(name, str(explain(self._settings.address, error, self._settings.sasl_username)))

    def _lost(self, name: str, cause: str) -> None:
        self._tell(name, "lost", cause)
        self._stop.wait(RETRY_S)

    def _follow(self, name: str, client: KafkaConsumer, looks_back: Mapping[Topic, int]) -> None:
        asked = -ASK_S
        while not self._stop.is_set():
            if time.monotonic() - asked >= ASK_S:
                self._join(client, looks_back)
                self._measure(client)
                self._tell(name, "connected")
                asked = time.monotonic()
            if not client.assignment():
                self._stop.wait(0.2)
                continue
            for partition, records in client.poll(timeout_ms=250, max_records=500).items():
                self._take(topics.BY_NAME[partition.topic], records)

    def _join(self, client: KafkaConsumer, looks_back: Mapping[Topic, int]) -> None:
        """Follow the partitions of topics that have come into being."""
        held = client.assignment()
        there = client.topics()
        fresh: list[TopicPartition] = []
        for topic in looks_back:
            for number in (client.partitions_for_topic(topic.name) or ()) if topic.name in there else ():
                fresh.append(TopicPartition(topic.name, number))
        fresh = [partition for partition in fresh if partition not in held]
        if not fresh:
            return
        client.assign([*held, *fresh])
        first = client.beginning_offsets(fresh, timeout_ms=int(ANSWER_S * 1000))
        end = client.end_offsets(fresh, timeout_ms=int(ANSWER_S * 1000))
        for partition in fresh:
            back = looks_back[topics.BY_NAME[partition.topic]]
            client.seek(partition, max(first[partition], end[partition] - back))

    def _measure(self, client: KafkaConsumer) -> None:
        """Learn each topic's lag, which also proves that the broker answers; jump forward where it is hopeless."""
        held = client.assignment()
        if not held:
            return
        lag: dict[str, int] = {}
        for partition, end in client.end_offsets(list(held), timeout_ms=int(ANSWER_S * 1000)).items():
            short = topics.BY_NAME[partition.topic].short
            behind = max(0, end - client.position(partition))
            if behind > LAG_MAX and partition.topic == topics.OP.name:
                client.seek(partition, end)
                with self._lock:
                    self._feed.skip(short, behind)
                behind = 0
            lag[short] = lag.get(short, 0) + behind
        with self._lock:
            for short, behind in lag.items():
                self._feed.traffic[short].lag = behind

    def _take(self, topic: Topic, records: list[object]) -> None:
        for record in records:
            value, at_s = record.value, record.timestamp / 1000  # type: ignore[attr-defined]
            if value is None:
                continue
            try:
                event = wire.decode(topic, value)
                with self._lock:
                    self._feed.update(topic.short, event, at_s)
            except (wire.WireError, ValueError, OverflowError) as error:
                with self._lock:
                    self._feed.unusable(topic.short, str(error))
