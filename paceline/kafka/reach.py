"""Whether a broker answers and lets us in.

Rule of this file: one connection to one address, tried and closed again; nothing is kept. The cause is found in the
order in which a connection is made: name, port, TLS, login.
"""

import logging
import socket
import ssl
import time
from collections.abc import Callable

from kafka import errors

from paceline.kafka import compat
from paceline.kafka.errors import BusError, explain
from paceline.kafka.settings import BrokerSettings, split

#: How long one attempt to connect may take.
CONNECT_S = 5.0


def attempt(address: str, settings: BrokerSettings, timeout_s: float) -> None:
    """Connect to ``address`` once, up to and including the login that ``settings`` say.

    Raises:
        BusError: it failed; the line says where.
    """
    quieten()
    options = settings.kafka_options()
    context: ssl.SSLContext | None = options.get("ssl_context")
    try:
        with socket.create_connection(split(address), timeout=timeout_s) as plain:
            if context is not None:
                with context.wrap_socket(plain, server_hostname=split(address)[0]):
                    pass
        compat.hello(address, options, timeout_s)
    except errors.KafkaError as error:
        if context is None and _speaks_tls(address, timeout_s):
            mend = "set PACELINE_SECURITY_PROTOCOL to SSL or SASL_SSL"
            raise BusError(address, "that port speaks TLS", mend, permanent=True) from error
        raise explain(address, error, settings.user, by_token=settings.by_token) from error
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


def reach(settings: BrokerSettings, timeout_s: float) -> None:
    """Try the brokers one after the other until one answers.

    Raises:
        BusError: none does; it says why the last one did not.
    """
    failure = None
    for address in settings.brokers:
        try:
            attempt(address, settings, timeout_s)
        except BusError as error:
            failure = error
        else:
            return
    if failure is not None:
        raise failure


def listens(settings: BrokerSettings) -> bool:
    """Whether anything listens at the first broker's address, Kafka or not; known within half a second."""
    try:
        socket.create_connection(split(settings.brokers[0]), timeout=0.5).close()
    except OSError:
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
            reach(settings, max(1.0, min(CONNECT_S, left)))
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


def quieten() -> None:
    """Keep the client's own log lines (several a second while a broker is away) out of the user's log.

    Whoever sets a level on the logger ``kafka`` keeps it.
    """
    logger = logging.getLogger("kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
