"""``paceline collect``: builds the agent's parts once and hands them down.

Rule of this file: real things are made here and nowhere else in this folder.
"""

import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from paceline import rated
from paceline.command_rules import Action, CommandRules, Reader, node_target
from paceline.gpu import amd, nvml
from paceline.gpu.driver import Load
from paceline.http_login import authorization
from paceline.identity import node_of
from paceline.settings import ALLOWED_HOSTS, CLUSTER, DCGM_LOGIN, NO_COMMANDS, SPOOL_BYTES

from .actions import actions
from .agent import Agent, Identity
from .buffers import DeviceBuffer, GpuBuffer, HostBuffer
from .gpu import Gpus
from .host import Host
from .logs import to_stderr
from .options import parse
from .pace import Pace
from .pod_buffer import PodBuffer
from .pod_resources import SOCKET, PodResources
from .processes import ProcessOwners
from .publishers import EventPublisher, RecordingPublisher
from .rated_buffer import RatedBuffer
from .sampler import Sampler

if TYPE_CHECKING:  # It imports the Kafka client, which takes a while; a recording needs none.
    from paceline.command_reader import CommandReader
    from paceline.health import HealthServer

log = logging.getLogger("paceline.collect")
#: Seconds that messages still held get to reach the brokers when the agent ends.
FLUSH_S = 5.0
#: Seconds between two looks at whether it is time to ask which pods hold the GPUs.
POD_TICK_S = 1.0
#: Seconds between two looks at whether it is time to look at the file of rated speeds.
RATED_TICK_S = 1.0


def main(argv: list[str] | None = None) -> int:
    """Run the agent until SIGTERM, Ctrl-C or the end it was given; return the exit status."""
    environ = os.environ
    options = parse(sys.argv[1:] if argv is None else argv, environ)
    to_stderr(verbose=options.verbose)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    identity = Identity(
        cluster=CLUSTER.read(environ),
        node=options.node or node_of(environ, socket.gethostname()),
        producer=f"collect-{os.getpid()}-{secrets.token_hex(4)}",
    )
    obeys = not (options.no_commands or NO_COMMANDS.read(environ))
    publisher, web = _publisher(options, environ, identity, stop), None
    if options.web_port:
        publisher, web = _metered(publisher, options, environ, identity)
    pace, commands = Pace(options.interval), None
    if not (options.stdout or options.once):
        known = actions(pace, time.monotonic, _floor_s(options))
        commands = _commands(options, environ, identity, publisher, obeys=obeys, known=known)
    devices = PodBuffer(_devices(options), _kubelet(options), expected=options.pod_resources is not None)
    speeds = RatedBuffer(devices, rated.path_of(environ, identity.node), identity.node)
    agent = Agent(
        identity,
        HostBuffer(Host()),
        speeds,
        publisher,
        options.interval,
        (lambda: None) if commands is None else partial(commands.turn, {node_target(identity.node)}),
        pace,
        [Sampler("pod", POD_TICK_S, devices.look), Sampler("rated", RATED_TICK_S, speeds.look)],
    )
    if options.once:
        agent.once(stop)
    else:
        agent.run(stop, options.seconds)
    if commands is not None:
        commands.close()
    if web is not None:
        web.close()
    publisher.close(FLUSH_S)
    return 0


def _metered(
    publisher: EventPublisher, options: Namespace, environ: Mapping[str, str], identity: Identity
) -> "tuple[EventPublisher, HealthServer]":
    """What is published through, now also heard by what ``/metrics`` tells.

    Raises:
        SettingError: the port is taken.
    """
    from paceline import hosts
    from paceline.exposition import text
    from paceline.health import Health, serve

    from .meters import MeteredPublisher, NewestSamples

    samples = NewestSamples(identity.node, options.interval, time.monotonic)
    names = hosts.answered(options.web_address, ALLOWED_HOSTS.read(environ))
    health = Health(samples.waits, lambda: text(samples.families()), names)
    server = serve(options.web_address, options.web_port, health)
    return MeteredPublisher(publisher, samples), server


def _commands(
    options: Namespace,
    environ: Mapping[str, str],
    identity: Identity,
    publisher: EventPublisher,
    *,
    obeys: bool,
    known: Mapping[str, Action],
) -> "CommandReader":
    """A reader that knows the actions ``known``, and answers through ``publisher``."""
    from paceline.command_reader import CommandReader
    from paceline.kafka.settings import BrokerSettings

    rules = CommandRules(Reader("collectors", identity.node, identity.cluster), known, obeys=obeys, since_s=time.time())
    settings = BrokerSettings.from_environ(environ, options.brokers)
    return CommandReader(settings, f"paceline-collect-{identity.node}-commands", rules, publisher.publish, _not_heard)


def _not_heard(cause: str) -> None:
    log.warning("commands are not received: %s", cause)


def _floor_s(options: Namespace) -> float:
    """How seldom GPUs are told of at least: an exporter has a pace of its own."""
    if not options.dcgm:
        return 0.0
    from .scraper import SCRAPE_S

    return max(SCRAPE_S, float(options.interval))


def _devices(options: Namespace) -> DeviceBuffer:
    if not options.dcgm:
        return GpuBuffer(Gpus(*_loads(options)), ProcessOwners())
    from .scraper import ExporterBuffer, fetch

    login = partial(authorization, options.dcgm, DCGM_LOGIN, os.environ)
    return ExporterBuffer(partial(fetch, options.dcgm, login=login), 0.0 if options.once else _floor_s(options))


def _kubelet(options: Namespace) -> PodResources | None:
    """The kubelet to ask; no real one knows of simulated GPUs, unless one is named."""
    if options.pod_resources is None:
        return None if options.simulate else PodResources(SOCKET)
    return None if options.pod_resources == "none" else PodResources(Path(options.pod_resources))


def _loads(options: Namespace) -> tuple[Load, ...]:
    if not options.simulate:
        return nvml.load, amd.load
    from .simulated import SimulatedNvml

    simulated = SimulatedNvml(options.simulate, now=time.monotonic)
    return (lambda: nvml.Nvml(simulated),)


def _publisher(
    options: Namespace, environ: Mapping[str, str], identity: Identity, stop: threading.Event
) -> EventPublisher:
    if options.stdout:
        return RecordingPublisher(on_broken=stop.set)
    from paceline.delivery.publisher import Publisher
    from paceline.kafka.settings import BrokerSettings

    settings = BrokerSettings.from_environ(environ, options.brokers)
    spool = Path(options.spool) if options.spool else None
    most = SPOOL_BYTES.read(environ)
    name = f"paceline-collect-{identity.node}"
    return Publisher(settings, client_id=name, spool_dir=spool, spool_bytes=most, on_warning=log.warning)


if __name__ == "__main__":
    sys.exit(main())
