"""Backlog: how much topics hold, and how far consumer groups have read them.

Rule of this file: it only asks. Nobody joins a group, and no offset is committed.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from paceline.kafka import compat
from paceline.kafka.clients import admin, consumer
from paceline.kafka.errors import explained
from paceline.kafka.settings import BrokerSettings
from paceline.topics import Topic

#: How long brokers have to answer.
ANSWER_S = 10.0


#: The state of a group whose broker reports none.
UNREPORTED = "Unknown"


class GroupLag(NamedTuple):
    """A consumer group: its state in Kafka's words (``Stable``, ``Empty``, ...) and its lag, messages by topic.

    ``UNREPORTED`` is the state from a broker that reports none. A partition of a topic that the group reads and has not
    committed yet counts whole. ``read`` grows with each commit: the sum of all committed offsets.
    """

    group: str
    state: str
    lag: dict[str, int]
    read: int = 0


class Held(NamedTuple):
    """How many messages a topic holds, and the newest of them that can be read."""

    messages: int
    newest: bytes | None


def group_lags(
    settings: BrokerSettings, prefix: str, reads: Mapping[str, Collection[Topic]] = MappingProxyType({})
) -> list[GroupLag]:
    """Every consumer group whose name begins with ``prefix``, by name.

    ``reads`` are topics that a group reads by its nature: they count also where it has committed nothing of them.

    Raises:
        BusError: no broker can be reached, or we may not ask.
    """
    with explained(settings), contextlib.closing(admin(settings)) as client:
        states = {
            str(row["group_id"]): str(row.get("group_state", UNREPORTED))
            for row in client.list_groups()
            if str(row["group_id"]).startswith(prefix)
        }
        # One at a time: older brokers answer for no more.
        committed = {name: client.list_group_offsets([name])[name] for name in states}
    with explained(settings), contextlib.closing(consumer(settings)) as client:
        return [
            GroupLag(name, states[name], *_lag(client, committed[name], [topic.name for topic in reads.get(name, ())]))
            for name in sorted(states)
        ]


def held(settings: BrokerSettings, topic: Topic) -> Held:
    """What is on ``topic``.

    Raises:
        BusError: no broker can be reached, or we may not read it.
    """
    with explained(settings), contextlib.closing(consumer(settings)) as client:
        compat.bound(client, lambda name, reason: None)  # One that cannot be unpacked is not told as the newest.
        partitions = _partitions(client, [topic.name])
        firsts = compat.offsets(client.beginning_offsets, partitions, ANSWER_S) if partitions else {}
        ends = compat.offsets(client.end_offsets, partitions, ANSWER_S) if partitions else {}
        filled = [at for at in partitions if ends[at] > firsts[at]]
        client.assign(filled)
        for at in filled:
            client.seek(at, ends[at] - 1)
        newest: dict[TopicPartition, tuple[int, bytes | None]] = {}
        end_s = time.monotonic() + ANSWER_S
        while len(newest) < len(filled) and time.monotonic() < end_s:
            for at, records in client.poll(timeout_ms=500).items():
                newest[at] = (records[-1].timestamp, records[-1].value)
        messages = sum(ends[at] - firsts[at] for at in filled)
        return Held(messages, max(newest.values(), key=lambda one: one[0])[1] if newest else None)


def _lag(
    client: KafkaConsumer, committed: dict[TopicPartition, NamedTuple], reads: Collection[str]
) -> tuple[dict[str, int], int]:
    read = {at: offset for at, row in committed.items() if (offset := int(getattr(row, "offset", -1))) >= 0}
    partitions = _partitions(client, {*reads, *(at.topic for at in read)})
    if not partitions:
        return {}, 0
    ends = compat.offsets(client.end_offsets, partitions, ANSWER_S)
    firsts = compat.offsets(client.beginning_offsets, partitions, ANSWER_S)
    lag: Counter[str] = Counter()
    for at in partitions:
        # What is no longer there will not be read either.
        lag[at.topic] += max(0, ends[at] - max(read.get(at, 0), firsts[at]))
    return dict(lag), sum(read.values())


def _partitions(client: KafkaConsumer, topics: Iterable[str]) -> list[TopicPartition]:
    present = compat.topics(client, ANSWER_S)
    return [
        TopicPartition(topic, number)
        for topic in sorted(topics)
        if topic in present
        for number in sorted(client.partitions_for_topic(topic) or ())
    ]
