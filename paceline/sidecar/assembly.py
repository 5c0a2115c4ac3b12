"""Builds a sidecar's parts from its options and the environment.

Rule of this file: it is imported once ranks can connect, for the Kafka client takes a while to load. What cannot be
built is left out with one line of warning; a sidecar with no sink at all still listens, so that no rank ever waits.
"""

import argparse
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from paceline.command_reader import CommandReader
from paceline.command_rules import CommandRules, Reader
from paceline.delivery.orphans import Orphans
from paceline.delivery.publisher import Publisher
from paceline.delivery.spool import SpoolError
from paceline.delivery.spool_folders import own_folder, remove_empty, spool_root
from paceline.identity import node_of
from paceline.kafka.errors import RIGHTS
from paceline.kafka.reach import listens
from paceline.kafka.settings import BrokerSettings, optional_settings
from paceline.launchers import own_local_rank
from paceline.settings import BROKERS, CAPTURES, CLUSTER, NO_COMMANDS, SPOOL_BYTES, SettingError
from paceline.sidecar.actions import actions
from paceline.sidecar.balance import Balance
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.captures import Captures
from paceline.sidecar.plan_reader import PlanReader
from paceline.sidecar.sinks import PipeSink, RecordingSink, Sink, TrackingSink, Warn

T = TypeVar("T")
#: Messages that may wait while a piece of a trace is put behind them.
SHORT_QUEUE = 16


class BusSink:
    """The bus: what is put is on disk in ``spool`` at once, unless there is none, and is delivered from there."""

    def __init__(self, settings: BrokerSettings, node: str, spool: Path | None, limit_bytes: int, warn: Warn) -> None:
        name = f"paceline-sidecar-{node}"
        self.settings = settings
        self._warn, self._limit_bytes = warn, limit_bytes
        self._publisher = Publisher(
            settings, client_id=name, spool_dir=spool, on_warning=warn, spool_bytes=limit_bytes, write_ahead=True
        )
        self._spool = spool
        self._orphans = None
        if spool is not None:
            self._orphans = Orphans(
                settings, spool.parent, spool, client_id=name, limit_bytes=limit_bytes, on_warning=warn
            )

    def put(self, outgoing: Outgoing) -> None:
        """Queue the event."""
        self._publisher.publish(outgoing.topic, outgoing.event)

    def flush(self) -> None:
        """Nothing to do: the publisher has its own thread."""

    def has_room(self) -> bool:
        """Whether a large message pushes out nothing: the brokers take what comes, and hardly anything waits."""
        stats = self._publisher.stats()
        waiting = stats.pending + stats.spooled
        return stats.connected and waiting <= SHORT_QUEUE and stats.spooled_bytes <= self._limit_bytes // 8

    def settled(self) -> bool:
        """Whether it is all on disk, or on the bus."""
        return self._publisher.stats().pending == 0

    def close(self, timeout_s: float) -> None:
        """Send what is queued for at most ``timeout_s``; what is left stays on disk for the next sidecar."""
        if self._orphans is not None:
            self._orphans.close(0.0)
        shed = self._publisher.close(timeout_s).shed
        if shed:
            self._warn(f"{shed} messages will never reach Kafka: there was no room for them, or it refused them")
        if self._spool is not None:
            remove_empty(self._spool)


class Parts(NamedTuple):
    """What a sidecar is made of; ``commands`` where there is a bus to hear them from.

    ``plans`` where it may be obeyed, too: a plan that comes from there changes the training as a command may.
    """

    batcher: Batcher
    balance: Balance
    sinks: list[Sink]
    commands: CommandReader | None = None
    plans: PlanReader | None = None
    #: Profiler traces on their way to the bus, and who takes them there: they are no part of a recording.
    captures: Captures | None = None
    capture_sink: BusSink | None = None


def build(options: argparse.Namespace, environ: Mapping[str, str], warn: Warn) -> Parts:
    """What ``options`` and ``environ`` ask for."""
    node = node_of(environ, socket.gethostname())
    producer = f"{node}-{os.getpid()}-{secrets.token_hex(3)}"
    # What runs us for one task among several of this node has the task's environment.
    place = own_local_rank(environ)
    origin = Origin(CLUSTER.read(environ), node, producer, str(place) if place else "")
    batcher = Batcher(origin, options.job)
    balance = Balance(batcher, CLUSTER.read(environ))
    makers: list[Callable[[], Sink | None]] = []
    if options.events_fd is not None:
        makers.append(lambda: PipeSink(options.events_fd, warn))
    if options.tracking_fd is not None:
        makers.append(lambda: TrackingSink(options.tracking_fd, warn))
    if options.record:
        makers.append(lambda: RecordingSink(options.record, warn))
    sinks = [sink for make in makers if (sink := _made(make, warn)) is not None]
    bus = _made(lambda: _bus(options, environ, node, warn), warn)
    if bus is None:
        return Parts(batcher, balance, sinks)
    obeys = not (options.no_commands or NO_COMMANDS.read(environ))
    captures = None
    if options.captures or CAPTURES.read(environ):
        folder = options.socket.with_name(f"{options.socket.name}.captures")
        captures = Captures(CLUSTER.read(environ), node, folder, time.monotonic)
    unheard = _unheard(warn)
    commands = _made(lambda: _commands(obeys, environ, node, batcher, bus, captures, unheard), warn)
    plans = PlanReader(bus.settings, f"paceline-sidecar-{node}-plans", unheard) if obeys else None
    return Parts(batcher, balance, [*sinks, bus], commands, plans, captures, bus)


def _made(make: Callable[[], T | None], warn: Warn) -> T | None:
    try:
        return make()
    except (OSError, SettingError) as error:
        warn(f"{error}; training goes on")
        return None


def _commands(
    obeys: bool,
    environ: Mapping[str, str],
    node: str,
    batcher: Batcher,
    bus: BusSink,
    captures: Captures | None,
    on_lost: Warn,
) -> CommandReader:
    """A reader that answers through ``bus``."""
    reader = Reader("sidecar", node, CLUSTER.read(environ))
    rules = CommandRules(reader, actions(batcher, time.monotonic, captures), obeys=obeys, since_s=time.time())
    return CommandReader(
        bus.settings,
        f"paceline-sidecar-{node}-commands",
        rules,
        lambda topic, entry: bus.put(Outgoing(topic, entry)),
        on_lost,
    )


def _unheard(warn: Warn) -> Warn:
    """Tells of a right to read that is missing, and of no outage: the publisher does that."""

    def tell(cause: str) -> None:
        if RIGHTS in cause:
            warn(f"{cause}; training goes on")

    return tell


def _bus(options: argparse.Namespace, environ: Mapping[str, str], node: str, warn: Warn) -> BusSink | None:
    """A publisher where brokers are named, or where one is found at the default address."""
    settings = optional_settings(environ, options.brokers)
    if settings is None:
        return None
    named = options.brokers or environ.get(BROKERS.name)
    if not named and not listens(settings):
        if not options.quiet:
            warn(f"no Kafka at {settings.address} (paceline up starts one): findings come on this terminal alone")
        return None
    return BusSink(settings, node, _spool(options, environ, node, warn), SPOOL_BYTES.read(environ), warn)


def _spool(options: argparse.Namespace, environ: Mapping[str, str], node: str, warn: Warn) -> Path | None:
    try:
        root = spool_root(environ)
    except SpoolError as error:
        warn(f"{error}. Events wait in memory")
        return None
    return None if root is None else own_folder(root, node, options.socket)
