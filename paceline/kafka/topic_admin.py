"""The topics on the brokers: made as the table says, and listed.

Rule of this file: what exists is left as it is; nothing is deleted here.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, errors

from paceline.kafka import compat, embedded
from paceline.kafka.clients import MAX_MESSAGE_BYTES, admin
from paceline.kafka.errors import BusError, explained
from paceline.kafka.settings import BrokerSettings
from paceline.topics import TOPICS, Topic, usual_partitions

#: Of a compacted topic, the segment that is being written is never compacted, and is read whole at every start of a
#: worker: Apache Kafka's 1 GiB a partition would be gigabytes of states that are long out of date.
COMPACTED_SEGMENT_BYTES = 64 * 1024 * 1024
#: What to do where a topic is missing and this login may not make it: no service's rights include that.
_BY_ANOTHER = "run `paceline topics create` with a login that may create topics"


def topic_configs(topic: Topic) -> dict[str, str]:
    """The broker-side settings of ``topic``."""
    configs = {
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        # A node whose clock runs hours ahead is reported, not refused; Apache Kafka's default refuses after one hour.
        "message.timestamp.after.max.ms": str(2**63 - 1),
    }
    if topic.retention_ms is None:
        return {**configs, "cleanup.policy": "compact", "segment.bytes": str(COMPACTED_SEGMENT_BYTES)}
    configs |= {"cleanup.policy": "delete", "retention.ms": str(topic.retention_ms)}
    if topic.retention_bytes is not None:
        configs["retention.bytes"] = str(topic.retention_bytes)
    return configs


def ensure_topics(
    settings: BrokerSettings,
    topics: Iterable[Topic] = TOPICS,
    on_created: Callable[[str], None] = lambda name: None,
) -> list[str]:
    """Create those of ``topics`` that are missing and return their names, each told to ``on_created`` when it is there.

    Topics that exist are left as they are (``paceline doctor`` compares them); another process that creates them at
    the same time is no error. Replication is the broker's default. Keyed topics get as many partitions as those that
    exist: a job's events must meet in one worker.

    Raises:
        BusError: no broker, or no right to create.
    """
    with explained(settings), contextlib.closing(admin(settings)) as client:
        existing = {row["name"]: len(row["partitions"]) for row in client.describe_topics()}
        missing = [topic for topic in topics if topic.name not in existing]
        partitions = _keyed_partitions(client, existing) if missing else None
        created = []
        for topic in missing:
            if _create(client, topic, topic.split(partitions), settings.address):
                on_created(topic.name)
                created.append(topic.name)
        return created


def _keyed_partitions(client: KafkaAdminClient, existing: Mapping[str, int]) -> int | None:
    """How many a keyed topic gets, None: as the table says.

    On an embedded broker the number must not depend on what exists: `paceline up` makes its topics while the sidecars
    of a job that outlived the last one connect again and make them, too.
    """
    if str(client.describe_cluster()["cluster_id"]).startswith(embedded.CLUSTER):
        return embedded.PARTITIONS
    return usual_partitions(existing, TOPICS)


def existing_topics(settings: BrokerSettings) -> set[str]:
    """The names of the topics on the brokers.

    Raises:
        BusError: no broker, or no right to ask.
    """
    with explained(settings), contextlib.closing(admin(settings)) as client:
        return set(client.list_topics())


class TopicDescription(NamedTuple):
    """A topic as the brokers have it. One that is deleted and made again has another id."""

    #: Empty where the brokers give none (before Apache Kafka 2.8).
    id: str
    partitions: int


def describe_topics(settings: BrokerSettings, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Those topics of ``names`` that are there.

    Raises:
        BusError: no broker, or no right to ask.
    """
    with contextlib.closing(TopicInspector(settings)) as inspector:
        return inspector.describe(names)


class TopicInspector:
    """Describes topics again and again over one connection, which is made when it is first asked and after a failure.

    One thread at a time may ask. Another may close it meanwhile: who asks then leaves with the answer.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._client: KafkaAdminClient | None = None
        self._asking = threading.Lock()
        self._closed = False

    def describe(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Those topics of ``names`` that are there.

        Raises:
            BusError: no broker, or no right to ask.
        """
        try:
            with self._asking:
                return self._describe(names)
        finally:
            if self._closed:
                self.close()

    def _describe(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        try:
            with explained(self._settings):
                if self._client is None:
                    self._client = admin(self._settings)
                rows = self._client.describe_topics(list(names))
                return {row["name"]: _described(row) for row in rows if _is_there(row)}
        except Exception:
            self._leave()
            raise

    def close(self) -> None:
        """Leave the brokers."""
        self._closed = True
        if self._asking.acquire(blocking=False):
            try:
                self._leave()
            finally:
                self._asking.release()

    def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(BusError), explained(self._settings):
                client.close()


def _is_there(row: dict[str, Any]) -> bool:
    error = errors.for_code(row["error_code"])
    if error is not errors.NoError and not error.retriable:
        raise error(f"topic {row['name']}")
    return error is errors.NoError


def _described(row: dict[str, Any]) -> TopicDescription:
    return TopicDescription(compat.known_id(row.get("topic_id")), len(row["partitions"]))


def _create(client: KafkaAdminClient, topic: Topic, partitions: int, address: str) -> bool:
    row = {"num_partitions": partitions, "replication_factor": -1, "configs": topic_configs(topic)}
    try:
        client.create_topics({topic.name: row}, wait_for_metadata=True)
    except errors.TopicAlreadyExistsError:
        return False
    except errors.AuthorizationError as error:
        # The client's own words are its whole request.
        raise BusError(address, f"not allowed: to create topic {topic.name}", _BY_ANOTHER, permanent=True) from error
    return True
