"""Steps that are over, held until the run queue has been read, so that a step's closing row comes last.

Rule of this file: pure; times are integer nanoseconds. The kernel tells how long the training thread was runnable
without a processor since the last reading, not when. It goes to the work done since, step by step in proportion, and
never exceeds it; time spent waiting for other ranks takes none.
"""

from typing import NamedTuple

from paceline.sidecar.rank_rows import CPU_WAIT, WHOLE, Rows


class Phase(NamedTuple):
    """A row of a step: phase or overlay, micro-batch or -1, start and duration."""

    op: int
    microbatch: int
    start: int
    duration: int


class _Held(NamedTuple):
    step: int
    start: int
    end: int
    phases: list[Phase]
    work: int
    waited: int


class Closing:
    """Takes closed steps and readings; adds the rows of a step once both are there."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._held: list[_Held] = []
        self._reading: int | None = None
        #: Of the open step: work since the last reading, and the waiting that earlier readings told.
        self._work = 0
        self._waited = 0

    def worked(self, duration: int) -> None:
        """The open step did ``duration`` of its own work (negative: it turns out to have waited for others)."""
        self._work += duration

    def close(self, step: int, start: int, end: int, phases: list[Phase]) -> None:
        """``step`` is over."""
        self._held.append(_Held(step, start, end, phases, max(self._work, 0), self._waited))
        self._work = self._waited = 0

    def read(self, waited_so_far: int | None) -> None:
        """The run queue has been read; None where the kernel does not count."""
        known = waited_so_far is not None and self._reading is not None
        waited = waited_so_far - self._reading if known else 0  # type: ignore[operator]
        self._reading = waited_so_far
        self._work = max(self._work, 0)
        work = self._work + sum(held.work for held in self._held)
        share = min(max(waited, 0) / work, 1.0) if work else 0.0
        self._waited += int(self._work * share)
        self._work = 0
        self.release(share)

    def release(self, share: float = 0.0) -> None:
        """Add the rows of what is held."""
        for held in self._held:
            for phase in held.phases:
                self._rows.phase(held.step, *phase)
            waited = held.waited + int(held.work * share)
            if waited:
                self._rows.phase(held.step, CPU_WAIT, -1, held.start, waited)
            self._rows.phase(held.step, WHOLE, -1, held.start, held.end - held.start)
        self._held = []
