"""The service, put together: the threads that archive, to files and to a database, health and metrics.

Rule of this file: the one place where the real things are built.
"""

import contextlib
import logging
import os
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline import hosts
from paceline import topics as topic_table
from paceline.exposition import text
from paceline.health import Health, serve
from paceline.history.store import LocalFiles, Store, open_store
from paceline.history.tables import ARCHIVED
from paceline.kafka.settings import BrokerSettings
from paceline.prometheus import PrometheusError
from paceline.prometheus_server import checked
from paceline.settings import ALLOWED_HOSTS, CLUSTER, DATABASE, SettingError
from paceline.topics import Topic
from paceline.words import many

from .archiver import Archiver, Follows
from .database.address import in_folder
from .database.mirror import DatabaseMirror
from .merging import Days
from .meters import ArchiveMeters
from .sources.backfill import Back, Backfill
from .sources.feeder import Feeder, Source
from .sources.sacct import Asked, Sacct

log = logging.getLogger("paceline.archive")
#: How long the last commit of rows may take at the end.
STOP_S = 60.0


def run(args: Namespace, topics: Sequence[Topic], stop: threading.Event) -> int:
    """Archive ``topics`` until ``stop`` is set; the exit status.

    Raises:
        SettingError, StoreError: it cannot begin.
    """
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    store = open_store(args.to, os.environ)
    days = Days(args.keep_raw_days, args.keep_windows_days, args.keep_documents_days, args.detail_days)
    feeders = [Feeder(source, stop) for source in _sources(args, store)]
    iceberg = None if args.iceberg is None else _iceberg(store, args.iceberg)
    archiver = Archiver(settings, store, topics, days, args.commit_seconds, stop, feeders=feeders, iceberg=iceberg)
    mirror = None if args.no_database else _mirror(settings, store, stop)
    with _served(archiver, mirror, args):
        log.info("archiving %s to %s", settings.address, store.where)
        for thread in (archiver.thread, *(feeder.thread for feeder in feeders)):
            thread.start()
        if mirror is not None:
            log.info("jobs, findings and suggestions go to %s", mirror.shown)
            mirror.start()
        stop.wait()
        ended = archiver.thread.stop(STOP_S)
        ended = (mirror is None or mirror.stop()) and ended
    if not ended:
        log.warning("the last rows were not committed in time: they are read again at the next start")
        return 1
    rows, commits = (int(archiver.totals().get(name, 0)) for name in ("rows", "commits"))
    log.info("%s in %s", many(rows, "row"), many(commits, "commit"))
    return 0


def _sources(args: Namespace, store: Store) -> Iterator[Source]:
    """What is archived beside the bus.

    Raises:
        SettingError: an address is none.
    """
    cluster = CLUSTER.read(os.environ)
    if args.prometheus:
        try:
            url = checked(args.prometheus)
        except PrometheusError as error:
            raise SettingError(f"--prometheus: {error}") from error
        yield Backfill(url, store, cluster, Back(args.prometheus_every, args.prometheus_days))
    if args.sacct:
        yield Sacct(store, cluster, Asked(args.sacct_every, args.sacct_days))


def _iceberg(store: Store, uri: str) -> Follows:
    from .iceberg import IcebergFollower  # It takes a second to import, and most do without.

    return IcebergFollower(store, uri, os.environ)


def chosen(names: list[str]) -> tuple[Topic, ...]:
    """The topics called so, all that are archived where none is named.

    Raises:
        KeyError: one is not known, or not archived.
    """
    wanted = [topic_table.resolve(name) for name in names]
    for topic in wanted:
        if topic not in ARCHIVED:
            raise KeyError(f"{topic.short} is not archived; {', '.join(one.short for one in ARCHIVED)} are")
    return tuple(dict.fromkeys(wanted)) or ARCHIVED


def _mirror(settings: BrokerSettings, store: Store, stop: threading.Event) -> DatabaseMirror | None:
    """Who writes the database; None where none is named, and there is no folder for a file of its own.

    Raises:
        SettingError: PACELINE_DATABASE is no address of one.
    """
    url = DATABASE.read(os.environ)
    if not url and not isinstance(store.files, LocalFiles):
        log.info("an archive in a bucket has no database unless %s names one", DATABASE.name)
        return None
    if not url:
        with contextlib.suppress(OSError):  # The database then waits, and its warning says why.
            Path(store.where).mkdir(parents=True, exist_ok=True, mode=0o750)
    return DatabaseMirror(settings, url or in_folder(Path(store.where).absolute()), stop)


@contextlib.contextmanager
def _served(archiver: Archiver, mirror: DatabaseMirror | None, args: Namespace) -> Iterator[None]:
    """Serve health and metrics, where a port is named."""
    if not args.web_port:
        yield
        return
    meters = ArchiveMeters(archiver, mirror)
    names = hosts.answered(args.web_address, ALLOWED_HOSTS.read(os.environ))
    health = Health(meters.waits, lambda: text(meters.families()), names)
    with contextlib.closing(serve(args.web_address, args.web_port, health)):
        yield
