"""Paceline's own services as child processes of one command: started, watched, and stopped together.

Rule of this file: a service writes into a log file of its own, dies with us whatever ends us, and when it ends before
it should, the last lines of its log say why. Nothing here knows what a service does.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from paceline.child import kill_tree, spawn
from paceline.commands.ports import PortClaims
from paceline.settings import TLS_CERTFILE, TLS_KEYFILE

#: From SIGTERM until what is left is killed. Nothing is lost by that: a worker reads again what it had not stored.
STOP_S = 2.0
TAIL_LINES = 12


class ServiceError(RuntimeError):
    """A service ended before it should: its name, status, and the last lines it wrote."""


class Service:
    """One service, running."""

    def __init__(self, name: str, command: list[str], environ: Mapping[str, str], log: Path, nice: int = 0) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            # One that hangs in its own end would meet the next broker at the same address, and join its group.
            self.process = spawn(command, output, environ, nice, death=signal.SIGKILL)

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

    def kill(self) -> None:
        """End it and what it has started; what is left of its own session, too, where it has ended before."""
        if self.process.poll() is None:
            kill_tree(self.process.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def ignore_signals() -> None:
    """We are ending; a second Ctrl-C must not leave half of it running."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class Services:
    """The services of one command, with their logs in ``folder``. Leaving the ``with`` block stops them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[Service] = []
        self._ports = PortClaims()

    def port(self, wanted: int) -> int:
        """A port for a service that is started later: ``wanted``, or any free one where somebody has that."""
        return self._ports.claim(wanted)

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
        ignore_signals()
        for service in reversed(self._running):
            if service.process.poll() is None:
                service.process.terminate()
        deadline = time.monotonic() + STOP_S
        for service in reversed(self._running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                service.process.wait(max(deadline - time.monotonic(), 0.05))
        for service in self._running:
            service.kill()
        self._running.clear()
        self._ports.close()

    def __enter__(self) -> "Services":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
