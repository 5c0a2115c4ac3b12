"""Summaries over spans of time: of a rank, a job, a GPU and a host."""

from typing import Literal

import msgspec

from paceline.events.base import Event, LongWord, Number, Seconds, Time, Whole, Word

#: The lengths of windows. A reader picks its windows by them with ``==``: a number of its own would find none any more
#: once one of these has changed. Each is a multiple of those before it.
SHORT_WINDOW_S, MEDIUM_WINDOW_S, LONG_WINDOW_S = 1.0, 10.0, 60.0
#: Those of ranks and jobs, and those of devices and hosts.
JOB_WINDOWS_S = (SHORT_WINDOW_S, MEDIUM_WINDOW_S, LONG_WINDOW_S)
NODE_WINDOWS_S = (MEDIUM_WINDOW_S, LONG_WINDOW_S)
#: Old windows of an archive are merged into such.
ARCHIVE_WINDOW_S = 300.0


class Window(Event, frozen=True, kw_only=True, tag_field="window"):
    """A summary over ``length_s`` seconds from ``start_s`` (Unix time, aligned to ``length_s``)."""

    cluster: LongWord
    start_s: Time
    length_s: Seconds


class RankWindow(Window, frozen=True, kw_only=True, tag="rank"):
    """What one rank did: steps, median step, and mean seconds a step in each phase."""

    job: LongWord
    attempt: Whole
    node: LongWord
    rank: Whole
    steps: Whole
    first_step: Whole
    last_step: Whole
    step_median_s: Seconds
    phase_mean_s: dict[Word, Seconds]


class CollectiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one operation that move ``least_bytes`` and more, up to twice that; 0 for none.

    ``calls`` and ``bytes`` are over all groups. Of each collective the shortest ``wait_s`` and ``duration_s`` of any
    member count, summed: the last to come does not wait, so that this is the transfer itself.
    """

    operation: LongWord
    least_bytes: Whole
    calls: Whole
    bytes: Whole
    wait_s: Seconds
    duration_s: Seconds


class JobWindow(Window, frozen=True, kw_only=True, tag="job"):
    """What the job did: the median rank and the worst, never an average over ranks.

    ``steps`` counts reported steps, and those left out right after them by all ranks on purpose: a job's pace is
    ``steps`` over ``length_s``. Medians are over the reported ones.
    ``own_*`` is time at work, without waiting for other ranks. ``collectives``: those of the steps ``first_step - 1``
    to ``last_step - 1``, the most bytes first, at most 64: what a step's collectives come to is known a step later.
    """

    job: LongWord
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
    phase_median_s: dict[Word, Seconds]
    collectives: list[CollectiveLine] = []


def is_newer(window: RankWindow | JobWindow, held: RankWindow | JobWindow) -> bool:
    """Whether ``window`` is the later of two of a length: after a clock was set back, the one of later steps."""
    return window.start_s >= held.start_s or window.last_step > held.last_step


#: What tells joules: the device's counter, power x time, or some of each.
EnergySource = Literal["counter", "power", "mixed"]
#: How joules are split among jobs that share a GPU: by the memory of their processes, or evenly.
EnergySplit = Literal["memory", "even"]


class DeviceWindow(Window, frozen=True, kw_only=True, tag="device"):
    """What one GPU did: mean of each measured column. ``job``: whose processes were on it, where they tell.

    ``energy_j`` is what it took in the window, and ``energy_by_job`` what of it each job used; the rest is of
    no job. ``energy_split`` is set where jobs share it. ``energy_gap_j`` comes on top, and is of no job: what the
    counter grew by while no sample was taken, for longer than 150 s before. The mean of ``energy_j``, a counter, says
    nothing. Of an instance under MIG nothing is reported: its GPU's energy is one number.

    An archive joins old windows: ``used_s`` and ``idle_s`` say for how much of ``length_s`` those it is made of were
    of a GPU that was used, or idle; the rest was not measured.
    """

    node: LongWord
    device: LongWord
    samples: Whole
    mean: dict[Word, Number]
    max: dict[Word, Number]
    job: LongWord | msgspec.UnsetType = msgspec.UNSET
    energy_j: Number | msgspec.UnsetType = msgspec.UNSET
    energy_source: EnergySource | Word | msgspec.UnsetType = msgspec.UNSET
    energy_by_job: dict[Word, Number] | msgspec.UnsetType = msgspec.UNSET
    energy_split: EnergySplit | Word | msgspec.UnsetType = msgspec.UNSET
    energy_gap_j: Number | msgspec.UnsetType = msgspec.UNSET
    used_s: Seconds | msgspec.UnsetType = msgspec.UNSET
    idle_s: Seconds | msgspec.UnsetType = msgspec.UNSET


class HostWindow(Window, frozen=True, kw_only=True, tag="host"):
    """What one host did: mean and maximum of each measured column, and the joules of its processors and memory."""

    node: LongWord
    samples: Whole
    mean: dict[Word, Number]
    max: dict[Word, Number]
    cpu_energy_j: Number | msgspec.UnsetType = msgspec.UNSET
    dram_energy_j: Number | msgspec.UnsetType = msgspec.UNSET
