"""``python -m control.recorder FOLDER``: records one session. Control starts it, the lock of the folder in hand."""

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from paceline.delivery.publisher import Publisher
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.settings import SettingError
from paceline.terminal import log_to_stderr
from paceline.topics import SESSION

from ..sessions.folder import SessionFolder
from ..sessions.manifest import ManifestError
from ..sessions.store import SessionStore
from .pace import PaceRequests
from .recording import Recording

log = logging.getLogger("paceline.recorder")
#: What is left to be told gets so long at the end.
CLOSE_S = 5.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(prog="python -m control.recorder", description=__doc__)
    made.add_argument("folder", type=Path, metavar="FOLDER", help="the session's folder")
    made.add_argument("--finish", action="store_true", help="read what the brokers hold now, and end")
    made.add_argument("--lock", type=int, metavar="FD", help="the descriptor that holds the folder's lock")
    add_brokers_option(made)
    return made


def main(argv: Sequence[str]) -> int:
    """Record until asked to end; the exit status."""
    options = parser().parse_args(argv)
    log_to_stderr("info")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    folder = SessionFolder(options.folder)
    try:
        lock = folder.take_lock() if options.lock is None else options.lock
        os.set_inheritable(lock, False)
        return _record(options, folder, stop)
    except BlockingIOError:
        log.error("%s is being recorded already", folder.name)
    except (BusError, ManifestError, SettingError, OSError) as error:
        log.error("%s", error)
    return 1


def _record(options: argparse.Namespace, folder: SessionFolder, stop: threading.Event) -> int:
    settings = BrokerSettings.from_environ(os.environ, options.brokers)
    publisher = Publisher(settings, client_id="paceline-recorder", on_warning=log.warning)
    try:
        definition = SessionStore(folder.path.parent).definition(folder.name)
        pace = PaceRequests(definition, f"session {folder.name} on {socket.gethostname()}", publisher.publish)
        recording = Recording(
            folder,
            settings,
            lambda state: publisher.publish(SESSION, state),
            stop,
            finish=options.finish,
            on_turn=(lambda progress, now_s: None) if options.finish else pace.turn,
        )
        state = recording.run()
        pace.end()
        log.info(
            "%s: %s, %d messages%s", folder.name, state.state, state.messages, f" ({state.reason})" * bool(state.reason)
        )
        return 0 if state.state == "stopped" else 1
    finally:
        publisher.close(CLOSE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
