"""A thread that does not die in silence: what it raises is told and logged, and its work is started again.

Rule of this file: it knows nothing of the work. Whoever owns the thread shows ``failure`` where people look: in
readiness, on the page. A failure is shown until the work has said that it is well and has gone on for a while.
"""

import logging
import threading
import time
from collections.abc import Callable
from random import Random

from .backoff import Backoff

logger = logging.getLogger("paceline.supervised")

#: The first and the longest wait before the work is started again; how long it must run to count as recovered.
RETRY_FIRST_S, RETRY_CAP_S, STEADY_S = 0.5, 10.0, 3.0


class SupervisedThread:
    """Runs ``work`` until ``stop`` is set, again whenever it raises or returns; ``work`` calls ``well`` as it goes."""

    def __init__(
        self, name: str, work: Callable[[], None], stop: threading.Event, *, steady_s: float = STEADY_S
    ) -> None:
        self.name, self.restarts = name, 0
        self._work, self._stop, self._steady_s = work, stop, steady_s
        self._backoff = Backoff(RETRY_FIRST_S, RETRY_CAP_S, Random())
        self._cause, self._well_s = "", float("inf")
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def failure(self) -> str:
        """Why the work does not go on, in a line for a person; empty while it does."""
        return self._cause if self._cause and not self._steady() else ""

    def start(self) -> None:
        """Begin; it may be asked for again."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Set ``stop`` and wait for the end; False where the work hangs and is left behind."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def well(self) -> None:
        """The work has done something whole since it was started."""
        self._well_s = min(self._well_s, time.monotonic())

    def _steady(self) -> bool:
        return time.monotonic() - self._well_s >= self._steady_s

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
                cause = "ended by itself"
            except Exception as error:
                words = " ".join(str(error).split())
                cause = f"{type(error).__name__}: {words}" if words else type(error).__name__
                self._tell(cause, error)
            if self._stop.is_set():
                return
            self._failed(f"{self.name} failed ({cause}) and is started again")

    def _tell(self, cause: str, error: Exception) -> None:
        if cause not in self._cause or self._steady():  # The same once more is not logged at every attempt.
            logger.error("%s failed and is started again", self.name, exc_info=error)

    def _failed(self, cause: str) -> None:
        if self._steady():
            self._backoff.reset()
        self._cause, self._well_s = cause, float("inf")
        self._stop.wait(self._backoff.next_s())
        self.restarts += 1
