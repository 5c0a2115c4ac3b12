"""The stack as `docker compose up` starts it: each service when those that it waits for are as far as it asks.

Rule of this file: starting, asking for health, ending. Health is asked as the containers' own checks ask.
"""

import contextlib
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from paceline.child import spawn
from paceline.terminal import say

from ..processes import ROOT, STOP_S, RunError
from .compose import Service
from .natively import Natively, Program, absent, java

#: A one-shot service's time; and how much slower than the check's own patience this machine may be.
ONCE_S, SLOWER = 120.0, 4.0


class Stack(contextlib.ExitStack):
    """Running services by name; all end when the block does, the last first."""

    def __init__(self, natively: Natively, folder: Path) -> None:
        super().__init__()
        self._natively, self._folder = natively, folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.programs: dict[str, Program] = {}

    def up(self, services: Mapping[str, Service]) -> list[str]:
        """Start them all in order; the names of those that could not be.

        Raises:
            RunError: one that another waits for does not become what it must be.
        """
        left = [name for name, service in services.items() if absent(service)]
        for name, service in services.items():
            if name in left:
                continue
            for other, condition in service.waits_for.items():
                if other not in left:
                    self._wait(services[other], condition)
            self.start(service)
        return left

    def start(self, service: Service) -> None:
        """Start one."""
        program = self._natively.program(service)
        self.programs[service.name] = program
        environ = {**program.environ, "PYTHONPATH": str(ROOT)}
        with (self._folder / f"{service.name}.log").open("ab") as log:
            process = spawn(program.command, log, environ)
        self.processes[service.name] = process
        self.callback(_end, process)
        say(f"started {service.name}")

    def healthy(self, name: str) -> bool:
        """What the container's own check says now."""
        program = self.programs[name]
        if program.health[0] == "wget":  # Which the image brings.
            url = program.health[-1]
            with (
                contextlib.suppress(OSError, urllib.error.URLError),
                urllib.request.urlopen(url, timeout=4) as reply,
            ):
                return bool(reply.status == 200)
            return False
        command = program.health
        if command[0].endswith("kafka-topics.sh"):
            command = [*java("org.apache.kafka.tools.TopicCommand").split(), *command[1:]]
        environ = {**program.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environ, capture_output=True, check=False, cwd=self._folder)
        return done.returncode == 0

    def check(self, once: tuple[str, ...] = ()) -> None:
        """Raise where one has ended that should not."""
        for name, process in self.processes.items():
            if process.poll() not in ((None, 0) if name in once else (None,)):
                raise RunError(f"{name} ended with status {process.returncode}; it said: {self.said(name)}")

    def said(self, name: str) -> str:
        """Its last words."""
        return " / ".join((self._folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:])

    def _wait(self, service: Service, condition: str) -> None:
        name, process = service.name, self.processes[service.name]
        if condition == "service_completed_successfully":
            try:
                status = process.wait(ONCE_S)
            except subprocess.TimeoutExpired:
                raise RunError(f"{name} does not end; it said: {self.said(name)}") from None
            if status:
                raise RunError(f"{name} ended with status {status}; it said: {self.said(name)}")
        elif condition == "service_healthy":
            self.until_healthy(service)

    def until_healthy(self, service: Service) -> None:
        """Wait until its check says so.

        Raises:
            RunError: it does not in time.
        """
        if service.health is None:
            raise RunError(f"{service.name} has no health check, and is waited for")
        began = time.monotonic()
        while not self.healthy(service.name):
            if self.processes[service.name].poll() is not None:
                raise RunError(f"{service.name} ended; it said: {self.said(service.name)}")
            if time.monotonic() - began > SLOWER * service.health.within_s:
                raise RunError(f"{service.name} is not healthy; it said: {self.said(service.name)}")
            time.sleep(0.5)
        if time.monotonic() - began > 1:
            say(f"{service.name} is healthy after {time.monotonic() - began:.0f} s")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
