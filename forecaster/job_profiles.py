"""What is known of each job: whether it steps, how far it is, how active its GPUs are, when it evaluates and saves.

Rule of this file: pure; time comes with the events. Everything is bounded: jobs, marks, samples.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace

import numpy as np

from paceline.events import DeviceSamples, JobDescribed, JobProfile, JobWindow
from paceline.events.silence import JOB_SILENT_S

from .cycles import Cycle, find_cycle, from_events
from .job_end import JobEnd, Progress, ended, job_end
from .job_kinds import JobKindEstimate, classify
from .series import Array

JOBS, MARKS, SECONDS = 2000, 400, 900
#: Fewer marks than this are no cycle.
FEWEST_MARKS = 4
#: Phases whose begin marks a cycle.
MARKING = ("evaluation", "checkpoint")
#: Labels in which jobs say how many steps they will take.
TOTALS = ("total_steps", "max_steps", "train_steps")
#: No number of steps has more digits.
MOST_DIGITS = 16
#: Columns of a node's samples that tell kinds apart.
ACTIVITY = ("sm_active_ratio", "utilization_ratio", "power_w", "fb_used_bytes")


@dataclass
class JobState:
    """What is known of one job."""

    cluster: str
    job: str
    attempt: int = 0
    has_steps: bool = False
    progress: Progress = field(default_factory=Progress)
    #: Of what was measured last; None: nothing was.
    seen_s: float | None = None
    ended_s: float | None = None
    total_steps: int | None = None
    marks: deque[float] = field(default_factory=lambda: deque(maxlen=MARKS))
    in_phase: bool = False
    seconds: OrderedDict[int, dict[str, dict[str, float]]] = field(default_factory=OrderedDict)

    def copy(self) -> "JobState":
        """The same, which later events leave as it is. A GPU's row of a second is replaced, never changed: shared."""
        seconds = OrderedDict((second, dict(rows)) for second, rows in self.seconds.items())
        return replace(self, marks=deque(self.marks, MARKS), seconds=seconds, progress=self.progress.copy())

    def see(self, at_s: float) -> None:
        """Something of it was measured at ``at_s``; what comes late changes nothing."""
        self.seen_s = at_s if self.seen_s is None else max(self.seen_s, at_s)

    def measure(self, at_s: float, gpu: str, values: dict[str, float]) -> None:
        """Keep what was measured of one of its GPUs at ``at_s``."""
        self.seconds.setdefault(int(at_s), {})[gpu] = values
        while len(self.seconds) > SECONDS:
            self.seconds.popitem(last=False)

    def activity(self) -> dict[str, list[float | None]]:
        """The mean over the job's GPUs of what was measured, second by second."""
        if not self.seconds:
            return {}
        first, last = min(self.seconds), max(self.seconds)
        columns: dict[str, list[float | None]] = {}
        for name in ACTIVITY:
            column = []
            for second in range(max(first, last - SECONDS), last + 1):
                values = [row[name] for row in self.seconds.get(second, {}).values() if name in row]
                column.append(sum(values) / len(values) if values else None)
            if any(value is not None for value in column):
                columns[name] = column
        return columns

    def kind(self) -> JobKindEstimate | None:
        """What kind of job it is; None where nothing was measured."""
        activity = self.activity()
        if not activity and not self.has_steps:
            return None
        return classify(activity, 1.0, has_steps=self.has_steps)

    def cycle(self) -> Cycle | None:
        """Its cycle: from evaluations and checkpoints, else from its GPUs' power or activity; None without either."""
        if len(self.marks) >= FEWEST_MARKS:
            return from_events(list(self.marks))
        activity = self.activity()
        for name in ("power_w", "sm_active_ratio", "utilization_ratio"):
            if name in activity:
                return find_cycle(_array(activity[name]), 1.0)
        return None

    @property
    def over_s(self) -> float | None:
        """When it ended; None while it goes on, also on other nodes than the one that says that it has ended."""
        goes_on = self.ended_s is None or (self.seen_s is not None and self.seen_s > self.ended_s + JOB_SILENT_S)
        return None if goes_on else self.ended_s

    def end(self, total_steps: int | None = None) -> JobEnd | None:
        """When the last step will be done, where the number of steps is known and the job has not ended."""
        total = total_steps or self.total_steps
        return None if total is None or self.over_s is not None else job_end(self.progress, total, self.seen_s)

    def profile(self) -> JobProfile:
        """All of it, as it is published."""
        kind, cycle, end = self.kind(), self.cycle(), self.end()
        newest = self.marks[-1] if len(self.marks) >= FEWEST_MARKS else self.seen_s
        following = None if cycle is None or cycle.next_s is None or newest is None else newest + cycle.next_s
        notes = [part.note for part in (kind, cycle) if part is not None and part.note]
        if self.over_s is not None:
            following, notes = None, [ended(self.over_s), *notes]
        return JobProfile(
            cluster=self.cluster,
            job=self.job,
            attempt=self.attempt,
            time_s=self.seen_s,
            kind=None if kind is None else kind.kind,
            kind_probability=None if kind is None else kind.probability,
            kind_probabilities={} if kind is None else dict(kind.probabilities),
            cycle_period_s=None if cycle is None else cycle.period_s,
            cycle_confidence=None if cycle is None else cycle.confidence,
            cycle_next_s=following,
            cycle_drift_ratio=None if cycle is None else cycle.drift_ratio,
            end_s=None if end is None else end.time_s,
            end_low_s=None if end is None else end.low_s,
            end_high_s=None if end is None else end.high_s,
            notes=notes,
        )


class JobProfiles:
    """Every job's."""

    def __init__(self) -> None:
        self._all: OrderedDict[tuple[str, str], JobState] = OrderedDict()

    def on_window(self, event: JobWindow) -> None:
        """Learn from a second of a job."""
        state = self._of(event.cluster, event.job, event.attempt)
        state.see(event.start_s + event.length_s)
        if event.steps:
            state.has_steps = True
            state.progress.reach(event.start_s, event.first_step - 1)
            state.progress.reach(event.start_s + event.length_s, event.last_step)
        in_phase = any(event.phase_median_s.get(name, 0.0) > 0.0 for name in MARKING)
        if in_phase and not state.in_phase and (not state.marks or event.start_s > state.marks[-1]):
            state.marks.append(event.start_s)
        state.in_phase = in_phase

    def on_described(self, event: JobDescribed) -> None:
        """Learn how long a job means to run, or that it has ended."""
        state = self._of(event.cluster, event.job, event.attempt)
        state.ended_s = event.ended_s
        for name in TOTALS:
            told = event.labels.get(name, "")
            if told.isascii() and told.isdigit() and len(told) <= MOST_DIGITS:
                state.total_steps = int(told)

    def on_samples(self, event: DeviceSamples) -> None:
        """Learn from a node's GPUs how busy the jobs on them are. What several jobs share says so of none of them."""
        owners: dict[int, set[str]] = {}
        for one in event.processes:
            if one.job is not None:
                owners.setdefault(one.device, set()).add(one.job)
        for row, number in enumerate(event.device):
            at_s = event.t0_s + event.time_s[row]
            states = [self._of(event.cluster, job, None) for job in sorted(owners.get(number, ()))]
            for state in states:
                state.see(at_s)
            if len(states) == 1:
                values = {name: getattr(event, name)[row] for name in ACTIVITY}
                measured = {name: float(value) for name, value in values.items() if value is not None}
                states[0].measure(at_s, event.uuids[number], measured)

    def find(self, job: str) -> list[JobState]:
        """The jobs of this name, one a cluster."""
        return [one for one in self._all.values() if one.job == job]

    def every(self) -> list[JobState]:
        """All jobs that have not ended."""
        return [one for one in self._all.values() if one.ended_s is None]

    def _of(self, cluster: str, job: str, attempt: int | None) -> JobState:
        state = self._all.get((cluster, job))
        if state is None or (attempt is not None and attempt > state.attempt):
            state = self._all[cluster, job] = JobState(cluster, job, attempt or 0)
            while len(self._all) > JOBS:
                self._all.popitem(last=False)
        self._all.move_to_end((cluster, job))
        return state


def _array(column: list[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in column])
