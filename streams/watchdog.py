"""A thread that acts when something is not done in time, whatever holds the event loop or its end.

Rule of this file: waiting alone. A client library that waits for an answer which never comes cannot be told to stop,
and neither can the end of a loop that waits for its threads; what is done then is for the caller.
"""

import threading
import time
from collections.abc import Callable


class Watchdog:
    """Calls ``act`` with ``what()`` once ``expect``'s time is over without ``done``; one thing at a time."""

    def __init__(self, act: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._act, self._clock = act, clock
        self._changed = threading.Condition()
        self._deadline_s: float | None = None
        self._what: Callable[[], str] = str
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def expect(self, what: Callable[[], str], within_s: float) -> None:
        """From now on ``done`` is to be called within so many seconds; it replaces what was expected before."""
        with self._changed:
            self._what, self._deadline_s = what, self._clock() + within_s
            self._changed.notify()

    def done(self) -> None:
        """What was expected has come; nothing is until the next call of ``expect``."""
        with self._changed:
            self._deadline_s = None
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                left_s = None if self._deadline_s is None else self._deadline_s - self._clock()
                if left_s is None or left_s > 0:
                    self._changed.wait(left_s)
                    continue
                what, self._deadline_s = self._what, None
            self._act(what())
