"""Whether a worker stood still for so long that others may have taken it for gone.

Rule of this file: its clock is an argument. Once it stood still, it stays so: another has newer states.
"""

from collections.abc import Callable

#: A worker that stood still for so long may have been taken for gone, a session of 8 s after its last heartbeat.
STILL_S = 6.0


class StoodStillError(Exception):
    """The worker did not run for so long that its partitions may be another's, whose states are newer."""


class Beat:
    """When a worker was last known to run."""

    def __init__(self, clock: Callable[[], float], lose: Callable[[], None]) -> None:
        """``lose`` is called once, before the error, where it stood still."""
        self._clock, self._lose = clock, lose
        #: None: nobody has called ``beat``.
        self._last_s: float | None = None
        #: Why nothing may be stored any more.
        self._still = ""

    def beat(self) -> None:
        """It runs.

        Raises:
            StoodStillError: it did not for ``STILL_S``, now or before.
        """
        now_s, before_s = self._clock(), self._last_s
        self._last_s = now_s
        if not self._still and before_s is not None and now_s - before_s >= STILL_S:
            self._still = f"stood still for {now_s - before_s:.0f} s: its partitions may be another's by now"
            self._lose()
        if self._still:
            raise StoodStillError(self._still)

    def fence(self) -> None:
        """Before a change of what is stored: as ``beat``, where that is called at all."""
        if self._last_s is not None:
            self.beat()
