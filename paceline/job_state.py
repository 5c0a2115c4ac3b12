"""What a running job is doing, by its worst open finding: running, slow or stuck, and where.

Rule of this file: pure. Whether a job runs at all is for who follows its messages; names are as they came.
"""

from collections.abc import Iterable
from typing import NamedTuple

from paceline.events import SEVERITY_ORDER, Finding
from paceline.events.findings import is_of_two_runs
from paceline.words import WHOLE_JOB, kind, line_of, subject

#: Kinds in which no step ends; and those that make no job slow: one says too little, in the other a rank still works.
_STUCK = frozenset(("hang", "collective_mismatch", "order_deadlock", "network"))
_RUNS = frozenset(("insufficient_data", "waiting"))


class JobState(NamedTuple):
    """One word, ``running``, ``slow`` or ``stuck``, and the same in a few words, with rank and line."""

    word: str
    words: str


RUNNING = JobState("running", "running")


def job_state(findings: Iterable[Finding]) -> JobState:
    """The state of a running job with these newest revisions of its ``findings``.

    A job that is stuck is so however much else is wrong with it, and from the first suspicion on: no step ends. What
    else is only suspected does not make a job slow, and neither does too little data, a rank that still works, or a
    second run of its name.
    """
    open_now = [one for one in findings if _counts(one)]
    if not open_now:
        return RUNNING
    worst = min(open_now, key=_rank)
    if worst.kind in _STUCK:
        return JobState("stuck", _stuck(worst))
    named, about = "slow" if worst.kind == "straggler" else kind(worst), subject(worst)
    words = f"{named[:1].lower()}{named[1:]}"
    return JobState("slow", words if about == WHOLE_JOB else f"{words}: {about}")


def runs_twice(findings: Iterable[Finding]) -> bool:
    """Whether two runs report under the name of the job with these ``findings`` now."""
    return any(one.state != "recovered" and is_of_two_runs(one) for one in findings)


def _counts(finding: Finding) -> bool:
    if finding.kind in _STUCK:
        return finding.state != "recovered"
    return finding.state == "confirmed" and finding.kind not in _RUNS and not is_of_two_runs(finding)


def _rank(finding: Finding) -> tuple[bool, bool, int, float, str]:
    """Least for what is shown: a hang, what is confirmed, what is severe, what costs most."""
    return (
        finding.kind not in _STUCK,
        finding.state != "confirmed",
        SEVERITY_ORDER.get(finding.severity, 1),
        -finding.cost.lost_s,
        finding.id,
    )


def _stuck(finding: Finding) -> str:
    state = "stuck" if finding.state == "confirmed" else "probably stuck"
    step = f" at step {finding.first_step:,}" if finding.first_step >= 0 else ""
    return f"{state}{step}: {', '.join(filter(None, [subject(finding), line_of(finding)]))}"
