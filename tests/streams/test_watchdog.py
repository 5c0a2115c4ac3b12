"""A watchdog acts when something is not done in time, and only then."""

import queue
import threading

import pytest

from streams.watchdog import Watchdog
from tests.patience import PATIENCE_S


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def acted():
    return queue.Queue()


def test_what_is_not_done_in_time_is_acted_upon(acted):
    """Once, with how it stands then."""
    stands = ["joining"]
    watchdog = Watchdog(acted.put)
    watchdog.expect(lambda: stands[0], 0.0)
    assert acted.get(timeout=PATIENCE_S) == "joining"
    assert acted.empty()


def test_what_is_done_is_not(acted):
    """Whatever the clock says afterwards."""
    clock = Clock()
    watchdog = Watchdog(acted.put, clock)
    watchdog.expect(lambda: "first", 60.0)
    watchdog.done()
    clock.now_s = 1000.0
    watchdog.expect(lambda: "second", 0.0)
    assert acted.get(timeout=PATIENCE_S) == "second"
    assert acted.empty()


def test_what_is_expected_next_replaces_it(acted):
    """A worker that fails is to end; that it was to be ready before is over."""
    clock = Clock()
    watchdog = Watchdog(acted.put, clock)
    watchdog.expect(lambda: "ready", 60.0)
    watchdog.expect(lambda: "ended", 25.0)
    clock.now_s = 25.0
    watchdog.expect(lambda: "ended", 0.0)
    assert acted.get(timeout=PATIENCE_S) == "ended"


def test_it_acts_while_the_main_thread_stands(acted):
    """A loop that waits for a library's thread does not hold it up."""
    standing = threading.Event()
    watchdog = Watchdog(lambda what: standing.set())
    watchdog.expect(str, 0.01)
    assert standing.wait(PATIENCE_S)
