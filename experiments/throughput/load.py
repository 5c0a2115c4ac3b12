"""Messages onto the bus: as fast as they go, or at the pace of the jobs that send them.

Rule of this file: the sidecar's producer settings; values are made one at a time and never kept. A paced load is not
compressed: one process here would compress for hundreds of nodes, and measure itself.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from paceline import topics, wire
from paceline.events import CollectiveTimings
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics

from .jobs import Load, messages

#: The client compresses with a single thread, and what is pre-loaded waits for it in memory.
FLUSH_S = 300.0
#: One-row events for the peers: jobs x ranks, keyed by both.
PEER_JOBS, PEER_RANKS = 8, 128


@dataclass
class Sent:
    """What went onto the bus, and when the last message that has a step of a job did.

    ``late_s`` is how far behind its moment the worst message was sent, ``acknowledged_s`` the longest time from there
    until the broker had it: large where not the worker but the load was too slow.
    """

    began_s: float
    rows: int = 0
    messages: int = 0
    late_s: float = 0.0
    acknowledged_s: float = 0.0
    steps: dict[tuple[str, int], float] = field(default_factory=dict)


def preload(settings: BrokerSettings, load: Load, progress: Callable[[int], None]) -> Sent:
    """Everything at once, under times that are already past."""
    sent = Sent(began_s=time.time() - load.seconds - 1.0)
    _send(settings, load, sent, lambda due_s: None, progress, compression_type="gzip")
    return sent


def paced(settings: BrokerSettings, load: Load, progress: Callable[[int], None]) -> Sent:
    """Every message at its moment."""
    sent = Sent(began_s=time.time() + 1.0)

    def wait(due_s: float) -> None:
        left = sent.began_s + due_s - time.time()
        if left > 0:
            time.sleep(left)
        sent.late_s = max(sent.late_s, -left)

    _send(settings, load, sent, wait, progress, compression_type=None)
    return sent


def _send(
    settings: BrokerSettings,
    load: Load,
    sent: Sent,
    wait: Callable[[float], None],
    progress: Callable[[int], None],
    **options: Any,
) -> None:
    producer = clients.producer(settings, "bench-load", **options)
    told = 0.0

    def acknowledged(metadata: Any, began_s: float) -> None:
        sent.acknowledged_s = max(sent.acknowledged_s, time.time() - began_s)

    try:
        for message in messages(load, sent.began_s):
            event = message.event
            topic = topics.COLLECTIVE if isinstance(event, CollectiveTimings) else topics.OP
            data = wire.encode(event)
            wait(message.due_s)
            now_s = time.time()
            future = producer.send(topic.name, key=event.job.encode(), value=data)
            future.add_callback(partial(acknowledged, began_s=now_s))
            sent.steps.update(dict.fromkeys(((event.job, step) for step in message.steps), now_s))
            sent.rows += len(event.rank)
            sent.messages += 1
            if message.due_s >= told + 5.0:
                told = message.due_s
                progress(sent.rows)
        producer.flush(FLUSH_S)
    finally:
        producer.close()


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
