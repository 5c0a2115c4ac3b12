"""Topics are made as the table says, by whoever comes first."""

import contextlib
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from kafka import errors
from kafka.admin import ConfigResource

from paceline import topics
from paceline.kafka import clients, embedded, topic_admin
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import TopicInspector, describe_topics, ensure_topics, existing_topics
from tests.patience import PATIENCE_S


@pytest.mark.landing
def test_topics_are_made_as_the_table_says(broker: BrokerSettings):
    """Every topic of the table is there; on Apache Kafka with its partitions."""
    with contextlib.closing(clients.admin(broker)) as client:
        present = {row["name"]: len(row["partitions"]) for row in client.describe_topics([*topics.BY_NAME])}
    assert set(present) == set(topics.BY_NAME)
    keyed = {count for name, count in present.items() if topics.BY_NAME[name].partitions == topics.PARTITIONS}
    assert (keyed, present[topics.DEADLETTER.name]) in [({topics.PARTITIONS}, 1), ({embedded.PARTITIONS}, 1)]


def test_who_describes_topics_again_and_again_keeps_one_connection(
    broker: BrokerSettings, monkeypatch: pytest.MonkeyPatch
):
    """A worker asks every few seconds; after a failure it connects anew."""
    made = []

    def admin(settings: BrokerSettings):
        made.append(clients.admin(settings))
        return made[-1]

    monkeypatch.setattr(topic_admin, "admin", admin)
    wanted = [topics.HOST.name, f"missing-{uuid.uuid4().hex}"]
    with contextlib.closing(TopicInspector(broker)) as inspector:
        first = inspector.describe(wanted)
        assert (first.keys(), inspector.describe(wanted)) == ({topics.HOST.name}, first)
        assert len(made) == 1

        def broken(names: list[str]):
            raise errors.KafkaConnectionError("the broker has gone")

        made[0].describe_topics = broken
        with pytest.raises(BusError):
            inspector.describe(wanted)
        assert inspector.describe(wanted) == first
    assert len(made) == 2


def test_who_is_asked_to_leave_while_asking_leaves_with_the_answer(monkeypatch: pytest.MonkeyPatch):
    """A worker ends while a thread of its asks: the connection goes, and not from under the question."""
    asking, answer, order = threading.Event(), threading.Event(), []

    class Admin:
        def describe_topics(self, names: list[str]) -> list[dict[str, object]]:
            asking.set()
            assert answer.wait(PATIENCE_S)
            order.append("answered")
            return []

        def close(self) -> None:
            order.append("closed")

    monkeypatch.setattr(topic_admin, "admin", lambda settings: Admin())
    inspector = TopicInspector(BrokerSettings())
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(inspector.describe, [topics.HOST.name])
        assert asking.wait(PATIENCE_S)
        inspector.close()
        answer.set()
        assert asked.result(PATIENCE_S) == {}
    assert order == ["answered", "closed"]


def test_topics_that_exist_are_left_alone(broker: BrokerSettings):
    """A second call makes nothing and fails at nothing."""
    assert ensure_topics(broker) == []


@pytest.mark.slow
def test_on_an_embedded_broker_all_who_make_topics_make_them_alike():
    """`paceline up` makes its topics while the sidecars of a job that outlived the last one connect again."""
    with embedded.start() as running, ThreadPoolExecutor(3) as pool:
        settings = BrokerSettings().with_brokers(running.address)
        orders = [topics.TOPICS, topics.TOPICS[::-1], topics.TOPICS[7:] + topics.TOPICS[:7]]
        list(pool.map(lambda order: ensure_topics(settings, order), orders))
        found = describe_topics(settings, topics.BY_NAME)
    assert {name: one.partitions for name, one in found.items()} == {
        topic.name: topic.split(embedded.PARTITIONS) for topic in topics.TOPICS
    }


@pytest.mark.bus
def test_a_missing_topic_is_made_like_those_that_exist(new_apache_kafka):
    """Its owner made them with five partitions; what is deleted, or new in this release, must join them."""
    settings = new_apache_kafka().start().settings
    others = [topic for topic in topics.TOPICS if topic not in (topics.OP, topics.DEADLETTER)]
    ensure_topics(settings, [msgspec.structs.replace(topic, partitions=topic.split(5)) for topic in others])
    ensure_topics(settings)
    found = describe_topics(settings, topics.BY_NAME)
    assert [found[topic.name].partitions for topic in (topics.OP, topics.DEADLETTER)] == [5, 1]


def test_two_that_make_the_same_topics_at_once_both_succeed(broker: BrokerSettings):
    """Every topic is made exactly once, whoever comes first."""
    fresh = [topics.Topic(f"race-{uuid.uuid4().hex}", topics.OP.event, "job", "raw", 1000, 2) for _ in range(4)]
    with ThreadPoolExecutor(3) as pool:
        made = [name for names in pool.map(lambda _: ensure_topics(broker, fresh), range(3)) for name in names]
    assert sorted(made) == sorted(topic.name for topic in fresh)


@pytest.mark.bus
def test_retention_and_compaction_reach_apache_kafka(apache_kafka: object):
    """Compacted topics compact, in segments that are soon read at a start; the others keep what the table says."""
    ensure_topics(apache_kafka.settings)
    present = _configs(apache_kafka.settings, topics.NODE.name, topics.FINDING.name, topics.OP.name)
    assert present[topics.NODE.name]["cleanup.policy"]["value"] == "compact"
    assert present[topics.NODE.name]["segment.bytes"]["value"] == str(64 * 1024 * 1024)
    assert present[topics.FINDING.name]["retention.ms"]["value"] == str(topics.FINDING.retention_ms)
    assert present[topics.FINDING.name]["retention.bytes"]["value"] == "-1"
    assert present[topics.OP.name]["retention.bytes"]["value"] == str(topics.OP.retention_bytes)


@pytest.mark.bus
def test_a_topic_that_exists_is_not_bounded_afterwards(apache_kafka: object):
    """Somebody may count on what lies there: a bound that came with a new release is for new topics."""
    before = topics.Topic(f"bound-{uuid.uuid4().hex}", topics.OP.event, "job", "raw", 1000, 2)
    ensure_topics(apache_kafka.settings, [before])
    assert ensure_topics(apache_kafka.settings, [msgspec.structs.replace(before, retention_bytes=topics.GIB)]) == []
    assert _configs(apache_kafka.settings, before.name)[before.name]["retention.bytes"]["value"] == "-1"


def test_every_topic_that_grows_with_the_cluster_is_bounded():
    """What ranks, GPUs and hosts send, and what is made of it at their pace, fills no disk."""
    grows = {topics.DEVICE, topics.HOST, topics.OP, topics.COLLECTIVE, topics.OP, topics.COLLECTIVE}
    grows |= {topics.BALANCE, topics.CAPTURE}
    assert {topic for topic in topics.TOPICS if topic.retention_bytes} == grows | {topics.WINDOW}


def _configs(settings: BrokerSettings, *names: str) -> dict[str, dict[str, dict[str, str]]]:
    with contextlib.closing(clients.admin(settings)) as client:
        wanted = [ConfigResource("topic", name) for name in names]
        return client.describe_configs(wanted, config_filter="all")["topic"]


def test_a_topic_that_is_made_again_is_another_one(broker: BrokerSettings, until: Callable[..., None]):
    """It has another id; one that is not there is left out."""
    found = []
    topic = topics.Topic(f"again-{uuid.uuid4().hex}", topics.OP.event, "job", "raw", 1000, 2)
    for _ in range(2):
        ensure_topics(broker, [topic])
        found.append(describe_topics(broker, [topic.name])[topic.name])
        with contextlib.closing(clients.admin(broker)) as admin:
            admin.delete_topics([topic.name])
        until(lambda: describe_topics(broker, [topic.name]) == {})
    assert "" != found[0].id != found[1].id != ""
    assert [one.partitions for one in found] == [2, 2]


def test_topics_are_listed(broker: BrokerSettings):
    """Ours are among those that are there."""
    assert set(topics.BY_NAME) <= existing_topics(broker)
