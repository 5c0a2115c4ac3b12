"""What a sidecar has taken outlives it: Kafka away, the sidecar killed, and nothing asked of it."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline import topics, wire
from paceline.delivery.segment import scan
from paceline.events import OpTimings
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings

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


def spooled(folder: Path) -> list[OpTimings]:
    """The op messages that wait under ``folder``, oldest first."""
    records = [record for path in sorted(folder.glob("*/*.spool")) for record in scan(path.read_bytes()).records]
    return [
        wire.decode(topics.OP, record.message.value) for record in records if record.message.topic == topics.OP.name
    ]


def rows(events: list[OpTimings]) -> int:
    return sum(len(event.step) for event in events)


def from_bus(settings: BrokerSettings, job: str, until_rows: int) -> list[OpTimings]:
    got: list[OpTimings] = []
    consumer = clients.consumer(settings, topics.OP, from_beginning=True)
    try:
        for row in consumer:
            event = wire.decode(topics.OP, row.value)
            got += [event] if event.job == job else []
            if rows(got) >= until_rows:
                break
    finally:
        consumer.close()
    return got


@pytest.mark.bus
def test_a_killed_sidecars_messages_go_out_before_its_successors(
    start: Start, tmp_path: Path, free_port: Callable[[], int], until: Callable[..., object]
) -> None:
    """Nothing set but the brokers: what was spooled comes first and without a gap, and then the disk is empty."""
    port = free_port()
    first = start(f"127.0.0.1:{port}")
    speak(tmp_path / "ranks", "spooled-job", range(40))
    until(lambda: rows(spooled(tmp_path / "spool")) == 120)
    first.send_signal(signal.SIGKILL)
    first.wait()
    with embedded.start(port) as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        second = start(broker.address)
        speak(tmp_path / "ranks", "spooled-job", range(40))
        got = from_bus(settings, "spooled-job", 240)
        until(lambda: not list((tmp_path / "spool").glob("*/*.spool")))
        second.communicate()
    producers = list(dict.fromkeys(event.producer for event in got))
    told = [[event.sequence for event in got if event.producer == producer] for producer in producers]
    assert [sum(len(event.step) for event in got if event.producer == name) for name in producers] == [120, 120]
    assert told == [list(range(len(numbers))) for numbers in told]
    assert list((tmp_path / "spool").iterdir()) == []


def test_told_not_to_it_spools_nothing(start: Start, tmp_path: Path, free_port: Callable[[], int]) -> None:
    """``PACELINE_SPOOL_DIR=none``: the one line says that events wait in memory."""
    process = start(f"127.0.0.1:{free_port()}", PACELINE_SPOOL_DIR="none")
    speak(tmp_path / "ranks", "j", range(4))
    said = process.communicate()[1].decode().splitlines()
    assert (len(said), "Events wait in memory" in said[0]) == (1, True)
    assert not (tmp_path / "spool").exists()


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


def test_without_brokers_nothing_is_spooled(start: Start, tmp_path: Path) -> None:
    """A run that wants no Kafka leaves nothing on the disk."""
    process = start("none")
    speak(tmp_path / "ranks", "j", range(4))
    assert (process.communicate()[1], process.returncode) == (b"", 0)
    assert not (tmp_path / "spool").exists()
