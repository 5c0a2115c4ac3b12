"""A real worker whose topic is deleted under it, and made again by somebody, by itself, or wrongly."""

import contextlib
from collections.abc import Callable

import msgspec
import pytest
from kafka import TopicPartition, errors
from kafka.structs import OffsetAndMetadata

from paceline import topics
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import describe_topics, ensure_topics
from tests.streams.real_workers import expected, metric, readiness, ready, upserted

pytestmark = pytest.mark.e2e


def delete(settings: BrokerSettings, topic) -> Callable[..., bool]:
    """Delete ``topic``. What is returned makes what it is given, where it is missing; whether there is another one."""
    before = describe_topics(settings, [topic.name])[topic.name]
    with contextlib.closing(clients.admin(settings)) as admin:
        admin.delete_topics([topic.name])

    def remade(wanted=()) -> bool:
        ensure_topics(settings, wanted)
        return describe_topics(settings, [topic.name]).get(topic.name, before).id != before.id

    return remade


def committed(settings: BrokerSettings, places: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """What the workers' group has committed of ``topics.OP``, once ``places`` are; nothing while it has members."""
    group, count = topics.STREAMS_GROUP, describe_topics(settings, [topics.OP.name])[topics.OP.name].partitions
    at = [TopicPartition(topics.OP.name, number) for number in range(count)]
    with contextlib.closing(clients.consumer(settings, group=group, enable_auto_commit=False)) as consumer:
        try:
            if places:
                consumer.commit({one: OffsetAndMetadata(offset, "", -1) for one, offset in places.items()})
        except errors.CommitFailedError:
            return {}
        return {one: offset for one in at if (offset := consumer.committed(one))}


@pytest.mark.parametrize("when", ["while it works", "while it is stopped", "by itself"])
def test_a_topic_that_is_made_again_is_read_from_its_beginning(
    own_workers, make_training, until, when, free_port, request
):
    """Its offsets begin at 0 again: below those that were committed in the old one. It is told once.

    They may still be committed: by a worker that did so late, or by brokers that keep them beyond their topic.
    Where nobody makes it again the worker, not ready meanwhile, does, and starts again once, not on and on.
    """
    first, second = make_training(job="first", slow=2, seconds=25), make_training(job="second", slow=3, seconds=25)
    worker = own_workers.start("--web-port", str(port := free_port()))
    own_workers.produce(first)
    wanted = {"first": expected(first), "second": expected(second)}
    until(lambda: len(own_workers.findings("first")) >= len(wanted["first"]))
    until(lambda: metric(port, "paceline_streams_uncommitted_events") == 0)
    if when == "while it is stopped":
        worker.terminate()
        worker.wait()
        held = committed(own_workers.settings, {})
        assert sum(held.values()) == len(first)
    remade = delete(own_workers.settings, topics.OP)
    if when == "by itself":
        until(lambda: readiness(port) == "no topic paceline.op.v2\n")
    until(lambda: remade(() if when == "by itself" else [topics.OP]))
    own_workers.produce(second)
    if when == "while it is stopped":
        if "apache" in request.node.name:  # The embedded broker takes offsets from members of the group alone.
            until(lambda: committed(own_workers.settings, held) == held)
        worker = own_workers.start("--web-port", str(port))
    until(lambda: len(own_workers.findings("second")) >= len(wanted["second"]))
    # A client may have found the new topic by itself, and have read all of it before the worker asks for it again.
    until(lambda: "paceline.op.v2 was deleted and made again" in own_workers.said())
    until(lambda: ready(port))
    assert {job: upserted(own_workers.findings(job)) for job in wanted} == wanted
    assert own_workers.said().count("paceline.op.v2 was deleted and made again") == 1
    count = describe_topics(own_workers.settings, [topics.OP.name])[topics.OP.name].partitions
    assert metric(port, 'paceline_streams_remade_partitions_total{topic="op"}') == count
    assert own_workers.said().count("starting again") == (when != "while it is stopped")
    assert worker.poll() is None


def test_a_topic_that_is_made_again_with_other_partitions_ends_it(own_workers, until, free_port):
    """A job's events would no longer meet in one worker: a line says what is wrong and what to do, and status 1."""
    worker = own_workers.start("--web-port", str(port := free_port()))
    until(lambda: ready(port))
    remade, fewer = delete(own_workers.settings, topics.OP), msgspec.structs.replace(topics.OP, partitions=5)
    until(lambda: remade([fewer]))
    assert worker.wait() == 1
    count = describe_topics(own_workers.settings, [topics.HOST.name])[topics.HOST.name].partitions
    assert f"paceline.op.v2 has 5 partitions, and must have {count}: delete it" in own_workers.said()
