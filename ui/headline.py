"""The job in a few numbers: the median rank and the worst, never an average.

Rule of this file: pure. The newest job window is the source; where none came, the page's own last steps are.
"""

from dataclasses import dataclass

import numpy as np

from paceline.phases import PHASES
from paceline.work_time import WAITING, Longest, longest, others_of_worst_s, uneven

from .ratios import own_time, quiet_median
from .snapshot import JobView

#: Steps looked at where no window came, and for whether a rank reports.
RECENT = 50


@dataclass(frozen=True)
class Headline:
    """Seconds a step; ``wait_ratio`` is the share of the median rank's step spent waiting for other ranks.

    ``others_s`` is what the worst is compared with: of two ranks the other's, of more the median's.
    """

    step_s: float | None
    step_p95_s: float | None
    own_s: float | None
    others_s: float | None
    worst_s: float | None
    worst_rank: int | None
    wait_ratio: float | None
    source: str
    as_of_s: float | None
    #: Whether there are two ranks, so that the others are one.
    pair: bool = False

    @property
    def factor(self) -> float | None:
        """How many times the others' own time the worst needs."""
        return self.worst_s / self.others_s if self.worst_s is not None and self.others_s else None


def headline(view: JobView) -> Headline:
    """The numbers of ``view``."""
    window = view.window
    if window is not None and not _outdated(view):
        return Headline(
            step_s=window.step_median_s,
            step_p95_s=window.step_p95_s,
            own_s=window.own_median_s,
            others_s=others_of_worst_s(window),
            worst_s=window.own_worst_s,
            worst_rank=window.worst_rank,
            wait_ratio=window.wait_ratio,
            source=f"{window.length_s:g} s window",
            as_of_s=window.start_s + window.length_s,
            pair=window.ranks == 2,
        )
    return _from_steps(view)


def reporting(view: JobView) -> int:
    """How many ranks have reported any of the last steps; the heatmap keeps ranks that left long ago."""
    return int(np.isfinite(view.step_s[:, -RECENT:]).any(axis=1).sum())


def works_longer(view: JobView) -> Longest | None:
    """The rank that works longer than the others of its stage over the newest steps, where that matters."""
    told = np.flatnonzero(np.isfinite(view.phase_s["step"])) if "step" in view.phase_s else np.empty(0, np.int64)
    spent = {name: np.nan_to_num(view.phase_s[name]) for name in PHASES if name in view.phase_s}
    work_s = sum((one for name, one in spent.items() if name != WAITING), np.zeros(view.step_s.shape[0]))
    waits_s = spent.get(WAITING, np.zeros(0))
    stages = dict(enumerate(view.stages.tolist()))
    work, waits = ({int(rank): float(one[rank]) for rank in told if rank < one.size} for one in (work_s, waits_s))
    return uneven(work, waits, stages)


def _outdated(view: JobView) -> bool:
    """Whether steps went on for a while after the window ended: then nobody makes windows any more."""
    times = view.at_s[np.isfinite(view.at_s)]
    if view.window is None or times.size == 0:
        return False
    return float(times[-1]) > view.window.start_s + 3 * view.window.length_s + 10


def _from_steps(view: JobView) -> Headline:
    own_s = own_time(view.step_s, view.waiting_s)[:, -RECENT:]
    step_s = view.step_s[:, -RECENT:]
    if own_s.size == 0 or not np.isfinite(own_s).any():
        return Headline(None, None, None, None, None, None, None, "no step received yet", None)
    by_rank = quiet_median(own_s, axis=1)
    median_s, worst = float(np.nanmedian(by_rank)), int(np.nanargmax(by_rank))
    waited = np.nan_to_num(view.waiting_s[:, -RECENT:])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nansum(np.where(np.isfinite(step_s), waited, 0), axis=1) / np.nansum(step_s, axis=1)
    times = view.at_s[np.isfinite(view.at_s)]
    others = longest({rank: float(spent_s) for rank, spent_s in enumerate(by_rank) if np.isfinite(spent_s)})
    pair = int(np.isfinite(by_rank).sum()) == 2
    return Headline(
        step_s=float(np.nanmedian(step_s)),
        step_p95_s=float(np.nanpercentile(step_s, 95)),
        own_s=median_s,
        others_s=others.others_s if others is not None and pair else median_s,
        worst_s=float(by_rank[worst]),
        worst_rank=worst,
        wait_ratio=float(np.nanmedian(share)) if np.isfinite(view.waiting_s).any() else None,
        source=f"last {own_s.shape[1]} steps",
        as_of_s=float(times[-1]) if times.size else None,
        pair=pair,
    )
