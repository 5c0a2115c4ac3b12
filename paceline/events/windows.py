"""Summaries over spans of time: of a rank, a job, a GPU and a host."""

import msgspec

from paceline.events.base import Event, Number, Seconds, Time, Whole


class Window(Event, frozen=True, kw_only=True, tag_field="window"):
    """A summary over ``length_s`` seconds from ``start_s`` (Unix time, aligned to ``length_s``)."""

    cluster: str
    start_s: Time
    length_s: Seconds


class RankWindow(Window, frozen=True, kw_only=True, tag="rank"):
    """What one rank did: steps, median step, and mean seconds a step in each phase."""

    job: str
    attempt: Whole
    node: str
    rank: Whole
    steps: Whole
    first_step: Whole
    last_step: Whole
    step_median_s: Seconds
    phase_mean_s: dict[str, Seconds]


class CollectiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one operation that move ``least_bytes`` and more, up to twice that; 0 for none.

    ``calls`` and ``bytes`` are over all groups. Of each collective the shortest ``wait_s`` and ``duration_s`` of any
    member count, summed: who comes last waits for nobody, so that this is the transfer itself.
    """

    operation: str
    least_bytes: Whole
    calls: Whole
    bytes: Whole
    wait_s: Seconds
    duration_s: Seconds


class JobWindow(Window, frozen=True, kw_only=True, tag="job"):
    """What the job did: the median rank and the worst, never an average over ranks.

    ``steps`` counts those that were told, and those left out right after them by all ranks on purpose: a job's pace is
    ``steps`` over ``length_s``. Medians are over those that were told.
    ``own_*`` is time at work, without waiting for other ranks. ``collectives``: those of the steps ``first_step - 1``
    to ``last_step - 1``, the most bytes first, at most 64: what a step's collectives come to is known a step later.
    """

    job: str
    attempt: Whole
    ranks: Whole
    steps: Whole
    first_step: Whole
    last_step: Whole
    step_median_s: Seconds
    step_p95_s: Seconds
    own_median_s: Seconds
    own_worst_s: Seconds
    worst_rank: Whole
    wait_ratio: Number | None
    phase_median_s: dict[str, Seconds]
    collectives: list[CollectiveLine] = []


class DeviceWindow(Window, frozen=True, kw_only=True, tag="device"):
    """What one GPU did: mean of each measured column. ``job``: whose processes were on it, where they tell."""

    node: str
    device: str
    samples: Whole
    mean: dict[str, Number]
    max: dict[str, Number]
    job: str | msgspec.UnsetType = msgspec.UNSET


class HostWindow(Window, frozen=True, kw_only=True, tag="host"):
    """What one host did: mean and maximum of each measured column."""

    node: str
    samples: Whole
    mean: dict[str, Number]
    max: dict[str, Number]
