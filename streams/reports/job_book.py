"""Everything heard of one attempt of one job, bounded, and what a report says of it.

Rule of this file: pure. Findings come in any order and as often as they like: the highest revision of an id counts.
"""

import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from paceline.events import (
    LONG_WINDOW_S,
    WARM_UP_STEPS,
    BalancePlan,
    Finding,
    JobDescribed,
    JobProfile,
    JobWindow,
    RankWindow,
)
from paceline.job_life import stages_of
from paceline.lost_time import steps_of
from paceline.step_samples import data_part, samples_a_step
from paceline.work_time import Longest, uneven

from .job_level import JobLevel, chosen, with_ranks
from .lost_time import lost_time
from .report import Course, Episode, Heard, JobReport, PhaseTime

MOST_FINDINGS = 2000
#: Who may describe a job.
MOST_TELLERS = 20_000
#: Window lengths that are kept apart.
MOST_LEVELS = 6
_MOST_NOTES = 20


class JobBook:
    """One attempt of one job."""

    def __init__(self, cluster: str, job: str, attempt: int) -> None:
        self.key = (cluster, job, attempt)
        self.described: dict[str, JobDescribed] = {}
        self.profile: JobProfile | None = None
        self.plan_versions = 0
        self.levels: dict[float, JobLevel] = {}
        self.findings: dict[str, Finding] = {}
        self.left_out: Counter[str] = Counter()
        self.repeated = 0

    def update(self, event: JobDescribed | JobProfile | BalancePlan | JobWindow | RankWindow | Finding) -> None:
        """Take in one event of this job."""
        match event:
            case JobWindow() | RankWindow():
                self._add_window(event)
            case Finding():
                self._add_finding(event)
            case JobDescribed():
                if event.teller in self.described or len(self.described) < MOST_TELLERS:
                    self.described[event.teller] = event
                else:
                    self.left_out["descriptions of jobs"] += 1
            case JobProfile():
                self.profile = event
            case BalancePlan():
                self.plan_versions = max(self.plan_versions, event.version)

    def _add_window(self, window: JobWindow | RankWindow) -> None:
        if not window.length_s > 0:
            return
        # An archive replaces the minutes of ranks with windows of up to five, which follow each other.
        length_s = min(window.length_s, LONG_WINDOW_S)
        level = self.levels.get(length_s)
        if level is None:
            if len(self.levels) >= MOST_LEVELS:
                self.left_out["windows of further lengths"] += 1
                return
            level = self.levels[length_s] = JobLevel(length_s)
        if isinstance(window, RankWindow):
            level.add_rank(window)
        else:
            self.repeated += not level.add_job(window)

    def _add_finding(self, finding: Finding) -> None:
        before = self.findings.get(finding.id)
        if before is None and len(self.findings) >= MOST_FINDINGS:
            self.left_out["findings of jobs"] += 1
        elif before is None or before.revision <= finding.revision:
            self.findings[finding.id] = finding

    @property
    def told_steps(self) -> range | None:
        """From the first step that a window tells of to the last; None where none does."""
        firsts = [one.first_step for one in self.levels.values() if one.first_step is not None]
        lasts = [one.last_step for one in self.levels.values() if one.last_step is not None]
        return range(min(firsts), max(lasts) + 1) if firsts and lasts else None

    def report(self, within: range | None = None) -> JobReport:
        """What is to be told of the job; of its findings what they cost in the steps ``within``."""
        level = chosen(self.levels.values())
        level = None if level is None else with_ranks(level, self.levels.values())
        findings = [one for one in self.findings.values() if one.first_step < 0 or steps_of(one, within)]
        hung_until_s = 0.0 if level is None else self._hung_until_s(findings, level.end_s)
        stages = stages_of(self.described.values())
        course = None if level is None else level.to_course(stages, hung_until_s)
        return JobReport(
            **self._who(),
            **self._when(level, hung_until_s),
            **({} if level is None else _times_of(level)),
            longest=None if level is None or course is None else _longest(level, course),
            course=course,
            lost=lost_time(findings, within),
            episodes=episodes(findings, course),
            plans=self.plan_versions,
            heard=self._heard(findings, level),
        )

    def _who(self) -> dict[str, Any]:
        cluster, job, attempt = self.key
        told = sorted(self.described.values(), key=lambda one: one.teller)
        places = [place for one in told for place in one.places]
        first = told[0] if told else None
        sizes = [one.batch_size for one in told if one.batch_size is not None]
        return {
            "cluster": cluster,
            "job": job,
            "attempt": attempt,
            "framework": first.framework if first else "",
            "backend": first.backend if first else "",
            "labels": dict(first.labels) if first else {},
            "batch_size": sizes[0] if sizes else None,
            "samples_a_step": samples_a_step([data_part(one) for one in told]),
            "nodes": sorted({one.node for one in told}),
            "devices": len({(one.node, one.device) for one in places if one.device not in ("", "cpu")}),
            "exit_status": max((one.exit_status for one in told if one.exit_status is not None), default=None),
            "kind": (self.profile.kind or "") if self.profile else "",
            "kind_probability": self.profile.kind_probability if self.profile else None,
            "cycle_period_s": self.profile.cycle_period_s if self.profile else None,
        }

    def _when(self, level: JobLevel | None, hung_until_s: float) -> dict[str, Any]:
        if level is None or level.first_s is None:
            started = [one.started_s for one in self.described.values()]
            ended = [one.ended_s for one in self.described.values() if one.ended_s is not None]
            return {"from_s": min(started, default=None), "to_s": max(ended, default=None)}
        return {
            "from_s": level.first_s,
            "to_s": max(level.end_s, hung_until_s),
            "steps": level.steps,
            "first_step": level.first_step,
            "last_step": level.last_step,
        }

    def _hung_until_s(self, findings: list[Finding], end_s: float) -> float:
        """How long a job whose last steps ended at ``end_s`` is known to have stood in a hang; 0 without one."""
        hangs = [one.cost.lost_s for one in findings if is_open_hang(one)]
        if not hangs:
            return 0.0
        ended = [one.ended_s for one in self.described.values()]
        return max([end_s + max(hangs), *(one for one in ended if one is not None and None not in ended)])

    def _heard(self, findings: list[Finding], level: JobLevel | None) -> Heard:
        coverages = [one.coverage for one in findings]
        notes: dict[str, None] = dict.fromkeys(note for one in coverages for note in one.notes)
        sizes = [one.world_size for one in self.described.values()] + [one.ranks_expected for one in coverages]
        heard = [len(level.ranks), level.most_ranks] if level else [0]
        return Heard(
            ranks_expected=max(sizes, default=max(heard)),
            ranks_heard=max(heard),
            missing_events=max((one.events_missing for one in coverages), default=0),
            told_s=level.told_s if level else 0.0,
            notes=list(notes)[:_MOST_NOTES],
        )


def _times_of(level: JobLevel) -> dict[str, Any]:
    worst = level.worst()
    return {
        "step_median_s": level.medians.quantile(0.5),
        "step_p95_s": level.spread.quantile(0.95),
        "own_median_s": level.owns.quantile(0.5),
        "own_worst_s": None if worst is None else level.own_s()[worst],
        "worst_rank": worst,
        "wait_ratio": level.wait_ratio,
        "phases": [_of_all(one, level) for one in level.phases()],
    }


def _of_all(phase: PhaseTime, level: JobLevel) -> PhaseTime:
    """``phase`` of the median of all ranks: one that never had it spent none in it, where windows of all ranks came."""
    spent = _spent_s(level, phase.name)
    if not spent or all(phase.name in rank.phase_s for rank in level.ranks.values() if rank.steps):
        return phase
    return phase._replace(median_s=statistics.median(spent.values()))


def _longest(level: JobLevel, course: Course) -> Longest | None:
    """The rank that works longer than the others of its stage, after the warm-up, where that matters."""
    waits = _spent_s(level, "communication")
    steps_from, steps_to = np.array(course.steps_from), np.array(course.steps_to)
    warm = np.flatnonzero(steps_from >= WARM_UP_STEPS)
    if not waits or not warm.size:
        return None
    own = course.own[:, warm]
    steps = np.where(np.isnan(own), 0.0, (steps_to - steps_from + 1)[warm])
    counted = steps.sum(axis=1)
    means = np.nansum(own * steps, axis=1) / np.where(counted > 0, counted, np.nan)
    work = dict(zip(course.ranks, means.tolist(), strict=True))
    return uneven(work, waits, dict(zip(course.ranks, course.stages, strict=False)))


def _spent_s(level: JobLevel, phase: str) -> dict[int, float]:
    """Mean seconds a step in ``phase`` by rank; empty where only the slowest ranks have windows."""
    ranks = {number: rank for number, rank in level.ranks.items() if rank.steps}
    if len(ranks) < level.most_ranks:
        return {}
    return {number: rank.phase_s.get(phase, 0.0) / rank.steps for number, rank in ranks.items()}


def left_out_of(books: Iterable[JobBook]) -> Counter[str]:
    """What is beyond the limits of jobs, by what it is."""
    left_out: Counter[str] = Counter()
    for book in books:
        left_out.update(book.left_out)
    return left_out


def is_open_hang(finding: Finding) -> bool:
    """Whether it says that the job stood still, and went on no more."""
    return finding.kind == "hang" and finding.state == "confirmed"


def episodes(findings: Iterable[Finding], course: Course | None) -> list[Episode]:
    """Each finding with its time, in the order of their first steps."""
    kept = sorted(findings, key=lambda one: (one.first_step, one.id))
    return [Episode(one, *_times(one, course)) for one in kept]


def _times(finding: Finding, course: Course | None) -> tuple[float | None, float | None]:
    if course is None or finding.first_step < 0:
        return None, None
    starts = [at for at, last in enumerate(course.steps_to) if last >= finding.first_step]
    ends = [at for at, first in enumerate(course.steps_from) if 0 <= first <= max(finding.last_step, 0)]
    if not course.steps_to:
        return None, None
    # A step that nobody finished, as of a hang, comes after all others.
    first = starts[0] if starts else max((at for at, step in enumerate(course.steps_to) if step >= 0), default=0)
    whole_s = course.column_s * len(course.steps_to)
    end = len(course.steps_to) - 1
    if finding.kind == "died" and finding.state == "confirmed":
        first = end  # It may have hung for long in its last step.
    last = end if is_open_hang(finding) else max(ends[-1] if ends else first, first)
    # The step in which it hung began in one column, and took what the hang did.
    stood_s = finding.cost.lost_s if finding.kind == "hang" else 0.0
    to_s = max((last + 1) * course.column_s, min(first * course.column_s + stood_s, whole_s))
    return course.start_s + first * course.column_s, course.start_s + to_s
