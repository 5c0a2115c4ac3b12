"""What is changed in aiokafka, on real brokers."""

import asyncio
import uuid

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOUR_MS, Topic
from streams import compat


@pytest.mark.bus
@pytest.mark.parametrize("committed", [None, 0, 2])
def test_seeking_to_what_is_committed_reads_again_what_was_fetched_and_dropped(broker, committed):
    """Also where nothing is committed yet: the client's own seek leaves the place behind what was dropped."""
    topic = Topic(f"sought-{uuid.uuid4().hex}", bytes, "none", "raw", HOUR_MS, 1)
    ensure_topics(broker, [topic])
    at = TopicPartition(topic.name, 0)

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=broker.address)
        await producer.start()
        for value in (b"1", b"2", b"3"):
            await producer.send_and_wait(topic.name, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.address,
            group_id=topic.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            consumer.assign([at])
            if committed is not None:
                await consumer.commit({at: committed})
            dropped = [await consumer.getone() for _ in range(3 - (committed or 0))]
            await compat.seek_to_committed(consumer, {topic.name})
            async with asyncio.timeout(60):
                return dropped, [await consumer.getone() for _ in dropped]
        finally:
            await consumer.stop()

    dropped, again = asyncio.run(run())
    assert [record.offset for record in again] == [record.offset for record in dropped] != []


def test_committing_nothing_does_nothing(monkeypatch):
    """Faust does so when a rebalance has just taken everything away; of the client's refusal its thread would die."""
    monkeypatch.setattr(AIOKafkaConsumer, "commit", AIOKafkaConsumer.commit)  # put back afterwards
    compat.commit_nothing()

    async def run():
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="nobody")
        try:
            await consumer.commit({})
        finally:
            await consumer.stop()

    asyncio.run(run())
