"""Makes races between threads likely, and repeatable by a seed: ``make test ARGS='-p shaken --shaken-seed 7'``.

Rules of this file: it delays, and does nothing else. What passes in peace and fails here has a race, in the test or in
the product: a thread may stop for 300 ms between any two lines on a busy machine, too. Each test draws a way of being
shaken from the seed and its name (how often, how long, how eagerly Python switches threads, when it collects garbage),
and each thread draws its pauses from that and the order in which threads come. So a seed repeats the pauses; the
kernel still decides the rest.
"""

import gc
import os
import queue
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

ROOT = str(Path(__file__).parents[2]) + os.sep
#: No thread is delayed for longer than this in one test, so that a loop over a million lines ends.
MOST_S = 1.0
#: A pause in so many is a long one: a machine that swaps.
LONG_ONE, LONG_S = 40, 0.3
#: After and before these, another thread may be the next.
PRIMITIVES: dict[type, tuple[str, ...]] = {
    threading.Condition: ("wait", "notify", "notify_all"),
    threading.Event: ("set", "clear", "wait", "is_set"),
    threading.Thread: ("join", "is_alive"),
    queue.Queue: ("put", "get"),
    socket.socket: ("accept", "bind", "close", "connect", "listen", "recv", "recv_into", "send", "sendall", "shutdown"),
}
_sleep = time.sleep


class Shaking(NamedTuple):
    """How one test is shaken: how often a thread pauses at a primitive and at a line, how long, and more."""

    seed: str
    at_primitive: float
    at_line: float
    pause_s: float
    switch_s: float
    garbage: int

    @classmethod
    def of(cls, seed: str) -> "Shaking":
        drawn = random.Random(seed)
        return cls(
            seed,
            at_primitive=drawn.choice((0.05, 0.2, 0.6)),
            at_line=drawn.choice((0.0, 0.002, 0.02, 0.1)),
            pause_s=drawn.choice((0.002, 0.01, 0.03)),
            switch_s=drawn.choice((1e-6, 1e-4, 0.005, 0.05)),
            garbage=drawn.choice((20, 700, 50_000)),
        )


class _Drawn(threading.local):
    """What one thread draws from, in one test; threads are numbered as they come."""

    shaking: Shaking | None = None
    dice = random.Random()
    left_s = 0.0


class Shaker:
    """The pauses of one session."""

    def __init__(self) -> None:
        self.shaking: Shaking | None = None
        self._drawn = _Drawn()
        self._threads = 0

    def test(self, shaking: Shaking | None) -> None:
        """From here on threads pause as ``shaking`` says; None: not at all."""
        self._threads, self.shaking = 0, shaking
        sys.setswitchinterval(shaking.switch_s if shaking else 0.005)
        gc.set_threshold(shaking.garbage if shaking else 700, 10, 10)

    def pause(self, line: bool = False) -> None:
        """Perhaps sleep; never in a test with one thread, where nothing can race."""
        shaking, drawn = self.shaking, self._drawn
        if shaking is None or threading.active_count() == 1:
            return
        if drawn.shaking is not shaking:
            self._threads += 1
            drawn.shaking, drawn.left_s = shaking, MOST_S
            drawn.dice = random.Random(f"{shaking.seed} {self._threads}")
        dice = drawn.dice
        if drawn.left_s <= 0 or dice.random() >= (shaking.at_line if line else shaking.at_primitive):
            return
        pause_s = LONG_S if dice.randrange(LONG_ONE) == 0 else dice.uniform(0, shaking.pause_s)
        drawn.left_s -= pause_s
        _sleep(pause_s)

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """Python's trace function: pauses between the lines of our own code and of the tests."""
        if event == "call":
            ours = self.shaking is not None and frame.f_code.co_filename.startswith(ROOT)
            return self.trace if ours and self.shaking is not None and self.shaking.at_line else None
        if event == "line":
            self.pause(line=True)
        return self.trace


_shaker = Shaker()


def _shaken(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        _shaker.pause()
        try:
            return method(*arguments, **named)
        finally:
            _shaker.pause()

    return call


def _start(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """A thread begins late, or before the one that started it goes on."""

    def call(thread: threading.Thread) -> None:
        run = thread.run

        def late() -> None:
            _shaker.pause()
            run()

        thread.run = late  # type: ignore[method-assign]
        start(thread)
        _shaker.pause()

    return call


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shaken-seed", type=int, help="repeat the pauses of an earlier run of `-p shaken`")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.shaken_seed is None:  # The processes of pytest-xdist inherit it.
        config.option.shaken_seed = random.randrange(10_000)
    for kind, names in PRIMITIVES.items():
        for name in names:
            setattr(kind, name, _shaken(getattr(kind, name)))
    threading.Thread.start = _start(threading.Thread.start)  # type: ignore[method-assign,assignment]
    threading.settrace(_shaker.trace)


def pytest_report_header(config: pytest.Config) -> str:
    return f"shaken: --shaken-seed {config.option.shaken_seed}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _shaker.test(Shaking.of(f"{item.config.option.shaken_seed} {item.nodeid}"))
    sys.settrace(_shaker.trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        _shaker.test(None)
