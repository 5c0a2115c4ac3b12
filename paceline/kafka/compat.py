"""What kafka-python 3.0 does not offer: every use of its private names is here.

Rule of this file: nothing else in the house names ``kafka.net`` or a private attribute of a client, so a new version
of kafka-python needs reading here alone (pyproject.toml pins it).
"""

import contextlib
import socket
import ssl
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords

from paceline.kafka.batches import Checked, PassedOver, Tell, batches
from paceline.kafka.decompression import gunzip, refuse, unzstd
from paceline.kafka.errors import NoTokenError
from paceline.kafka.tokens import TokenError, TokenSource

Client = TypeVar("Client")
#: How long a producer's thread gets to end when its messages are dropped.
_JOIN_S = 5.0


class _DataFirst:
    """A socket that has its data read before it tells that the connection has ended.

    The client reads until there is no more, and drops all of it where that is the end: of a broker that refuses a login
    and hangs up, the refusal. Where it is closed in the middle of connecting it drops the socket, too: one that nobody
    holds any more is closed.
    """

    _has_read = False

    def __del__(self) -> None:
        self.close()  # type: ignore[attr-defined]

    def recv(self, *sizes: int) -> bytes:
        data: bytes = super().recv(*sizes)  # type: ignore[misc]
        ends_now = not data and self._has_read
        self._has_read = bool(data)
        if ends_now:
            raise BlockingIOError  # To the client: nothing more for now. The next time it is told the end.
        return data


class _PlainSocket(_DataFirst, socket.socket):
    pass


class _TlsSocket(_DataFirst, ssl.SSLSocket):
    pass


class _DirectSocket(KafkaNetSocket):  # type: ignore[misc]
    """A plain connection that closes its socket where connecting fails.

    The client's own leaves a refused socket to the garbage collector, one for every try while a broker is away. It
    picks the class by the scheme of ``proxy_url`` (``_understood``); there is no proxy.
    """

    SCHEMES = ("paceline-direct",)

    def socket(self, family: int = -1, sock_type: int = -1, proto: int = -1) -> _PlainSocket:
        return _PlainSocket(family, sock_type, proto)

    async def sock_connect(
        self, net: Any, sock: _PlainSocket, sockaddr: Any, timeout_at: float | None = None
    ) -> _PlainSocket:
        try:
            await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise
        return sock


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """A source of tokens as the client wants it."""

    def __init__(self, source: TokenSource) -> None:
        super().__init__()
        self._source = source

    def token(self) -> str:
        try:
            return self._source.token()
        except TokenError as error:
            raise NoTokenError(error) from error


def _understood(options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` as the client takes them, for connections that are the ones above."""
    context: ssl.SSLContext | None = options.get("ssl_context")
    if context is not None:
        context.sslsocket_class = _TlsSocket
    source = options.get("sasl_oauth_token_provider")
    tokens = {"sasl_oauth_token_provider": _Tokens(source)} if isinstance(source, TokenSource) else {}
    return {"proxy_url": "paceline-direct://", **options, **tokens}


def construct(make: Callable[..., Client], **options: Any) -> Client:
    """The client that ``make`` makes of ``options``; where that fails, the sockets it opened are closed.

    Raises:
        KafkaError: it failed.
    """
    nets: list[KafkaNetClient] = []

    def net(**configs: Any) -> KafkaNetClient:
        nets.append(KafkaNetClient(**configs))
        return nets[-1]

    try:
        return make(**_understood(options), kafka_client=net)
    except errors.KafkaError:
        for opened in nets:
            with contextlib.suppress(errors.KafkaError):
                opened.close()
        raise


def hello(address: str, options: Mapping[str, Any], timeout_s: float) -> None:
    """Connect to ``address`` and log in, as a client does, ask for nothing in particular, and close again.

    Raises:
        KafkaError: it failed.
    """
    net = NetworkSelector()
    manager = KafkaConnectionManager(net, **{**_understood(options), "bootstrap_servers": [address]})

    async def connect() -> None:
        node = manager.cluster.bootstrap_brokers()[0].node_id
        await manager.get_connection(node, timeout_ms=timeout_s * 1000, refresh_metadata_on_err=False)
        # A port that wants a login lets anybody connect, and closes the connection at the first question.
        await manager.send(manager.cluster.metadata_request(), node, request_timeout_ms=timeout_s * 1000)

    try:
        net.run(connect)
    finally:
        with contextlib.suppress(errors.KafkaError):
            manager.close()
        net.close()


def offsets(
    ask: Callable[..., dict[TopicPartition, int]], partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[TopicPartition, int]:
    """What ``ask``, a consumer's ``end_offsets`` or ``beginning_offsets``, says of ``partitions``.

    Raises:
        LeaderNotAvailableError: nobody leads one of them at the moment; the client's own is a bare KeyError.
        KafkaError: no answer.
    """
    try:
        return ask(partitions, timeout_ms=int(timeout_s * 1000))
    except KeyError as error:
        raise errors.LeaderNotAvailableError(f"no broker leads a partition of {error.args[0].topic}") from error


def topics(consumer: KafkaConsumer, timeout_s: float) -> set[str]:
    """The topics on the brokers, asked for again; the client's own ``topics`` waits half a minute where they hang.

    Raises:
        KafkaError: the brokers did not answer in time.
    """
    cluster, timeout_ms = consumer._cluster, timeout_s * 1000
    if cluster.metadata_refresh_in_progress:
        consumer._net.run(consumer._manager.wait_for, cluster.request_update(), timeout_ms)
    before, cluster.need_all_topic_metadata = cluster.need_all_topic_metadata, True
    try:
        consumer._net.run(consumer._manager.wait_for, cluster.request_update(), timeout_ms)
    finally:
        cluster.need_all_topic_metadata = before
    return set(cluster.topics())


def refused_topics(consumer: KafkaConsumer, names: Collection[str], timeout_s: float) -> set[str]:
    """Those of ``names`` that the brokers do not let us see; of one that is not there they say so too.

    Raises:
        KafkaError: the brokers did not answer in time.
    """
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    manager, timeout_ms = consumer._manager, int(timeout_s * 1000)
    answer = consumer._net.run(manager.wait_for, manager.send(request, request_timeout_ms=timeout_ms), timeout_ms)
    refused = errors.TopicAuthorizationFailedError.errno
    return {topic.name for topic in answer.topics if topic.error_code == refused}


def known_id(answered: object) -> str:
    """A topic's id in an answer; empty where it is None or zero: brokers before Apache Kafka 2.8 have none."""
    return str(answered) if answered is not None and uuid.UUID(str(answered)).int else ""


def topic_id(consumer: KafkaConsumer, topic: str) -> str:
    """The id of ``topic`` as of the last answer; empty where it is not known."""
    return known_id(consumer._cluster.topic_id(topic))


def cluster_id(consumer: KafkaConsumer) -> str:
    """The id of the cluster as of the last answer; empty where it is not known."""
    return str(consumer._cluster.cluster_id or "")


class BoundedBatch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch that unpacks to so much and no more."""

    _buffer: bytearray
    _pos: int
    _decompressed: bool

    def _maybe_uncompress(self) -> None:
        if self._decompressed or self.compression_type == self.CODEC_NONE:
            super()._maybe_uncompress()
            return
        unpack = {self.CODEC_GZIP: gunzip, self.CODEC_ZSTD: unzstd}.get(self.compression_type, refuse)
        self._buffer = bytearray(unpack(memoryview(self._buffer)[self._pos :]))
        self._pos, self._decompressed = 0, True


class _Records:
    """What a fetch brought of a partition; the client knows its end when it asks for the first batch."""

    def __init__(self, records: MemoryRecords, position: int, end: Callable[[], int | None], tell: Tell) -> None:
        self._data, self._position, self._end, self._tell = records._buffer, position, end, tell
        self._batches: Iterator[PassedOver | Checked] | None = None

    def next_batch(self) -> PassedOver | Checked | None:
        """The next batch, or None."""
        if self._batches is None:
            self._batches = batches(self._data, self._position, self._end(), BoundedBatch, self._tell)
        return next(self._batches, None)


def bound(consumer: KafkaConsumer, on_unreadable: Callable[[str, str], None]) -> None:
    """Let no batch stop the reading, nor unpack to more than there is room for: its topic and the reason are told."""
    fetcher = consumer._fetcher
    plain = fetcher.PartitionRecords

    def partition_records(fetch_offset: int, partition: Any, records: MemoryRecords, **options: Any) -> Any:
        def tell(first: int, after: int, reason: str) -> None:
            on_unreadable(partition.topic, reason)

        def end() -> int | None:
            known: int | None = fetcher._subscriptions.assignment[partition].highwater
            return known

        records._next_slice = records._buffer or None  # To the client, an answer without a whole batch is a failure.
        return plain(fetch_offset, partition, _Records(records, fetch_offset, end, tell), **options)

    fetcher.PartitionRecords = partition_records


def on_reset(consumer: KafkaConsumer, tell: Callable[[TopicPartition, int], None]) -> None:
    """Let ``tell`` have each partition whose next offset the brokers do not hold, and that offset.

    The client then goes on by its ``auto_offset_reset``, without a word.
    """
    subscriptions = consumer._subscription
    reset = subscriptions.request_offset_reset

    def request_offset_reset(partition: TopicPartition, *strategy: Any) -> None:
        position = subscriptions.assignment[partition].position
        if position is not None:
            tell(partition, position.offset)
        reset(partition, *strategy)

    subscriptions.request_offset_reset = request_offset_reset


def remove_exit_handler(producer: KafkaProducer) -> None:
    """Take away the producer's exit handler: it would wait for a broker that is away, and may raise."""
    producer._unregister_cleanup()


def discard(producer: KafkaProducer) -> None:
    """Close a producer at once, whatever it still holds: its own close waits for the broker, and may raise."""
    producer._unregister_cleanup()
    if not producer._closed:
        producer._sender.force_close()
        producer._sender.join(_JOIN_S)
        producer._closed = True
