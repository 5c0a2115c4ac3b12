"""Messages onto the bus as fast as they go, or into a recording.

Rule of this file: the sidecar's producer settings; values are made one at a time and never kept.
"""

import contextlib
import gzip
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from paceline import columns, topics, wire
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.recording import Writer

from .jobs import Load, messages

#: The client compresses with a single thread, and what is pre-loaded waits for it in memory.
FLUSH_S = 300.0
#: One-row events for the peers: jobs x ranks, keyed by both.
PEER_JOBS, PEER_RANKS = 8, 128

Progress = Callable[[int], None]


@dataclass
class Sent:
    """What went onto the bus, and when the last message that has a step of a job did.

    ``late_s`` is how far behind its moment the worst message was sent, ``acknowledged_s`` the longest time from there
    until the broker had it: large where not the worker but the load was too slow. ``processor_s``: what it used itself.
    ``packed_bytes`` is what ``bytes`` are on their way from nodes that send one message a second: producers compress
    each batch. Counted in recordings alone.
    """

    began_s: float
    rank_steps: int = 0
    messages: int = 0
    bytes: int = 0
    packed_bytes: int = 0
    late_s: float = 0.0
    acknowledged_s: float = 0.0
    processor_s: float = 0.0
    steps: dict[tuple[str, int], float] = field(default_factory=dict)

    def note(self, messages: "Sequence[Encoded]", now_s: float) -> None:
        """They were sent."""
        for message in messages:
            for step in message.steps:
                self.steps[message.job, step] = now_s
            self.rank_steps += message.rank_steps
            self.messages += 1
            self.bytes += len(message.data)


class Encoded(NamedTuple):
    """A message as it travels."""

    due_s: float
    job: str
    steps: range
    rank_steps: int
    data: bytes


def encoded(load: Load, began_s: float) -> Iterator[Encoded]:
    """Every message of ``load``, in the order of time."""
    for due_s, steps, event in messages(load, began_s):
        yield Encoded(due_s, event.job, steps, columns.rows(event.rank), wire.encode(event))


def preload(settings: BrokerSettings, load: Load, progress: Progress) -> Sent:
    """Everything at once, under times that are already past."""
    sent = Sent(began_s=time.time() - load.seconds - 1.0)
    producer, told = clients.producer(settings, "bench-load"), 0.0
    try:
        for message in encoded(load, sent.began_s):
            producer.send(topics.OP.name, key=message.job.encode(), value=message.data)
            sent.note([message], time.time())
            if message.due_s >= told + 10.0:
                told = message.due_s
                progress(sent.rank_steps)
        producer.flush(FLUSH_S)
    finally:
        producer.close()
    return sent


def record(path: str, load: Load) -> Sent:
    """Everything into a recording."""
    sent = Sent(began_s=1.7e9)
    with contextlib.closing(Writer(path)) as writer:
        for message in encoded(load, sent.began_s):
            writer.write(topics.OP.name, message.job, int(1000 * (sent.began_s + message.due_s)), message.data)
            sent.note([message], sent.began_s + message.due_s)
            sent.packed_bytes += len(gzip.compress(message.data))
    return sent


def rows(number: int) -> Iterator[tuple[bytes, bytes]]:
    """One-row events, key and value: what a collector without batches would send."""
    encode = msgspec.json.Encoder().encode
    for index in range(number):
        rank, job = index % PEER_RANKS, index // PEER_RANKS % PEER_JOBS
        step = index // (PEER_RANKS * PEER_JOBS)
        name = f"job-{job}"
        row = {"job": name, "rank": rank, "step": step, "time_ms": 1_700_000_000_000 + 100 * step, "wait_s": 0.0123}
        yield f"{name}/{rank}".encode(), encode(row)


def preload_rows(settings: BrokerSettings, topic: str, number: int) -> None:
    """``number`` one-row messages on ``topic``, which is made with as many partitions as ours have."""
    ensure_topics(settings, [topics.Topic(topic, bytes, "none", "raw", topics.HOUR_MS)])
    producer = clients.producer(settings, "bench-rows", linger_ms=50)
    try:
        for key, value in rows(number):
            producer.send(topic, key=key, value=value)
        producer.flush(FLUSH_S)
    finally:
        producer.close()
