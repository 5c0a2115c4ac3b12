"""The clients: producer, consumer and administrator of the brokers that settings name.

Rule of this file: every function tries the brokers first and raises ``BusError``, whose one line names the address,
the cause and the fix, where kafka-python says only "Unable to bootstrap".
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from paceline.kafka import compat
from paceline.kafka.errors import explained
from paceline.kafka.reach import CONNECT_S, reach
from paceline.kafka.settings import BrokerSettings
from paceline.topics import Topic

#: Largest message; brokers and topics default to 1 MiB, which a node of many busy ranks can pass.
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
Client = TypeVar("Client")


class Producer(Protocol):
    """What is used of kafka-python's producer."""

    def send(
        self, topic: str, value: bytes | None = None, key: bytes | None = None, *, timestamp_ms: int | None = None
    ) -> Any:
        """Queue a message; the future that is returned is done when the broker has it."""

    def partitions_for(self, topic: str) -> set[int]:
        """The partitions of ``topic``, once the broker has told them."""

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all that was queued is done with."""

    def close(self, timeout: float | None = None) -> None:
        """Wait for what is queued, and close."""


def _client(settings: BrokerSettings, make: Callable[..., Client], **options: Any) -> Client:
    reach(settings, CONNECT_S)
    limits = {"bootstrap_timeout_ms": int(CONNECT_S * 1000)}
    with explained(settings):
        return compat.construct(make, **{**settings.kafka_options(), **limits, **options})


def producer(settings: BrokerSettings, client_id: str, **options: Any) -> Producer:
    """An idempotent producer with acks from all replicas; keys and values are bytes.

    Raises:
        BusError: no broker can be reached.
    """
    defaults = {
        "client_id": client_id,
        "acks": "all",
        "enable_idempotence": True,
        # Every consumer can read gzip with Python alone; lz4 and zstd need a package that a peer may lack.
        "compression_type": "gzip",
        "max_request_size": MAX_MESSAGE_BYTES,
        "allow_auto_create_topics": False,
        "linger_ms": 5,
        "batch_size": 256 * 1024,
    }
    made: Producer = _client(settings, KafkaProducer, **{**defaults, **options})
    return made


def consumer(
    settings: BrokerSettings,
    *topics: Topic | str,
    group: str | None = None,
    from_beginning: bool = False,
    **options: Any,
) -> KafkaConsumer:
    """A consumer of ``topics``, whole without a group, shared with the others of ``group``; values are bytes.

    Raises:
        BusError: no broker can be reached.
    """
    defaults = {
        "group_id": group,
        "auto_offset_reset": "earliest" if from_beginning else "latest",
        "enable_auto_commit": group is not None,
        "allow_auto_create_topics": False,
    }
    wanted = [topic if isinstance(topic, str) else topic.name for topic in topics]
    made: KafkaConsumer = _client(settings, KafkaConsumer, **{**defaults, **options})
    if wanted:
        made.subscribe(wanted)
    return made


def admin(settings: BrokerSettings, **options: Any) -> KafkaAdminClient:
    """An administrator of topics; close it after use.

    Raises:
        BusError: no broker can be reached.
    """
    return _client(settings, KafkaAdminClient, **{"request_timeout_ms": 15_000, **options})
