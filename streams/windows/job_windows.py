"""Rank and job windows of one attempt of one job, from its steps.

Rule of this file: windows follow one clock, that of the **reference rank**, the lowest of the first step: a second
holds the steps that the reference began in it, and every other rank is counted by step number. So ranks whose clocks
are hours apart are in the same window, and no duration is ever taken between two clocks. A step that the reference has
not reported is as much later than the one before as another rank says. A window closes with the first step of a later
second. At the end of a job, when all its producers have said goodbye, the windows that are still open close as they
are: no step is left out.
"""

import math

import numpy as np

from paceline.events import JOB_WINDOWS_S, JobWindow, RankWindow

from ..ingest.ingest import Batch, Ingest
from ..ingest.steps import Step
from ..robust import Array
from ..stored import Kept, Stored
from .aggregate import Part, merge, part, windows
from .collective_tables import CollectiveTables

#: A clock that is set back by more than this is followed; less is waited for.
PATIENCE_S = 10.0
#: Steps times ranks that wait for their second to be over: more are summed up before.
MOST_CELLS = 500_000


class JobWindows(Stored):
    """Windows of one (cluster, job, attempt), of what ``ingest`` takes in."""

    collectives: Kept[CollectiveTables]
    reference: Kept[int]
    before_s: Kept[float]
    before: Kept[Array]
    second: Kept[int | None]
    steps: Kept[list[Step]]
    sums: Kept[Part | None]
    levels: Kept[list[tuple[int, Part] | None]]
    owner: Kept[tuple[str, str, int]]

    def __init__(self, ingest: Ingest) -> None:
        self.ingest = ingest
        self.collectives = CollectiveTables()
        self.reference = -1
        #: When the step before began, and when each rank began it by its own clock.
        self.before_s = 0.0
        self.before = np.empty(0)
        #: The second that is open, its steps, and what was summed up of it before those.
        self.second = None
        self.steps = []
        self.sums = None
        self.levels = [None for _ in JOB_WINDOWS_S[1:]]
        #: Whose windows these are: cluster, job and attempt.
        self.owner = ("", "", 0)

    def update(self, batch: Batch) -> list[RankWindow | JobWindow]:
        """Take in a few messages; the windows that they complete."""
        if batch.of_steps:
            newest = batch.of_steps[-1]
            self.owner = (newest.cluster, newest.job, newest.attempt)
        if batch.collectives is not None:
            self.collectives.update(batch.collectives)
        return [window for step in batch.steps for window in self._take(step)]

    def finish(self) -> list[RankWindow | JobWindow]:
        """All windows that are open where the job has ended."""
        return self.conclude() if self.ingest.ended else []

    def conclude(self) -> list[RankWindow | JobWindow]:
        """The windows that are open at the end of all events, as they are; more steps would be of later ones."""
        out = [window for step in self.ingest.steps.drain() for window in self._take(step)]
        out += self._close(None)
        self.second = None
        for at, length_s in enumerate(JOB_WINDOWS_S[1:]):
            if (level := self.levels[at]) is not None:
                out += self._windows(length_s, level[0] * length_s, level[1])
            self.levels[at] = None
        return out

    def _take(self, step: Step) -> list[RankWindow | JobWindow]:
        """Put ``step`` into its second; the windows that are over with it."""
        out: list[RankWindow | JobWindow] = []
        start_s = self._start_s(step)
        if start_s is not None:
            self.before_s, self.before = start_s, step.starts_s
            second = math.floor(start_s)
            if self.second is None:
                self.second = second
            elif not self.second - PATIENCE_S <= second <= self.second:
                out = self._close(step)
                self.second = second
                step = step._replace(by_all=0)  # They are counted in the second before.
        self.steps.append(step._replace(pairs=None))
        if len(self.steps) * step.starts_s.size > MOST_CELLS:
            self._sum_up()
        return out

    def _start_s(self, step: Step) -> float | None:
        """When ``step`` began by the clock of the reference; None where no rank has closed it."""
        starts_s = step.starts_s
        if 0 <= self.reference < starts_s.size and not math.isnan(start_s := float(starts_s[self.reference])):
            return start_s
        heard = np.flatnonzero(~np.isnan(starts_s))
        if not heard.size:
            return None
        both = heard[heard < self.before.size]
        both = both[~np.isnan(self.before[both])]
        if both.size:
            return self.before_s + float(starts_s[both[0]] - self.before[both[0]])
        self.reference = int(heard[0])
        return float(starts_s[self.reference])

    def _sum_up(self) -> None:
        """Let go of the steps that are open, but for what they amount to."""
        if self.steps:
            sums = part(self.steps, self.ingest.nodes)
            self.sums, self.steps = sums if self.sums is None else merge(self.sums, sums), []

    def _close(self, later: Step | None) -> list[RankWindow | JobWindow]:
        """The windows that are over: ``later`` is the first step of another second, None where no more are reported."""
        self._sum_up()
        sums, second = self.sums, self.second
        self.sums = None
        if sums is None or second is None:
            return []
        sums.left_out += self.ingest.steps.left_out_next() if later is None else later.by_all
        sums.last_step = sums.last_step if later is None else later.step - 1
        sums.collectives = self.collectives.take(sums.last_step - 1)
        out = self._windows(JOB_WINDOWS_S[0], second, sums)
        for at, length_s in enumerate(JOB_WINDOWS_S[1:]):
            number = int(second // length_s)
            open_ = self.levels[at]
            if open_ is not None and open_[0] != number:
                out += self._windows(length_s, open_[0] * length_s, open_[1])
                open_ = None
            self.levels[at] = (number, sums if open_ is None else merge(open_[1], sums))
        return out

    def _windows(self, length_s: float, start_s: float, sums: Part) -> list[RankWindow | JobWindow]:
        cluster, job, attempt = self.owner
        common = {
            "cluster": cluster,
            "job": job,
            "attempt": attempt,
            "start_s": float(start_s),
            "length_s": length_s,
        }
        return windows(sums, self.ingest.steps.first_told, self.ingest.nodes, common)
