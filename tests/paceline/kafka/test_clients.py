"""The clients made from settings, and the line a person gets when no broker is there."""

import contextlib
from collections.abc import Callable

import pytest

from paceline import topics
from paceline.kafka import clients
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("make", [clients.admin, clients.consumer, lambda settings: clients.producer(settings, "test")])
def test_no_broker_is_one_line_with_address_cause_and_mend(make: Callable[..., object], nobody: str):
    """Every client says "refused" and what to do, at once, where kafka-python waits 30 s for "Unable to bootstrap"."""
    with pytest.raises(BusError, match=rf"^Kafka at {nobody}: connection refused.*paceline up") as caught:
        make(BrokerSettings().with_brokers(nobody))
    assert "\n" not in str(caught.value)


def test_an_unknown_host_is_named():
    """A host that does not exist is said to be so."""
    with pytest.raises(BusError, match=r"nowhere\.invalid:9092: no such host"):
        clients.admin(BrokerSettings().with_brokers("nowhere.invalid:9092"))


@pytest.mark.slow
def test_the_second_broker_is_used_when_the_first_is_down(embedded_broker: object, nobody: str):
    """One dead address in the list does no harm."""
    settings = BrokerSettings().with_brokers(f"{nobody},{embedded_broker.address}")
    with contextlib.closing(clients.admin(settings)) as client:
        assert isinstance(client.list_topics(), list)


def test_what_is_produced_is_consumed(broker: BrokerSettings):
    """A key and a value come back as they were."""
    producer = clients.producer(broker, "test")
    producer.send(topics.HOST.name, key=b"k", value=b"there and back").get(PATIENCE_S)
    producer.close()
    with contextlib.closing(clients.consumer(broker, topics.HOST, from_beginning=True)) as consumer:
        rows = next(row for row in consumer if row.value == b"there and back")
    assert rows.key == b"k"
