"""What is shown at one moment: rows of jobs, of the ranks of one of them, of findings and of suggestions.

Rule of this file: pure; time is an argument. A picture holds no more than a person or a pipe can use, and nothing in it
changes any more. Its names are as they came: whoever shows them makes them safe.
"""

import msgspec

from paceline.events import UNMEASURED_SUGGESTIONS, Finding, RankWindow, Suggestion
from paceline.events.findings import STATE_ORDER
from paceline.events.silence import JOB_SILENT_S
from paceline.job_state import JobState, job_state, runs_twice
from paceline.lost_time import lost_s
from paceline.words import is_confirmed, label, seconds
from paceline.work_time import longest, others_of_worst_s, work_s

from .model import LATE_S, SUGGESTION_ORDER, Job, Model

MOST_ROWS = 500


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job: seconds a step, the worst rank's own time over the median of the others, and what its findings have cost.

    ``state`` is one word, and ``detail`` the same with rank and line, where a finding says more.
    """

    cluster: str
    job: str
    attempt: int
    state: str
    ranks: int
    step_s: float | None
    worst_rank: int | None
    worst_ratio: float | None
    wait_ratio: float | None
    lost_s: float
    findings: int
    heard_s: float
    detail: str = ""
    #: Whether two runs report under this name.
    twice: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by."""
        return self.cluster, self.job


class RankRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rank: its own time a step, without waiting, over the median of all but the slowest; the cause where accused."""

    rank: int
    node: str
    own_s: float
    ratio: float | None
    step_s: float
    cause: str


class FindingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, and when it was reported."""

    finding: Finding
    heard_s: float


class SuggestionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A suggestion, and when it was reported."""

    suggestion: Suggestion
    heard_s: float


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """All rows; ``job`` and ``cluster`` are of the job whose ``ranks`` are shown."""

    as_of_s: float
    cluster: str | None
    job: str | None
    jobs: list[JobRow]
    ranks: list[RankRow]
    findings: list[FindingRow]
    suggestions: list[SuggestionRow]
    #: Messages that did not decode.
    unusable: int
    #: For how many seconds samples have come and no window of them: no stream worker reads. None: all is well.
    unread_s: float | None = None

    @property
    def trouble(self) -> str | None:
        """What is wrong with what is shown, and what to do; None where nothing is."""
        if self.unread_s is None:
            return None
        return f"no stream worker has read for {seconds(self.unread_s)}, so there are no verdicts; run paceline doctor"


def picture(model: Model, now_s: float, chosen: tuple[str, str] | None = None, only: str | None = None) -> Picture:
    """What ``model`` holds at ``now_s``.

    Args:
        model: What is known.
        now_s: Unix seconds.
        chosen: Cluster and name of the job whose ranks are shown; None or one that is gone: the first.
        only: Show this job's rows alone.
    """
    held = [job for job in model.jobs.values() if only is None or job.name == only]
    findings = model.findings_of(held)
    jobs = sorted((_job(job, findings[job.key], now_s) for job in held), key=_order)[:MOST_ROWS]
    shown = next((row for row in jobs if row.key == chosen), jobs[0] if jobs else None)
    return Picture(
        as_of_s=now_s,
        cluster=shown.cluster if shown else None,
        job=shown.job if shown else None,
        jobs=jobs,
        ranks=_ranks(model.jobs[shown.key], findings[shown.key]) if shown else [],
        findings=_findings(model, only),
        suggestions=_suggestions(model, now_s, only),
        unusable=model.unusable,
        unread_s=model.unread_s,
    )


def _job(job: Job, findings: list[Finding], now_s: float) -> JobRow:
    window = job.window
    says = job_state(findings)
    state = _state(job, says, now_s)
    worst_rank, ratio = _worst(job)
    return JobRow(
        cluster=job.cluster,
        job=job.name,
        attempt=job.life.attempt,
        state=state,
        ranks=max(job.world_size, window.ranks if window else 0),
        step_s=window.step_median_s if window else None,
        worst_rank=worst_rank,
        worst_ratio=ratio,
        wait_ratio=window.wait_ratio if window else None,
        lost_s=lost_s(findings),
        findings=sum(map(is_confirmed, findings)),
        heard_s=job.heard_s,
        detail=says.words if state == says.word != "running" else "",
        twice=job.life.ended_by(job.measured_s) is None and runs_twice(findings),
    )


def _state(job: Job, says: JobState, now_s: float) -> str:
    """One word. A job that is stuck says little: no step ends and no window comes, so that is no silence."""
    if job.life.ended_by(job.measured_s) is not None:
        return f"failed {job.life.exit_status}" if job.life.exit_status else "ended"
    if now_s - job.heard_s > JOB_SILENT_S and says.word != "stuck":
        return "silent"
    return says.word


def _order(row: JobRow) -> tuple[int, float, str, str]:
    """Running jobs first, those that have lost most before others; then silent ones, then the newest that ended."""
    place = {"stuck": 0, "slow": 0, "running": 0, "silent": 1}.get(row.state, 2)
    return place, -row.heard_s if place == 2 else -row.lost_s, row.job, row.cluster


def _worst(job: Job) -> tuple[int | None, float | None]:
    """The slowest rank and its ratio, as the table of ranks has them; by the job's window where no rank has one."""
    own_s = {one.rank: work_s(one) for one in _lately(job)}
    if own_s:
        rank = min(own_s, key=lambda one: (-own_s[one], one))
        return rank, _over(own_s[rank], _others_s(job, own_s))
    window = job.window
    return (None, None) if window is None else (window.worst_rank, _over(window.own_worst_s, others_of_worst_s(window)))


def _ranks(job: Job, findings: list[Finding]) -> list[RankRow]:
    """The ranks heard lately, the slowest by their own time first."""
    lately = _lately(job)
    own_s = {one.rank: work_s(one) for one in lately}
    others_s = _others_s(job, own_s)
    causes = {rank: label(finding) for finding in findings if is_confirmed(finding) for rank in finding.ranks}
    rows = [
        RankRow(
            rank=one.rank,
            node=one.node,
            own_s=own_s[one.rank],
            ratio=_over(own_s[one.rank], others_s),
            step_s=one.step_median_s,
            cause=causes.get(one.rank, ""),
        )
        for one in lately
    ]
    return sorted(rows, key=lambda row: (-row.own_s, row.rank))[:MOST_ROWS]


def _lately(job: Job) -> list[RankWindow]:
    newest_s = max((_end(one) for one in job.ranks.values()), default=0.0)
    return [one for one in job.ranks.values() if newest_s - _end(one) <= LATE_S]


def _others_s(job: Job, own_s: dict[int, float]) -> float | None:
    """What all ranks are compared with: the median of all but the slowest; None where a rank is alone."""
    window = job.window
    if window is not None and window.ranks > len(own_s):  # Only the slowest ranks of a large job have windows.
        return others_of_worst_s(window)
    slowest = longest(own_s)
    return None if slowest is None else slowest.others_s


def _over(own_s: float, others_s: float | None) -> float | None:
    return own_s / others_s if others_s else None


def _end(window: RankWindow) -> float:
    return window.start_s + window.length_s


def _findings(model: Model, only: str | None) -> list[FindingRow]:
    held = [one for one in model.findings.values() if only is None or one.event.job == only]
    held.sort(key=lambda one: (STATE_ORDER.get(one.event.state, 1), -one.at_s, one.event.id))
    return [FindingRow(finding=one.event, heard_s=one.at_s) for one in held[:MOST_ROWS]]


def _suggestions(model: Model, now_s: float, only: str | None) -> list[SuggestionRow]:
    """Open ones, those that bring most first; closed ones are of no use to anybody here."""
    held = [
        one
        for one in model.suggestions.values()
        if (only is None or one.event.job == only)
        and one.event.state not in UNMEASURED_SUGGESTIONS
        and (one.event.state != "new" or now_s < one.event.expires_s)
    ]
    held.sort(key=lambda one: (SUGGESTION_ORDER.get(one.event.state, 1), -(one.event.gain.gpu_hours_per_day or 0.0)))
    return [SuggestionRow(suggestion=one.event, heard_s=one.at_s) for one in held[:MOST_ROWS]]
