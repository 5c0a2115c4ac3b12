"""Do the ranks of a job wait for each other: where they do not, none can hold another back.

Rule of this file: pure counting. It asks only where all waiting in torch.distributed is measured and there is none.
Ranks may still exchange by another library (Horovod, MPI), whose waiting is not measured. Unequal ranks show it: if
their steps are equally long, they wait; if their steps differ as their work does, they do not. Of ranks that work alike
nothing follows: waiting may be part of what counts as their work.
"""

from typing import Any, Literal

import numpy as np

from paceline.events import OP_INDEX, Finding

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured
from ..robust import Array
from ..stored import Kept, Stored
from .job_episodes import JobEpisodes, JudgedWindow, Sight
from .ticks import Tick

#: A job has one set of ranks.
_JOB = "ranks"
#: A rank that works longer than another by this share of a step is slower; the other, if it waits, waits that long.
_UNEQUAL_SHARE = 0.05
#: Steps that differ by this share of what the work differs by are not made equal by waiting.
_KEPT_SHARE = 0.5
_WAIT = OP_INDEX["communication"]
#: The evidence that only this finding has.
_WAITED = "waited_for_others"

Relation = Literal["together", "apart", "unknown"]
ApartEpisode = Episode[str, Measured]


class Apart(Stored):
    """Whether the ranks of one job work apart.

    Args:
        after_ticks: looks at unequal ranks, without any waiting, after which that is reported.
    """

    ticks: Kept[int]
    waited: Kept[bool]
    episodes: Kept[JobEpisodes[Any, Any]]

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
        seen = "together" if self.waited else relation(tick.own, tick.total)
        apart = seen != "together" and int((~np.isnan(tick.own)).sum()) > 1
        if self.ticks < self.after_ticks:
            self.ticks = self.ticks + (seen == "apart") if apart else 0
        if self.ticks < self.after_ticks:
            return None
        window = JudgedWindow(tick.first_step, tick.last_step, tick.span_s, tick.each)
        return self.episodes.push(_JOB, window, Sight(float(apart), 1.0, 0.0, "unknown"), Measured())


def relation(work_s: Array, step_s: Array) -> Relation:
    """What the ranks' work and steps say of whether they wait for each other, by the slowest and the fastest of them.

    Args:
        work_s: seconds a step that each rank works; NaN where that is not known.
        step_s: seconds that its steps take; of the same shape, or empty where it is not known.

    >>> relation(np.array([0.1, 0.1, 0.2]), np.array([0.1, 0.1, 0.2]))
    'apart'
    >>> relation(np.array([0.1, 0.1, 0.2]), np.array([0.2, 0.2, 0.2]))
    'together'
    >>> relation(np.array([0.2, 0.2, 0.2]), np.array([0.2, 0.2, 0.2]))
    'unknown'
    """
    if step_s.shape != work_s.shape:
        return "unknown"
    known = ~np.isnan(work_s) & ~np.isnan(step_s)
    work_s, step_s = work_s[known], step_s[known]
    if work_s.size < 2:
        return "unknown"
    slow, fast = int(work_s.argmax()), int(work_s.argmin())
    more_s = work_s[slow] - work_s[fast]
    if more_s <= 0.0 or more_s < _UNEQUAL_SHARE * np.median(step_s):
        return "unknown"
    return "apart" if step_s[slow] - step_s[fast] >= _KEPT_SHARE * more_s else "together"


def is_apart(finding: Finding) -> bool:
    """Whether ``finding`` says that the ranks of a job do not wait for each other."""
    return any(one.name == _WAITED for one in finding.evidence)


def said(ranks: int) -> Said:
    """What is said of a job whose ranks work apart."""
    evidence = [number(_WAITED, 0.0, "s/step", None, "time in collectives of torch.distributed, all ranks")]
    summary = (
        f"No collective of torch.distributed was seen, and the {ranks} ranks have steps of unequal length: as far as "
        "is measured, they do not wait for each other, so none is named as slow."
    )
    over = "The ranks wait for each other now: they are compared from here on."
    return Said(Subject("insufficient_data", "apart"), evidence, summary, over=over, severity="info")
