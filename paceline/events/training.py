"""Training as its ranks tell it: the words for phases, their timings, and where each rank of a job runs."""

from typing import Literal

import msgspec

from paceline.events.base import LongWord, Number, Produced, Rank, Seconds, Time, Whole, Word
from paceline.phases import PHASES

#: Time inside phases: Python's collector running, the thread runnable but without a processor, and the device
#: (the CUDA stream) with nothing left to do until its host launched more. Only what tells of a device's time has that.
OVERLAYS = ("gc", "cpu_wait", "host_bound")
#: The row that closes a step: its start and whole duration.
STEP = "step"
#: Every word for a part of a step, and its place here, for tables with a row an op.
OPS = (*PHASES, *OVERLAYS, STEP)
OP_INDEX = {name: index for index, name in enumerate(OPS)}
#: The first steps of an attempt allocate, compile and connect; they say nothing of what follows.
WARM_UP_STEPS = 5


class RankCondition(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank's process, device and node went through in the ``span_s`` seconds before ``time_s``: a row of
    ConditionColumns.

    ``throttle_reasons`` is NVML's bit mask, all that was seen in the span; ``major_faults`` are pages read back from
    disk; ``pressure_*`` are PSI's ``some avg10`` as ratios. ``cpu_quota_count`` is how many processors the tightest
    control group around the process may use, ``cpu_throttled_ratio`` in what share of its periods in the span it was
    stopped for having used them up. None is *not measured*.
    """

    rank: Rank
    time_s: Time
    span_s: Seconds
    throttle_reasons: Whole | None = None
    sm_clock_mhz: Number | None = None
    sm_clock_max_mhz: Number | None = None
    utilization_ratio: Number | None = None
    temperature_celsius: Number | None = None
    fb_used_bytes: Whole | None = None
    fb_total_bytes: Whole | None = None
    major_faults: Whole | None = None
    swap_used_bytes: Whole | None = None
    pressure_cpu_ratio: Number | None = None
    pressure_memory_ratio: Number | None = None
    pressure_io_ratio: Number | None = None
    cpu_quota_count: Number | None = None
    cpu_throttled_ratio: Number | None = None


class RankPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank runs and which part of the model and data it holds."""

    rank: Whole
    local_rank: Whole
    node: LongWord
    device: LongWord
    pid: Whole
    dp: Whole | None = None
    tp: Whole | None = None
    pp: Whole | None = None


#: Facts that a rank may tell of itself; beside them, variables of NCCL's by their own names (``NCCL_ALGO``).
RankFact = Literal[
    "nccl_version",
    "cuda_driver",
    "pytorch_version",
    "cuda_version",
    "driver_version",
    "network",
    "net_plugin",
    "transport_between",
    "transport_inside",
    "gpu_direct",
    "channels",
]


class RankFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for ranks as long as they run: how each is set up, in words.

    ``words`` has for each fact (``RankFact``, or a variable of NCCL's) one word a rank of ``ranks``, "" where it is not
    reported. A job's ranks should mostly say the same.
    """

    ranks: list[Rank]
    words: dict[Word, list[Word]]


class RankBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of one rank's device went over a whole profiler trace, as HolisticTraceAnalysis counts it.

    ``compute_s`` is the union of its computation kernels; ``exposed_communication_s`` what of the collectives' kernels
    they do not cover, ``exposed_copy_s`` what both leave of the copies', ``idle_s`` the rest. Together they are
    ``span_s``, from the start of the first kernel to the end of the last. A trace without a device has its operators
    in place of kernels, and ``on_device`` is false. ``launch_delay_s`` is the median time from a kernel's launch to
    its start: next to none on a device that waits for its host. A rank with several devices has one for each, with
    ``device``. ``lost_kernels`` is the number of launches to which the trace has no kernel; one that is not ``whole``
    lacks kernels, and is not compared with others.
    """

    rank: Rank
    steps: Whole
    span_s: Seconds
    compute_s: Seconds
    exposed_communication_s: Seconds
    exposed_copy_s: Seconds
    idle_s: Seconds
    on_device: bool = True
    launch_delay_s: Seconds | None = None
    device: Whole | None = None
    lost_kernels: Whole = 0
    whole: bool = True


class ProbeCost(msgspec.Struct, frozen=True, kw_only=True):
    """What Paceline's probe costs a step, measured on one node by turning it off in every other window of steps.

    ``pairs`` of windows, one without and one with it, were compared, of ``least_steps`` to ``most_steps`` steps each;
    others were too short (``short_pairs``), or ranks did not switch together (``apart_pairs``). A step without it took
    ``step_s``, one with it ``added_s`` longer: the median, whose true value lies between ``added_low_s`` and
    ``added_high_s`` in 95 of 100 cases; None where there are too few pairs. ``off_steps`` have no timings. For steps of
    this length a figure takes a run of ``needed_steps``; 0: no run is long enough, or it is not known.
    """

    pairs: Whole
    short_pairs: Whole = 0
    apart_pairs: Whole = 0
    least_steps: Whole = 0
    most_steps: Whole = 0
    off_steps: Whole = 0
    needed_steps: Whole = 0
    step_s: Seconds | None = None
    added_s: Number | None = None
    added_low_s: Number | None = None
    added_high_s: Number | None = None


#: The label with the name of the pod that a sidecar runs in.
POD_LABEL = "kubernetes_pod"


class JobDescribed(Produced, frozen=True, kw_only=True):
    """What is known of a job on one node when its ranks join.

    Key: job/node, so that compaction keeps every node's part; a node is all of its parts. Where ``labels`` name a pod
    (``kubernetes_pod``) it follows as job/node/pod, for a node may have several. Where each task of a node has a
    sidecar of its own, ``part`` is the task's place on its node, "" for the first, and ends the key of the others.
    ``probe_cost`` is set where it is measured, and complete once the ranks have left.
    """

    job: LongWord
    attempt: Whole
    node: LongWord
    world_size: Whole
    backend: LongWord
    framework: LongWord
    started_s: Time
    ended_s: Time | None = None
    exit_status: Whole | None = None
    places: list[RankPlace]
    batch_size: Whole | None = None
    labels: dict[Word, LongWord] = {}
    probe_cost: ProbeCost | None = None
    part: Word = ""

    @property
    def teller(self) -> str:
        """Who tells this among all of the job: its node, and the pod and the part where there are such."""
        return "/".join(filter(None, (self.node, self.labels.get(POD_LABEL, ""), self.part)))
