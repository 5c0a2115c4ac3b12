"""How long a device waits for its host: from marks on a fake device to the row of a step."""

from collections.abc import Callable

import pytest

from paceline.sidecar.decode import MarkDecoder, fault_in
from paceline.sidecar.rank_rows import PARTS, StepRow
from paceline.training import marks
from paceline.training.device_clock import DeviceClock
from paceline.training.host_bound import HostBound
from paceline.training.messages import Marks
from paceline.training.probe import Probe
from tests.paceline.training.fake_accelerator import accelerator
from tests.paceline.training.fake_cuda import FakeCuda, Stream

FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION = marks.FORWARD, marks.BACKWARD, marks.OPTIMIZER, marks.COMMUNICATION
LEAVE, LAUNCH_MS = marks.LEAVE, 0.02
AT = PARTS.index("host_bound")


class Rank:
    """A rank on a fake device: its host's work and launches, and a thread that ships five times a second."""

    def __init__(self) -> None:
        self.cuda, self.probe = FakeCuda(), Probe()
        self.jump_ms = 0.0
        self.clock = DeviceClock(
            self.probe, accelerator(self.cuda), now=lambda: int((self.cuda.now_ms + self.jump_ms) * 1e6)
        )
        self._decoder = MarkDecoder()
        self._ships_ms = 200.0
        self.rows: list[StepRow] = []

    def python(self, milliseconds: float) -> None:
        """The host does something; time passes, and the other thread ships."""
        end = self.cuda.now_ms + milliseconds
        while self._ships_ms <= end:
            self.cuda.now_ms = self._ships_ms
            self.ship()
            self._ships_ms += 200
        self.cuda.now_ms = end

    def ship(self) -> None:
        new = [self.probe.ring.popleft() for _ in range(len(self.probe.ring))]
        message = Marks(marks=self.clock.translate(new), offset_ns=0, on_device=True)
        assert fault_in(message) is None
        report = self._decoder.decode(message)
        self.rows += report.steps if report is not None else []

    def work(self, kind: int, host_ms: float, device_ms: float) -> None:
        """A phase: ten kernels, each launched after some of the host's time."""
        self.clock.mark(kind)
        self.kernels(host_ms, device_ms)
        self.clock.mark(LEAVE + kind)

    def kernels(self, host_ms: float, device_ms: float) -> None:
        for _ in range(10):
            self.python(host_ms / 10)
            self.cuda.current_stream().launch(device_ms / 10)
            self.python(LAUNCH_MS / 10)

    def synchronise(self) -> None:
        """``.item()``: the host waits for all that it launched."""
        self.python(max(self.cuda.default.done_ms - self.cuda.now_ms, 0.0))

    def told(self) -> list[float | None]:
        """The share of each step in which the device waited for its host, but for the first; None is not told."""
        self.synchronise()
        self.python(1_000.0)
        self.probe.host_mark(marks.QUEUED)
        self.ship()
        return [row.seconds[AT] / row.step_s if row.seconds[AT] == row.seconds[AT] else None for row in self.rows[1:]]


def step(rank: Rank, host_ms: float, device_ms: float) -> None:
    """Forward, backward and optimizer."""
    for kind in (FORWARD, BACKWARD, OPTIMIZER):
        rank.work(kind, host_ms, device_ms)


def shares(once: Callable[[Rank], None], steps: int = 12) -> list[float | None]:
    rank = Rank()
    for _ in range(steps):
        once(rank)
    return rank.told()


def test_tiny_kernels_are_host_bound_and_large_ones_are_not() -> None:
    """Kernels that take a tenth of their launch, and launches that take a tenth of their kernel."""
    tiny, large = (shares(lambda rank, times=times: step(rank, *times)) for times in ((10.0, 1.0), (1.0, 10.0)))
    assert len(tiny) >= 10 <= len(large)
    assert min(tiny) > 0.95
    assert max(large) < 0.05


def test_steps_longer_than_a_turn_of_the_shipping_thread() -> None:
    """A step comes in several pieces; it is told once, whole."""
    assert min(shares(lambda rank: step(rank, 300.0, 20.0), 5)) > 0.95
    assert max(shares(lambda rank: step(rank, 20.0, 300.0), 5)) < 0.05


def test_a_host_far_ahead_of_a_device_that_is_never_idle() -> None:
    """Though all marks lie equally long in the queue: they do not seem to be reached at once."""

    def once(rank: Rank) -> None:
        if not rank.rows and not rank.cuda.default.done_ms:
            rank.cuda.default.launch(300.0)
        step(rank, 1.0, 20.0)
        rank.python(max(rank.cuda.default.done_ms - rank.cuda.now_ms - 300.0, 0.0))

    assert max(shares(once, 60)) < 0.05


@pytest.mark.parametrize("times", [1, 3])
def test_a_step_that_waits_for_its_own_device_is_not_host_bound(times: int) -> None:
    """Right after ``.item()`` marks are prompt, half of all: but they take no time."""

    def once(rank: Rank) -> None:
        for number, kind in enumerate((FORWARD, BACKWARD, OPTIMIZER)):
            rank.work(kind, 1.0, 10.0)
            if number + times >= 3:
                rank.synchronise()

    assert max(shares(once)) < 0.05


def test_waiting_for_other_ranks_is_neither() -> None:
    """The device stands in a collective that the host has waited for as well; only the rest counts."""

    def once(rank: Rank) -> None:
        step(rank, 10.0, 1.0)
        rank.clock.mark(COMMUNICATION)
        rank.cuda.default.launch(30.0)
        rank.synchronise()
        rank.clock.mark(LEAVE + COMMUNICATION)

    told = shares(once)
    assert all(share is not None and 0.4 < share < 0.55 for share in told)


def test_the_exchange_at_the_end_of_a_backward_is_neither() -> None:
    """From the last gradient to the end of the backward the device waits for the other ranks."""

    def once(rank: Rank) -> None:
        rank.work(FORWARD, 10.0, 1.0)
        rank.clock.mark(BACKWARD)
        rank.kernels(10.0, 1.0)
        rank.clock.mark(marks.READY)
        rank.cuda.default.launch(40.0)
        rank.synchronise()
        rank.clock.mark(LEAVE + BACKWARD)
        rank.work(OPTIMIZER, 10.0, 1.0)

    assert all(share is not None and 0.35 < share < 0.5 for share in shares(once))


def test_the_step_of_a_capture_counts_nothing_of_it() -> None:
    """Marks of a step that is captured have the host's time; the replays after it are judged like any work."""

    def captured(rank: Rank) -> None:
        graph = rank.cuda.CUDAGraph()
        with rank.cuda.graph(graph):
            rank.probe.captures.begins(graph)
            step(rank, 300.0, 1.0)
        rank.probe.captures.ended(graph)

    rank = Rank()
    for number in range(12):
        captured(rank) if number == 6 else step(rank, 1.0, 10.0)
    told = rank.told()
    assert told[5] is None
    assert max(share for share in told if share is not None) < 0.05


@pytest.mark.parametrize(("device_ms", "low", "high"), [(100.0, 0.0, 0.05), (0.5, 0.95, 1.0)])
def test_replays_of_a_graph_are_one_launch_each(device_ms: float, low: float, high: float) -> None:
    """A large graph keeps the device busy whatever the host does; a small one leaves it waiting."""
    graphs: dict[int, object] = {}

    def once(rank: Rank) -> None:
        graph = graphs.get(id(rank))
        if graph is None:
            graph = graphs[id(rank)] = rank.cuda.CUDAGraph()
            with rank.cuda.graph(graph):
                rank.cuda.current_stream().launch(device_ms)
        rank.work(FORWARD, 1.0, 0.0)
        rank.clock.mark(BACKWARD)
        rank.python(20.0)
        graph.replay()
        rank.clock.mark(LEAVE + BACKWARD)
        rank.work(OPTIMIZER, 10.0, 0.1)

    told = shares(once)[3:]
    assert len(told) >= 7
    assert all(share is not None and low <= share <= high for share in told)


def test_a_step_of_few_marks_says_nothing() -> None:
    """Three marks a step, one after all the work: whether that was prompt says nothing of the step."""

    def once(rank: Rank) -> None:
        rank.work(marks.DATA, 1.0, 0.0)
        rank.kernels(10.0, 1.0)
        rank.clock.mark(marks.STEP)

    assert set(shares(once)) == {None}


def test_marks_on_another_stream_change_nothing() -> None:
    """They are reached out of order."""

    def once(rank: Rank) -> None:
        other = side.setdefault(id(rank), Stream(rank.cuda))
        rank.work(FORWARD, 1.0, 10.0)
        with rank.cuda.stream(other):
            rank.clock.mark(COMMUNICATION)
            other.launch(0.1)
            rank.clock.mark(LEAVE + COMMUNICATION)
        rank.work(BACKWARD, 1.0, 10.0)
        rank.work(OPTIMIZER, 1.0, 10.0)

    side: dict[int, Stream] = {}
    told = shares(once)
    assert max(share for share in told if share is not None) < 0.05


def test_a_clock_that_jumps_tells_no_more_than_the_step() -> None:
    """Whatever it says, the time in which a device waited lies within the step."""
    rank = Rank()
    for number in range(12):
        rank.jump_ms = {5: 3_000.0, 8: -4_000.0}.get(number, rank.jump_ms)
        step(rank, 10.0, 1.0)
    assert all(share is None or 0.0 <= share <= 1.0 for share in rank.told())


def test_without_a_device_clock_nothing_is_told() -> None:
    """On a CPU there is no device to wait."""
    probe, decoder = Probe(), MarkDecoder()
    for kind in (FORWARD, LEAVE + FORWARD, BACKWARD, LEAVE + BACKWARD, OPTIMIZER, LEAVE + OPTIMIZER, FORWARD):
        probe.host_mark(kind)
    probe.host_mark(marks.QUEUED)
    report = decoder.decode(Marks(marks=list(probe.ring), offset_ns=0))
    assert report is not None
    assert report.steps[0].seconds[AT] != report.steps[0].seconds[AT]


def reached(under_test: HostBound, kinds: list[int], start_ms: int = 0) -> list[int | None]:
    """What is told when each of ``kinds`` is reached promptly, 10 ms after the one before."""
    told = []
    for number, kind in enumerate(kinds):
        time_ns = (start_ms + 10 * number) * 1_000_000
        told.append(under_test.reached(kind, time_ns, time_ns + 5_000))
    return told


PASSES = [FORWARD, LEAVE + FORWARD, BACKWARD, LEAVE + BACKWARD]


def test_optimizers_inside_a_backward_end_no_step() -> None:
    """Hundreds of them do not tell hundreds of times."""
    inside = [BACKWARD, *[OPTIMIZER, LEAVE + OPTIMIZER] * 20, LEAVE + BACKWARD]
    assert set(reached(HostBound(), [FORWARD, LEAVE + FORWARD, *inside])) == {None}


def test_a_compiled_optimizer_is_told_by_the_backward() -> None:
    """Nobody hears where its steps end."""
    under_test = HostBound()
    assert set(reached(under_test, [*PASSES, marks.COMPILED])) == {None}
    *_, told = reached(under_test, PASSES, start_ms=40)
    assert told == 70_000_000


@pytest.mark.parametrize("between", [marks.WINDOW_OFF, marks.WINDOW_ON, 44, 45])
def test_what_the_probe_did_not_see_is_nobodys(between: int) -> None:
    """While it is off the device worked, unseen."""
    under_test = HostBound()
    reached(under_test, PASSES)
    under_test.noted(between)
    *_, told = reached(under_test, [*PASSES, OPTIMIZER, LEAVE + OPTIMIZER], start_ms=10_000)
    assert told == 30_000_000 + 50_000_000
