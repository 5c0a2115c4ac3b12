"""Messages onto the bus at the pace of the jobs that send them: one process in place of thousands of sidecars.

Rule of this file: a door that costs next to nothing while it is measured. Messages are encoded and put into batches
ahead, while nothing is due, and not compressed; sidecars have their own processors for both. Those due within
``GRAIN_S`` leave together, when the last of them is due.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import BatchBuilder

from paceline import topics
from paceline.kafka.settings import BrokerSettings

from .jobs import Load
from .load import Encoded, Progress, Sent, encoded

GRAIN_S = 0.02
#: Messages that are ready ahead at most: the nodes of one step of the largest load, and some.
AHEAD = 15_000
#: Largest batch, as brokers take it by default; room for what a record adds to its message.
MOST_BYTES = 900_000
_RECORD_BYTES = 100
_partition = DefaultPartitioner()


class _Batch(NamedTuple):
    """Messages of one job that leave together."""

    due_s: float
    messages: list[Encoded]
    builder: BatchBuilder


def paced(settings: BrokerSettings, load: Load, progress: Progress) -> Sent:
    """Every message at its moment."""
    sent = Sent(began_s=time.time() + 1.0)
    used = time.process_time()
    asyncio.run(_send(settings, load, sent, progress))
    sent.processor_s = time.process_time() - used
    return sent


async def _send(settings: BrokerSettings, load: Load, sent: Sent, progress: Progress) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.address, acks="all", max_batch_size=MOST_BYTES, request_timeout_ms=120_000
    )
    await producer.start()
    told, partitions = 0.0, list(range(topics.OP.partitions))
    futures: set[asyncio.Future[Any]] = set()

    def acknowledged(future: "asyncio.Future[Any]", began_s: float) -> None:
        futures.discard(future)
        sent.acknowledged_s = max(sent.acknowledged_s, time.time() - began_s)

    try:
        source = _batches(producer, load, sent.began_s)
        ahead: deque[_Batch] = deque()
        waiting, more = 0, True
        while more or ahead:
            left_s = sent.began_s + ahead[0].due_s - time.time() if ahead else 1.0
            if left_s > 0 and more and waiting < AHEAD:
                batch = next(source, None)
                more = batch is not None
                if batch is not None:
                    ahead.append(batch)
                    waiting += len(batch.messages)
                await asyncio.sleep(0)
                continue
            if not ahead:
                break
            await asyncio.sleep(max(left_s, 0.0))
            batch = ahead.popleft()
            waiting -= len(batch.messages)
            now_s = time.time()
            sent.note(batch.messages, now_s)
            sent.late_s = max(sent.late_s, now_s - sent.began_s - batch.due_s)
            place = _partition(batch.messages[0].job.encode(), partitions, partitions)
            future = await producer.send_batch(batch.builder, topics.OP.name, partition=place)
            futures.add(future)
            future.add_done_callback(partial(acknowledged, began_s=now_s))
            if batch.due_s >= told + 5.0:
                told = batch.due_s
                progress(sent.rank_steps)
        await asyncio.gather(*futures)
    finally:
        await producer.stop()


def _batches(producer: AIOKafkaProducer, load: Load, began_s: float) -> Iterator[_Batch]:
    """The messages in batches, a job's and a grain's each, in the order of time."""
    held: dict[str, list[Encoded]] = {}
    size, until_s = 0, 0.0
    for message in encoded(load, began_s):
        size += len(message.data) + _RECORD_BYTES
        if held and (message.due_s > until_s or size > MOST_BYTES):
            yield from (_batch(producer, messages, began_s) for messages in held.values())
            held, size = {}, len(message.data) + _RECORD_BYTES
        if not held:
            until_s = message.due_s + GRAIN_S
        held.setdefault(message.job, []).append(message)
    yield from (_batch(producer, messages, began_s) for messages in held.values())


def _batch(producer: AIOKafkaProducer, messages: list[Encoded], began_s: float) -> _Batch:
    builder = producer.create_batch()
    for message in messages:
        timestamp_ms = int(1000 * (began_s + message.due_s))
        if builder.append(key=message.job.encode(), value=message.data, timestamp=timestamp_ms) is None:
            raise ValueError(f"a batch of {len(messages)} messages is too large")
    builder.close()
    return _Batch(messages[-1].due_s, messages, builder)
