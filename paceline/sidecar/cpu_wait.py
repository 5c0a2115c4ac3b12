"""Steps that are over, held until the run queue has been read, so that a step is told whole.

Rule of this file: pure; times are integer nanoseconds. The kernel tells how long the training thread was runnable
without a processor since the last reading, not when. It goes to the work done since, step by step in proportion, and
never exceeds it; time spent waiting for other ranks takes none. Where the probe was off for a part of that time, its
share of the waiting goes to no step.
"""

from typing import NamedTuple

from paceline.sidecar.rank_rows import CPU_WAIT, Phase, RankRows


class _ClosedStep(NamedTuple):
    step: int
    start: int
    end: int
    phases: list[Phase]
    work: int
    waited: int
    left_out: int = 0


class ClosedSteps:
    """Keeps closed steps until a reading comes; then adds the row of a step once both are there."""

    def __init__(self, rows: RankRows) -> None:
        self._rows = rows
        self._steps: list[_ClosedStep] = []
        self._reading: int | None = None
        #: Of the open step: work since the last reading, and the waiting that earlier readings told.
        self._work = 0
        self._waited = 0

    def worked(self, duration: int) -> None:
        """The open step did ``duration`` of its own work (negative: it turns out to have waited for others)."""
        self._work += duration

    def close(self, step: int, start: int, end: int, phases: list[Phase]) -> None:
        """``step`` is over."""
        self._steps.append(_ClosedStep(step, start, end, phases, max(self._work, 0), self._waited))
        self._work = self._waited = 0

    def leaves_out(self, steps: int) -> None:
        """So many ``steps`` right after the one that was closed last are not told."""
        self._steps[-1:] = [closed._replace(left_out=steps) for closed in self._steps[-1:]]

    def drop(self) -> None:
        """The open step is not told."""
        self._work = self._waited = 0

    def read(self, waited_so_far: int | None, heard: float = 1.0) -> None:
        """The run queue has been read; None where the kernel does not count.

        Args:
            waited_so_far: nanoseconds without a processor.
            heard: the share of the time since the reading before in which the probe was on.
        """
        before = self._reading
        waited = 0 if waited_so_far is None or before is None else waited_so_far - before
        self._reading = waited_so_far
        self._work = max(self._work, 0)
        work = self._work + sum(closed.work for closed in self._steps)
        share = min(max(waited, 0) * heard / work, 1.0) if work else 0.0
        self._waited += int(self._work * share)
        self._work = 0
        self.release(share)

    def release(self, share: float = 0.0) -> None:
        """Add the rows of what is closed."""
        for closed in self._steps:
            waited = closed.waited + int(closed.work * share)
            if waited:
                closed.phases.append(Phase(CPU_WAIT, -1, waited))
            self._rows.append_step(closed.step, closed.start, closed.end, closed.phases, closed.left_out)
        self._steps = []
