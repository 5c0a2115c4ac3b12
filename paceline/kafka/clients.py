"""The bus: how to reach Kafka, and the clients and topics on it.

Rule of this file: the only place that knows how settings become client options. Every function raises ``BusError``,
whose one line names the address, the cause and the mend, where kafka-python says only "Unable to bootstrap".
"""

import contextlib
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from paceline import settings as names
from paceline.kafka.errors import BusError, attempt, explain
from paceline.settings import Setting, SettingError
from paceline.topics import TOPICS, Topic

__all__ = [
    "BrokerSettings",
    "BusError",
    "admin",
    "consumer",
    "discard",
    "ensure_topics",
    "producer",
    "wait_for_broker",
]

#: Largest message; brokers and topics default to 1 MiB, which a node of many busy ranks can pass.
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
#: How long one attempt to connect may take.
CONNECT_S = 5.0
Client = TypeVar("Client")


@dataclass(frozen=True)
class BrokerSettings:
    """Where the brokers are and how to talk to them."""

    brokers: tuple[str, ...] = names.BROKERS.default
    security_protocol: str = "PLAINTEXT"
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    sasl_mechanism: str = names.SASL_MECHANISM.default
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "BrokerSettings":
        """The settings in ``environ``.

        Raises:
            SettingError: a value is wrong, or settings contradict each other; the line names the variable.
        """
        found = cls(
            brokers=names.BROKERS.read(environ),
            security_protocol=names.SECURITY_PROTOCOL.read(environ),
            ssl_cafile=names.SSL_CAFILE.read(environ),
            ssl_certfile=names.SSL_CERTFILE.read(environ),
            ssl_keyfile=names.SSL_KEYFILE.read(environ),
            sasl_mechanism=names.SASL_MECHANISM.read(environ),
            sasl_username=names.SASL_USERNAME.read(environ),
            sasl_password=names.SASL_PASSWORD.read(environ),
        )
        _check(found)
        return found

    @property
    def address(self) -> str:
        """The brokers as people write them: ``host:port,host:port``."""
        return ",".join(self.brokers)

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether we log in."""
        return self.security_protocol.startswith("SASL_")

    def with_brokers(self, brokers: str) -> "BrokerSettings":
        """The same with other brokers, ``host:port[,host:port…]``: what ``--brokers`` gives.

        Raises:
            SettingError: not addresses.
        """
        try:
            return replace(self, brokers=names.brokers(brokers))
        except ValueError as error:
            raise SettingError(f"--brokers={brokers!r}: {error}; allowed: {names.BROKERS.allowed}") from error

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context, or None without TLS. aiokafka and Faust take it as it is.

        Raises:
            SettingError: a file is missing or no PEM.
        """
        if not self.tls:
            return None
        for setting, path in ((names.SSL_CAFILE, self.ssl_cafile), (names.SSL_CERTFILE, self.ssl_certfile)):
            _readable(setting, path)
        _readable(names.SSL_KEYFILE, self.ssl_keyfile)
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile or None)
        except OSError as error:
            raise SettingError(f"{names.SSL_CAFILE.name}={self.ssl_cafile!r}: {error}; allowed: a PEM file") from error
        if self.ssl_certfile:
            try:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile or None)
            except OSError as error:
                where = (
                    f"{names.SSL_CERTFILE.name}={self.ssl_certfile!r}, {names.SSL_KEYFILE.name}={self.ssl_keyfile!r}"
                )
                raise SettingError(f"{where}: {error}; allowed: PEM files that belong together") from error
        return context

    def kafka_options(self) -> dict[str, Any]:
        """Connection options for every kafka-python client.

        Raises:
            SettingError: see ``ssl_context``.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.brokers),
            "security_protocol": self.security_protocol,
            "reconnect_backoff_max_ms": 2000,
        }
        if self.tls:
            options["ssl_context"] = self.ssl_context()
        if self.sasl:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        return options


def _check(found: BrokerSettings) -> None:
    protocol = f"{names.SECURITY_PROTOCOL.name}={found.security_protocol}"
    tls = ((names.SSL_CAFILE, found.ssl_cafile), (names.SSL_CERTFILE, found.ssl_certfile))
    login = ((names.SASL_USERNAME, found.sasl_username), (names.SASL_PASSWORD, found.sasl_password))
    for setting, value in (*tls, (names.SSL_KEYFILE, found.ssl_keyfile)):
        if value and not found.tls:
            raise SettingError(f"{setting.name}={value!r} has no effect with {protocol}; allowed there: SSL, SASL_SSL")
    for setting, value in login:
        if value and not found.sasl:
            raise SettingError(
                f"{setting.name} is set, but {protocol} logs in nowhere; allowed: SASL_SSL or SASL_PLAINTEXT"
            )
        if found.sasl and not value:
            raise SettingError(f"{setting.name}='': {protocol} needs it; allowed: {setting.allowed}")
    if found.ssl_keyfile and not found.ssl_certfile:
        raise SettingError(f"{names.SSL_CERTFILE.name}='': {names.SSL_KEYFILE.name} needs it; allowed: a file")


def _readable(setting: Setting[str], path: str) -> None:
    if path and not Path(path).is_file():
        raise SettingError(f"{setting.name}={path!r}: no such file; allowed: {setting.allowed}")


# --- clients ----------------------------------------------------------------------------------------------------------


def _reach(settings: BrokerSettings, timeout_s: float) -> None:
    """Try the brokers one after the other until one answers; raise what the last one said."""
    options, failure = settings.kafka_options(), None
    for address in settings.brokers:
        try:
            attempt(address, options, timeout_s)
        except BusError as error:
            failure = error
        else:
            return
    if failure is not None:
        raise failure


def _client(settings: BrokerSettings, make: Callable[..., Client], **options: Any) -> Client:
    _reach(settings, CONNECT_S)
    limits = {"bootstrap_timeout_ms": int(CONNECT_S * 1000)}
    nets: list[KafkaNetClient] = []

    def net(**configs: Any) -> KafkaNetClient:
        nets.append(KafkaNetClient(**configs))
        return nets[-1]

    try:
        return make(**{**settings.kafka_options(), **limits, **options}, kafka_client=net)
    except kafka_errors.KafkaError as error:
        # A constructor that fails leaves its sockets open.
        for opened in nets:
            with contextlib.suppress(kafka_errors.KafkaError):
                opened.close()
        raise explain(settings.address, error, settings.sasl_username) from error


def producer(settings: BrokerSettings, client_id: str, **options: Any) -> KafkaProducer:
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
    return _client(settings, KafkaProducer, **{**defaults, **options})


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


def discard(client: KafkaProducer) -> None:
    """Close a producer at once, whatever it still holds: its own close waits for the broker, and may raise."""
    client._unregister_cleanup()
    if not client._closed:
        client._sender.force_close()
        client._sender.join(CONNECT_S)
        client._closed = True


# --- topics -----------------------------------------------------------------------------------------------------------


def topic_configs(topic: Topic) -> dict[str, str]:
    """The broker-side settings of ``topic``."""
    configs = {
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        # A node whose clock runs hours ahead is reported, not refused; Apache Kafka's default refuses after one hour.
        "message.timestamp.after.max.ms": str(2**63 - 1),
    }
    if topic.retention_ms is None:
        return {**configs, "cleanup.policy": "compact"}
    return {**configs, "cleanup.policy": "delete", "retention.ms": str(topic.retention_ms)}


def ensure_topics(settings: BrokerSettings, topics: Iterable[Topic] = TOPICS) -> list[str]:
    """Create those of ``topics`` that are missing and return their names.

    Topics that exist are left as they are (``paceline doctor`` compares them); another process that creates them at
    the same time is no error. Replication is the broker's default.

    Raises:
        BusError: no broker, or no right to create.
    """
    with contextlib.closing(admin(settings)) as client:
        try:
            existing = set(client.list_topics())
            return [topic.name for topic in topics if topic.name not in existing and _create(client, topic)]
        except kafka_errors.KafkaError as error:
            raise explain(settings.address, error, settings.sasl_username) from error


def _create(client: KafkaAdminClient, topic: Topic) -> bool:
    row = {"num_partitions": topic.partitions, "replication_factor": -1, "configs": topic_configs(topic)}
    try:
        client.create_topics({topic.name: row}, wait_for_metadata=True)
    except kafka_errors.TopicAlreadyExistsError:
        return False
    return True


def wait_for_broker(
    settings: BrokerSettings,
    deadline_s: float,
    on_wait: Callable[[str], None] = lambda cause: None,
) -> None:
    """Return as soon as a broker answers and lets us in; tell ``on_wait`` once a second what it waits for.

    Raises:
        BusError: not within ``deadline_s`` seconds, or waiting cannot help (wrong password, untrusted certificate).
    """
    end = time.monotonic() + deadline_s
    told = 0.0
    while True:
        left = end - time.monotonic()
        try:
            _reach(settings, max(1.0, min(CONNECT_S, left)))
        except BusError as error:
            now = time.monotonic()
            if error.permanent or now >= end:
                raise
            if now - told >= 1.0:
                on_wait(str(error))
                told = now
            time.sleep(min(0.1, max(0.0, end - now)))
        else:
            return
