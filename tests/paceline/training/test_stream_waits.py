"""Waits for other streams: whose they are, whatever is done with an event in between."""

import threading
from types import SimpleNamespace

import pytest

from paceline.training import marks
from paceline.training.device_clock import DeviceClock
from paceline.training.hooks import streams
from paceline.training.probe import Probe
from tests.paceline.training.fake_accelerator import accelerator
from tests.paceline.training.fake_cuda import Event, FakeCuda, Stream


class Script:
    """A rank that has begun to compute on the default stream, and issued a collective on another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(streams, "skip_frame", lambda _: None)
        self.cuda, self.probe = FakeCuda(), Probe()
        compiler = SimpleNamespace(is_dynamo_compiling=lambda: False)
        offered = SimpleNamespace(Event=self.cuda.events, current_stream=self.cuda.current_stream)
        streams.install(self.probe, SimpleNamespace(cuda=offered, compiler=compiler))
        self.probe.use(DeviceClock(self.probe, accelerator(self.cuda)))
        self.probe.mark(marks.FORWARD)
        self.side = Stream(self.cuda)
        with self.cuda.stream(self.side):
            self.probe.behind(self.side.stream_id)
        self.event = self.side.record_event()
        self.probe.ring.clear()

    def waits(self) -> int:
        """How many waits have been told since the last call."""
        kinds = [mark[1] for mark in self.probe.ring]
        self.probe.ring.clear()
        assert kinds.count(marks.COMMUNICATION) == kinds.count(marks.LEAVE + marks.COMMUNICATION)
        return kinds.count(marks.COMMUNICATION)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


def test_an_event_may_be_waited_for_more_than_once(script: Script) -> None:
    """Each time computing stands behind it, for nothing the second time."""
    script.event.wait()
    script.cuda.default.wait_event(script.event)
    assert script.waits() == 2


def test_an_event_that_is_recorded_anew_stands_behind_what_is_new(script: Script) -> None:
    """PyTorch's own pools of events use them again and again."""
    script.event.record(script.cuda.default)
    script.event.wait()
    assert script.waits() == 0
    script.event.record(script.side)
    script.event.wait()
    assert script.waits() == 1


def test_only_who_computes_waits(script: Script) -> None:
    """Another stream that waits delays nobody, whichever stream is current; and so does another thread."""
    other = Stream(script.cuda)
    other.wait_event(script.event)
    with script.cuda.stream(other):
        script.event.wait()
        script.event.wait(script.cuda.default)
    thread = threading.Thread(target=script.event.wait)
    thread.start()
    thread.join()
    assert script.waits() == 0


def test_within_a_wait_and_while_the_probe_is_off_nothing_is_told(script: Script) -> None:
    """The wait around it has the time; a step that is left out has no marks."""
    script.probe.waiting = True
    script.event.wait()
    script.probe.waiting = False
    script.probe.pause()
    script.event.wait()
    assert script.waits() == 0


def test_streams_without_end_take_bounded_room(script: Script) -> None:
    """A script may make a stream for every transfer, and forget it."""
    for number in range(3 * marks.STREAMS):
        script.probe.behind(number)
    assert len(script.probe.sides) <= marks.STREAMS


def test_an_event_keeps_its_class_and_is_forgotten_with_it(script: Script) -> None:
    """What is known of it is kept beside it: nothing of ours is pickled, copied or kept alive."""
    assert isinstance(script.event, Event)
    assert not [name for name in vars(script.event) if "paceline" in name]
