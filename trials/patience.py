"""Asking somebody again who is away for now: for a while, and no longer where a person wants all to end.

Rule of this file: it waits, and knows nobody whom it asks. Clock and sleep are arguments, for tests.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from paceline.backoff import Backoff

from .executor import ExecutorError

T = TypeVar("T")
Sleep = Callable[[float], object]


class Patience:
    """``asked`` is set where all is to end: then whoever waits for an answer gives up, but to end what was started."""

    def __init__(
        self,
        asked: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep | None = None,
    ) -> None:
        self._asked = asked or threading.Event()
        self._clock, self.sleep = clock, sleep or time.sleep
        self._pause = sleep or self._asked.wait

    def answer(
        self,
        ask: Callable[[], T],
        away: tuple[type[Exception], ...],
        backoff: Backoff,
        most_s: float,
        mend: str,
        *,
        ending: bool = False,
    ) -> T:
        """The answer, asked for again as long as one of ``away`` comes instead, for ``most_s``.

        Raises:
            ExecutorError: nobody has answered by then, or a person wants all to end and this is not ``ending`` it.
        """
        end_s = self._clock() + most_s
        while True:
            if self._asked.is_set() and not ending:
                raise ExecutorError("asked to end")
            try:
                return ask()
            except away as error:
                wait_s = max(backoff.next_s(), getattr(error, "after_s", 0.0))
                if self._clock() + wait_s > end_s:
                    raise ExecutorError(f"{error}, for {most_s:g} s; fix: {mend}") from error
                (self.sleep if ending else self._pause)(wait_s)
