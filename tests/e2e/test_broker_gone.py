"""A broker that goes away for good: a command that publishes ends with a line, one that follows waits and says so."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.recording import Writer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
#: A person who waits for a command hears of it within so many seconds.
HEARD_S = 30.0


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


@pytest.fixture
def commands() -> Iterator[Callable[..., Command]]:
    made: list[Command] = []

    def start(*arguments: str, brokers: str) -> Command:
        made.append(Command(*arguments, brokers=brokers))
        return made[-1]

    yield start
    for command in made:
        command.end()


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
        writer.write("paceline.op.v1", "job", 100 * number, b'{"job": "job"}')
    writer.close()
    return path


def test_publishers_give_up_and_followers_wait(doomed, commands, until, tmp_path: Path):
    """Each in one line; the publishers' status is 1."""
    settings, kill = doomed
    where = settings.address
    publishers = [
        commands("simulate", "--steps", "9999", "--brokers", where, brokers=where),
        commands("replay", str(recording(tmp_path / "long.jsonl")), brokers=where),
    ]
    followers = [
        commands("tail", "op", brokers=where),
        commands("record", "-o", str(tmp_path / "made.jsonl"), brokers=where),
    ]
    until(lambda: all(command.said("messages, ") for command in publishers))
    until(lambda: followers[0].said("listening to") and followers[1].said("recording from"))
    kill()
    killed_s = time.monotonic()
    until(lambda: all(command.process.poll() is not None for command in publishers))
    assert time.monotonic() - killed_s < HEARD_S
    for command in publishers:
        assert command.end() == 1
        assert len(command.said(f"Kafka at {where}")) == 1
    for command in followers:
        until(lambda command=command: command.said("waiting for it"))
        assert command.process.poll() is None
        assert len(command.said("waiting for it")) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("thresholds", "--job", "j", "hang_s=300"),
        ("ask", "job:j", "full_rows", "--arg", "seconds=60"),
        ("topics", "create"),
        ("topics", "list"),
    ],
    ids=" ".join,
)
def test_a_broker_that_hangs_ends_a_short_command(arguments: tuple[str, ...], commands, until):
    """Connections are taken and nothing answers: one line, and status 1."""
    with embedded.start() as running:
        os.kill(running.process.pid, 19)
        try:
            began_s = time.monotonic()
            command = commands(*arguments, brokers=running.address)
            until(lambda: command.process.poll() is not None)
            assert time.monotonic() - began_s < HEARD_S
        finally:
            os.kill(running.process.pid, 18)
        assert command.end() == 1
        assert len(command.said(f"Kafka at {running.address}")) == 1


def answered(port: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_a_service_is_not_ready_without_a_broker_and_says_so_in_few_lines(doomed, commands, until, free_port):
    """503 within 15 s of its end. Another 25 s of outage are no more than a few lines."""
    settings, kill = doomed
    ports = {"streams": free_port(), "forecaster": free_port()}
    started = [
        commands("streams", "--web-port", str(ports["streams"]), brokers=settings.address),
        commands("forecaster", "--port", str(ports["forecaster"]), brokers=settings.address),
    ]
    until(lambda: all(answered(port) == 200 for port in ports.values()))
    before = [len(command.lines) for command in started]
    kill()
    killed_s = time.monotonic()
    until(lambda: all(answered(port) == 503 for port in ports.values()))
    assert time.monotonic() - killed_s < 15.0
    until(lambda: time.monotonic() - killed_s > 40.0)
    for command, count in zip(started, before, strict=True):
        assert command.process.poll() is None
        assert len(command.lines) - count < 20, command.lines
