"""What a screen is given to draw: copies, taken at one moment.

Rule of this file: data only. Ages are against ``now_s``; None is *not measured* or *never*.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from paceline import events
from paceline.events.silence import JOB_SILENT_S
from paceline.job_state import RUNNING, JobState, job_state, runs_twice
from paceline.lost_time import shares
from paceline.words import is_confirmed

from .balance_book import BalanceView
from .energy_view import EnergyView
from .findings_book import Episode
from .forecast_book import SeriesForecast
from .job_buffer import LAYERS, PHASE_STEPS, STEPS, JobBuffer
from .machines import FleetView
from .rank_view import RankView
from .step_ring import Floats, Ints


@dataclass(frozen=True)
class JobLine:
    """A row of the job picker."""

    cluster: str
    job: str
    attempt: int
    first_s: float | None
    last_s: float | None
    ended_s: float | None
    exit_status: int | None = None
    ranks: int = 0
    nodes: tuple[str, ...] = ()
    #: Findings in all, those that are open, those of them that are confirmed, and what all have cost so far.
    findings: int = 0
    open: int = 0
    confirmed: int = 0
    lost_s: float = 0.0
    lost_gpu_hours: float = 0.0
    #: What its worst open finding says of it, while it runs.
    state: JobState = RUNNING
    #: Whether two runs report under its name.
    twice: bool = False

    @property
    def name(self) -> str:
        """What links and the picker call it: the job, with its cluster where that has a name of its own."""
        return name_of(self.cluster, self.job)

    def reports(self, now_s: float) -> bool:
        """Whether it runs at ``now_s``: one that was killed without a goodbye never ends, and is silent."""
        return self.ended_s is None and self.last_s is not None and now_s - self.last_s <= JOB_SILENT_S


@dataclass(frozen=True)
class TopicLine:
    """The traffic of one topic."""

    topic: str
    messages: int
    last_s: float | None
    lag: int | None
    unusable: int
    skipped: int
    reason: str
    missing: int = 0
    #: Since when messages come without a longer pause (Unix time).
    began_s: float = 0.0


@dataclass(frozen=True)
class SenderLine:
    """What a node's collector or sidecar last said of its own messages; ``job`` is none of a collector."""

    service: Literal["collector", "sidecar"]
    node: str
    job: str
    as_of_s: float
    account: events.DeliveryAccount


@dataclass(frozen=True)
class JobView:
    """One attempt of one job: ``step_s`` and ``waiting_s`` are ranks x steps, ``phase_s`` mean seconds by rank,
    ``stages`` the pipeline stage of each rank, -1 where it is not known."""

    cluster: str
    job: str
    attempt: int
    last_s: float | None
    ended_s: float | None
    exit_status: int | None
    world_size: int
    backend: str
    places: dict[int, str]
    stages: Ints
    steps: Ints
    at_s: npt.NDArray[np.float64]
    step_s: Floats
    waiting_s: Floats
    phase_s: dict[str, Floats]
    phase_steps: int
    window: events.JobWindow | None
    #: Windows that tell of collectives, by their length in seconds, the newest last.
    traffic: dict[float, tuple[events.JobWindow, ...]]
    episodes: list[Episode]
    refused: int
    #: Its balancer, where one was heard of.
    balance: BalanceView | None = None
    #: What it has taken, all attempts together, where that was measured.
    energy: EnergyView | None = None

    @property
    def latest(self) -> list[events.Finding]:
        """The newest revision of each finding."""
        return [episode[-1] for episode in self.episodes]

    @property
    def name(self) -> str:
        """As in the picker."""
        return name_of(self.cluster, self.job)


#: ``reading``: what the topics held is read for the first time, so what is not there may still come. ``failed``: the
#: page's own reader raised and is started again. ``refused``: some topics may not be read.
State = Literal["connecting", "reading", "connected", "refused", "lost", "failed"]


@dataclass(frozen=True)
class Connection:
    """How the page stands with the broker. ``cause`` and ``since_s`` say what is wrong and since when."""

    state: State
    brokers: str
    since_s: float
    cause: str = ""


@dataclass(frozen=True)
class Snapshot:
    """All a screen draws from."""

    now_s: float
    connection: Connection
    jobs: list[JobLine] = field(default_factory=list)
    job: JobView | None = None
    topics: list[TopicLine] = field(default_factory=list)
    fleet: FleetView = field(default_factory=FleetView)
    rank: RankView | None = None
    dead_letters: list[events.DeadLetter] = field(default_factory=list)
    node_findings: list[Episode] = field(default_factory=list)
    missing: int = 0
    senders: list[SenderLine] = field(default_factory=list)
    #: How often a reading thread of the page was started again.
    restarts: int = 0
    #: The newest of each series by its key, and of each job by (cluster, job).
    forecasts: dict[str, SeriesForecast] = field(default_factory=dict)
    profiles: dict[tuple[str, str], events.JobProfile] = field(default_factory=dict)
    suggestions: tuple[events.Suggestion, ...] = ()
    #: What came of commands about suggestions, by the command's id.
    answers: dict[str, events.AuditEntry] = field(default_factory=dict)


def name_of(cluster: str, job: str) -> str:
    """A job's name on this page."""
    return job if cluster == "default" else f"{cluster}/{job}"


def running_first(line: JobLine, now_s: float) -> tuple[bool, bool]:
    """What sorts jobs that report before silent ones, and those before ended ones."""
    return line.ended_s is not None, not line.reports(now_s)


def line_of(buffer: JobBuffer, of_nodes: list[events.Finding]) -> JobLine:
    """A job's row in the list; ``of_nodes`` are findings of nodes that are the job's, too."""
    latest = [*buffer.findings.latest(), *of_nodes]
    # What held an ended job back is over with it; what is wrong with its nodes is not.
    last = of_nodes if buffer.ended_s is not None else latest
    still = [finding for finding in last if finding.state != "recovered"]
    counted = shares(latest)
    return JobLine(
        cluster=buffer.cluster,
        job=buffer.job,
        attempt=buffer.attempt,
        first_s=buffer.first_s,
        last_s=buffer.last_s,
        ended_s=buffer.ended_s,
        exit_status=buffer.exit_status,
        ranks=buffer.world_size,
        nodes=tuple(sorted({*buffer.nodes.values(), *(part.node for part in buffer.described.values())})),
        findings=len(latest),
        open=len(still),
        confirmed=sum(map(is_confirmed, still)),
        lost_s=sum(share.lost_s for share in counted),
        lost_gpu_hours=sum(share.device_hours for share in counted),
        state=job_state(latest),
        twice=runs_twice(latest),
    )


def view_of(buffer: JobBuffer) -> JobView:
    """A copy of ``buffer``."""
    steps, matrix, at_s = buffer.matrix.last(STEPS)
    phase_s, phase_steps = phase_means(buffer)
    described, stages = next(iter(buffer.described.values()), None), buffer.stages
    return JobView(
        cluster=buffer.cluster,
        job=buffer.job,
        attempt=buffer.attempt,
        last_s=buffer.last_s,
        ended_s=buffer.ended_s,
        exit_status=buffer.exit_status,
        world_size=buffer.world_size,
        backend=described.backend if described else "",
        places={rank: f"{node} {buffer.devices.get(rank, '')}".strip() for rank, node in buffer.nodes.items()},
        stages=np.array([stages.get(rank, -1) for rank in range(matrix[0].shape[0])], np.int64),
        steps=steps,
        at_s=at_s,
        step_s=matrix[0],
        waiting_s=matrix[1],
        phase_s=phase_s,
        phase_steps=phase_steps,
        window=newest_window(buffer.windows),
        traffic={length_s: tuple(windows) for length_s, windows in buffer.traffic.items()},
        episodes=buffer.findings.episodes(),
        refused=buffer.matrix.refused,
        balance=buffer.balance.view(),
    )


def newest_window(
    windows: dict[float, events.JobWindow], wanted_s: float = events.MEDIUM_WINDOW_S
) -> events.JobWindow | None:
    """The newest window, of the length nearest to ``wanted_s`` among those that are not out of date."""
    if not windows:
        return None
    newest_s = max(window.start_s + window.length_s for window in windows.values())
    current = [w for w in windows.values() if newest_s - (w.start_s + w.length_s) <= 2 * w.length_s + wanted_s]
    return min(current, key=lambda window: abs(window.length_s - wanted_s))


def phase_means(buffer: JobBuffer) -> tuple[dict[str, Floats], int]:
    """Mean seconds a step of each rank in each phase over the last steps it closed, and over how many steps."""
    steps, values, _ = buffer.phases.last(PHASE_STEPS)
    closed = np.isfinite(values[LAYERS.index(events.STEP)]) if steps.size else np.zeros((values.shape[1], 0), bool)
    count = closed.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = np.where(closed, np.nan_to_num(values), 0.0).sum(axis=2)
        means = np.where(count > 0, sums / count, np.nan).astype(np.float32)
    return {name: means[index] for index, name in enumerate(LAYERS)}, int(count.max(initial=0))
