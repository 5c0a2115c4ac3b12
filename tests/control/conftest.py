"""Sessions without control: a folder, a definition, and a publisher that numbers its messages."""

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from control.sessions.folder import SessionFolder
from control.sessions.manifest import Definition
from control.sessions.store import SessionStore
from paceline import wire
from paceline.events import HostSamples, NodeDescribed
from paceline.kafka.clients import producer
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOST, NODE, Topic


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


@pytest.fixture
def define() -> Callable[..., Definition]:
    def make(name: str = "s", **about: Any) -> Definition:
        return Definition(name=name, id=uuid.uuid4().hex, cluster="default", started_s=time.time(), **about)

    return make


@pytest.fixture
def begun(store: SessionStore, define: Callable[..., Definition]) -> Callable[..., SessionFolder]:
    """Makes the folder of a session that nobody records yet."""

    def make(name: str = "s", **about: Any) -> SessionFolder:
        return store.create(define(name, **about), "here")

    return make


def host_samples(node: str, producer_name: str, sequence: int) -> HostSamples:
    """One message of a collector, without a row."""
    columns: dict[str, Any] = {name: [] for name in wire.sample_columns(HostSamples)}
    return HostSamples(
        cluster="default", producer=producer_name, sequence=sequence, node=node, t0_s=time.time(), **columns
    )


def node_described(node: str, producer_name: str, sequence: int) -> NodeDescribed:
    """One message of an inventory."""
    return NodeDescribed(
        cluster="default",
        producer=producer_name,
        sequence=sequence,
        node=node,
        time_s=time.time(),
        cpu_model=None,
        cpu_count=1,
        memory_total_bytes=1,
        kernel="",
    )


class Collector:
    """A node that publishes numbered messages."""

    def __init__(self, settings: BrokerSettings, node: str, topic: Topic = HOST) -> None:
        ensure_topics(settings)
        self._topic, self._make = topic, node_described if topic is NODE else host_samples
        self.node, self.name = node, f"collect-{uuid.uuid4().hex}"
        self._client = producer(settings, "test-collector")
        self._numbers = itertools.count()

    def publish(self, count: int, *, skip: int = 0) -> None:
        """Publish so many messages, all acknowledged; of ``skip`` numbers before them nothing is sent."""
        for _ in range(skip):
            next(self._numbers)
        futures = [
            self._client.send(
                self._topic.name, wire.encode(self._make(self.node, self.name, number)), key=self.node.encode()
            )
            for number in itertools.islice(self._numbers, count)
        ]
        for future in futures:
            future.get(30)

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()


@pytest.fixture
def collector(broker: BrokerSettings) -> Iterator[Collector]:
    one = Collector(broker, f"n-{uuid.uuid4().hex[:8]}")
    yield one
    one.close()
