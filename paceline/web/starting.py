"""How an HTTP service starts: it takes its port, has its topics made, and answers until it is stopped.

Rule of this file: whatever keeps a service from starting is a ``ServerError`` of one line.
"""

import logging
import signal
import socket
from collections.abc import Callable, Collection
from typing import Any

from paceline import hosts
from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.tls import Certificate
from paceline.topics import TOPICS, Topic

from .shell import server

#: How long a broker may take to answer; a service answers without one.
BROKER_S = 2.0


class ServerError(RuntimeError):
    """The service cannot start: cause and fix, in one line."""


def listen(address: str, port: int, logger: logging.Logger) -> socket.socket:
    """A socket of our own at ``address``; beyond this machine is warned of.

    Raises:
        ServerError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise ServerError(f"cannot listen on {address}:{port}: {error}; choose another --port") from error
    if address not in hosts.LOOPBACK:
        logger.warning(
            "listening beyond this machine: anyone who can reach %s may read; changes need the token", address
        )
    return listening


def make_topics(
    settings: BrokerSettings, without: str, logger: logging.Logger, topics: Collection[Topic] = TOPICS
) -> None:
    """Make ``topics`` that are missing, where a broker answers at once; else warn of what goes on ``without``.

    Raises:
        ServerError: the brokers will never have us.
    """
    try:
        wait_for_broker(settings, BROKER_S)
        ensure_topics(settings, topics)
    except BusError as error:
        if error.permanent:
            raise ServerError(str(error)) from error
        logger.warning("%s; until then %s", error, without)


def run(
    app: Any,
    listening: socket.socket,
    held: Certificate | None,
    log_level: str,
    logger: logging.Logger,
    on_end: Callable[[], object] = lambda: None,
) -> None:
    """Answer by ``app`` on ``listening`` until SIGTERM, over TLS where a certificate is ``held``.

    ``on_end`` is called at the signal, before the answers that are on their way are waited for.
    """
    host, port = listening.getsockname()[:2]
    logger.info("listening on http%s://%s:%d; the interface is described at /docs", "s" if held else "", host, port)
    # The server stops by itself and then sends itself the signal again: that one shall not end us before we are done.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    serving = server(
        app,
        on_end=on_end,
        log_level=log_level,
        log_config=None,
        ssl_certfile=held.certfile if held else None,
        ssl_keyfile=held.keyfile if held else None,
    )
    serving.run(sockets=[listening])
