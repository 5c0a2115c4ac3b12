"""The consumer: one thread that fills the memory from the bus, from as far back as it holds, and again after a loss.

Rule of this file: a door. What restarts with the service is read from the bus again; nothing is stored beside it.
"""

import contextlib
import logging
import threading
import time

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from paceline import topics, wire
from paceline.kafka.clients import BrokerSettings, BusError, consumer
from paceline.kafka.errors import explain
from paceline.settings import SettingError
from paceline.topics import Topic

from .history import SAMPLES
from .memory import Memory
from .subjects import NODES_S

logger = logging.getLogger("paceline.forecaster")

#: How far back each topic is read at the start, in seconds; None: all of it.
BACK_S: dict[Topic, float | None] = {topics.JOB: None, topics.WINDOW: SAMPLES * NODES_S, topics.DEVICE: 900.0}
ASK_S, ANSWER_S, RETRY_S = 2.0, 5.0, 1.0


class EventConsumer:
    """Reads ``job``, ``window`` and ``device`` into a memory."""

    def __init__(self, settings: BrokerSettings, memory: Memory) -> None:
        self._settings, self._memory = settings, memory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event-consumer", daemon=True)
        self._ends: dict[TopicPartition, int] = {}
        self.state = "connecting to the broker"

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading and wait for the thread."""
        self._stop.set()
        self._thread.join(15)

    def waits(self) -> str | None:
        """What the memory still lacks, or None when it has caught up."""
        return self.state or None

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.closing(consumer(self._settings, client_id="paceline-forecaster")) as client:
                    self._follow(client)
            except (BusError, SettingError) as error:
                self._lost(str(error))
            except KafkaError as error:
                self._lost(str(explain(self._settings.address, error, self._settings.sasl_username)))

    def _lost(self, cause: str) -> None:
        if self.state != cause:
            logger.warning("%s", cause)
        self.state = cause
        self._stop.wait(RETRY_S)

    def _follow(self, client: KafkaConsumer) -> None:
        self._ends.clear()
        asked = -ASK_S
        while not self._stop.is_set():
            if time.monotonic() - asked >= ASK_S:
                self._join(client)
                asked = time.monotonic()
            if not client.assignment():
                self._stop.wait(0.2)
                continue
            for partition, records in client.poll(timeout_ms=250, max_records=500).items():
                self._take(topics.BY_NAME[partition.topic], records)
            if self.state and all(client.position(part) >= end for part, end in self._ends.items()):
                self.state = ""
                logger.info("caught up: %d series", len(self._memory))

    def _join(self, client: KafkaConsumer) -> None:
        """Follow the partitions of topics that have come into being, from where the memory begins."""
        there, held = client.topics(), client.assignment()
        fresh = [
            partition
            for topic in BACK_S
            for number in ((client.partitions_for_topic(topic.name) or ()) if topic.name in there else ())
            if (partition := TopicPartition(topic.name, number)) not in held
        ]
        if not fresh:
            return
        client.assign([*held, *fresh])
        limit = int(ANSWER_S * 1000)
        first, ends = client.beginning_offsets(fresh, timeout_ms=limit), client.end_offsets(fresh, timeout_ms=limit)
        now_ms = time.time() * 1000.0
        wanted = {part: int(now_ms - back * 1000) for part in fresh if (back := BACK_S[topics.BY_NAME[part.topic]])}
        found = client.offsets_for_times(wanted) if wanted else {}
        for partition in fresh:
            at = found.get(partition)
            start = first[partition] if partition not in wanted else ends[partition] if at is None else at.offset
            client.seek(partition, max(start, first[partition]))
        self._ends.update(ends)

    def _take(self, topic: Topic, records: list[object]) -> None:
        for record in records:
            value = record.value  # type: ignore[attr-defined]
            if value is None:
                continue
            try:
                self._memory.update(wire.decode(topic, value))
            except (wire.WireError, ValueError, OverflowError) as error:
                if not self._memory.counts.undecodable:
                    logger.warning("an event that cannot be used on %s: %s", topic.name, error)
                self._memory.counts.undecodable += 1
