"""What kafka-python 3.0 does not offer: every use of its private names is here.

Rule of this file: nothing else in the house names ``kafka.net`` or a private attribute of a client, so a new version
of kafka-python needs reading here alone (pyproject.toml pins it).
"""

import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafka import KafkaConsumer, KafkaProducer, errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

Client = TypeVar("Client")
#: How long a producer's thread gets to end when its messages are dropped.
_JOIN_S = 5.0


class _DirectSocket(KafkaNetSocket):  # type: ignore[misc]
    """A plain connection that closes its socket where connecting fails.

    The client's own leaves a refused socket to the garbage collector, one for every try while a broker is away. It
    picks the class by the scheme of ``proxy_url`` (``_DIRECT``); there is no proxy.
    """

    SCHEMES = ("paceline-direct",)

    async def sock_connect(
        self, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None
    ) -> socket.socket:
        try:
            await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise
        return sock


_DIRECT = {"proxy_url": "paceline-direct://"}


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
        return make(**_DIRECT, **options, kafka_client=net)
    except errors.KafkaError:
        for opened in nets:
            with contextlib.suppress(errors.KafkaError):
                opened.close()
        raise


def hello(address: str, options: Mapping[str, Any], timeout_s: float) -> None:
    """Connect to ``address`` and log in, as a client does, and close again.

    Raises:
        KafkaError: it failed.
    """
    net = NetworkSelector()
    manager = KafkaConnectionManager(net, **{**_DIRECT, **options, "bootstrap_servers": [address]})

    async def connect() -> None:
        node = manager.cluster.bootstrap_brokers()[0].node_id
        await manager.get_connection(node, timeout_ms=timeout_s * 1000, refresh_metadata_on_err=False)

    try:
        net.run(connect)
    finally:
        with contextlib.suppress(errors.KafkaError):
            manager.close()
        net.close()


def topics(consumer: KafkaConsumer, timeout_s: float) -> set[str]:
    """The topics on the brokers, asked for anew; the client's own ``topics`` waits half a minute where they hang.

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
