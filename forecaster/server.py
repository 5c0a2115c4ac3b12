"""Where the service is put together: models, memory, consumer, publisher, back-fill, application, and its server.

Rule of this file: real things are built here and handed down.
"""

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from paceline import hosts, tls
from paceline.http_login import parted
from paceline.install import install
from paceline.kafka.settings import BrokerSettings
from paceline.prometheus import PrometheusError
from paceline.settings import ALLOWED_HOSTS, ARCHIVE
from paceline.topics import DEVICE, FORECAST, JOB, PROFILE, WINDOW
from paceline.web.starting import ServerError, listen, make_topics, run

from . import gate
from .api.app import application
from .api.executor import ForecastExecutor
from .consumer import EventConsumer
from .memory import Memory
from .models import foundation, network, patches
from .models.model import UnsuitedError
from .models.registry import Registry, registry
from .prometheus import backfill
from .publisher import ALONE_SHARE, SHARE, ForecastPublisher

logger = logging.getLogger("paceline.forecaster")

Part = EventConsumer | ForecastPublisher


def serve(args: argparse.Namespace, token: str) -> int:
    """Serve until SIGTERM; the exit status.

    Raises:
        ServerError: an option cannot be followed, or the port is taken.
    """
    held = tls.certificate(os.environ, args.tls_cert, args.tls_key)
    models = _models(args)
    listening = listen(args.address, args.port, logger)
    memory, executor = Memory(), ForecastExecutor(models, max(1, args.processors))
    parts: list[Part] = []
    if not args.no_bus:
        settings = BrokerSettings.from_environ(os.environ, args.brokers)
        settings.ssl_context()
        make_topics(settings, "only what is sent along is answered", logger, (JOB, WINDOW, DEVICE, FORECAST, PROFILE))
        consumer = EventConsumer(settings, memory)

        def share() -> float:
            return SHARE if executor.waiting else ALONE_SHARE

        parts = [consumer, ForecastPublisher(settings, memory, models, lambda: consumer.waits() is None, share)]
    where = args.archive or ARCHIVE.read(os.environ)
    if where:
        _fill(where, memory)
    if args.prometheus:
        try:
            logger.info("%d values from %s", backfill(args.prometheus, memory), parted(args.prometheus)[0])
        except PrometheusError as error:
            raise ServerError(str(error)) from error
    names = hosts.answered(args.address, ALLOWED_HOSTS.read(os.environ))
    app = application(
        executor, memory, token, lambda: waits(parts), names, lambda: dict(part.restarts for part in parts)
    )
    for part in parts:
        part.start()
    try:
        run(app, listening, held, args.log_level, logger)
    finally:
        for part in parts:
            part.stop()
        listening.close()
    return 0


def _fill(where: str, memory: Memory) -> None:
    try:
        from .archive import filled
    except ModuleNotFoundError as error:
        logger.warning("nothing is filled from the archive: %s; %s", error, install("history"))
        return
    filled(where, os.environ, memory)


def waits(parts: Sequence[Part]) -> str | None:
    """What the first of ``parts`` that cannot go on waits for; None where all can."""
    return next((said for part in parts if (said := part.waits())), None)


def _models(args: argparse.Namespace) -> Registry:
    option = "--network"
    try:
        weights = network.read(Path(args.network)) if args.network else network.shipped()
        option = "--pretrained"
        pretrained = patches.read(Path(args.pretrained)) if args.pretrained else patches.shipped()
        option = "--chronos"
        pipeline = foundation.load(args.chronos) if args.chronos else None
        return registry(weights, pipeline, gate.shipped(), pretrained)
    except (OSError, ValueError, KeyError, UnsuitedError) as error:
        raise ServerError(f"{option}: {error}") from error
