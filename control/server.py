"""Where the service is put together: book, reader, recorders, application, and its server.

Rule of this file: real things are built here and handed down.
"""

import argparse
import logging
import os
import threading
import time
from importlib.metadata import entry_points
from pathlib import Path

from paceline import hosts, service_modules, tls
from paceline.control_access import own_token, sessions_folder, token_file
from paceline.delivery.publisher import Publisher
from paceline.kafka.settings import BrokerSettings
from paceline.patience import patient
from paceline.settings import ALLOWED_HOSTS, CLUSTER, CONTROL_TOKEN
from paceline.web.starting import listen, make_topics, run
from paceline.web.token import guard
from paceline.words import listed

from .api import captures, gswarm, jobs, sessions, suggestions
from .api.app import Parts, application
from .book import Book
from .captures import CaptureBook
from .changes import MOST_RECORDING, SessionChanges, Teller
from .following import BusReader
from .launcher import Launcher
from .meters import Meters
from .outgoing import Outgoing
from .recorder.recording import BROKERS_AWAY
from .sessions.store import SessionStore

logger = logging.getLogger("paceline.control")
#: Where services that are installed offer what their thresholds may be.
THRESHOLDS = "paceline.thresholds"
CLOSE_S = 5.0
#: A change that is asked for right after a start waits so long for what the brokers say.
SETTLE_S = 10.0


def serve(args: argparse.Namespace) -> int:
    """Serve until SIGTERM; the exit status.

    Raises:
        ServerError: an option cannot be followed, or the port is taken.
        SettingError: a setting cannot be used.
    """
    environ = os.environ
    settings = BrokerSettings.from_environ(environ, args.brokers)
    settings.ssl_context()
    held = tls.certificate(environ, args.tls_cert, args.tls_key)
    token, cluster = own_token(environ), CLUSTER.read(environ)
    store = SessionStore(Path(args.sessions_dir) if args.sessions_dir else sessions_folder(environ))
    listening = listen(args.address, args.port, logger)
    make_topics(settings, "nothing can be changed", logger)
    book = Book()
    traces = CaptureBook()
    reader = BusReader(settings, book, traces, lambda: _go_on(changes, BROKERS_AWAY))
    publisher = Publisher(settings, client_id="paceline-control", on_warning=logger.warning)
    patience_s = patient(SETTLE_S, environ)
    outgoing = Outgoing(publisher, cluster, lambda: reader.settled(patience_s))
    launcher = Launcher(environ, args.brokers)
    changes = SessionChanges(store, launcher, book, Teller(outgoing.session, outgoing.audit, outgoing.check))
    allowed, ending = guard(token, CONTROL_TOKEN), threading.Event()

    def end() -> None:
        ending.set()
        launcher.tell_to_pause()

    routers = [
        sessions.router(changes, book, sessions.Reading(store, ending, time.monotonic), cluster, allowed),
        suggestions.router(book, outgoing, allowed),
        jobs.router(book, outgoing, cluster, allowed, _threshold_refusal()),
        captures.router(traces, book, outgoing, cluster, allowed),
        gswarm.router(book, changes, cluster, allowed),
    ]
    meters = Meters(
        lambda: reader.waits() is None,
        lambda: reader.restarts,
        changes.states,
        changes.here,
        lambda: dict(reader.left_out),
    )
    names = hosts.answered(args.address, ALLOWED_HOSTS.read(environ))
    app = application(Parts(routers, reader.waits, meters, names))
    for left in store.clear():
        logger.info("%s: left by a crash, and removed", left)
    reader.start()
    _go_on(changes)
    logger.info("sessions in %s; the token is that of %s", store.root, _whence(token_file(environ)))
    try:
        run(app, listening, held, args.log_level, logger, end)
    finally:
        launcher.pause()
        reader.stop()
        publisher.close(CLOSE_S)
        listening.close()
    return 0


def _go_on(changes: SessionChanges, because: str = "") -> None:
    gone_on = changes.go_on(because)
    for name in gone_on.started:
        logger.info("%s: it was not stopped, so it continues", name)
    if gone_on.left:
        logger.warning(
            "%d sessions are recorded at a time: left interrupted, %s; recover them when others have ended",
            MOST_RECORDING,
            listed("session", gone_on.left),
        )


def _whence(made: Path) -> str:
    return CONTROL_TOKEN.name if CONTROL_TOKEN.read(os.environ) else str(made)


def _threshold_refusal() -> jobs.ThresholdRefusal:
    """What says why a threshold cannot be set to a value: that of the streams, where they are installed."""
    for entry in entry_points(group=THRESHOLDS):
        try:
            return service_modules.load(entry)  # type: ignore[no-any-return]
        except ImportError as error:
            logger.warning("thresholds are not checked here: %s", error)
    return lambda name, value: None
