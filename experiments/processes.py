"""The processes of an experiment: Apache Kafka and workers, each with what it said in a file.

Rule of this file: starting, asking and ending; nothing is measured here.
"""

import contextlib
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from experiments import kernel_counters
from paceline import child
from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings

ROOT = Path(__file__).parents[1]
READY_S = 170.0
STOP_S = 30.0
#: Below those that kernels choose from: what connects out takes none of them while a program is down.
PORTS = range(30_000, 32_700)


class RunError(Exception):
    """The run cannot go on: why, on one line."""


@contextlib.contextmanager
def apache_kafka() -> Iterator[BrokerSettings]:
    """A node of our own with nothing on it; its data goes when it stops."""
    with tempfile.TemporaryDirectory(prefix="paceline-experiment-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        environ = {**os.environ, "PORT": str(port), "DATA": f"{folder}/data", "HEAP": "1g"}
        settings = BrokerSettings().with_brokers(f"127.0.0.1:{port}")
        with started([str(ROOT / "deploy/kafka/kafka.sh")], Path(folder) / "kafka.log", environ) as process:
            try:
                until(process, lambda: answers(port), "Apache Kafka")
                wait_for_broker(settings, 30.0)
            except BusError as error:
                raise RunError(str(error)) from error
            yield settings


class Worker:
    """A ``paceline streams`` process and its own counters."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.port = port

    def ask(self, path: str) -> str | None:
        """What it serves under ``path``; None while it serves nothing there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=10.0) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return None

    def count(self, metric: str, labels: str = ".*") -> int:
        """The sum of one of its counters over its labels, or over those that ``labels``, a pattern, matches."""
        found = re.findall(
            rf"^paceline_streams_{metric}(?:{{{labels}}})? (\S+)$", self.ask("metrics") or "", re.MULTILINE
        )
        return int(sum(map(float, found)))

    def processor_s(self) -> float:
        """Processor time it has used so far, user and system."""
        return kernel_counters.processor_s(self.process.pid)

    def memory_peak_bytes(self) -> int:
        """The most memory that it has held so far."""
        return kernel_counters.memory_peak_bytes(self.process.pid)

    def check(self) -> None:
        """Raise where it has ended."""
        if self.process.poll() is not None:
            raise RunError(f"paceline streams ended with status {self.process.returncode}")


@contextlib.contextmanager
def worker(settings: BrokerSettings, ready: bool, log: Path) -> Iterator[Worker]:
    """A worker on ``settings``; with ``ready`` not before it has joined."""
    port = free_port()
    command = [sys.executable, "-m", "streams", "--brokers", settings.address, "--web-port", str(port)]
    with started(command, log, dict(os.environ)) as process:
        found = Worker(process, port)
        until(process, lambda: found.ask("readyz" if ready else "healthz"), "paceline streams")
        yield found


def free_port() -> int:
    """A port that nobody listens on, below those the kernel hands out."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    found: list[int] = []
    for candidate in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", candidate))
            found.append(candidate)
        if len(found) == count:
            return found
    raise RunError(f"no free ports between {PORTS.start} and {PORTS.stop}")


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """``count`` processes that do nothing but compute, as other programs on the machine would."""
    words = [sys.executable, "-ISc", "while True: sum(range(100_000))"]
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen(words)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


@contextlib.contextmanager
def started(command: list[str], log: Path, environ: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process, and what it says in ``log``, until the block ends; told to end it has ``STOP_S``."""
    with log.open("ab") as said:
        process = child.spawn(command, said, {**environ, "PYTHONPATH": str(ROOT)})
        try:
            yield process
        except RunError as error:
            raise RunError(f"{error}; it said: {_tail(log)}") from error
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _tail(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:]) or "nothing"


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(process: "subprocess.Popen[bytes]", condition: Callable[[], object], who: str) -> None:
    """Wait for ``condition``, at most ``READY_S``.

    Raises:
        RunError: it does not come true, or ``process`` ends.
    """
    end = time.monotonic() + READY_S
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise RunError(f"{who} did not start")
        time.sleep(0.1)
