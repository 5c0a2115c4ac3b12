"""What is known of each job: whether it steps, how far it is, how active its GPUs are, when it evaluates and saves.

Rule of this file: pure; time comes with the events. Everything is bounded: jobs, marks, samples.
"""

from collections import OrderedDict, deque
from collections.abc import Container
from dataclasses import dataclass, field, replace

import numpy as np

from paceline.events import DeviceSamples, JobDescribed, JobProfile, JobWindow
from paceline.held_bytes import BoundedMapping
from paceline.job_life import JobLife

from .cycles import Cycle, find_cycle, from_events
from .job_activity import COLUMNS, Activity
from .job_end import JobEnd, Progress, ended, job_end
from .job_kinds import JobKindEstimate, classify
from .series import Array

JOBS, MARKS = 2000, 400
#: Bytes of all jobs, and those of one beside the names of its nodes.
BYTES, JOB_BYTES = 256 * 2**20, 64 * 1024
#: Nodes of a job by whose clocks it is known when its GPUs were measured last.
CLOCKS = 64
#: Fewer marks than this are no cycle.
FEWEST_MARKS = 4
#: Phases whose begin marks a cycle.
MARKING = ("evaluation", "checkpoint")
#: Labels in which jobs say how many steps they will take.
TOTALS = ("total_steps", "max_steps", "train_steps")
#: No number of steps has more digits.
MOST_DIGITS = 16


@dataclass
class JobState:
    """What is known of one run of a job: one attempt, from when its first node started."""

    cluster: str
    job: str
    life: JobLife
    #: When the first of the nodes that describe it started; None: none did.
    started_s: float | None = None
    has_steps: bool = False
    progress: Progress = field(default_factory=Progress)
    #: When the newest second ended in which its ranks reported.
    reported_s: float | None = None
    #: By node, when its GPUs were measured last.
    measured_s: OrderedDict[str, float] = field(default_factory=OrderedDict)
    total_steps: int | None = None
    marks: deque[float] = field(default_factory=lambda: deque(maxlen=MARKS))
    in_phase: bool = False
    activity: Activity = field(default_factory=Activity)

    def copy(self) -> "JobState":
        """The same, which later events leave as it is."""
        return replace(
            self,
            life=replace(self.life, nodes=dict(self.life.nodes), speakers=dict(self.life.speakers)),
            marks=deque(self.marks, MARKS),
            progress=self.progress.copy(),
            measured_s=self.measured_s.copy(),
            activity=self.activity.copy(),
        )

    def report(self, at_s: float) -> None:
        """Its ranks reported until ``at_s``; what comes late changes nothing."""
        self.reported_s = at_s if self.reported_s is None else max(self.reported_s, at_s)

    def measure(self, node: str, at_s: float) -> None:
        """One of its GPUs on ``node`` was measured at ``at_s``, by that node's clock."""
        self.measured_s[node] = max(at_s, self.measured_s.pop(node, at_s))
        if len(self.measured_s) > CLOCKS:
            self.measured_s.popitem(last=False)

    @property
    def attempt(self) -> int:
        """Which attempt it is, from 0."""
        return self.life.attempt

    @property
    def seen_s(self) -> float | None:
        """When something of it was measured last; None: nothing was.

        Of its nodes' clocks the lower median counts: one that is ahead moves neither its end nor its silence.
        """
        clocks = sorted(self.measured_s.values())
        times_s = [self.reported_s, clocks[(len(clocks) - 1) // 2] if clocks else None]
        return max((time_s for time_s in times_s if time_s is not None), default=None)

    def is_over_before(self, event: JobDescribed) -> bool:
        """Whether ``event`` is of a later attempt, or of another run of this name.

        What was measured before anybody described it, and before ``event`` started, is of an earlier run.
        """
        before = not self.life.nodes and self.reported_s is not None and self.reported_s < event.started_s
        return before or self.life.succeeded_by(event)

    def describe(self, event: JobDescribed) -> None:
        """Take what one of its nodes says: how long it means to run, or that its ranks have left."""
        self.life.update(event)
        self.started_s = event.started_s if self.started_s is None else min(self.started_s, event.started_s)
        for name in TOTALS:
            label = event.labels.get(name, "")
            if label.isascii() and label.isdigit() and len(label) <= MOST_DIGITS:
                self.total_steps = int(label)

    def kind(self) -> JobKindEstimate | None:
        """What kind of job it is; None where nothing was measured."""
        activity = self.activity.means()
        if not activity and not self.has_steps:
            return None
        return classify(activity, 1.0, has_steps=self.has_steps)

    def cycle(self) -> Cycle | None:
        """Its cycle: from evaluations and checkpoints, else from its GPUs' power or activity; None without either."""
        if len(self.marks) >= FEWEST_MARKS:
            return from_events(list(self.marks))
        activity = self.activity.means()
        for name in ("power_w", "sm_active_ratio", "utilization_ratio"):
            if name in activity:
                return find_cycle(_array(activity[name]), 1.0)
        return None

    @property
    def over_s(self) -> float | None:
        """When it ended; None while it goes on, also on other nodes than those that say that it has ended."""
        return self.life.ended_by(self.seen_s)

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
        self._all = BoundedMapping[tuple[str, str], JobState](JOBS, BYTES)

    def on_window(self, event: JobWindow) -> None:
        """Learn from a second of a job; not from one of an earlier run or attempt, which may be read later."""
        end_s = event.start_s + event.length_s
        state = self._all.get((event.cluster, event.job))
        if state is not None and (
            event.attempt < state.attempt or (state.started_s is not None and end_s <= state.started_s)
        ):
            return
        if state is None or event.attempt > state.attempt:
            state = self._begin(event.cluster, event.job, event.attempt)
        self._all.renew((event.cluster, event.job))
        state.report(end_s)
        if event.steps:
            state.has_steps = True
            state.progress.reach(event.start_s, event.first_step - 1)
            state.progress.reach(end_s, event.last_step)
        in_phase = any(event.phase_median_s.get(name, 0.0) > 0.0 for name in MARKING)
        if in_phase and not state.in_phase and (not state.marks or event.start_s > state.marks[-1]):
            state.marks.append(event.start_s)
        state.in_phase = in_phase

    def on_described(self, event: JobDescribed) -> None:
        """Learn how long a job means to run, or that it has ended; not from an earlier run, which may be read later."""
        state = self._all.get((event.cluster, event.job))
        if state is not None:
            started_s = state.started_s
            if started_s is not None and event.ended_s is not None and event.ended_s < started_s:
                return
            if state.is_over_before(event):
                state = None
            elif event.attempt < state.attempt:
                return
        state = state or self._begin(event.cluster, event.job, event.attempt)
        state.describe(event)
        self._all.put((event.cluster, event.job), state, JOB_BYTES + state.life.held_bytes)

    def on_samples(self, event: DeviceSamples) -> None:
        """Learn from a node's GPUs how busy the jobs on them are. What several jobs share says so of none of them."""
        owners: dict[int, set[str]] = {}
        for one in event.processes:
            if one.job is not None:
                owners.setdefault(one.device, set()).add(one.job)
        for row, number in enumerate(event.device):
            at_s = event.t0_s + event.time_s[row]
            states = [self._of(event.cluster, job) for job in sorted(owners.get(number, ()))]
            for state in states:
                state.measure(event.node, at_s)
            if len(states) == 1:
                values = {name: getattr(event, name)[row] for name in COLUMNS}
                states[0].activity.add(
                    at_s, {name: float(value) for name, value in values.items() if value is not None}
                )

    def find(self, job: str) -> list[JobState]:
        """The jobs of this name, one a cluster."""
        return [one for one in self._all.values() if one.job == job]

    def every(self, also: Container[tuple[str, str]] = ()) -> list[JobState]:
        """All jobs that have not ended, and those of ``also``, by cluster and name, that have."""
        return [one for job, one in self._all.items() if one.over_s is None or job in also]

    def _of(self, cluster: str, job: str) -> JobState:
        state = self._all.get((cluster, job)) or self._begin(cluster, job, 0)
        self._all.renew((cluster, job))
        return state

    def _begin(self, cluster: str, job: str, attempt: int) -> JobState:
        """A run of which nothing is known yet."""
        state = JobState(cluster, job, JobLife(attempt))
        self._all.put((cluster, job), state, JOB_BYTES)
        return state


def _array(column: list[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in column])
