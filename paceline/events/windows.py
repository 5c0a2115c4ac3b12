"""Summaries over spans of time: of a rank, a job, a GPU and a host."""

from paceline.events.base import Event


class Window(Event, frozen=True, kw_only=True, tag_field="window"):
    """A summary over ``length_s`` seconds from ``start_s`` (Unix time, aligned to ``length_s``)."""

    cluster: str
    start_s: float
    length_s: float


class RankWindow(Window, frozen=True, kw_only=True, tag="rank"):
    """What one rank did: steps, median step, and mean seconds a step in each phase."""

    job: str
    attempt: int
    node: str
    rank: int
    steps: int
    first_step: int
    last_step: int
    step_median_s: float
    phase_mean_s: dict[str, float]


class JobWindow(Window, frozen=True, kw_only=True, tag="job"):
    """What the job did: the median rank and the worst, never an average over ranks.

    ``own_*`` is time at work, without waiting for other ranks.
    """

    job: str
    attempt: int
    ranks: int
    steps: int
    first_step: int
    last_step: int
    step_median_s: float
    step_p95_s: float
    own_median_s: float
    own_worst_s: float
    worst_rank: int
    wait_ratio: float | None
    phase_median_s: dict[str, float]


class DeviceWindow(Window, frozen=True, kw_only=True, tag="device"):
    """What one GPU did: mean of each measured column."""

    node: str
    device: str
    samples: int
    mean: dict[str, float]
    max: dict[str, float]


class HostWindow(Window, frozen=True, kw_only=True, tag="host"):
    """What one host did: mean and maximum of each measured column."""

    node: str
    samples: int
    mean: dict[str, float]
    max: dict[str, float]
