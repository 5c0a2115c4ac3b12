"""What is known of jobs, their ranks, findings and suggestions: filled by events, bounded.

Rule of this file: pure; time is an argument. Delivery is at least once and partitions are read in any order: of each
window, finding and suggestion the newest counts, and of a job its latest attempt.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from paceline import events
from paceline.events.findings import STATE_ORDER, is_of_nodes
from paceline.events.silence import WORKERS_SILENT_S
from paceline.events.windows import is_newer
from paceline.job_life import JobLife

MOST_JOBS, KEPT_RANKS, MOST_FINDINGS, MOST_SUGGESTIONS = 1_000, 4_096, 5_000, 2_000
#: Windows of this length are shown; shorter ones where none has come for so long.
SHOWN_S, LATE_S = events.MEDIUM_WINDOW_S, 20.0
#: What a reader must see first.
SUGGESTION_ORDER = {"new": 0, "accepted": 1, "applied": 2, "did_not_help": 3, "verified": 4}


@dataclass
class Heard:
    """The newest event of an id, and when it was reported."""

    event: Any
    at_s: float


@dataclass
class Job:
    """The latest attempt of a job."""

    cluster: str
    name: str
    life: JobLife
    heard_s: float = 0.0
    world_size: int = 0
    #: The newest window of each length.
    windows: dict[float, events.JobWindow] = field(default_factory=dict)
    ranks: dict[int, events.RankWindow] = field(default_factory=dict)
    #: Ids of findings of the run before: their last revisions come after this run has begun.
    earlier: set[str] = field(default_factory=set)

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by."""
        return self.cluster, self.name

    @property
    def measured_s(self) -> float | None:
        """When the window of its newest steps began: of the times not the largest, for clocks are set back."""
        newest = max(self.windows.values(), key=lambda window: (window.last_step, window.start_s), default=None)
        return None if newest is None else newest.start_s

    @property
    def window(self) -> events.JobWindow | None:
        """The window to show: of ``SHOWN_S``, or the newest where that is late."""
        newest = max(self.windows.values(), key=_end, default=None)
        chosen = self.windows.get(SHOWN_S)
        return chosen if newest and chosen and _end(newest) - _end(chosen) <= LATE_S else newest


class Model:
    """Jobs by (cluster, name), findings and suggestions by id."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str], Job] = {}
        self.findings: dict[str, Heard] = {}
        self.suggestions: dict[str, Heard] = {}
        #: Messages that do not decode.
        self.unusable = 0
        #: When samples of hosts began to come and when the last came; when the last window of anything did.
        self._sampled: tuple[float, float] | None = None
        self._windowed_s: float | None = None

    def update(self, event: Any, at_s: float) -> None:
        """Take ``event``, told at ``at_s``."""
        if isinstance(event, events.JobWindow | events.RankWindow | events.DeviceWindow | events.HostWindow):
            self._windowed_s = max(at_s, self._windowed_s or 0.0)
        match event:
            case events.JobDescribed():
                self._describe(event, at_s)
            case events.JobWindow():
                self._job_window(event, at_s)
            case events.RankWindow():
                self._rank_window(event, at_s)
            case events.Finding():
                self._begin_again(event)
                self._put(self.findings, event, at_s, MOST_FINDINGS)
            case events.Suggestion():
                self._put(self.suggestions, event, at_s, MOST_SUGGESTIONS)

    def sampled(self, at_s: float) -> None:
        """A collector's samples have come; after a pause they begin again."""
        held = self._sampled
        began_s = at_s if held is None or at_s - held[1] > WORKERS_SILENT_S else held[0]
        self._sampled = began_s, at_s if held is None else max(at_s, held[1])

    @property
    def unread_s(self) -> float | None:
        """For how many seconds samples have come without a window: no worker reads. None where all is well.

        >>> model = Model()
        >>> for at_s in (0.0, 20.0): model.sampled(at_s)
        >>> model.unread_s
        >>> model.sampled(40.0); model.unread_s
        40.0
        """
        if self._sampled is None:
            return None
        began_s, last_s = self._sampled
        unread_s = last_s - (began_s if self._windowed_s is None else max(began_s, self._windowed_s))
        return unread_s if unread_s > WORKERS_SILENT_S else None

    def forget_suggestion(self, key: str) -> None:
        """The suggestion of this id is kept no longer."""
        self.suggestions.pop(key, None)

    def findings_of(self, jobs: Iterable[Job]) -> dict[tuple[str, str], list[events.Finding]]:
        """Newest revisions of the findings of each job's latest attempt, and of its nodes under its name, by job."""
        known = {job.key: job for job in jobs}
        found: dict[tuple[str, str], list[events.Finding]] = {key: [] for key in known}
        for held in self.findings.values():
            job = known.get((held.event.cluster, held.event.job))
            if job is not None and (_is_of(job, held.event) or is_of_nodes(held.event)):
                found[job.key].append(held.event)
        return found

    def _begin_again(self, event: events.Finding) -> None:
        """With its first revision an id of the run before is one of the run that goes on."""
        job = self.jobs.get((event.cluster, event.job))
        if job is not None and event.revision == 1 and event.id in job.earlier:
            job.earlier.remove(event.id)
            self.findings.pop(event.id, None)

    def _describe(self, event: events.JobDescribed, at_s: float) -> None:
        job = self._job(event, at_s)
        if job is None:
            return
        job.world_size = max(job.world_size, event.world_size)
        job.life.update(event)

    def _job_window(self, event: events.JobWindow, at_s: float) -> None:
        job = self._job(event, at_s)
        if job is None:
            return
        held = job.windows.get(event.length_s)
        if (held is None and len(job.windows) < 8) or (held is not None and is_newer(event, held)):
            job.windows[event.length_s] = event

    def _rank_window(self, event: events.RankWindow, at_s: float) -> None:
        job = self._job(event, at_s)
        if job is None or event.length_s > SHOWN_S:
            return
        held = job.ranks.get(event.rank)
        if held is None and len(job.ranks) >= KEPT_RANKS:
            oldest = min(job.ranks.values(), key=lambda one: (_end(one), -one.rank))
            if _end(oldest) >= _end(event):
                return
            del job.ranks[oldest.rank]
        if held is None or _replaces(event, held):
            job.ranks[event.rank] = event

    def _job(self, event: Any, at_s: float) -> Job | None:
        """The job of ``event``; a later attempt, or another run that began after its end, takes the place of the one
        before, an earlier one is passed over."""
        key = event.cluster, event.job
        held = self.jobs.get(key)
        if held is not None and event.attempt < held.life.attempt:
            return None
        again = isinstance(event, events.JobDescribed) and held is not None and held.life.succeeded_by(event)
        if held is None or again or event.attempt > held.life.attempt:
            earlier = self._findings_before(key, event.started_s) if again else set()
            held = self.jobs[key] = Job(event.cluster, event.job, JobLife(event.attempt), earlier=earlier)
        held.heard_s = max(held.heard_s, at_s)
        if len(self.jobs) > MOST_JOBS:
            others = (other for other in self.jobs if other != key)
            del self.jobs[min(others, key=lambda other: self.jobs[other].heard_s)]
        return held

    def _findings_before(self, key: tuple[str, str], at_s: float) -> set[str]:
        """Ids of the findings of a job, not of its nodes, that were last reported before ``at_s``."""
        return {
            one
            for one, held in self.findings.items()
            if held.at_s < at_s and (held.event.cluster, held.event.job) == key and not is_of_nodes(held.event)
        }

    def _put(self, book: dict[str, Heard], event: Any, at_s: float, most: int) -> None:
        held = book.get(event.id)
        if held is not None and event.revision < held.event.revision:
            return
        if held is None or event.revision > held.event.revision:
            book[event.id] = Heard(event, at_s)
        if len(book) > most:
            order = STATE_ORDER if book is self.findings else SUGGESTION_ORDER
            del book[max(book, key=lambda one: (order.get(book[one].event.state, 1), -book[one].at_s))]


def _is_of(job: Job, finding: events.Finding) -> bool:
    """Whether ``finding`` is of the run that is shown, and not of one before under its name."""
    return finding.attempt == job.life.attempt and finding.id not in job.earlier


def _end(window: events.JobWindow | events.RankWindow) -> float:
    return window.start_s + window.length_s


def _replaces(event: events.RankWindow, held: events.RankWindow) -> bool:
    """Whether ``event`` is the one to show: the newer of a length, and ``SHOWN_S`` unless that is late."""
    if event.length_s == held.length_s:
        return is_newer(event, held)
    if event.length_s == SHOWN_S:
        return _end(held) - _end(event) <= LATE_S
    return _end(event) - _end(held) > LATE_S
