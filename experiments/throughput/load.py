"""Messages onto the bus: as fast as they go, or at the pace of the jobs that send them.

Rule of this file: the sidecar's producer settings; few values are held at a time. A paced load is not compressed: one
process here would compress for thousands of nodes, and measure itself. While nothing is due, what comes is encoded.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from paceline import columns, topics, wire
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.recording import Writer
from paceline.timed_event import TimedEvent

from .jobs import Load, messages

#: The client compresses with a single thread, and what is pre-loaded waits for it in memory.
FLUSH_S = 300.0
#: Messages that are encoded ahead at most: the nodes of one step of the largest load, and some.
AHEAD = 15_000
#: Messages due within so long are sent together.
GRAIN_S = 0.005
#: One-row events for the peers: jobs x ranks, keyed by both.
PEER_JOBS, PEER_RANKS = 8, 128

Progress = Callable[[int], None]


@dataclass
class Sent:
    """What went onto the bus, and when the last message that has a step of a job did.

    ``late_s`` is how far behind its moment the worst message was sent, ``acknowledged_s`` the longest time from there
    until the broker had it: large where not the worker but the load was too slow. ``processor_s``: what it used itself.
    """

    began_s: float
    rank_steps: int = 0
    messages: int = 0
    bytes: int = 0
    late_s: float = 0.0
    acknowledged_s: float = 0.0
    processor_s: float = 0.0
    steps: dict[tuple[str, int], float] = field(default_factory=dict)


class _Encoded(NamedTuple):
    """A message as it travels."""

    due_s: float
    job: str
    steps: range
    rank_steps: int
    data: bytes


def preload(settings: BrokerSettings, load: Load, progress: Progress) -> Sent:
    """Everything at once, under times that are already past."""
    sent = Sent(began_s=time.time() - load.seconds - 1.0)
    _send(settings, sent, _encoded(load, sent.began_s), progress, compression_type="gzip")
    return sent


def paced(settings: BrokerSettings, load: Load, progress: Progress) -> Sent:
    """Every message at its moment."""
    sent = Sent(began_s=time.time() + 1.0)
    _send(settings, sent, _at_their_moments(load, sent), progress, compression_type=None)
    return sent


def record(path: str, load: Load) -> Sent:
    """Everything into a recording."""
    sent = Sent(began_s=1.7e9)
    writer = Writer(path)
    try:
        for message in messages(load, sent.began_s):
            writer.write_event(TimedEvent(sent.began_s + message.due_s, topics.OP, message.event))
            sent.rank_steps += columns.rows(message.event.rank)
            sent.messages += 1
    finally:
        writer.close()
    return sent


def _encoded(load: Load, began_s: float) -> Iterator[_Encoded]:
    for due_s, steps, event in messages(load, began_s):
        yield _Encoded(due_s, event.job, steps, columns.rows(event.rank), wire.encode(event))


def _at_their_moments(load: Load, sent: Sent) -> Iterator[_Encoded]:
    """Each message when it is due."""
    source, ahead = _encoded(load, sent.began_s), deque[_Encoded]()

    def left_s() -> float:
        return sent.began_s + ahead[0].due_s - time.time()

    more = True
    while more or ahead:
        while more and (not ahead or (len(ahead) < AHEAD and left_s() > GRAIN_S)):
            following = next(source, None)
            more = following is not None
            if following is not None:
                ahead.append(following)
        if not ahead:
            return
        if (left := left_s()) > GRAIN_S:
            time.sleep(left)
        sent.late_s = max(sent.late_s, -left)
        yield ahead.popleft()


def _send(
    settings: BrokerSettings,
    sent: Sent,
    due: Iterator[_Encoded],
    progress: Progress,
    **options: Any,
) -> None:
    producer = clients.producer(settings, "bench-load", **options)
    told, used = 0.0, time.process_time()

    def acknowledged(metadata: Any, began_s: float) -> None:
        sent.acknowledged_s = max(sent.acknowledged_s, time.time() - began_s)

    try:
        for message in due:
            now_s = time.time()
            future = producer.send(topics.OP.name, key=message.job.encode(), value=message.data)
            future.add_callback(partial(acknowledged, began_s=now_s))
            for step in message.steps:
                sent.steps[message.job, step] = now_s
            sent.rank_steps += message.rank_steps
            sent.messages += 1
            sent.bytes += len(message.data)
            if message.due_s >= told + 5.0:
                told = message.due_s
                progress(sent.rank_steps)
        producer.flush(FLUSH_S)
    finally:
        producer.close()
    sent.processor_s = time.process_time() - used


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
