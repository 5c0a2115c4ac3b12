"""Do the ranks of a job wait for each other: where they never do, nobody can hold another back.

Rule of this file: pure counting. It asks only where all waiting is measured, and reports once the job has run for a
while without any.
"""

from typing import Any

import numpy as np

from paceline.events import OP_INDEX, Finding

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured
from ..robust import known_or_zero
from .job_episodes import JobEpisodes, JudgedWindow, Sight
from .ticks import Tick

#: A job has one set of ranks.
_JOB = "ranks"
#: A rank that works longer by this share of a step is slower; its peers, if they wait for it, stand still that long.
_WAITED_SHARE = 0.05
_WAIT = OP_INDEX["communication"]
#: The evidence that only this finding has.
_WAITED = "waited_for_others"

ApartEpisode = Episode[str, Measured]


class Apart:
    """Whether the ranks of one job work apart.

    Args:
        after_ticks: looks at unequal ranks, without any waiting, after which that is reported.
    """

    def __init__(self, after_ticks: int) -> None:
        self.after_ticks = after_ticks
        self.ticks = 0
        self.waited = False
        self.episodes = JobEpisodes(ApartEpisode)

    def update(self, tick: Tick) -> ApartEpisode | None:
        """Take in one tick; the episode where it has something new to report."""
        if not tick.waits_measured:
            return None
        self.waited = self.waited or bool(np.nansum(tick.seconds[_WAIT]) > 0.0)
        apart = int((~np.isnan(tick.own)).sum()) > 1 and not self.waited and not _stand_still(tick)
        if self.ticks < self.after_ticks:
            self.ticks = self.ticks + _differ(tick) if apart else 0
        if self.ticks < self.after_ticks:
            return None
        window = JudgedWindow(tick.first_step, tick.last_step, tick.span_s, tick.each)
        return self.episodes.push(_JOB, window, Sight(float(apart), 1.0, 0.0, "unknown"), Measured())

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {"ticks": self.ticks, "waited": self.waited, "episodes": self.episodes.snapshot()}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.ticks, self.waited = data["ticks"], data["waited"]
        self.episodes.load(data["episodes"])


def _differ(tick: Tick) -> bool:
    """Whether some rank works longer than its peers: of ranks that work alike nobody can tell whether they wait."""
    return bool(np.nanmax(known_or_zero(tick.excess), initial=0.0) >= _WAITED_SHARE)


def _stand_still(tick: Tick) -> bool:
    """Whether ranks stand still for one another outside of what is measured: exchanging by another library."""
    return bool(np.nanmax(known_or_zero(tick.waited / tick.base), initial=0.0) >= _WAITED_SHARE)


def is_apart(finding: Finding) -> bool:
    """Whether ``finding`` says that the ranks of a job do not wait for each other."""
    return any(one.name == _WAITED for one in finding.evidence)


def said(ranks: int) -> Said:
    """What is said of a job whose ranks work apart."""
    evidence = [number(_WAITED, 0.0, "s/step", None, "time in collectives of torch.distributed, all ranks")]
    summary = (
        f"No collective of torch.distributed was seen: as far as is measured, the {ranks} ranks of this job do not "
        "wait for each other, so none is named as slow."
    )
    over = "The ranks wait for each other now: they are compared from here on."
    return Said(Subject("insufficient_data", "apart"), evidence, summary, over=over, severity="info")
