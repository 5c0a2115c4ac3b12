"""Ctrl-C, SIGTERM and SIGHUP as one thing: what runs is unwound, all is given back, and the status tells which.

Rule of this file: handlers are put back as they were. What must not be torn apart (a process that has been started and
is noted) is ``whole``: a signal in it is heard at its end. Signals are not masked for that, for children inherit masks.
"""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """A signal came; ``status`` is the exit status that shells give it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


@contextlib.contextmanager
def on_signals() -> Iterator[None]:
    """Raise ``Ended`` in here for each of ``SIGNALS``; one that was ignored stays ignored (``nohup``)."""
    with _handled(_raise):
        yield


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """A signal in here is raised at the end of it, by whatever handler there was."""
    came: list[int] = []
    with _handled(lambda number, _frame: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


def _raise(number: int, _frame: FrameType | None) -> None:
    raise Ended(number)


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, each in before.items():
            signal.signal(number, each if each is not None else signal.SIG_DFL)
