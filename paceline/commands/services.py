"""Paceline's own services as child processes of one command: started, watched, and stopped together.

Rule of this file: a service writes into a log file of its own, dies with us whatever ends us, and when it ends before
it should, the last lines of its log say why. Nothing here knows what a service does.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from paceline.child import spawn
from paceline.settings import TLS_CERTFILE, TLS_KEYFILE

#: From SIGTERM until what is left is killed.
STOP_S = 8.0
TAIL_LINES = 12


class ServiceError(RuntimeError):
    """A service ended before it should: its name, status, and the last lines it wrote."""


class Service:
    """One service, running."""

    def __init__(self, name: str, command: list[str], environ: Mapping[str, str], log: Path, nice: int = 0) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self.process = spawn(command, output, environ, nice)

    def check(self) -> None:
        """Return while it runs.

        Raises:
            ServiceError: it has ended.
        """
        status = self.process.poll()
        if status is not None:
            lines = self.log.read_bytes()[-8192:].decode(errors="replace").splitlines()[-TAIL_LINES:]
            said = "\n".join(f"  | {line}" for line in lines) or "  | (it wrote nothing)"
            raise ServiceError(f"{self.name} ended (status {status}); its last lines, from {self.log}:\n{said}")

    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to it and to what it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Services:
    """The services of one command. Leaving the ``with`` block stops them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="paceline-logs-"))
        self._running: list[Service] = []

    def start(self, name: str, *options: str, environ: Mapping[str, str], nice: int = 0) -> Service:
        """Start ``paceline NAME OPTIONS``; ``nice`` to all others by so much."""
        # -P: the folder we stand in may hold a `streams` or `collectors` of its own.
        command = [sys.executable, "-P", "-m", "paceline", name, *options]
        # They are asked on loopback by each other, and here; a certificate is of a name that others know.
        own = {key: value for key, value in environ.items() if key not in (TLS_CERTFILE.name, TLS_KEYFILE.name)}
        service = Service(name, command, own, self.folder / f"{name}.log", nice)
        self._running.append(service)
        return service

    def check(self) -> None:
        """Return while all run.

        Raises:
            ServiceError: one has ended.
        """
        for service in self._running:
            service.check()

    def stop(self) -> None:
        """SIGTERM to all, the last started first; SIGKILL to what is left after ``STOP_S``."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # We are ending; a second Ctrl-C must not leave half of it running.
        for service in reversed(self._running):
            if service.process.poll() is None:
                service.process.terminate()
        deadline = time.monotonic() + STOP_S
        for service in reversed(self._running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                service.process.wait(max(deadline - time.monotonic(), 0.05))
        for service in self._running:
            service.signal_all(signal.SIGKILL)  # Also what a service had started and left behind.
            service.process.wait()
        self._running.clear()

    def __enter__(self) -> "Services":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
