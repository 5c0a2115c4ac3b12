"""What kafka-python leaves undone."""

import contextlib
import gc
import os
import re
import uuid
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors

from paceline.kafka import clients, compat
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOST


@pytest.mark.slow
def test_a_refused_connection_leaves_no_socket_behind(nobody):
    """However often a broker that is away is tried, no socket waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(kafka_errors.KafkaError):
                compat.hello(nobody, {}, 1.0)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_client_that_cannot_be_made_leaves_no_socket_behind(nobody):
    """A constructor of kafka-python that fails forgets its sockets."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for make in (clients.KafkaConsumer, clients.KafkaAdminClient):
            with pytest.raises(kafka_errors.KafkaError):
                compat.construct(make, bootstrap_servers=[nobody], bootstrap_timeout_ms=300)
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


@pytest.mark.landing
def test_a_discarded_producer_is_closed_at_once_with_what_it_holds(broker: BrokerSettings):
    """Nothing is waited for; twice is fine."""
    producer = clients.producer(broker, "test", linger_ms=60_000)
    held = producer.send(HOST.name, value=b"never sent")
    compat.discard(producer)
    compat.discard(producer)
    assert held.failed()


@pytest.mark.slow
def test_private_names_of_the_client_are_used_here_alone():
    """A new version of kafka-python needs one file to be read."""
    private = re.compile(r"\bkafka\.net\b|\b(client|consumer|producer)\._[a-z]|_unregister_cleanup|force_close")
    root = Path(compat.__file__).parents[2]
    folders = ("paceline", "collectors", "streams", "forecaster", "ui", "importers", "simulator", "experiments")
    files = [path for folder in folders for path in (root / folder).rglob("*.py") if path != Path(compat.__file__)]
    assert {str(path) for path in files if private.search(path.read_text(encoding="utf-8"))} == set()


def test_brokers_that_know_no_topic_ids_give_none():
    """They say so by nothing, or by zeros; neither may be taken for an id."""
    known = uuid.uuid4()
    assert [compat.known_id(answered) for answered in (None, uuid.UUID(int=0), known)] == ["", "", str(known)]


@pytest.mark.bus
def test_a_partition_that_nobody_leads_is_an_error_of_kafka(apache_kafka, monkeypatch):
    """The answer leaves it out, of which the client makes a bare KeyError: it ended the thread of whoever asked."""
    ensure_topics(apache_kafka.settings, [HOST])
    at = [TopicPartition(HOST.name, 0)]
    with contextlib.closing(clients.consumer(apache_kafka.settings)) as consumer:
        consumer.assign(at)
        assert compat.offsets(consumer.end_offsets, at, 20.0)[at[0]] >= 0

        async def nobody_answers(wanted: object, timeout_ms: object = None) -> dict[TopicPartition, object]:
            return {}

        monkeypatch.setattr(consumer._fetcher, "_fetch_offsets_by_times_async", nobody_answers)
        with pytest.raises(kafka_errors.KafkaError, match=f"no broker leads a partition of {HOST.name}"):
            compat.offsets(consumer.end_offsets, at, 20.0)
