"""When a job ends: from how fast it went so far, pauses for evaluations and checkpoints included, with an interval.

Rule of this file: pure. Times are seconds, steps are numbers of the job's own.
"""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from paceline.bounds import LATEST_S
from paceline.events.silence import JOB_SILENT_S, RUN_SILENT_S
from paceline.words import age, is_undated

from .series import Array

#: So many points of a job's progress are kept; every other one goes when there are more.
POINTS = 256
#: What lies ahead is compared with as many steps before it, and with this share of all that was done at least.
RECENT = 0.5
#: So many earlier moments are asked how long the steps after them would take.
MOMENTS = 24
#: Logarithm of how much longer or shorter than expected the rest takes at least, where nothing is done yet; where half
#: of the job is, it has shown how it varies.
UNSEEN = 0.4
#: A job that was only ever slower than expected, or only faster, may be the other by this share of it.
OTHER = 0.5
#: No interval goes further than e to this times what is expected.
LARGEST = 1.6


@dataclass(frozen=True)
class JobEnd:
    """Unix times: the median, and those between which it lies with 80 %."""

    time_s: float
    low_s: float
    high_s: float


class Progress:
    """How far a job was when: some ``POINTS`` at most, evenly spread over all of it.

    Assumed: time goes on. A step that is not above the one before it, or comes late, changes nothing: what was done
    again after a failure counts as slow.
    """

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []
        self._newest: tuple[float, int] | None = None
        self._every, self._passed = 1, 0

    def __iter__(self) -> Iterator[tuple[float, int]]:
        """Those that are kept, and the newest."""
        yield from self._points
        if self._newest is not None and self._newest != self._points[-1]:
            yield self._newest

    def copy(self) -> "Progress":
        """The same, which later steps leave as it is."""
        made = copy(self)
        made._points = list(self._points)
        return made

    def reach(self, time_s: float, step: int) -> None:
        """``step`` was done at ``time_s``."""
        if self._newest is not None and (time_s <= self._newest[0] or step <= self._newest[1]):
            return
        self._newest = (time_s, step)
        self._passed += 1
        if self._points and self._passed < self._every:
            return
        self._passed = 0
        self._points.append(self._newest)
        if len(self._points) > POINTS:
            self._points, self._every = self._points[::2], 2 * self._every


@dataclass(frozen=True)
class Silence:
    """That nothing is measured of a job any more: a note, and whether the job is over, so that no end is forecast."""

    note: str
    over: bool


def silence(seen_s: float | None, now_s: float) -> Silence | None:
    """What it says of a job that it was measured at ``seen_s`` last; None where that is a moment ago, or has no date.

    >>> silence(1.8e9, 1.8e9 + 5.0)
    >>> silence(1.8e9, 1.8e9 + 60.0)
    Silence(note='no data since 60 s ago: the end is that of a job that goes on', over=False)
    >>> silence(1.8e9, 1.8e9 + 700.0).note
    'no data since 12 min ago: it has ended or was killed, and no end is forecast'
    """
    if seen_s is None or is_undated(seen_s, now_s) or now_s - seen_s <= JOB_SILENT_S:
        return None
    over = now_s - seen_s > RUN_SILENT_S
    means = "it has ended or was killed, and no end is forecast" if over else "the end is that of a job that goes on"
    return Silence(f"no data since {age(now_s, seen_s)}: {means}", over)


def ended(ended_s: float) -> str:
    """The note of a job that has ended.

    >>> ended(0.0)
    'it ended at 1970-01-01T00:00:00Z: no end is forecast'
    """
    return f"it ended at {datetime.fromtimestamp(ended_s, UTC):%Y-%m-%dT%H:%M:%SZ}: no end is forecast"


def job_end(progress: Iterable[tuple[float, int]], total_steps: int, seen_s: float | None = None) -> JobEnd | None:
    """When step ``total_steps`` - 1 is done; None where no two steps are known, or after any time that there is.

    ``seen_s``: until when the job was seen. If it has stepped no more for longer than ever, it ends so much later.

    >>> job_end([(0.0, 0), (10.0, 10), (20.0, 20), (30.0, 30)], 41).time_s
    40.0
    """
    points = np.array(list(progress), dtype=np.float64).reshape(-1, 2)
    if len(points) < 2:
        return None
    times, steps = points[:, 0], points[:, 1]
    left = max(0.0, total_steps - 1 - steps[-1])
    expected = left * _pace(times, steps, len(steps) - 1, left)
    done = (steps[-1] - steps[0]) / max(left, 1.0)
    unseen = UNSEEN * max(0.0, 1.0 - done)
    longer = np.append(_longer(times, steps, left), 1.0)
    # Overlapping spans are not so many: of few that are apart the outermost count (split conformal prediction).
    outside = max(0.0, 0.1 - 0.9 / max(done, 1.0))
    shorter, longer = np.log(np.quantile(longer, [outside, 1.0 - outside])) * (-1.0, 1.0)
    low = expected * np.exp(-min(max(shorter, OTHER * longer, unseen), LARGEST))
    high = expected * np.exp(min(max(longer, OTHER * shorter, unseen), LARGEST))
    still_s = 0.0 if seen_s is None else max(0.0, seen_s - times[-1] - float(np.diff(times).max()))
    low_s, median_s, high_s = (
        float(times[-1] + still_s + after_s) for after_s in (min(low, expected), expected, max(high, expected))
    )
    return JobEnd(median_s, low_s, high_s) if high_s <= LATEST_S else None


def _pace(times: Array, steps: Array, at: int, ahead: float) -> float:
    """Seconds a step before point ``at``, for ``ahead`` steps after it."""
    done = steps[at] - steps[0]
    back = min(int(np.searchsorted(steps, steps[at] - max(min(ahead, done), RECENT * done))), at - 1)
    return float((times[at] - times[back]) / (steps[at] - steps[back]))


def _longer(times: Array, steps: Array, ahead: float) -> Array:
    """How much longer than expected as many steps took after earlier moments; half of those done if more lie ahead."""
    done = steps[-1] - steps[0]
    span = min(ahead, done / 2.0)
    last = int(np.searchsorted(steps, steps[-1] - span, side="right")) - 1
    ratios = []
    for at in np.unique(np.linspace(min(max(1, last // 4), last), last, MOMENTS).astype(int)):
        expected = span * _pace(times, steps, int(at), span) if at > 0 else 0.0
        if expected > 0.0:
            ratios.append(float(np.interp(steps[at] + span, steps, times) - times[at]) / expected)
    return np.array(ratios)
