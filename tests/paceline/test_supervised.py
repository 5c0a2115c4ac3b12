"""A thread that fails is told, started again, and well again only after a while."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from paceline.supervised import SupervisedThread
from tests.patience import PATIENCE_S

Until = Callable[..., None]


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Ends the thread of the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.slow
def test_work_that_fails_is_started_again(stop: threading.Event, until: Until) -> None:
    """The cause is there as long as it fails, and gone when the work has gone on for a while."""
    broken = threading.Event()
    broken.set()

    def work() -> None:
        while not stop.is_set():
            if broken.is_set():
                raise OverflowError("int too large\nto convert")
            thread.well()
            stop.wait(0.01)

    thread = SupervisedThread("the test", work, stop, steady_s=0.05)
    assert thread.failure == ""
    thread.start()
    until(lambda: thread.restarts >= 2)
    assert thread.failure == "the test failed (OverflowError: int too large to convert) and is started again"
    broken.clear()
    until(lambda: thread.failure == "")
    assert thread.stop(PATIENCE_S)


@pytest.mark.slow
def test_a_short_recovery_is_none(stop: threading.Event, until: Until) -> None:
    """Work that gets a step further each time, and fails again, is told as failing all the while."""
    seen: list[str] = []

    def work() -> None:
        thread.well()
        seen.append(thread.failure)
        raise ValueError("again")

    thread = SupervisedThread("the test", work, stop, steady_s=3600.0)
    thread.start()
    until(lambda: thread.restarts >= 2)
    thread.stop(PATIENCE_S)
    assert all("ValueError: again" in failure for failure in seen[1:])


def test_work_that_returns_has_failed_too(stop: threading.Event, until: Until) -> None:
    """Nothing may end by itself before it is told to."""
    thread = SupervisedThread("the test", lambda: None, stop)
    thread.start()
    until(lambda: thread.failure == "the test failed (ended by itself) and is started again")


@pytest.mark.slow
def test_the_same_failure_is_logged_once(stop: threading.Event, until: Until, caplog: pytest.LogCaptureFixture) -> None:
    """With its traceback, and not at every attempt."""

    def work() -> None:
        raise ValueError("the same")

    thread = SupervisedThread("the test", work, stop)
    with caplog.at_level(logging.ERROR):
        thread.start()
        until(lambda: thread.restarts >= 2)
        thread.stop(PATIENCE_S)
    (line,) = caplog.records
    assert line.exc_info is not None


def test_a_thread_that_was_never_started_can_be_stopped(stop: threading.Event) -> None:
    """What fails to start is taken down like what ran."""
    assert SupervisedThread("the test", lambda: None, stop).stop(PATIENCE_S)


def test_a_thread_is_started_once(stop: threading.Event) -> None:
    """Whoever needs its work may start it each time."""
    began = []
    thread = SupervisedThread("the test", lambda: began.append(stop.wait(PATIENCE_S)), stop)
    for _ in range(3):
        thread.start()
    assert thread.stop(PATIENCE_S)
    assert len(began) == 1


def test_work_that_hangs_is_left_behind(stop: threading.Event) -> None:
    """Whoever stops it learns so: what the work holds must not be taken from under it."""
    entered, release = threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        release.wait()

    thread = SupervisedThread("the test", work, stop)
    thread.start()
    assert entered.wait(PATIENCE_S)
    assert not thread.stop(0.01)  # it is to run out
    release.set()
    assert thread.stop(PATIENCE_S)
