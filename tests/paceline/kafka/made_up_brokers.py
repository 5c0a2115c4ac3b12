"""Brokers that a follower reads without any process: partitions of records, ids of cluster and topics."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kafka import TopicPartition

from paceline.kafka import compat, follow
from paceline.topics import Topic


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    timestamp: int = 1_000


class MadeUpBrokers:
    """Takes the place of a consumer and of what ``compat`` asks of one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begin("first")
        self._assigned: list[TopicPartition] = []
        self._at: dict[TopicPartition, int] = {}
        #: Records of a partition in one answer; records that were ever handed on.
        self.answer, self.read = 500, 0
        self.key = b"key"
        #: What happens one after the other, each when there is nothing more to read.
        self.then: list[Callable[[], object]] = []
        self._tell_reset: Callable[[TopicPartition, int], None] = lambda at, offset: None
        monkeypatch.setattr(follow, "consumer", lambda *_, **__: self)
        monkeypatch.setattr(compat, "bound", lambda *_: None)
        monkeypatch.setattr(compat, "on_reset", self._on_reset)
        monkeypatch.setattr(compat, "topics", lambda *_: {at.topic for at in self.held})
        monkeypatch.setattr(compat, "cluster_id", lambda *_: self.cluster)
        monkeypatch.setattr(compat, "topic_id", lambda _, name: f"{self.cluster}-{name}")
        monkeypatch.setattr(compat, "refused_topics", lambda *_: set())
        monkeypatch.setattr(compat, "offsets", lambda ask, partitions, _: ask(partitions))

    def begin(self, cluster: str) -> None:
        """From now on another cluster answers, with no topic."""
        self.cluster = cluster
        self.held: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
        self._first: dict[TopicPartition, int] = {}

    def put(self, topic: Topic, *values: bytes, partition: int = 0) -> None:
        self.held[TopicPartition(topic.name, partition)] += values

    def delete(self, topic: Topic, before: int, partition: int = 0) -> None:
        """Let retention take what is before that offset."""
        self._first[TopicPartition(topic.name, partition)] = before

    def _on_reset(self, _: object, tell: Callable[[TopicPartition, int], None]) -> None:
        self._tell_reset = tell

    def partitions_for_topic(self, name: str) -> set[int]:
        return {at.partition for at in self.held if at.topic == name}

    def assignment(self) -> set[TopicPartition]:
        return set(self._assigned)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._assigned = list(partitions)

    def seek(self, at: TopicPartition, offset: int) -> None:
        self._at[at] = offset

    def position(self, at: TopicPartition, timeout_ms: int = 0) -> int:
        return self._at[at]

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: self._first.get(at, 0) for at in partitions}

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {at: len(self.held[at]) for at in partitions}

    def offsets_for_times(self, times: dict[TopicPartition, int], timeout_ms: int = 0) -> dict[TopicPartition, Any]:
        """All of it is newer than is asked for."""
        return dict.fromkeys(times, Record("", 0, 0, None, None))

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        polled = {}
        for at in self._assigned:
            if self._at[at] < (kept := self._first.get(at, 0)):
                self._tell_reset(at, self._at[at])
                self._at[at] = kept
            first = self._at[at]
            values = self.held[at][first : first + self.answer]
            if values:
                polled[at] = [
                    Record(at.topic, at.partition, first + place, one, self.key) for place, one in enumerate(values)
                ]
                self._at[at] += len(values)
                self.read += len(values)
        if not polled and self.then:
            self.then.pop(0)()
        return polled

    def close(self) -> None:
        self._assigned = []
