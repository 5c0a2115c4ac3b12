"""A message whose topic the client cannot find: kept while brokers are away, refused where there is no such topic."""

import time

import pytest
from kafka import errors

from paceline.delivery import sender as module
from paceline.delivery.outbox import Message
from paceline.delivery.sender import Sender
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.topics import OP
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.bus


@pytest.fixture
def sender(embedded_broker):
    """A sender whose client never learns where a topic lives, though brokers answer."""
    made = Sender(BrokerSettings().with_brokers(embedded_broker.address), "test")
    made.connect()
    yield made
    made.drop()


@pytest.fixture
def deliver(sender, monkeypatch):
    """What becomes of one message on a topic."""

    def unknown(*args, **options):
        raise errors.KafkaTimeoutError("Failed to update metadata after 4.0 secs.")

    monkeypatch.setattr(sender._producer, "send", unknown)
    return lambda topic: sender.deliver([Message(topic, None, b"{}", 0)], lambda: time.monotonic() + PATIENCE_S)


def test_a_topic_that_nobody_leads_is_an_outage(deliver):
    """Two of three nodes are killed: the third lets us in and knows the topic. The message is kept for later."""
    outcome = deliver(OP.name)
    assert (outcome.acked, outcome.refused) == (set(), {})
    assert f"no leader for {OP.name}" in str(outcome.failure)


def test_a_topic_that_is_not_there_is_refused(deliver):
    """The other topics' messages go on."""
    outcome = deliver("paceline.nowhere.v1")
    assert (outcome.refused, outcome.failure) == ({0: "topic paceline.nowhere.v1 does not exist"}, None)


def test_where_topics_cannot_be_listed_nothing_is_refused(deliver, monkeypatch):
    """Brokers that let us in and can do no more are an outage."""

    def refuse(settings):
        raise BusError("127.0.0.1:9092", "no controller", "wait")

    monkeypatch.setattr(module, "existing_topics", refuse)
    outcome = deliver("paceline.nowhere.v1")
    assert outcome.refused == {}
    assert "no controller" in str(outcome.failure)
