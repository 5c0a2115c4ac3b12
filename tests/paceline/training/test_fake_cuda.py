"""The fake device keeps CUDA's rules, or what is proved on it proves nothing."""

import threading
from collections.abc import Callable

import pytest

from tests.paceline.training.fake_cuda import FORBIDDEN, INVALIDATED, FakeCuda, Stream


def elsewhere(call: Callable[[], object]) -> BaseException | None:
    """What ``call`` raises on another thread."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def recorded(cuda: FakeCuda) -> object:
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def test_events_are_reached_in_the_order_of_their_stream() -> None:
    """Launching takes no time; the device gets there later, and tells how far apart two events were."""
    cuda = FakeCuda()
    first = recorded(cuda)
    cuda.default.launch(5.0)
    second = recorded(cuda)
    assert (first.query(), second.query()) == (True, False)
    with pytest.raises(RuntimeError, match="not ready"):
        first.elapsed_time(second)
    cuda.advance(5.0)
    assert second.query()
    assert first.elapsed_time(second) == 5.0


def test_a_stream_waits_for_another_streams_event() -> None:
    """Its own work starts when the event is reached."""
    cuda, side = FakeCuda(), None
    side = Stream(cuda)
    side.launch(7.0)
    event = cuda.Event(enable_timing=True)
    event.record(side)
    cuda.default.wait_event(event)
    cuda.default.launch(1.0)
    assert cuda.default.done_ms == 8.0


@pytest.mark.parametrize(
    ("capture_mode", "thread_mode", "harmed"),
    [
        ("global", "global", True),
        ("global", "thread_local", False),
        ("global", "relaxed", False),
        ("thread_local", "global", False),
        ("relaxed", "global", False),
    ],
)
def test_a_query_from_another_thread(capture_mode: str, thread_mode: str, harmed: bool) -> None:
    """It is forbidden by a global capture unless its thread has left the global mode; forbidden means invalidated."""
    cuda = FakeCuda()
    event, graph = recorded(cuda), cuda.CUDAGraph()

    def ask() -> None:
        cuda.thread_exchange_stream_capture_mode(thread_mode)
        event.query()

    def capture() -> str:
        with cuda.graph(graph, capture_error_mode=capture_mode):
            raised = elsewhere(ask)
            cuda.current_stream().launch(3.0)
        return str(raised)

    if harmed:
        with pytest.raises(RuntimeError, match=INVALIDATED):
            capture()
    else:
        assert capture() == "None"
        assert graph.work_ms == 3.0


@pytest.mark.parametrize(("mode", "harmed"), [("global", True), ("thread_local", True), ("relaxed", False)])
def test_a_query_from_the_capturing_thread(mode: str, harmed: bool) -> None:
    """Only a relaxed capture allows it."""
    cuda = FakeCuda()
    event = recorded(cuda)
    with cuda.stream(Stream(cuda)):
        cuda.begin_capture(mode)
        if harmed:
            with pytest.raises(RuntimeError, match=FORBIDDEN):
                event.query()
        else:
            assert event.query()


def test_an_event_of_a_graph_cannot_be_asked_after() -> None:
    """It was recorded into the graph, never on the device; and the default stream cannot be captured at all."""
    cuda = FakeCuda()
    with cuda.graph(cuda.CUDAGraph(), capture_error_mode="relaxed"):
        event = recorded(cuda)
    with pytest.raises(RuntimeError, match="capturing stream"):
        event.query()
    with pytest.raises(RuntimeError, match=FORBIDDEN):
        cuda.begin_capture("global")
