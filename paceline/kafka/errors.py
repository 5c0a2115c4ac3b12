"""Why a broker cannot be reached, in one line: what the clients hide behind "Unable to bootstrap".

Rule of this file: one connection to one address, tried and closed again; nothing is kept. The cause is found in the
order in which a connection is made: name, port, TLS, login.
"""

import contextlib
import logging
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from kafka import errors
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

_START = "start one with `paceline up` or `make kafka`, or set PACELINE_BROKERS"
_NO_TLS = "that port may not speak TLS: set PACELINE_SECURITY_PROTOCOL to PLAINTEXT or SASL_PLAINTEXT"
_WANTS_MORE = "that port may want TLS or a login: set PACELINE_SECURITY_PROTOCOL to SSL, SASL_PLAINTEXT or SASL_SSL"
#: Part of what the client says -> (cause, mend, whether waiting cannot help).
_CAUSES: tuple[tuple[str, str, str, bool], ...] = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not trusted",
        "set PACELINE_SSL_CAFILE",
        True,
    ),
    ("certificate required", "it asks for our certificate", "set PACELINE_SSL_CERTFILE and PACELINE_SSL_KEYFILE", True),
    ("WRONG_VERSION_NUMBER", "TLS failed", _NO_TLS, True),
    ("RECORD_LAYER_FAILURE", "TLS failed", _NO_TLS, True),
    ("UNEXPECTED_EOF", "it closed the connection during TLS", _NO_TLS, False),
    ("does not support", "it does not offer this way to log in", "set PACELINE_SASL_MECHANISM", True),
    ("UnsupportedSaslMechanism", "it does not offer this way to log in", "set PACELINE_SASL_MECHANISM", True),
    ("IllegalSaslState", "it asks for no login", "set PACELINE_SECURITY_PROTOCOL to PLAINTEXT or SSL", True),
    ("ECONNREFUSED", "connection refused", _START, False),
    ("refused", "connection refused", _START, False),
    ("ECONNRESET", "it closed the connection", _WANTS_MORE, False),
    ("imed out", "no answer in time", "check the address in PACELINE_BROKERS and the firewall between", False),
)


class BusError(RuntimeError):
    """Kafka cannot be used. Its one line names the address, the cause and the mend.

    ``permanent`` tells that waiting cannot help: a wrong password, an untrusted certificate.
    """

    def __init__(self, address: str, cause: str, mend: str, *, permanent: bool = False) -> None:
        super().__init__(f"Kafka at {address}: {cause}; {mend}")
        self.address, self.cause, self.mend, self.permanent = address, cause, mend, permanent


def explain(address: str, error: BaseException, username: str | None = None) -> BusError:
    """``error`` as a line for a person."""
    if isinstance(error, BusError):
        return error
    said = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, errors.SaslAuthenticationFailedError):
        mend = "check PACELINE_SASL_USERNAME, PACELINE_SASL_PASSWORD and PACELINE_SASL_MECHANISM"
        return BusError(address, f"login refused for user {username!r} (wrong password or user)", mend, permanent=True)
    if isinstance(error, errors.AuthorizationError):
        return BusError(address, f"not allowed: {said}", "ask for an ACL (docs/deploy.md)", permanent=True)
    if isinstance(error, socket.gaierror):
        return BusError(address, "no such host", "check PACELINE_BROKERS")
    for part, cause, mend, permanent in _CAUSES:
        if part in said:
            return BusError(address, f"{cause} ({said})" if part != said else cause, mend, permanent=permanent)
    if isinstance(error, errors.KafkaConnectionError) and said == "KafkaConnectionError":
        return BusError(address, "it closed the connection", _WANTS_MORE)
    return BusError(address, f"{type(error).__name__}: {said}", "run `paceline doctor`")


def split(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; ``[::1]:9092`` is an IPv6 address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def attempt(address: str, options: Mapping[str, Any], timeout_s: float) -> None:
    """Connect to ``address`` once, up to and including the login.

    Raises:
        BusError: it failed; the line says where.
    """
    quieten()
    context: ssl.SSLContext | None = options.get("ssl_context")
    try:
        with socket.create_connection(split(address), timeout=timeout_s) as plain:
            if context is not None:
                with context.wrap_socket(plain, server_hostname=split(address)[0]):
                    pass
        _hello(address, options, timeout_s)
    except errors.KafkaError as error:
        if context is None and _speaks_tls(address, timeout_s):
            mend = "set PACELINE_SECURITY_PROTOCOL to SSL or SASL_SSL"
            raise BusError(address, "that port speaks TLS", mend, permanent=True) from error
        raise explain(address, error, options.get("sasl_plain_username")) from error
    except OSError as error:
        raise explain(address, error) from error


def _speaks_tls(address: str, timeout_s: float) -> bool:
    """Whether a TLS handshake succeeds, whoever is there: asked only to explain, nothing is sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(split(address), timeout=timeout_s) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _hello(address: str, options: Mapping[str, Any], timeout_s: float) -> None:
    net = NetworkSelector()
    manager = KafkaConnectionManager(net, **{**options, "bootstrap_servers": [address]})

    async def connect() -> None:
        node = manager.cluster.bootstrap_brokers()[0].node_id
        await manager.get_connection(node, timeout_ms=timeout_s * 1000, refresh_metadata_on_err=False)

    try:
        net.run(connect)
    finally:
        with contextlib.suppress(errors.KafkaError):
            manager.close()
        net.close()


async def _connect(
    self: KafkaNetSocket, net: Any, sock: socket.socket, sockaddr: Any, timeout_at: float | None = None
) -> socket.socket:
    """Connect ``sock``, and close it where that fails.

    The client leaves a refused socket to the garbage collector, one for every try while a broker is away.
    """
    try:
        await _connect_or_leak(self, net, sock, sockaddr, timeout_at=timeout_at)
    except BaseException:
        sock.close()
        raise
    return sock


_connect_or_leak = KafkaNetSocket.sock_connect
KafkaNetSocket.sock_connect = _connect


def quieten() -> None:
    """Keep the client's own log lines (several a second while a broker is away) out of the user's log.

    Whoever sets a level on the logger ``kafka`` keeps it.
    """
    logger = logging.getLogger("kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
