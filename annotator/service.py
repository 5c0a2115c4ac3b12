"""The service, put together: threads that read, a loop that writes, health and metrics.

Rule of this file: the one place where the real things are built. Nothing is written before bus and cluster were read
whole once.
"""

import contextlib
import os
import socket
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from random import Random

from paceline import hosts
from paceline.exposition import text
from paceline.health import Health, serve
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings
from paceline.settings import ALLOWED_HOSTS, CLUSTER
from paceline.terminal import say

from .annotating import TURN_S, Annotating, Doors
from .book import Book
from .budget import Budget
from .bus_reader import BusReader
from .condition_teller import ConditionTeller
from .discovery import Discovery
from .dry_run import DryConditions, DryRun
from .event_teller import EventTeller
from .happenings import Happenings
from .kube_api import NODES, PODS, KubeApi, configuration
from .kube_objects import KubeObjects
from .meters import AnnotatorMeters
from .owner_reader import OwnerReader
from .owners import Owners
from .parts import Parts
from .plan import Planner
from .watcher import Watcher
from .writer import Writer

PROGRAM = "paceline annotate"
#: How long ``--once`` takes at most; how long threads are waited for at the end.
ONCE_S, STOP_S = 600.0, 5.0
#: How long a broker is waited for before ``--once`` gives up.
ANSWER_S = 10.0


def run(args: Namespace, kinds: frozenset[tuple[str, str]], stop: threading.Event) -> int:
    """Annotate until ``stop`` is set, or with ``--once`` until all is written; the exit status.

    Raises:
        SettingError, BusError: it cannot begin.
    """
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    api = KubeApi(configuration(args.kubeconfig, args.context, os.environ))
    with contextlib.closing(api):
        if args.once:
            wait_for_broker(settings, ANSWER_S)
        parts = build(api, settings, args, kinds, stop, tell)
        tell(f"annotating {api.host} from {settings.address}" + (", writing nothing" if args.dry_run else ""))
        with _served(parts, args), _reading(parts, stop):
            return _once(parts, stop) if args.once else _forever(parts, stop)


def build(
    api: KubeApi,
    settings: BrokerSettings,
    args: Namespace,
    kinds: frozenset[tuple[str, str]],
    stop: threading.Event,
    tell: Callable[[str], None],
    every_s: float | None = None,
) -> Parts:
    """All parts, not started; ``tell`` has what the operator should know, ``every_s`` other than the usual pace."""
    lock, random = threading.Lock(), Random()
    book, objects, owners = Book(CLUSTER.read(os.environ)), KubeObjects(pretend=args.dry_run), Owners(kinds)
    discovery = Discovery(api)
    reader = OwnerReader(api, discovery, owners, lock, tell)
    if args.dry_run:
        dry = DryRun(objects, owners, lock)
        doors = Doors(dry, reader, dry if args.events else None, DryConditions(dry) if args.node_condition else None)
    else:
        conditions = ConditionTeller(api) if args.node_condition else None
        writer = Writer(api, discovery, objects, owners, lock)
        doors = Doors(writer, reader, EventTeller(api) if args.events else None, conditions)
    planner = Planner(book, objects, owners, args.propose_taints)
    budget = Budget(args.rate, random) if every_s is None else Budget(args.rate, random, every_s)
    instance = os.environ.get("POD_NAME") or socket.gethostname()
    annotating = Annotating(book, objects, planner, budget, Happenings(instance), doors, lock, tell)
    watchers = [Watcher(api, PODS, name, objects, lock, stop, tell) for name in args.namespace or [""]]
    watchers.append(Watcher(api, NODES, "", objects, lock, stop, tell))
    return Parts(api, BusReader(settings, book, lock, stop, tell), watchers, annotating, objects, book)


def tell(line: str) -> None:
    """A line for the operator."""
    say(line, PROGRAM)


def _forever(parts: Parts, stop: threading.Event) -> int:
    while not stop.wait(TURN_S):
        if parts.read():
            parts.annotating.turn(time.time())
    return 1 if parts.bus.ended else 0


def _once(parts: Parts, stop: threading.Event) -> int:
    end = time.monotonic() + ONCE_S
    looked = False
    while time.monotonic() < end and not stop.wait(TURN_S):
        if not parts.read():
            continue
        now_s = time.time()
        if looked and not parts.annotating.waits():
            refused = [watcher.refused for watcher in parts.watchers if watcher.refused]
            return 1 if refused or parts.annotating.failed else 0
        parts.annotating.turn(now_s)
        parts.annotating.look(time.time())
        looked = True
    tell(f"not done: {parts.waits() or f'{parts.annotating.waiting()} objects are still to be written'}")
    return 1


@contextlib.contextmanager
def _reading(parts: Parts, stop: threading.Event) -> Iterator[None]:
    threads = [parts.bus.thread, *(watcher.thread for watcher in parts.watchers)]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        stop.set()
        # A watch that hears nothing is in a read that may last: closing its connections ends it.
        for thread in threads:
            thread.stop(STOP_S if thread is parts.bus.thread else 0.5)


@contextlib.contextmanager
def _served(parts: Parts, args: Namespace) -> Iterator[None]:
    """Serve health and metrics, where a port is named."""
    if not args.web_port:
        yield
        return
    meters = AnnotatorMeters(parts)
    names = hosts.answered(args.web_address, ALLOWED_HOSTS.read(os.environ))
    health = Health(parts.waits, lambda: text(meters.families()), names)
    with contextlib.closing(serve(args.web_address, args.web_port, health)):
        yield
