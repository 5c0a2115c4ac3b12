"""A recorder whose disk runs full: it says so, keeps what it had, and goes on once there is room."""

import errno
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from control.recorder.recording import LEAST_FREE_BYTES, Recording
from control.sessions.folder import RESERVE_BYTES, SessionFolder
from control.sessions.manifest import read_manifest
from control.sessions.segments import SegmentWriter
from control.sessions.store import SessionStore
from paceline.events import SessionState
from paceline.kafka.settings import BrokerSettings
from paceline.recording import Line
from tests.control.conftest import Collector
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.bus
Until = Callable[..., None]


class Running:
    """Recordings in threads of this process."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.told: list[SessionState] = []

    def start(self, folder: SessionFolder, **options: Any) -> None:
        recording = Recording(folder, self._settings, self.told.append, self._stop, **options)
        self._threads.append(threading.Thread(target=recording.run))
        self._threads[-1].start()

    def ended(self) -> SessionState:
        """What the last one said when it ended by itself."""
        self._threads[-1].join(120)
        assert not self._threads[-1].is_alive()
        return self.told[-1]

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.fixture
def running(broker: BrokerSettings) -> Iterator[Running]:
    one = Running(broker)
    yield one
    one.close()


@pytest.fixture
def recorded(
    begun: Callable[..., SessionFolder], running: Running, collector: Collector, until: Until
) -> Callable[..., SessionFolder]:
    """Records 200 messages of the collector, until the manifest tells of one at least."""

    def start(**options: Any) -> SessionFolder:
        folder = begun(nodes=[collector.node])
        running.start(folder, **options)
        until(lambda: read_manifest(folder.manifest).state.state == "recording")
        collector.publish(200)
        until(lambda: any(one.producer == collector.name for one in read_manifest(folder.manifest).proof))
        return folder

    return start


def numbers(store: SessionStore, folder: SessionFolder, collector: Collector) -> list[int]:
    lines = store.lines(folder.name, read_manifest(folder.manifest))
    values = [json.loads(line.value) for line in lines if isinstance(line, Line)]
    return [value["sequence"] for value in values if value.get("producer") == collector.name]


def test_it_ends_before_the_disk_is_full_and_recover_brings_the_rest(
    recorded: Callable[..., SessionFolder], store: SessionStore, running: Running, collector: Collector
) -> None:
    """Others write to that disk, too."""
    free = [LEAST_FREE_BYTES]
    folder = recorded(free_bytes=lambda: free[0])
    free[0] -= 1
    failed = running.ended()
    assert (failed.state, failed.reason) == (
        "failed",
        "the disk is full: less than 64 MiB are free; recover it once there is room",
    )
    collector.publish(200)
    running.start(folder, finish=True)
    stopped = running.ended()
    assert (stopped.state, stopped.missing, stopped.gap_count) == ("stopped", 0, 0)
    assert numbers(store, folder, collector) == list(range(400))


@pytest.mark.exactly_once
@pytest.mark.parametrize("step", ["write", *(pytest.param(step, marks=pytest.mark.slow) for step in ("sync", "end"))])
def test_a_disk_that_is_full_at_once_keeps_what_was_there_and_loses_nothing(
    step: str,
    recorded: Callable[..., SessionFolder],
    store: SessionStore,
    running: Running,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever step finds it so. What was read but is not on disk is read again, and the reserve has gone for it."""
    folder = recorded()
    reserve = folder.path / "reserve"
    assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "end":
        monkeypatch.setattr(SegmentWriter, "is_due", True)
    real_abandon = SegmentWriter.abandon

    def abandon(writer: SegmentWriter) -> None:
        monkeypatch.undo()  # From here on there is the room of the reserve.
        real_abandon(writer)

    monkeypatch.setattr(SegmentWriter, "abandon", abandon)
    monkeypatch.setattr(SegmentWriter, step, full)
    collector.publish(200)
    failed = running.ended()
    assert (failed.state, failed.reason) == ("failed", "the disk is full; recover it once there is room")
    assert read_manifest(folder.manifest).state == failed
    assert not reserve.exists()
    collector.publish(200)
    running.start(folder, finish=True)
    stopped = running.ended()
    assert (stopped.state, stopped.missing, stopped.gap_count) == ("stopped", 0, 0)
    assert numbers(store, folder, collector) == list(range(600))
    assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES, "a second full disk is told like the first"
