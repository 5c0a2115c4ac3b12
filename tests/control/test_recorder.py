"""The recorder against a real broker: nothing is lost, whatever ends it, and the proof says so."""

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from control.sessions.folder import SessionFolder, StopRequest
from control.sessions.manifest import Manifest, read_manifest
from control.sessions.numbers import Numbers
from control.sessions.store import SessionStore
from paceline.kafka.clients import admin
from paceline.kafka.settings import BrokerSettings
from paceline.recording import Line
from paceline.topics import HOST, NODE
from tests.control.conftest import Collector

pytestmark = pytest.mark.bus
Until = Callable[..., None]


class Recorder:
    """Recorders of one test, as processes."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, folder: SessionFolder, *options: str) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable,
            "-P",
            "-m",
            "control.recorder",
            str(folder.path),
            "--brokers",
            self._settings.address,
        ]
        with folder.log.open("ab") as log:
            process = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=dict(os.environ))
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def recorder(broker: BrokerSettings) -> Iterator[Recorder]:
    one = Recorder(broker)
    yield one
    one.close()


def recording(folder: SessionFolder) -> Callable[[], bool]:
    return lambda: read_manifest(folder.manifest).state.state == "recording"


def holds(folder: SessionFolder, collector: Collector, count: int) -> Callable[[], bool]:
    """Whether the manifest tells of so many messages of the collector."""
    return lambda: received(read_manifest(folder.manifest), collector) >= count


def received(manifest: Manifest, collector: Collector) -> int:
    return sum(Numbers(one.runs).received for one in manifest.proof if one.producer == collector.name)


def numbers(store: SessionStore, folder: SessionFolder, collector: Collector) -> list[int]:
    """The numbers of the collector's messages in the recording, in its order."""
    lines = store.lines(folder.name, read_manifest(folder.manifest))
    values = [json.loads(line.value) for line in lines if isinstance(line, Line)]
    return [value["sequence"] for value in values if value.get("producer") == collector.name]


@pytest.mark.exactly_once
@pytest.mark.landing
def test_what_is_published_between_start_and_stop_is_in_the_session_once(
    begun: Callable[..., SessionFolder], store: SessionStore, recorder: Recorder, collector: Collector, until: Until
) -> None:
    """In segments that are recordings which others read. A second recorder of the session ends at once, and changes
    nothing."""
    folder = begun(nodes=[collector.node])
    process = recorder.start(folder)
    until(recording(folder))
    assert recorder.start(folder).wait() == 1
    assert "recorded already" in folder.log.read_text()
    collector.publish(500)
    folder.ask_to_stop(StopRequest("ada", "enough"))
    process.wait()
    manifest = read_manifest(folder.manifest)
    state = manifest.state
    assert (process.returncode, state.state, state.missing, state.gap_count) == (0, "stopped", 0, 0)
    assert numbers(store, folder, collector) == list(range(500))
    with gzip.open(folder.path / manifest.segments[-1].file, "rb") as file:
        told = [json.loads(line) for line in file]
    assert {"topic", "key", "timestamp_ms", "value", "partition", "offset"} <= told[0].keys()


@pytest.mark.exactly_once
def test_a_recorder_that_is_killed_in_the_middle_loses_nothing(
    begun: Callable[..., SessionFolder], store: SessionStore, recorder: Recorder, collector: Collector, until: Until
) -> None:
    folder = begun(nodes=[collector.node])
    first = recorder.start(folder)
    until(recording(folder))
    collector.publish(300)
    until(holds(folder, collector, 1))
    collector.publish(300)
    first.send_signal(signal.SIGKILL)
    first.wait()
    collector.publish(300)
    assert store.read(folder.name).state.state == "interrupted"
    second = recorder.start(folder, "--finish")
    second.wait()
    state = read_manifest(folder.manifest).state
    assert (state.state, state.missing, state.gap_count) == ("stopped", 0, 0), folder.log.read_text()
    assert numbers(store, folder, collector) == list(range(900))


def test_numbers_that_never_came_are_told_one_by_one(
    begun: Callable[..., SessionFolder], recorder: Recorder, collector: Collector, until: Until
) -> None:
    folder = begun(nodes=[collector.node])
    process = recorder.start(folder)
    until(recording(folder))
    collector.publish(10)
    collector.publish(10, skip=3)
    folder.ask_to_stop(StopRequest())
    process.wait()
    manifest = read_manifest(folder.manifest)
    (proof,) = [one for one in manifest.proof if one.producer == collector.name]
    assert manifest.state.missing == 3
    assert Numbers(proof.runs).missing() == [(10, 12)]


def test_a_session_of_one_node_holds_no_other_node_and_misses_none_of_its_numbers(
    begun: Callable[..., SessionFolder],
    store: SessionStore,
    broker: BrokerSettings,
    recorder: Recorder,
    collector: Collector,
    until: Until,
) -> None:
    other = Collector(broker, "another")
    folder = begun(nodes=[collector.node])
    process = recorder.start(folder)
    until(recording(folder))
    for _ in range(5):
        collector.publish(10)
        other.publish(10)
    other.close()
    folder.ask_to_stop(StopRequest())
    process.wait()
    assert numbers(store, folder, collector) == list(range(50))
    assert numbers(store, folder, other) == []
    assert read_manifest(folder.manifest).state.missing == 0


def test_a_recorder_that_is_told_to_end_leaves_a_session_that_can_be_gone_on_with(
    begun: Callable[..., SessionFolder], store: SessionStore, recorder: Recorder, collector: Collector, until: Until
) -> None:
    folder = begun(nodes=[collector.node])
    first = recorder.start(folder)
    until(recording(folder))
    collector.publish(100)
    first.terminate()
    first.wait()
    assert read_manifest(folder.manifest).state.state == "interrupted"
    collector.publish(100)
    second = recorder.start(folder)
    until(holds(folder, collector, 200))
    collector.publish(100)
    folder.ask_to_stop(StopRequest())
    second.wait()
    assert numbers(store, folder, collector) == list(range(300))


@pytest.mark.slow
def test_a_broker_that_forgets_is_told(
    begun: Callable[..., SessionFolder], recorder: Recorder, collector: Collector, broker: BrokerSettings, until: Until
) -> None:
    folder = begun(nodes=[collector.node])
    process = recorder.start(folder)
    until(recording(folder))
    collector.publish(50)
    until(holds(folder, collector, 1))
    with contextlib.closing(admin(broker)) as client:
        client.delete_topics([HOST.name])
    remake = Collector(broker, collector.node)
    remake.publish(20)
    until(holds(folder, remake, 20))
    remake.close()
    folder.ask_to_stop(StopRequest())
    process.wait()
    manifest = read_manifest(folder.manifest)
    assert manifest.state.gap_count > 0
    assert any("made again" in gap.reason for gap in manifest.gaps)
    assert received(manifest, collector) == 50


def test_messages_of_several_topics_that_come_together_are_told_apart(
    begun: Callable[..., SessionFolder], broker: BrokerSettings, recorder: Recorder, collector: Collector, until: Until
) -> None:
    another = Collector(broker, collector.node, NODE)
    folder = begun(nodes=[collector.node])
    process = recorder.start(folder)
    until(recording(folder))
    for _ in range(20):
        collector.publish(5)
        another.publish(1)
    another.close()
    folder.ask_to_stop(StopRequest())
    process.wait()
    manifest = read_manifest(folder.manifest)
    told = {(one.topic, one.producer): Numbers(one.runs).received for one in manifest.proof if one.kept}
    assert told == {(HOST.name, collector.name): 100, (NODE.name, another.name): 20}
    assert manifest.state.missing == 0
