"""Brokers for tests: the embedded one and Apache Kafka, started once a session; and a way to start one to be killed.

A test that takes ``broker`` runs on both. Where Java or Maven are missing, Apache Kafka is skipped by name; in CI
nothing may be skipped.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

with warnings.catch_warnings():
    # The Kafka client reads its schemas by a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from paceline import child
    from paceline.kafka import clients, embedded

ROOT = Path(__file__).parent.parent
KAFKA = ROOT / "deploy" / "kafka" / "kafka.sh"
#: A first start on a fresh machine fetches 60 MB.
READY_S = 170.0


def pytest_configure(config: pytest.Config) -> None:
    """The Kafka client leaves the socket of a refused connection to the garbage collector, which warns."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <s:ResourceWarning")


class ApacheKafka:
    """One Apache Kafka node of its own; ``kill`` and ``start`` keep its data and its port."""

    def __init__(self, folder: Path, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.environ = environ or {}
        self.process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> clients.BrokerSettings:
        return clients.BrokerSettings().with_brokers(self.address)

    def start(self, settings: clients.BrokerSettings | None = None) -> "ApacheKafka":
        """Start it and wait until it lets ``settings`` in (default: in the clear)."""
        own = {"PORT": str(self.port), "DATA": str(self.folder / "data"), "HEAP": "256m", **self.environ}
        self._log = (self.folder / "kafka.log").open("ab")
        self.process = child.spawn([str(KAFKA)], self._log, {**os.environ, **own})
        self._wait(settings or self.settings)
        return self

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._log is not None:
            self._log.close()

    def _wait(self, settings: clients.BrokerSettings) -> None:
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if self.process is not None and self.process.poll() is not None:
                self._did_not_start()
            with contextlib.suppress(clients.BusError):
                clients.wait_for_broker(settings, 0.5)
                return
        self._did_not_start()

    def _did_not_start(self) -> None:
        self.stop()
        said = (self.folder / "kafka.log").read_text(errors="replace").strip().splitlines()[-3:]
        reason = " / ".join(said) or "it said nothing"
        if "is missing" in reason and os.environ.get("CI") != "true":
            pytest.skip(f"Apache Kafka cannot run here: {reason}")
        pytest.fail(f"Apache Kafka did not start: {reason}")


def free_port() -> int:
    """A port that nobody listens on, below those the kernel hands out."""
    for candidate in range(30_000 + os.getpid() % 1500, 32_700):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return candidate
    raise RuntimeError("no free port")


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[embedded.EmbeddedBroker]:
    """The embedded broker, shared by the session."""
    with embedded.start() as running:
        yield running


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """Apache Kafka, shared by the session: do not kill it."""
    running = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture(scope="module")
def new_apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ApacheKafka]]:
    """Makes Apache Kafka nodes of one's own, stopped after the module: to kill, or with other properties."""
    made: list[ApacheKafka] = []

    def make(**environ: str) -> ApacheKafka:
        made.append(ApacheKafka(tmp_path_factory.mktemp("own-kafka"), environ))
        return made[-1]

    yield make
    for node in made:
        node.stop()


BOTH = [pytest.param("embedded", marks=pytest.mark.bus), pytest.param("apache", marks=pytest.mark.bus)]


@pytest.fixture(params=BOTH)
def broker(request: pytest.FixtureRequest) -> clients.BrokerSettings:
    """Each of the two brokers in turn, with the topics made."""
    fixture = {"embedded": "embedded_broker", "apache": "apache_kafka"}[request.param]
    settings = clients.BrokerSettings().with_brokers(request.getfixturevalue(fixture).address)
    clients.ensure_topics(settings)
    return settings


@pytest.fixture
def until() -> Callable[..., None]:
    """Waits until a condition holds, asking again and again, and fails after a deadline."""

    def wait(condition: Callable[[], object], deadline_s: float = 60.0) -> None:
        end = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < end, "the condition did not come true in time"
            time.sleep(0.02)

    return wait
