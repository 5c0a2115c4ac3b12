"""Device time: events recorded now, read later, never waited for. The device here is simulated."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from paceline.training import marks
from paceline.training.device_clock import DeviceClock
from paceline.training.probe import Probe

MS = 1_000_000


class Device:
    """A device that reaches events when it is told to, at times of its own clock, in milliseconds."""

    def __init__(self) -> None:
        self.recorded: list[Event] = []
        self.made = 0
        self.stream = SimpleNamespace(stream_id=0)
        self.lost = False

    def new_event(self) -> "Event":
        self.made += 1
        return Event(self)

    def current_stream(self) -> SimpleNamespace:
        return self.stream

    def capturing(self) -> bool:
        return False

    def reach(self, count: int, every_ms: float, start_ms: float = 0.0) -> None:
        for index, event in enumerate(self.recorded[:count]):
            event.at_ms = start_ms + index * every_ms
        del self.recorded[:count]


class Event:
    def __init__(self, device: Device) -> None:
        self.device, self.at_ms = device, None

    def record(self, stream: SimpleNamespace) -> None:
        if self.device.lost:
            raise RuntimeError("CUDA error: unspecified launch failure")
        self.at_ms = None
        self.device.recorded.append(self)

    def query(self) -> bool:
        return self.at_ms is not None

    def elapsed_time(self, other: "Event") -> float:
        return other.at_ms - self.at_ms

    def synchronize(self) -> None:
        raise AssertionError("training waited for the device")


def clock(capturing: Callable[[], bool] = lambda: False) -> tuple[Probe, Device, DeviceClock]:
    probe, device = Probe(), Device()
    device.capturing = capturing
    return probe, device, DeviceClock(probe, device)


def drain(probe: Probe) -> list[tuple]:
    found = list(probe.ring)
    probe.ring.clear()
    return found


def test_marks_wait_until_the_device_gets_there() -> None:
    """A mark comes out once its event is reached, in order, and holds back what follows it."""
    probe, device, under_test = clock()
    under_test.mark(marks.FORWARD)
    under_test.mark(marks.LEAVE + marks.FORWARD)
    probe.host_mark(marks.STEP)
    assert under_test.translate(drain(probe)) == []
    assert under_test.waiting
    device.reach(1, 0)
    assert [kind for _, kind, _ in under_test.translate([])] == [marks.FORWARD]
    device.reach(1, 0, 5.0)
    assert [kind for _, kind, _ in under_test.translate([])] == [marks.LEAVE + marks.FORWARD, marks.STEP]
    assert not under_test.waiting


def test_spans_last_as_long_as_the_device_took() -> None:
    """The host records ahead in no time; the rows show the device's time, from when it was recorded."""
    host, probe, device = [1_000], Probe(), Device()
    under_test = DeviceClock(probe, device, now=lambda: host[0])
    for _ in range(3):
        under_test.mark(marks.FORWARD)
    device.reach(3, 10.0)
    host[0] += 500 * MS
    times = [time for time, _, _ in under_test.translate(drain(probe))]
    assert times == [1_000, pytest.approx(1_000 + 10 * MS, rel=1e-4), pytest.approx(1_000 + 20 * MS, rel=1e-4)]


def test_device_times_keep_within_what_the_host_saw() -> None:
    """A device clock that drifts is held between when a mark was recorded and when it was seen reached."""
    host, probe, device = [0], Probe(), Device()
    under_test = DeviceClock(probe, device, now=lambda: host[0])
    times = []
    for index in range(6):
        under_test.mark(marks.FORWARD)
        device.reach(1, 0, index * (150.0 if index < 3 else 5.0) + (435.0 if index >= 3 else 0.0))
        host[0] += 100 * MS
        times += [time for time, _, _ in under_test.translate(drain(probe))]
    assert all(index * 100 * MS <= time <= (index + 1) * 100 * MS for index, time in enumerate(times))


def test_what_only_the_host_tells_of_a_collective_is_no_earlier_than_the_device() -> None:
    """Where no event may tell when it is reached: the host was far ahead, which is no part of how long it takes."""
    host, probe, device = [1_000], Probe(), Device()
    under_test = DeviceClock(probe, device, arrivals=False, now=lambda: host[0])
    under_test.mark(marks.FORWARD)
    under_test.mark(marks.LEAVE + marks.FORWARD)
    under_test.arrival(("default", 2, 0, "all_reduce", 64, marks.PYTHON))
    device.reach(2, 30.0)
    host[0] += 100 * MS
    told = {kind: time for time, kind, _ in under_test.translate(drain(probe))}
    assert told[marks.ISSUED] == told[marks.LEAVE + marks.FORWARD] == pytest.approx(1_000 + 30 * MS, rel=1e-3)


def test_events_are_used_again() -> None:
    """A long run makes no more events than are on their way at once."""
    probe, device, under_test = clock()
    for _ in range(50):
        under_test.mark(marks.FORWARD)
        device.reach(1, 0, 1.0)
        under_test.translate(drain(probe))
    assert device.made <= 3


def test_a_stream_being_captured_gets_no_event() -> None:
    """An event inside a captured graph would become part of it."""
    probe, device, under_test = clock(lambda: True)
    under_test.mark(marks.FORWARD)
    assert device.made == 0
    assert [kind for _, kind, _ in under_test.translate(drain(probe))] == [marks.FORWARD]


def test_a_lost_device_ends_the_timing_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """The script hears of a lost device by itself, never through us."""
    probe, device, under_test = clock()
    device.lost = True
    under_test.mark(marks.FORWARD)
    assert probe.off
    assert capsys.readouterr().err.count("\n") == 1


def test_a_full_ring_counts_what_it_drops() -> None:
    """A shipping thread that cannot keep up costs rows, not memory."""
    probe, _, under_test = clock()
    probe.most = 3
    for _ in range(5):
        under_test.mark(marks.FORWARD)
        probe.host_mark(marks.STEP)
    probe.trim()
    assert (len(probe.ring), probe.lost) == (3, 7)
