"""Device time as the host's clock: how far off it is told, on a fake device that is asked five times a second."""

import random
from types import SimpleNamespace

import pytest

from paceline.training import marks
from paceline.training.device_clock import DeviceClock
from paceline.training.probe import Probe
from tests.paceline.training.fake_accelerator import accelerator
from tests.paceline.training.fake_cuda import Event, FakeCuda

FORWARD, BACKWARD, OPTIMIZER = marks.FORWARD, marks.BACKWARD, marks.OPTIMIZER
#: The marks of a step, and the milliseconds that the device needs after each.
STEP = (
    (FORWARD, 30),
    (16 + FORWARD, 0.1),
    (BACKWARD, 60),
    (16 + BACKWARD, 0.1),
    (OPTIMIZER, 10),
    (16 + OPTIMIZER, 0.1),
)
#: What a timer of a device and a clock of a host may differ by.
PPM = 50e-6


class Run:
    """A host that launches steps and a thread that asks five times a second, both on the device's own time."""

    def __init__(self, ahead_ms: float) -> None:
        self.cuda, self.probe = FakeCuda(), Probe()
        self.ahead_ms = ahead_ms
        #: Beside the true time, as a host whose clock was set would tell it.
        self.clock_ms = 0.0
        self.clock = DeviceClock(
            self.probe, accelerator(self.cuda), now=lambda: int((self.cuda.now_ms + self.clock_ms) * 1e6)
        )
        self.cuda.default.launch(ahead_ms)
        self._dice = random.Random(4)
        self._asks_ms = 200.0
        self.truth: list[float] = []
        self.told: list[float] = []

    def wait(self, milliseconds: float) -> None:
        """Time passes, and whoever asks now and then does so."""
        end = self.cuda.now_ms + milliseconds
        while self._asks_ms <= end:
            self.cuda.now_ms = self._asks_ms
            self.ask()
            self._asks_ms += 200 + self._dice.uniform(0, 3)
        self.cuda.now_ms = end

    def ask(self) -> None:
        new = [self.probe.ring.popleft() for _ in range(len(self.probe.ring))]
        self.told += [time / 1e6 for time, kind, _ in self.clock.translate(new) if kind != marks.HOST_BOUND]

    def step(self, *, waits: bool = False) -> None:
        """Launch a step; then wait for it, or until the host is ahead by no more than it may be."""
        for kind, device_ms in STEP:
            self.clock.mark(kind)
            self.truth.append(max(self.cuda.default.done_ms, self.cuda.now_ms))
            self.cuda.default.launch(device_ms * self._dice.uniform(0.97, 1.03))
            self.wait(0.02)
        self.wait(max(self.cuda.default.done_ms - self.cuda.now_ms - (0 if waits else self.ahead_ms), 0))

    def until(self, seconds: float, *, waits: bool = False) -> None:
        while self.cuda.now_ms < seconds * 1e3:
            self.step(waits=waits)

    def errors(self, since_s: float = 0.0) -> list[float]:
        """By how many milliseconds each mark was told late (early: negative), of those reached from ``since_s`` on."""
        pairs = zip(self.told, self.truth, strict=False)
        return [told - true for told, true in pairs if true >= since_s * 1e3]


@pytest.fixture(params=[0.0, -PPM, PPM], ids=["steady", "slow timer", "fast timer"])
def drift(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's timer differs from the host's clock."""
    elapsed_time = Event.elapsed_time
    monkeypatch.setattr(Event, "elapsed_time", lambda start, end: elapsed_time(start, end) * (1 + request.param))


@pytest.mark.long
@pytest.mark.usefixtures("drift")
def test_a_device_that_is_never_idle_is_told_nearly_in_time() -> None:
    """The host is 300 ms ahead all the time: once asked for a while, marks are told a few ms early, none late."""
    run = Run(300.0)
    run.until(60)
    assert max(run.errors()) < 0.01
    assert min(run.errors(since_s=0.5)) > -65  # the longest stretch between two marks
    assert min(run.errors(since_s=20)) > -4


@pytest.mark.usefixtures("drift")
def test_a_step_that_waits_for_its_device_is_told_exactly() -> None:
    """After a synchronisation a mark is reached as it is recorded."""
    run = Run(300.0)
    run.until(30, waits=True)
    assert max(map(abs, run.errors(since_s=1))) < 0.1


def test_nobody_is_asked_while_a_graph_is_captured() -> None:
    """No question, no floor: what comes out afterwards is told as before."""
    run = Run(300.0)
    run.until(20)
    graph = run.cuda.CUDAGraph()
    run.probe.captures.begins(graph)
    asked, told = run.cuda.asked, len(run.told)
    run.wait(2_000)
    assert (run.cuda.asked, len(run.told)) == (asked, told)
    run.probe.captures.ended(graph)
    run.until(30)
    assert len(run.told) > told
    assert min(run.errors(since_s=20)) > -15
    assert max(run.errors(since_s=20)) < 0.01


@pytest.mark.long
@pytest.mark.parametrize("jump_ms", [-5_000.0, 5_000.0])
def test_a_clock_that_jumps_is_followed(jump_ms: float) -> None:
    """It never should; a mark is then still told no earlier than it was recorded, and soon right again."""
    run = Run(300.0)
    run.until(10)
    run.clock_ms = jump_ms
    before = len(run.truth)
    run.until(40)
    late = [told - true - jump_ms for told, true in zip(run.told, run.truth, strict=False)][before + 60 :]
    assert min(late) > -65
    assert max(late) < 65


def test_another_device_starts_from_the_bounds() -> None:
    """Times of two devices have nothing in common: a mark lies between when it was last not reached and when it was."""
    first, second = FakeCuda(), FakeCuda()

    class OnSecond(Event):
        def elapsed_time(self, end: Event) -> float:
            raise RuntimeError("CUDA error: invalid resource handle")

    class OnFirst(OnSecond):
        pass

    turns = iter([OnFirst(first, timed=True), OnSecond(second, timed=True)] * 2)
    probe, now = Probe(), [0]
    devices = SimpleNamespace(new_event=lambda: next(turns), current_stream=lambda: None, capturing=lambda: False)
    clock = DeviceClock(probe, devices, now=lambda: now[0])
    first.default.launch(50.0)
    second.default.launch(90.0)
    for kind in (FORWARD, 16 + FORWARD):
        clock.mark(kind)
    new, told = list(probe.ring), []
    for at_ms in range(0, 120, 20):
        for device in (first, second):
            device.now_ms = at_ms
        now[0] = at_ms * 1_000_000
        told += [time / 1e6 for time, _, _ in clock.translate(new)]
        new = []
    assert [40 <= told[0] <= 60, 80 <= told[1] <= 100] == [True, True]


def test_the_floor_of_a_mark_that_was_given_up_is_not_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark on another stream may have been reached long before."""
    monkeypatch.setattr("paceline.training.device_clock.MOST_HELD", 1)
    run = Run(300.0)
    run.clock.mark(FORWARD)
    run.cuda.now_ms = 200.0
    with run.cuda.stream(type(run.cuda.default)(run.cuda)):
        run.clock.mark(BACKWARD)
        recorded_ms = run.cuda.now_ms
    run.cuda.now_ms = 250.0
    run.ask()
    assert run.probe.lost == 1
    run.cuda.now_ms = 280.0
    run.ask()
    assert run.told == [recorded_ms]
