"""What a report holds: numbers, and names as they were reported. Words come from ``documents``.

Rule of this file: shapes alone. None is *not measured*, and an empty list that nothing of the kind was heard.
"""

from typing import NamedTuple

import msgspec

from paceline.energy.job_energy import JobEnergy
from paceline.events import Finding, NodeDescribed, Suggestion
from paceline.work_time import Longest

from .time_grid import Matrix


class LostTime(NamedTuple):
    """What one cause has cost a job. Where findings overlap the largest counts, so causes add up."""

    cause: str
    kinds: tuple[str, ...]
    episodes: int
    lost_s: float
    device_hours: float


class Episode(NamedTuple):
    """A finding, and from when to when (Unix time) it lasted; None where no window tells the time of its steps."""

    finding: Finding
    from_s: float | None
    to_s: float | None


class PhaseTime(NamedTuple):
    """Seconds a step in one phase, of the median rank and of the rank that works longest; None: not told."""

    name: str
    median_s: float | None
    worst_s: float | None


class Course(msgspec.Struct, frozen=True):
    """A job over time: a column is ``column_s`` long, the first begins at ``start_s``. NaN: nothing was reported.

    ``own`` is ranks x columns, each rank's time at work in a step, without waiting for others; ``ranks`` numbers its
    rows, and ``stages`` has their pipeline stages, -1 where one is not known (empty: none is). ``steps_from`` and
    ``steps_to`` are the first and last step in a column, -1 for none.
    """

    start_s: float
    column_s: float
    step_s: list[float]
    p95_s: list[float]
    steps_from: list[int]
    steps_to: list[int]
    ranks: list[int]
    own: Matrix
    stages: tuple[int, ...] = ()


class DeviceUse(NamedTuple):
    """One GPU over all of its windows. ``seconds`` is how long those last."""

    cluster: str
    node: str
    device: str
    seconds: float
    utilization_ratio: float | None
    memory_bytes: float | None
    memory_total_bytes: float | None
    power_w: float | None
    power_limit_w: float | None
    temperature_mean_celsius: float | None
    temperature_max_celsius: float | None
    throttled_ratio: float | None
    energy_j: float | None
    jobs: tuple[str, ...]


class HostUse(NamedTuple):
    """One node's host over all of its windows."""

    cluster: str
    node: str
    seconds: float
    cpu_ratio: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    pressure_cpu_ratio: float | None
    pressure_io_ratio: float | None


class ForecastScore(NamedTuple):
    """Forecasts of one series against what came: errors are mean absolute ones, in ``unit``.

    ``covered_ratio`` is the share of values inside the interval of 80 %. ``naive_error`` is over the same values.
    """

    series: str
    unit: str
    forecasts: int
    values: int
    error: float
    naive_error: float | None
    covered_ratio: float | None


class NextForecast(NamedTuple):
    """The newest forecast of a series, a value a step: the median, and the interval of 80 % where it has one."""

    series: str
    unit: str
    start_s: float
    interval_s: float
    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class JobAccount(NamedTuple):
    """What a job took, all its attempts together."""

    job: str
    energy: JobEnergy


class Heard(msgspec.Struct, frozen=True):
    """What the report of a job rests on."""

    ranks_expected: int
    ranks_heard: int
    missing_events: int
    #: Seconds of the job's time in which a window told of steps.
    told_s: float
    notes: list[str] = []


class JobReport(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one job."""

    cluster: str
    job: str
    attempt: int
    framework: str = ""
    backend: str = ""
    kind: str = ""
    kind_probability: float | None = None
    cycle_period_s: float | None = None
    labels: dict[str, str] = {}
    batch_size: int | None = None
    samples_a_step: int | None = None
    nodes: list[str] = []
    devices: int = 0
    exit_status: int | None = None
    from_s: float | None = None
    to_s: float | None = None
    steps: int = 0
    first_step: int | None = None
    last_step: int | None = None
    step_median_s: float | None = None
    step_p95_s: float | None = None
    own_median_s: float | None = None
    own_worst_s: float | None = None
    worst_rank: int | None = None
    wait_ratio: float | None = None
    phases: list[PhaseTime] = []
    #: The rank that works longer than the others on average, where they waited for it: also without a finding.
    longest: Longest | None = None
    course: Course | None = None
    lost: list[LostTime] = []
    episodes: list[Episode] = []
    plans: int = 0
    heard: Heard

    @property
    def elapsed_s(self) -> float:
        """How long it was watched."""
        return 0.0 if self.from_s is None or self.to_s is None else max(self.to_s - self.from_s, 0.0)

    @property
    def lost_s(self) -> float:
        """What all causes have cost."""
        return sum(one.lost_s for one in self.lost)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a source told of: its jobs, machines, forecasts and suggestions."""

    title: str
    jobs: list[JobReport] = []
    devices: list[DeviceUse] = []
    hosts: list[HostUse] = []
    nodes_described: list[NodeDescribed] = []
    node_findings: list[Episode] = []
    suggestions: list[Suggestion] = []
    forecasts: list[ForecastScore] = []
    energies: list[JobAccount] = []
    #: Jobs, findings, devices and the like beyond what a report holds, by what they are.
    left_out: dict[str, int] = {}
    notes: list[str] = []
