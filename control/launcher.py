"""Recorders: processes of their own, started with the lock of their session in hand.

Rule of this file: a recorder owes its life to nobody. It outlives control, and whether one lives is asked of the lock
in its folder, never of a process id.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

import msgspec

from .sessions.folder import SessionFolder
from .sessions.manifest import read_manifest
from .sessions.store import LIVE

#: What recorders get to bring to disk what they have, when control is told to end.
STOP_S = 4.0
#: What is kept of a recorder's log.
_MOST_LOG_BYTES = 4 * 1024 * 1024


class Launcher:
    """Starts recorders of the brokers ``brokers`` (None: those of ``environ``)."""

    def __init__(self, environ: Mapping[str, str], brokers: str | None) -> None:
        self._environ, self._brokers = dict(environ), brokers
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, folder: SessionFolder, *, finish: bool = False) -> None:
        """Start the recorder of ``folder``; with ``finish`` one that ends where the brokers are now.

        Raises:
            BlockingIOError: it has one.
            ManifestError: its files cannot be used.
            OSError: it cannot be started.
        """
        self._reap()
        lock = folder.take_lock()
        command = [sys.executable, "-P", "-m", f"{__package__}.recorder", str(folder.path), "--lock", str(lock)]
        command += ["--finish"] if finish else []
        command += ["--brokers", self._brokers] if self._brokers else []
        try:
            if folder.log.exists() and folder.log.stat().st_size > _MOST_LOG_BYTES:
                folder.log.unlink()
            _begin_again(folder)
            with folder.log.open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 - our own module, with arguments of our own
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environ,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
        finally:
            os.close(lock)
        with self._lock:
            self._running[folder.name] = process

    def tell_to_pause(self) -> list["subprocess.Popen[bytes]"]:
        """Control ends: its recorders bring to disk what they have, and are gone on with when it starts again."""
        with self._lock:
            running = list(self._running.values())
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        return running

    def pause(self) -> None:
        """Tell them to, and wait for them a while."""
        running = self.tell_to_pause()
        end = time.monotonic() + STOP_S
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.05, end - time.monotonic()))

    def _reap(self) -> None:
        with self._lock:
            self._running = {name: process for name, process in self._running.items() if process.poll() is None}


def _begin_again(folder: SessionFolder) -> None:
    """Let the manifest of a session that had ended report its new recorder, which takes a second to write its own."""
    manifest = read_manifest(folder.manifest)
    if manifest.state.state not in LIVE:
        manifest.state = msgspec.structs.replace(manifest.state, state="starting", reason="", stopped_s=None)
        folder.replace(folder.manifest, msgspec.json.encode(manifest))
