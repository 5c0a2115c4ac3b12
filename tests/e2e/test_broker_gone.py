"""A broker that goes away for good: a command that publishes ends with a line, one that follows waits and says so.

Rule of this file: what is said is counted, and in which order; never how many seconds it took. How seldom a line is
written in a long outage is decided in ``paceline/repeated_lines.py``, and tested with a clock beside it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from paceline import topics
from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.recording import Line, RecordingError, Writer, read
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e
#: Commands that publish nothing and ask little.
SHORT = [
    ("thresholds", "--job", "j", "hang_s=300"),
    ("ask", "job:j", "full_rows", "--arg", "seconds=60"),
    ("topics", "create"),
    ("topics", "list"),
]


class Command:
    """A command of ours, and what it says line by line."""

    def __init__(self, *arguments: str, brokers: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "paceline", *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PACELINE_BROKERS": brokers},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines += []
        for line in self.process.stderr:
            self.lines.append(line)
        self.process.stderr.close()

    def said(self, part: str) -> list[str]:
        return [line for line in self.lines if part in line]

    def end(self) -> int:
        self.process.terminate()
        status = self.process.wait()
        self._reader.join()
        return status


@contextlib.contextmanager
def starting() -> Iterator[Callable[..., Command]]:
    """Starts commands, which end with the block."""
    made: list[Command] = []

    def start(*arguments: str, brokers: str) -> Command:
        made.append(Command(*arguments, brokers=brokers))
        return made[-1]

    try:
        yield start
    finally:
        for command in made:
            command.process.terminate()  # All at once: some take seconds to end.
        for command in made:
            command.end()


@pytest.fixture
def commands() -> Iterator[Callable[..., Command]]:
    with starting() as start:
        yield start


@pytest.fixture(params=["embedded", "apache"])
def doomed(request: pytest.FixtureRequest) -> Iterator[tuple[BrokerSettings, Callable[[], None]]]:
    """A broker of one's own, and how it is killed."""
    if request.param == "apache":
        node = request.getfixturevalue("new_apache_kafka")().start()
        ensure_topics(node.settings)
        yield node.settings, node.kill
        return
    with embedded.start() as running:
        settings = BrokerSettings().with_brokers(running.address)
        ensure_topics(settings)

        def kill() -> None:
            running.process.kill()
            running.process.wait()

        yield settings, kill


def recording(path: Path) -> Path:
    """A quarter of an hour, a message a tenth of a second."""
    writer = Writer(str(path))
    for number in range(9_000):
        writer.write("paceline.balance.v1", "job", 100 * number, b'{"job": "job"}')
    writer.close()
    return path


def recorded_topics(path: Path) -> set[str]:
    """Of which topics there are messages in a recording so far."""
    try:
        return {line.topic for line in read(str(path)) if isinstance(line, Line)}
    except RecordingError:  # It is not there yet.
        return set()


def test_publishers_give_up_and_followers_wait(doomed, commands, until, tmp_path: Path):
    """Each in one line; the publishers' status is 1."""
    settings, kill = doomed
    where, made = settings.address, tmp_path / "made.jsonl"
    followers = [commands("tail", "op", brokers=where), commands("record", "-o", str(made), brokers=where)]
    until(lambda: followers[0].said("listening to") and followers[1].said("recording from"))
    publishers = [
        commands("simulate", "--steps", "9999", "--brokers", where, brokers=where),
        commands("replay", str(recording(tmp_path / "long.jsonl")), brokers=where),
    ]
    until(lambda: {topics.OP.name, topics.BALANCE.name} <= recorded_topics(made))
    kill()
    until(lambda: all(command.process.poll() is not None for command in publishers))
    for command in publishers:
        assert command.end() == 1
        assert len(command.said(f"Kafka at {where}")) == 1
    for command in followers:
        until(lambda command=command: command.said("waiting for it"))
        assert command.process.poll() is None
        assert len(command.said("waiting for it")) == 1


def test_a_service_is_not_ready_without_a_broker_and_says_so_in_few_lines(doomed, commands, until, free_port):
    """503 after its end, a few lines until then; it stays, for the broker may come back."""
    settings, kill = doomed
    ports = {"streams": free_port(), "forecaster": free_port()}
    started = [
        commands("streams", "--web-port", str(ports["streams"]), brokers=settings.address),
        commands("forecaster", "--port", str(ports["forecaster"]), brokers=settings.address),
    ]
    until(lambda: all(answered(port) == 200 for port in ports.values()))
    before = [len(command.lines) for command in started]
    kill()
    until(lambda: all(answered(port) == 503 for port in ports.values()))
    for command, count in zip(started, before, strict=True):
        assert command.process.poll() is None
        assert len(command.lines) - count < 20, command.lines


@pytest.fixture(scope="module")
def hung(until) -> Iterator[tuple[str, dict[tuple[str, ...], Command]]]:
    """A broker that takes connections and never answers, and what became of each short command there."""
    with embedded.start() as running, starting() as start:
        os.kill(running.process.pid, signal.SIGSTOP)
        try:
            started = {arguments: start(*arguments, brokers=running.address) for arguments in SHORT}
            until(lambda: all(command.process.poll() is not None for command in started.values()))
        finally:
            os.kill(running.process.pid, signal.SIGCONT)
        yield running.address, started


@pytest.mark.parametrize("arguments", SHORT, ids=" ".join)
def test_a_broker_that_hangs_ends_a_short_command(arguments: tuple[str, ...], hung):
    """Connections are taken and nothing answers: one line, and status 1."""
    address, started = hung
    command = started[arguments]
    assert command.end() == 1
    assert len(command.said(f"Kafka at {address}")) == 1


def answered(port: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return 0
