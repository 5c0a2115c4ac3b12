"""What a sidecar has taken outlives it: Kafka away, the sidecar killed, and nothing asked of it."""

import contextlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline import columns, topics, wire
from paceline.delivery.segment import scan
from paceline.events import StepTimings
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import Topic
from tests.heard import heard

_spec = importlib.util.spec_from_file_location("rank", Path(__file__).parents[1] / "training" / "rank.py")
assert _spec is not None
assert _spec.loader is not None
rank = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rank)

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path, until: Callable[..., object]) -> Iterator[Start]:
    """Starts a sidecar for brokers, always at the same socket."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(brokers: str, **environ: str) -> "subprocess.Popen[bytes]":
        (tmp_path / "ranks").unlink(missing_ok=True)
        command = [sys.executable, "-m", "paceline.sidecar", "--socket", str(tmp_path / "ranks"), "--brokers", brokers]
        own = {"PACELINE_SPOOL_DIR": str(tmp_path / "spool"), "PACELINE_NODE": "n1"}
        made.append(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **own, **environ}
            )
        )
        until((tmp_path / "ranks").exists)
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stderr):
            assert pipe is not None
            pipe.close()


def speak(path: Path, job: str, steps: range) -> None:
    speaker = rank.Speaker(str(path))
    speaker.say(rank.hello(job=job))
    for number in steps:
        speaker.say(rank.step(number))
    speaker.close()


def spooled(folder: Path) -> list[StepTimings]:
    """The op messages that wait under ``folder``, oldest first."""
    records = [record for path in sorted(folder.glob("*/*.spool")) for record in scan(path.read_bytes()).records]
    return [
        wire.decode(topics.OP, record.message.value) for record in records if record.message.topic == topics.OP.name
    ]


def rows(events: list[StepTimings]) -> int:
    return sum(columns.rows(event.step) for event in events)


def collectives(events: list[StepTimings]) -> int:
    """How many collectives are in the sums."""
    return sum(sum(columns.numbers(event.collectives.count)) for event in events if event.collectives is not None)


def tells(event: StepTimings, step: int) -> bool:
    return step in columns.numbers(event.step)


def from_bus(settings: BrokerSettings, topic: Topic, job: str, last: Callable[[list[Any]], bool]) -> list[Any]:
    """The events of ``job``, in order, until these are the last."""
    got: list[Any] = []
    with contextlib.closing(clients.consumer(settings, topic, from_beginning=True)) as consumer:
        for event in heard(topic, consumer):
            got += [event] if event.job == job else []
            if got and last(got):
                break
    return got


@pytest.mark.bus
def test_a_killed_sidecars_messages_go_out_before_its_successors(
    start: Start, tmp_path: Path, free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """Nothing set but the brokers: what was spooled comes first and without a gap, and then the disk is empty."""
    port = free_port()
    first = start(f"127.0.0.1:{port}")
    speak(tmp_path / "ranks", "spooled-job", range(40))
    until(lambda: rows(spooled(tmp_path / "spool")) == 40)
    first.send_signal(signal.SIGKILL)
    first.wait()
    with embedded.start(port) as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        ensure_topics(settings)
        second = start(broker.address)
        speak(tmp_path / "ranks", "spooled-job", range(40))
        got = from_bus(settings, topics.OP, "spooled-job", lambda events: rows(events) >= 80)
        until(lambda: not list((tmp_path / "spool").glob("*/*.spool")))
        second.communicate()
    producers = list(dict.fromkeys(event.producer for event in got))
    told = [[event.sequence for event in got if event.producer == producer] for producer in producers]
    assert [rows([event for event in got if event.producer == name]) for name in producers] == [40, 40]
    assert [collectives([event for event in got if event.producer == name]) for name in producers] == [40, 40]
    assert told == [list(range(len(numbers))) for numbers in told]
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.slow
def test_it_is_on_the_disk_while_kafka_takes_its_time(start: Start, tmp_path: Path) -> None:
    """Brokers that connect and say nothing count as there for seconds: a kill meanwhile must not cost a row."""

    def safe_before_the_outage_is_known(silent: socket.socket) -> bool:
        process = start(f"127.0.0.1:{silent.getsockname()[1]}")
        speaker = rank.Speaker(str(tmp_path / "ranks"))
        speaker.say(rank.hello(job="j"))
        for number in range(4):
            speaker.say(rank.step(number))
        while speaker.settled().place.step < 3:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        speaker.close()
        assert process.stderr is not None
        return b"Events wait" not in process.stderr.read()

    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:
        # On a busy machine the brokers may be given up first.
        tries = next(number for number in range(1, 6) if safe_before_the_outage_is_known(silent))
    assert rows(spooled(tmp_path / "spool")) == 4 * tries


@pytest.mark.bus
def test_what_a_full_spool_shed_is_told_exactly(
    start: Start, tmp_path: Path, free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """The numbers that a consumer misses are as many as the sidecar says."""
    port = free_port()
    process = start(f"127.0.0.1:{port}", PACELINE_SPOOL_BYTES=str(2**20))
    speak(tmp_path / "ranks", "shed-job", range(60_000))
    until(lambda: any(tells(event, 59_999) for event in spooled(tmp_path / "spool")))
    with embedded.start(port) as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        until(lambda: not list((tmp_path / "spool").glob("*/*.spool")))
        (told,) = re.findall(r"(\d+) messages will never", process.communicate()[1].decode())
        missing = 0
        for topic, last in (
            (topics.OP, lambda events: tells(events[-1], 59_999)),
            (topics.JOB, lambda events: events[-1].ended_s is not None),
        ):
            heard = {event.sequence for event in from_bus(settings, topic, "shed-job", last)}
            missing += max(heard) + 1 - len(heard)
    assert missing == int(told) > 0


@pytest.mark.slow
def test_told_not_to_it_spools_nothing(start: Start, tmp_path: Path, free_port: Callable[[], int]) -> None:
    """``PACELINE_SPOOL_DIR=none``: a line says that events wait in memory, another in the end what was lost with it."""
    process = start(f"127.0.0.1:{free_port()}", PACELINE_SPOOL_DIR="none")
    speak(tmp_path / "ranks", "j", range(4))
    said = process.communicate()[1].decode().splitlines()
    assert (len(said), "Events wait in memory" in said[0]) == (2, True)
    assert re.search(r"paceline: [1-9]\d* messages will never reach Kafka", said[1])
    assert not (tmp_path / "spool").exists()


@pytest.mark.slow
def test_a_folder_that_cannot_be_is_told_and_memory_takes_over(
    start: Start, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    """The sidecar goes on."""
    (tmp_path / "file").write_text("")
    process = start(f"127.0.0.1:{free_port()}", PACELINE_SPOOL_DIR=str(tmp_path / "file" / "x"))
    speak(tmp_path / "ranks", "j", range(4))
    said = process.communicate()[1].decode().splitlines()
    assert process.returncode == 0
    assert f"spool {tmp_path}/file/x: Not a directory. Events wait in memory" in said[0]


@pytest.mark.slow
def test_without_brokers_nothing_is_spooled(start: Start, tmp_path: Path) -> None:
    """A run that wants no Kafka leaves nothing on the disk."""
    process = start("none")
    speak(tmp_path / "ranks", "j", range(4))
    assert (process.communicate()[1], process.returncode) == (b"", 0)
    assert not (tmp_path / "spool").exists()
