"""Where the service is put together: models, memory, consumer, publisher, back-fill, application, and its server.

Rule of this file: real things are built here and handed down.
"""

import argparse
import logging
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from paceline import hosts
from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.prometheus import PrometheusError
from paceline.settings import ALLOWED_HOSTS
from paceline.topics import DEVICE, FORECAST, JOB, PROFILE, WINDOW

from .api.app import application
from .api.executor import ForecastExecutor
from .consumer import EventConsumer
from .memory import Memory
from .models import foundation, network
from .models.model import UnsuitedError
from .models.registry import Registry, registry
from .prometheus import backfill
from .publisher import ForecastPublisher

logger = logging.getLogger("paceline.forecaster")

Part = EventConsumer | ForecastPublisher


class ServerError(RuntimeError):
    """The service cannot start: cause and mend, in one line."""


def serve(args: argparse.Namespace, token: str) -> int:
    """Serve until SIGTERM; the exit status.

    Raises:
        ServerError: an option cannot be followed, or the port is taken.
    """
    models = _models(args)
    listening = _listen(args.address, args.port)
    memory, executor = Memory(), ForecastExecutor(models, max(1, args.processors))
    parts: list[Part] = []
    if not args.no_bus:
        settings = BrokerSettings.from_environ(os.environ, args.brokers)
        settings.ssl_context()
        _prepare(settings)
        parts = [EventConsumer(settings, memory), ForecastPublisher(settings, memory, models)]
    if args.prometheus:
        try:
            logger.info("%d values from %s", backfill(args.prometheus, memory), args.prometheus)
        except PrometheusError as error:
            raise ServerError(str(error)) from error
    names = hosts.answered(args.address, ALLOWED_HOSTS.read(os.environ))
    app = application(
        executor, memory, token, lambda: waits(parts), names, lambda: dict(part.restarts for part in parts)
    )
    for part in parts:
        part.start()
    host, port = listening.getsockname()[:2]
    logger.info("listening on http://%s:%d; the interface is described at /docs", host, port)
    # The server stops by itself and then sends itself the signal again: that one shall not end us before we are done.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    try:
        config = uvicorn.Config(app, log_level=args.log_level, access_log=False, log_config=None)
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        for part in parts:
            part.stop()
        listening.close()
    return 0


def waits(parts: Sequence[Part]) -> str | None:
    """What the first of ``parts`` that cannot go on waits for; None where all can."""
    return next((said for part in parts if (said := part.waits())), None)


def _models(args: argparse.Namespace) -> Registry:
    try:
        weights = network.read(Path(args.network)) if args.network else network.shipped()
        return registry(weights, foundation.load(args.chronos) if args.chronos else None)
    except (OSError, ValueError, KeyError, UnsuitedError) as error:
        option = "--chronos" if isinstance(error, UnsuitedError) else "--network"
        raise ServerError(f"{option}: {error}") from error


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise ServerError(f"cannot listen on {address}:{port}: {error}; choose another --port") from error
    if address not in hosts.LOOPBACK:
        logger.warning("listening beyond this machine: whoever reaches %s may ask; changes want the token", address)
    return listening


def _prepare(settings: BrokerSettings) -> None:
    """Make the topics that are missing, where a broker answers at once; the service answers without one."""
    try:
        wait_for_broker(settings, 2.0)
        ensure_topics(settings, (JOB, WINDOW, DEVICE, FORECAST, PROFILE))
    except BusError as error:
        if error.permanent:
            raise ServerError(str(error)) from error
        logger.warning("%s; until then only what is sent along is answered", error)
