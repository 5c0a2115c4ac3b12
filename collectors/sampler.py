"""A thread that samples on a schedule, whatever goes wrong in one sample.

Rule of this file: it knows nothing of what is sampled.
"""

import logging
import threading
import time
from collections.abc import Callable

from .schedule import Schedule

log = logging.getLogger("paceline.collect")
#: A thread that has not come round for so many intervals, and seconds, is stuck.
STUCK_INTERVALS = 10


class Sampler:
    """Calls ``sample`` at every instant of a schedule, in a thread of its own."""

    def __init__(
        self, name: str, interval_s: float, sample: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self._interval_s = interval_s
        self._sample = sample
        self._clock = clock
        self._beat_s = clock()
        self._failure: str | None = None
        self._told_stuck = False
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def change(self, interval_s: float) -> None:
        """Sample so often from the last sample on."""
        if interval_s != self._interval_s:
            self._interval_s = interval_s
            self._wake.set()

    def _run(self) -> None:
        # A schedule is asked at the very instant that it starts: a moment later its first sample would be missed.
        now_s = self._clock()
        schedule = Schedule(self._interval_s, now_s)
        while not self._stop.is_set():
            if not self._wake.wait(schedule.wait_s(now_s)):
                self.once()
                now_s = self._clock()
                continue
            self._wake.clear()
            now_s = self._clock()
            schedule = Schedule(self._interval_s, max(now_s, self._beat_s + self._interval_s))

    def once(self) -> None:
        """Sample now."""
        try:
            self._sample()
        except Exception as error:
            # What no reader foresaw must not end the agent; the same failure is told once, not every second.
            if repr(error) != self._failure:
                self._failure = repr(error)
                log.exception("%s sample failed; going on", self.name)
        self._beat_s = self._clock()

    def watch(self) -> None:
        """Warn once when the thread is stuck, and once when it has come round again."""
        silent_s = self._clock() - self._beat_s
        stuck = silent_s > STUCK_INTERVALS * max(1.0, self._interval_s)
        if stuck and not self._told_stuck:
            log.warning(
                "no %s sample for %.0f s: a call to the driver or the kernel does not return", self.name, silent_s
            )
        elif self._told_stuck and not stuck:
            log.warning("%s samples come again", self.name)
        self._told_stuck = stuck

    def stop(self, timeout_s: float) -> bool:
        """End; return False where the thread hangs in a call and is left behind."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()
