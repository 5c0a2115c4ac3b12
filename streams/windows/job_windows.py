"""Rank and job windows of one attempt of one job, from its steps.

Rule of this file: windows follow one clock, that of the **reference rank** (the lowest heard): a second holds the steps
that the reference began in it, and every other rank is counted by step number. So ranks whose clocks are hours apart
stand in the same window, and no duration is ever taken between two clocks. A window closes when every rank has told its
last step; ranks that keep silent are waited for ``PATIENCE_S`` of the reference's time, then no longer. At the end of a
job, when all its producers have said goodbye, the windows that are still open close as they are: no step is left out.
"""

from typing import Any

import numpy as np

from paceline.events import JOB_WINDOWS_S, JobWindow, RankWindow, StepTimings
from paceline.sequences import MOST_PRODUCERS
from paceline.settings import MOST_RANKS

from ..coverage import CoverageTracker
from ..gather import Gather, enough
from ..shared_rows import SharedRows
from ..snapshots import Steps, at_once, cutting, described, unpack
from ..speakers import SpeakersHeard
from .aggregate import Part, merge, part, windows
from .collective_tables import CollectiveTables
from .open_steps import OpenSteps

PATIENCE_S = 10.0
_LAYOUT = 8


class JobWindows:
    """Windows of one (cluster, job, attempt)."""

    def __init__(self) -> None:
        self.coverage = CoverageTracker()
        self.speakers = SpeakersHeard()
        self.gather: Gather[StepTimings] = Gather()
        self.open = OpenSteps()
        self.collectives = CollectiveTables()
        self.rows = SharedRows()
        self.reference = -1
        self.most_ranks = MOST_RANKS.default
        self.waived: set[int] = set()
        self.unheard_waived = False
        self.levels: list[tuple[int, Part] | None] = [None for _ in JOB_WINDOWS_S[1:]]
        #: Producers that may report more steps, and whose windows these are: cluster, job and attempt.
        self.reporting: set[str] = set()
        self.owner: tuple[str, str, int] = ("", "", 0)

    def update(self, event: StepTimings) -> list[RankWindow | JobWindow]:
        """Take in one batch; the windows that it completes."""
        if not self.coverage.admit(event.producer, event.sequence):
            return []
        self.owner = (event.cluster, event.job, event.attempt)
        if isinstance(event, StepTimings) and event.ended:
            self.reporting.discard(event.producer)
        else:
            self.reporting.add(event.producer)
            if len(self.reporting) > 2 * MOST_PRODUCERS:
                self.reporting &= self.coverage.last.keys()
        event, who, fresh, beyond = self.speakers.hear(event, self.most_ranks)
        self.coverage.leave_out(beyond, self.most_ranks)
        if fresh:
            self.coverage.hear(who.ranks, who.world_sizes)
            ranks_before = len(self.open.slot)
            self.open.place(who.ranks, event.node)
            if len(self.open.slot) > ranks_before:
                self.unheard_waived = False
        if self.waived:
            self.waived.difference_update(self.open.slot[rank] for rank in who.ranks)
        ready = self.gather.push(event, enough(self.coverage.producers, backlog=self.rows.at_once > 0))
        return self._advance(ready) if ready else []

    def next_launch(self) -> "JobWindows":
        """One that has seen nothing of the next launch."""
        return JobWindows()

    def bound_ranks(self, most: int) -> None:
        """Leave out ranks from number ``most`` on."""
        self.most_ranks = most

    def share_rows(self, rows: SharedRows) -> None:
        """Read the rows of messages from ``rows``, which other decisions read them from as well."""
        self.rows = rows

    def finish(self) -> list[RankWindow | JobWindow]:
        """The windows that the messages that still wait complete; all that are open where the job has ended."""
        found = self._advance(ready) if (ready := self.gather.drain()) else []
        ended = self.open.slot and not self.reporting and len(self.open.slot) >= self.coverage.expected
        return found + self._close_all() if ended else found

    def conclude(self) -> list[RankWindow | JobWindow]:
        """The windows that are open at the end of all events, as they are."""
        return self._close_all()

    def expire(self) -> list[RankWindow | JobWindow]:
        """The windows that are open when the job is forgotten, idle for long: more steps would be of later ones."""
        return self._close_all()

    def _advance(self, batches: list[StepTimings]) -> list[RankWindow | JobWindow]:
        self.open.update(self.rows.of(batches))
        self.collectives.update(self.rows.sums_of([one for one in batches if isinstance(one, StepTimings)]))
        out: list[RankWindow | JobWindow] = []
        while closed := self._close():
            out += self._emit(*closed)
        return out

    def _close_all(self) -> list[RankWindow | JobWindow]:
        """All windows that are open, though no later step shows that they are over."""
        out: list[RankWindow | JobWindow] = []
        while closed := self._close(last=True):
            out += self._emit(*closed)
        for at, length_s in enumerate(JOB_WINDOWS_S[1:]):
            if (level := self.levels[at]) is not None:
                out += self._windows(length_s, level[0] * length_s, level[1])
            self.levels[at] = None
        return out

    def _close(self, *, last: bool = False) -> tuple[int, int] | None:
        """The first second that is over, and how many steps it holds; ``last``: over or not."""
        self._choose_reference()
        open_steps = self.open
        if last and self.reference >= 0 and np.isnan(open_steps.start_s[: open_steps.used, self.reference]).all():
            self._refer_to_lowest(~np.isnan(open_steps.start_s[: open_steps.used]).all(axis=0))
        starts = open_steps.start_s[: open_steps.used, self.reference] if self.reference >= 0 else np.zeros(0)
        if not last and starts.size and np.floor(open_steps.newest_s[self.reference]) <= starts[0]:
            return None  # The reference has told no later second.
        told = np.flatnonzero(~np.isnan(starts))
        if not told.size:
            return None
        second = np.floor(starts)
        second[: told[0]] = second[told[0]]
        # A step that the reference did not tell belongs with the one before; a clock set back does not go back.
        second = np.fmax.accumulate(second)
        later = np.flatnonzero(second > second[0])
        if last:
            return int(second[0]), int(later[0]) if later.size else open_steps.used
        if not later.size:
            return None
        steps = int(later[0])
        over_s = float(open_steps.newest_s[self.reference]) - float(second[0]) - JOB_WINDOWS_S[0]
        if not self._all_told(open_steps.last_of(steps), over_s > PATIENCE_S):
            return None
        return int(second[0]), steps

    def _all_told(self, step: int, patience_over: bool) -> bool:
        behind = set(np.flatnonzero(self.open.last_step[: len(self.open.slot)] < step).tolist()) - self.waived
        unheard = len(self.open.slot) < self.coverage.expected and not self.unheard_waived
        if patience_over:
            self.waived |= behind
            self.unheard_waived |= unheard
            return True
        return not behind and not unheard

    def _choose_reference(self) -> None:
        """The lowest rank; once it keeps silent while others go on for ``PATIENCE_S``, the lowest of those."""
        open_steps = self.open
        if not open_steps.slot:
            return
        if self.reference < 0 or open_steps.closed < 0:
            self.reference = open_steps.slot[min(open_steps.slot)]
        last_step = open_steps.last_step[self.reference]
        if not open_steps.used or open_steps.numbers[-1] <= last_step:
            return
        row = int(np.searchsorted(open_steps.numbers, last_step, side="right"))
        self._refer_to_lowest(open_steps.newest_s - open_steps.start_s[row] > PATIENCE_S)

    def _refer_to_lowest(self, slots: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Follow the clock of the lowest rank of these ``slots``, where there is one."""
        if slots.any():
            ranks = self.open.ranks
            self.reference = min(np.flatnonzero(slots).tolist(), key=lambda slot: ranks[slot])

    def _emit(self, second: int, steps: int) -> list[RankWindow | JobWindow]:
        """The windows that the first ``steps`` open steps, of one ``second``, complete; those are then closed."""
        sums = part(self.open, steps, self.collectives)
        out = self._windows(JOB_WINDOWS_S[0], second, sums)
        for at, length_s in enumerate(JOB_WINDOWS_S[1:]):
            number = int(second // length_s)
            open_ = self.levels[at]
            if open_ is not None and open_[0] != number:
                out += self._windows(length_s, open_[0] * length_s, open_[1])
                open_ = None
            self.levels[at] = (number, sums if open_ is None else merge(open_[1], sums))
        self.open.drop(steps)
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
        return windows(sums, self.open, common)

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        return at_once(self.cutting()).pack()

    def cutting(self) -> Steps:
        """The same as it is now, to be packed later."""
        state: dict[str, Any] = {
            "coverage": self.coverage.snapshot(),
            "gather": self.gather.snapshot(),
            "open": self.open.snapshot(),
            "collectives": self.collectives.snapshot(),
            "reference": self.reference,
            "waived": sorted(self.waived),
            "unheard_waived": self.unheard_waived,
            "levels": [level and [level[0], level[1].snapshot()] for level in self.levels],
            "reporting": sorted(self.reporting),
            "owner": list(self.owner),
        }
        return cutting(_LAYOUT, state)

    @classmethod
    def restore(cls, data: bytes) -> "JobWindows":
        """The decision that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state = unpack(_LAYOUT, data)
        made = cls()
        with described():
            made.coverage.load(state["coverage"])
            made.gather.load(state["gather"])
            made.open.load(state["open"])
            made.collectives.load(state["collectives"])
            made.reference = state["reference"]
            made.waived = set(state["waived"])
            made.unheard_waived = state["unheard_waived"]
            made.levels = [level and (level[0], _part(level[1])) for level in state["levels"]]
            made.reporting = set(state["reporting"])
            cluster, job, attempt = state["owner"]
            made.owner = (cluster, job, attempt)
        return made


def _part(data: dict[str, Any]) -> Part:
    """The part that ``Part.snapshot`` described."""
    return Part(**data | {"collectives": [tuple(line) for line in data["collectives"]]})
