"""Steps that are over, held until the run queue has been read, so that a step is told whole.

Rule of this file: pure; times are integer nanoseconds. The kernel tells how long the training thread was runnable
without a processor since the last reading, not when. It goes to the work done since, step by step in proportion, and
never exceeds it; time spent waiting for other ranks takes none. What is still being worked on at a reading counts with
what it has taken by then: one long backward may hold several readings. The kernel counts a wait when it ends, so a
reading in the middle of one comes short, and what the next has too much of goes to the one after it. Where the probe
was off for a part of that time, its share of the waiting goes to no step.
"""

from typing import NamedTuple

from paceline.sidecar.rank_rows import CPU_WAIT, Phase, RankRows

#: The longest wait for a processor, in nanoseconds, that a reading may fall into: some turns of others.
LONGEST_WAIT = 100_000_000


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
        #: Waiting that no work was there for, because it began before a reading in the middle of work; and whether the
        #: latest reading was in the middle of work.
        self._surplus = 0.0
        self._amid_work = False
        #: Of the open step: work since the last reading (negative while what a reading has counted is not over), work
        #: that earlier readings have counted, and the waiting that they told.
        self._work = self._counted = 0
        self._waited = 0

    def worked(self, duration: int) -> None:
        """The open step did ``duration`` of its own work (negative: it turns out to have waited for others)."""
        self._work += duration

    def close(self, step: int, start: int, end: int, phases: list[Phase]) -> None:
        """``step`` is over."""
        waited = min(self._waited, max(self._counted + self._work, 0))
        self._steps.append(_ClosedStep(step, start, end, phases, max(self._work, 0), waited))
        self.drop()

    def leaves_out(self, steps: int) -> None:
        """So many ``steps`` right after the one that was closed last are not told."""
        self._steps[-1:] = [closed._replace(left_out=steps) for closed in self._steps[-1:]]

    def drop(self) -> None:
        """The open step is told no further."""
        self._work = self._counted = self._waited = 0

    def read(self, waited_so_far: int | None, heard: float = 1.0, working: int = 0) -> None:
        """The run queue has been read; None where the kernel does not count.

        Args:
            waited_so_far: nanoseconds without a processor.
            heard: the share of the time since the reading before in which the probe was on.
            working: nanoseconds that what is being worked on has taken by now.
        """
        before = self._reading
        waited = 0 if waited_so_far is None or before is None else waited_so_far - before
        self._reading = waited_so_far
        done = max(self._work + working, 0)
        work = done + sum(closed.work for closed in self._steps)
        whole = max(waited, 0) * heard + self._surplus
        share = min(whole / work, 1.0) if work else 0.0
        self._surplus = min(max(whole - work, 0.0), LONGEST_WAIT) if self._amid_work else 0.0
        self._amid_work = working > 0
        self._waited += int(done * share)
        self._counted += done
        self._work -= done
        self.release(share)

    def release(self, share: float = 0.0) -> None:
        """Add the rows of what is closed."""
        for closed in self._steps:
            waited = closed.waited + int(closed.work * share)
            if waited:
                closed.phases.append(Phase(CPU_WAIT, -1, waited))
            self._rows.append_step(closed.step, closed.start, closed.end, closed.phases, closed.left_out)
        self._steps = []
