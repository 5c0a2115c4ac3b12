"""A script on a GPU survives the probe: captures stay valid, forked children alive. The device is a fake one."""

import faulthandler
import gc
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training import marks
from paceline.training.hooks import graphs
from paceline.training.probe import Probe
from paceline.training.session import Session
from tests.paceline.training.fake_cuda import CUDAGraph, FakeCuda


class Shipped:
    """Stands where the shipping thread would: it only asks the clock, on a thread of its own."""

    def __init__(self, probe: Probe) -> None:
        self.clock: Any = None
        self.kinds: list[int] = []
        self._probe = probe
        self._thread = ThreadPoolExecutor(1)

    def use(self, clock: Any) -> None:
        self.clock = clock

    def forks(self) -> None:
        """There is no capture to drop."""

    def leave_child(self) -> None:
        """There is no socket to close."""

    def turn(self) -> None:
        new = [self._probe.ring.popleft() for _ in range(len(self._probe.ring))]

        def ask() -> None:
            self.clock.adopt_thread()
            self.kinds.extend(mark[1] for mark in self.clock.translate(new))

        self._thread.submit(ask).result()


def on_device(monkeypatch: pytest.MonkeyPatch, device: int = 0) -> tuple[FakeCuda, Probe, Session, Shipped]:
    """A session whose marks are timed on a fake device."""
    cuda, probe = FakeCuda(), Probe()
    for name in (
        "capture_begin",
        "capture_end",
        "capture_end_pre",
        "replay",
        "reset",
    ):  # wrapped below, and put back after
        monkeypatch.setattr(CUDAGraph, name, vars(CUDAGraph)[name])
    graphs.install(probe, SimpleNamespace(cuda=SimpleNamespace(CUDAGraph=CUDAGraph), accelerator=None))
    session = Session(probe, SimpleNamespace(cuda=cuda))
    shipped = session._shipping = Shipped(probe)
    probe.device = SimpleNamespace(type="cuda", index=device)
    probe.device_found()
    return cuda, probe, session, shipped


def in_child(work: Callable[[], None]) -> int:
    """The exit code of a forked child that did ``work``, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # An abort that is expected needs no traceback in the log.
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.long
def test_a_global_capture_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are on their way while a whole step is captured: nobody asks after them, and all come out afterwards."""
    cuda, probe, _, shipped = on_device(monkeypatch)
    probe.mark(marks.FORWARD)
    cuda.default.launch(4.0)
    probe.mark(marks.LEAVE + marks.FORWARD)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        probe.mark(marks.BACKWARD)
        cuda.current_stream().launch(2.0)
        cuda.advance(10.0)
        shipped.turn()
        probe.mark(marks.LEAVE + marks.BACKWARD)
    assert graph.work_ms == 2.0
    assert shipped.kinds == []
    shipped.turn()
    assert shipped.kinds == [m for kind in (marks.FORWARD, marks.BACKWARD) for m in (kind, marks.LEAVE + kind)]
    assert not probe.off


def test_a_capture_on_another_thread_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the training thread's own stream does says nothing of captures elsewhere in the process."""
    cuda, probe, _, shipped = on_device(monkeypatch)
    begun, seen = threading.Event(), threading.Event()
    raised: list[RuntimeError] = []

    def capture() -> None:
        try:
            with cuda.graph(cuda.CUDAGraph()):
                begun.set()
                seen.wait()
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=capture)
    thread.start()
    begun.wait()
    made = cuda.events_made
    probe.mark(marks.FORWARD)
    shipped.turn()
    assert cuda.events_made == made
    seen.set()
    thread.join()
    assert raised == []


def test_a_capture_waits_for_a_question_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins only once the event asked after has answered: there is no moment for both."""
    cuda, probe, _, shipped = on_device(monkeypatch)
    inside, answer, order = threading.Event(), threading.Event(), []
    ask, begin = cuda.unsafe_call, cuda.begin_capture

    def slow() -> None:
        inside.set()
        answer.wait()
        order.append("answered")
        ask()

    def capture() -> None:
        with cuda.graph(cuda.CUDAGraph()):
            pass

    monkeypatch.setattr(cuda, "unsafe_call", slow)
    monkeypatch.setattr(cuda, "begin_capture", lambda mode: (order.append("begun"), begin(mode)))
    probe.mark(marks.FORWARD)
    turning, capturing = threading.Thread(target=shipped.turn), threading.Thread(target=capture)
    turning.start()
    inside.wait()
    capturing.start()
    answer.set()
    turning.join()
    capturing.join()
    assert order == ["answered", "begun"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["refused", "failed", "forgotten", "reset"])
def test_timing_goes_on_after_a_capture_that_came_to_nothing(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """One that could not begin, failed at its end, or whose graph is gone holds nothing up."""
    cuda, probe, _, shipped = on_device(monkeypatch)
    graph = cuda.CUDAGraph()
    if how == "refused":
        with pytest.raises(RuntimeError):  # the default stream
            graph.capture_begin()
    elif how == "failed":
        with pytest.raises(RuntimeError), cuda.graph(graph):
            cuda.Event().query()
    else:
        with cuda.stream(type(cuda.default)(cuda)):
            graph.capture_begin()
        cuda.captures.clear()
        if how == "reset":
            graph.reset()
        else:
            del graph
            gc.collect()
    probe.mark(marks.FORWARD)
    shipped.turn()
    assert shipped.kinds == [marks.FORWARD]


@pytest.mark.slow
def test_a_forked_child_touches_no_event_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events wait in the ring, in the clock's queue and in its pool: the child frees none, whatever it does."""
    cuda, probe, session, shipped = on_device(monkeypatch)
    for _ in range(3):
        probe.mark(marks.FORWARD)
    shipped.turn()  # into the pool
    cuda.default.launch(50.0)
    probe.mark(marks.FORWARD)
    shipped.turn()  # held
    probe.mark(marks.FORWARD)  # in the ring

    def work() -> None:
        nonlocal shipped
        del shipped
        gc.collect()
        probe.mark(marks.DATA)
        assert [mark[1] for mark in probe.ring] == [marks.DATA]
        assert session._shipping is None

    assert in_child(work) == 0
    assert in_child(lambda: in_child(work)) == 0
    cuda.advance(100.0)
    shipped.turn()
    assert len(shipped.kinds) == 5


def test_a_script_that_never_says_its_device_gets_no_context_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight ranks of a node would else hold eight contexts on the first GPU; and events of one device time no other."""
    cuda, probe, _, shipped = on_device(monkeypatch, 3)
    for kind in (marks.FORWARD, marks.LEAVE + marks.FORWARD):
        probe.mark(kind)
        cuda.current_stream(3).launch(2.0)
    shipped.turn()
    cuda.advance(10.0)
    shipped.turn()
    assert shipped.kinds == [marks.FORWARD, marks.LEAVE + marks.FORWARD]
    assert cuda.contexts == {3}
    assert cuda.current_device() == 0
    assert not probe.off


@pytest.mark.parametrize(("connections", "events"), [("1", 0), ("8", 1), ("", 1)])
def test_no_event_stands_between_communication_and_computing(
    monkeypatch: pytest.MonkeyPatch, connections: str, events: int
) -> None:
    """With one hardware queue an event at the issue of a collective would put what follows behind it."""
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections)
    cuda, probe, _, _ = on_device(monkeypatch)
    probe.issued(("default", 2, 0, "all_reduce", 64, marks.PYTHON))
    assert [len(mark) - 3 for mark in probe.ring] == [events]
    assert cuda.events_made == events


def test_an_event_that_fails_in_any_way_ends_the_timing_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever PyTorch raises there, nothing of it reaches the script."""
    cuda, probe, _, _ = on_device(monkeypatch)

    def broken(device: Any = None) -> Any:
        raise AttributeError("no such stream")

    monkeypatch.setattr(cuda, "current_stream", broken)
    probe.mark(marks.FORWARD)
    assert probe.off
    assert capsys.readouterr().err.count("training goes on") == 1


def test_marks_of_two_threads_share_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Autograd's thread and the script's may both find the pool with one event left."""
    cuda, probe, _, shipped = on_device(monkeypatch)

    class Emptied(list):
        def __bool__(self) -> bool:
            return True

    shipped.clock._pool = Emptied()
    probe.mark(marks.FORWARD)
    assert not probe.off
    assert cuda.events_made == 1


@pytest.mark.slow
def test_the_fake_device_aborts_a_child_that_frees_an_event() -> None:
    """What the test before rests on."""
    cuda = FakeCuda()
    kept = [cuda.Event(enable_timing=True)]
    kept[0].record()
    assert in_child(kept.clear) == -signal.SIGABRT
    assert kept


@pytest.mark.e2e
@pytest.mark.xdist_group("pytorch")
def test_a_script_that_captures_and_forks(new_listener: Callable[[], Any], scripts: Path) -> None:
    """Real PyTorch, forked DataLoader workers and the shipping thread, on the fake device: all of it ends well."""
    listener = new_listener()
    root = Path(__file__).parents[3]
    done = listener.run(str(scripts / "on_fake_cuda.py"), environ={"PYTHONPATH": str(root)})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.split() == ["wrapped", "captured", "40", "child", "0", "asked"]
    (heard,) = listener.heard
    assert heard.bye
    assert len(heard.steps()) == 40
    assert heard.hello.device.startswith("GPU-")
