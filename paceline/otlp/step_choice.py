"""Which steps become spans: few, of the ranks that matter.

Rule of this file: pure and bounded. Of a job at most one step a second, told by its lowest rank, the reference, and by
the ranks that open findings accuse. All of them tell the same step, whatever message it comes in, or as much of it as
comes before the next one is chosen.
"""

from collections import OrderedDict
from typing import NamedTuple

from paceline.columns import numbers, rows
from paceline.events import OPEN_FINDINGS, Finding, StepTimings
from paceline.phases import PHASES

#: Jobs, findings of one and accused ranks that are followed at most; and seconds between two steps of a job.
MOST_JOBS, MOST_FINDINGS, MOST_ACCUSED, EVERY_S = 1000, 100, 8, 1.0
#: The latest start of a step and its longest length or phase: a span's times are nanoseconds in 63 bits.
LATEST_START_S, LONGEST_S = 8e9, 1e8
JobKey = tuple[str, str, int]


class Step(NamedTuple):
    """One rank's step: when it began (Unix time), how long it took, and its phases."""

    job: JobKey
    node: str
    rank: int
    step: int
    start_s: float
    duration_s: float
    phases: dict[str, float]
    accused: bool


class _Job:
    """What is followed of a job."""

    def __init__(self) -> None:
        self.reference: int | None = None
        self.accused: OrderedDict[str, list[int]] = OrderedDict()
        self.step = -1
        self.begun_s = float("-inf")


class StepChoice:
    """Takes findings and timings; gives the steps to send.

    >>> StepChoice().jobs
    0
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[JobKey, _Job] = OrderedDict()

    @property
    def jobs(self) -> int:
        """How many are followed."""
        return len(self._jobs)

    def hear(self, finding: Finding) -> None:
        """Note whom a finding accuses, or no longer."""
        accused = self._job((finding.cluster, finding.job, finding.attempt)).accused
        accused.pop(finding.id, None)
        if finding.state in OPEN_FINDINGS and finding.ranks:
            accused[finding.id] = finding.ranks[:MOST_ACCUSED]
            if len(accused) > MOST_FINDINGS:
                accused.popitem(last=False)

    def update(self, message: StepTimings) -> list[Step]:
        """The steps in ``message`` that become spans."""
        count = rows(message.step)
        columns = (message.rank, message.start_s, message.step_s)
        if not count or any(rows(column) != count for column in columns):
            return []
        key = message.cluster, message.job, message.attempt
        job = self._job(key)
        ranks, steps = numbers(message.rank), numbers(message.step)
        lowest = min(ranks)
        job.reference = lowest if job.reference is None else min(job.reference, lowest)
        accused = [rank for held in reversed(job.accused.values()) for rank in held][:MOST_ACCUSED]
        starts, lengths = numbers(message.start_s), numbers(message.step_s)
        chosen = []
        for at in range(count):
            start_s = message.t0_s + starts[at]
            if not (0.0 < start_s <= LATEST_START_S and 0.0 <= lengths[at] <= LONGEST_S):
                continue
            # Also one that began long before: a clock was set back, or was ahead for a step.
            if ranks[at] == job.reference and abs(start_s - job.begun_s) >= EVERY_S:
                job.step, job.begun_s = steps[at], start_s
            if steps[at] == job.step and (ranks[at] == job.reference or ranks[at] in accused):
                phases = _phases(message, count, at)
                whose = ranks[at] in accused
                chosen.append(Step(key, message.node, ranks[at], steps[at], start_s, lengths[at], phases, whose))
        return chosen

    def _job(self, key: JobKey) -> _Job:
        job = self._jobs.setdefault(key, _Job())
        self._jobs.move_to_end(key)
        if len(self._jobs) > MOST_JOBS:
            self._jobs.popitem(last=False)
        return job


def _phases(message: StepTimings, count: int, at: int) -> dict[str, float]:
    """Seconds in each phase that was measured and is not nothing, in the order of a step."""
    found = {}
    for phase in PHASES:
        column = message.phases.get(phase)
        if column is not None and rows(column) == count:
            seconds = float(numbers(column)[at])
            if 0.0 < seconds <= LONGEST_S:
                found[phase] = seconds
    return found
