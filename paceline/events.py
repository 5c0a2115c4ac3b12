"""The events: what travels on the topics, and nothing that does anything.

Rule of this file: frozen data with its unit in the field name, no behaviour. A change is additive only (new optional
fields); every released shape has a golden file in ``tests/paceline/golden``. Unknown fields are ignored on reading.

High-rate events are **columnar batches**: parallel lists, one entry a row, so that a node's sidecar sends one message a
second for all its ranks. Words that repeat (operations, groups) are sent once as a vocabulary and rows hold indices
into it. Times of rows are offsets in seconds from the batch's ``t0_s`` (Unix time on the producer's clock): offsets are
short on the wire and exact to a microsecond. ``None`` means *not measured*; 0 is a value.
"""

from typing import Annotated, Literal

import msgspec

SCHEMA_VERSION = 1

#: Phases of a training iteration. The first nine are disjoint and add up to the step; the last two overlay them.
#: ``prepare`` is the time right before a forward that no loader accounts for: hand-made batches, collation, copies to
#: the device. ``communication`` is time in which the training thread (or CUDA stream) stood waiting for other ranks.
PHASES = (
    "data",
    "prepare",
    "forward",
    "backward",
    "optimizer",
    "communication",
    "evaluation",
    "checkpoint",
    "other",
)
#: Time inside the phases above: Python's collector running, and the thread runnable but without a processor.
OVERLAYS = ("gc", "cpu_wait")
#: The row that closes a step: its start and whole duration.
STEP = "step"

# Whole numbers that readers size or index arrays with are bounded, so that a wrong one is refused on reading.
Rank = Annotated[int, msgspec.Meta(ge=0, lt=2**20)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**20)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
CountOrNone = Annotated[int, msgspec.Meta(ge=-1, le=2**53)]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every event."""

    schema_version: int = SCHEMA_VERSION


class Produced(Event, frozen=True, kw_only=True):
    """An event whose producer numbers its messages, so that consumers see gaps and drop duplicates.

    ``producer`` is unique per process start; ``sequence`` counts its messages **on this topic** from 0.
    """

    cluster: str
    producer: str
    sequence: int


# --- training ---------------------------------------------------------------------------------------------------------


class RankCondition(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank's process, device and node went through in the ``span_s`` seconds before ``time_s``.

    ``throttle_reasons`` is NVML's bit mask, all that was seen in the span; ``major_faults`` are pages read back from
    disk; ``pressure_*`` are PSI's ``some avg10`` as ratios. None is *not measured*.
    """

    rank: Rank
    time_s: float
    span_s: float
    throttle_reasons: int | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    utilization_ratio: float | None = None
    temperature_celsius: float | None = None
    fb_used_bytes: int | None = None
    fb_total_bytes: int | None = None
    major_faults: int | None = None
    swap_used_bytes: int | None = None
    pressure_cpu_ratio: float | None = None
    pressure_memory_ratio: float | None = None
    pressure_io_ratio: float | None = None


class OpTimings(Produced, frozen=True, kw_only=True):
    """Phases and ops of the ranks of one node. Key: job.

    ``ranks`` / ``world_sizes`` / ``devices`` say, one entry a rank, for whom this batch speaks and what each believes;
    the columns ``rank … duration_s`` hold one entry a row. ``op`` indexes ``ops``. ``microbatch`` is -1 for none.
    ``lost`` counts what was measured and dropped on the node before this message. ``dp`` / ``tp`` / ``pp`` are the
    ranks' places in the data, tensor and pipeline dimensions, one entry a rank, -1 where unknown; empty where no rank
    has one. ``conditions`` is what the ranks' own node and device went through since the batch before.
    """

    job: str
    attempt: int
    node: str
    t0_s: float
    ranks: list[Rank]
    world_sizes: list[int]
    devices: list[str]
    ops: list[str]
    rank: list[Rank]
    step: list[CountOrNone]
    op: list[Index]
    microbatch: list[CountOrNone]
    start_s: list[float]
    duration_s: list[float]
    lost: int = 0
    dp: list[CountOrNone] = []
    tp: list[CountOrNone] = []
    pp: list[CountOrNone] = []
    conditions: list[RankCondition] = []


class PeerLink(msgspec.Struct, frozen=True, kw_only=True):
    """One connection between two ranks that carried data since the sample before; its ends are ``ip:port``.

    ``rtt_s`` is None at the end that only received: the sender alone measures it.
    """

    local: str
    remote: str
    rtt_s: float | None = None


class LinkSample(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's TCP connections to other ranks, as its kernel saw them (TCP_INFO).

    ``rtt_s``: smallest smoothed round trip over its connections; a rank with a slow link is slow to everybody, so its
    smallest is large, while its peers have other, fast connections. An idle connection keeps an old one; ``peers`` are
    those that were not idle, the busiest first, at most 64. ``rated_bytes_per_s``: what the network interface of the
    busiest one is rated at, one way; null where the kernel does not tell.
    """

    rank: Rank
    connections: Count
    rtt_s: float
    retransmits: Count
    peers: list[PeerLink] = []
    rated_bytes_per_s: float | None = None


class OpenCollective(msgspec.Struct, frozen=True, kw_only=True):
    """A collective that a rank has stood in for a while: who waits where. ``start_s`` is absolute (Unix time)."""

    rank: Rank
    group: str
    group_size: Count
    seq: Count
    operation: str
    start_s: float


class CollectiveTimings(Produced, frozen=True, kw_only=True):
    """Collectives of the ranks of one node. Key: job.

    ``operation`` indexes ``operations`` (``all_reduce``, ``all_gather``, …); ``group`` indexes ``groups``, whose sizes
    are ``group_sizes``. ``seq`` counts the collectives of a group, the same on every member. ``duration_s`` runs from
    issue until the result was there; ``wait_s`` is the part of it in which the rank stood still: all leave together,
    so the **shortest** wait is the late one. ``step`` is -1 where unknown.
    ``phases`` tells that the same producer also sends OpTimings, which then carry the verdict. ``open`` lists the ranks
    that have stood in a collective for seconds, as of ``now_s``; a hang shows in nothing else.
    """

    job: str
    attempt: int
    node: str
    backend: str
    phases: bool
    t0_s: float
    ranks: list[Rank]
    world_sizes: list[int]
    groups: list[str]
    group_sizes: list[int]
    operations: list[str]
    rank: list[Rank]
    step: list[CountOrNone]
    seq: list[Count]
    group: list[Index]
    operation: list[Index]
    bytes: list[Count]
    start_s: list[float]
    duration_s: list[float]
    wait_s: list[float]
    links: list[LinkSample] = []
    open: list[OpenCollective] = []
    now_s: float | None = None


class RankPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank runs and which part of the model and data it holds."""

    rank: int
    local_rank: int
    node: str
    device: str
    pid: int
    dp: int | None = None
    tp: int | None = None
    pp: int | None = None


class JobDescribed(Produced, frozen=True, kw_only=True):
    """What is known of a job on one node when its ranks join.

    Key: job/node, so that compaction keeps every node's part.
    """

    job: str
    attempt: int
    node: str
    world_size: int
    backend: str
    framework: str
    started_s: float
    ended_s: float | None = None
    exit_status: int | None = None
    places: list[RankPlace]
    batch_size: int | None = None
    labels: dict[str, str] = {}


# --- nodes ------------------------------------------------------------------------------------------------------------


class DeviceDescribed(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as NVML names it."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str | None = None
    memory_total_bytes: int | None = None
    power_limit_w: float | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    sm_clock_max_mhz: int | None = None
    mig: bool | None = None


class NodeDescribed(Produced, frozen=True, kw_only=True):
    """A node's inventory. Key: node; compacted."""

    node: str
    time_s: float
    cpu_model: str | None
    cpu_count: int
    memory_total_bytes: int
    kernel: str
    driver: str | None = None
    cuda: str | None = None
    devices: list[DeviceDescribed] = []
    not_measured: dict[str, str] = {}


class DeviceProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that uses a GPU, and the job it belongs to where its environment tells."""

    device: int
    pid: int
    name: str
    used_bytes: int | None = None
    job: str | None = None
    rank: int | None = None
    user: str | None = None


class DeviceSamples(Produced, frozen=True, kw_only=True):
    """A node's GPUs x samples. Key: node.

    ``device`` indexes ``uuids``; every column has one entry a row, and a column that the card does not answer holds
    only ``None``. ``throttle_reasons`` is NVML's bit mask of clock-event reasons. Counters are as NVML gives them
    (since driver load); rates are over the interval since the previous sample.
    """

    node: str
    t0_s: float
    uuids: list[str]
    device: list[Index]
    time_s: list[float]
    utilization_ratio: list[float | None]
    memory_controller_ratio: list[float | None]
    sm_active_ratio: list[float | None]
    tensor_active_ratio: list[float | None]
    dram_active_ratio: list[float | None]
    fb_used_bytes: list[int | None]
    fb_total_bytes: list[int | None]
    power_w: list[float | None]
    power_limit_w: list[float | None]
    energy_j: list[float | None]
    temperature_celsius: list[float | None]
    memory_temperature_celsius: list[float | None]
    sm_clock_mhz: list[float | None]
    memory_clock_mhz: list[float | None]
    throttle_reasons: list[int | None]
    pcie_rx_bytes_per_s: list[float | None]
    pcie_tx_bytes_per_s: list[float | None]
    pcie_generation: list[int | None]
    pcie_width: list[int | None]
    pcie_replays: list[int | None]
    nvlink_rx_bytes_per_s: list[float | None]
    nvlink_tx_bytes_per_s: list[float | None]
    ecc_corrected: list[int | None]
    ecc_uncorrected: list[int | None]
    retired_pages: list[int | None]
    remapped_rows: list[int | None]
    xid: list[int | None]
    processes: list[DeviceProcess] = []
    not_measured: dict[str, str] = {}


class NetworkErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Error counters of one interface, since it came up."""

    interface: str
    kind: Literal["ethernet", "infiniband"]
    counters: dict[str, int]


class HostSamples(Produced, frozen=True, kw_only=True):
    """A node's host x samples: one entry a row in every column. Key: node.

    ``cpu_ratio_per_core`` is rows x cores. ``pressure_*`` are PSI's ``some avg10`` as ratios.
    """

    node: str
    t0_s: float
    time_s: list[float]
    cpu_ratio: list[float | None]
    cpu_ratio_per_core: list[list[float]]
    cpu_steal_ratio: list[float | None]
    cpu_frequency_mhz: list[float | None]
    load1: list[float | None]
    pressure_cpu_ratio: list[float | None]
    pressure_memory_ratio: list[float | None]
    pressure_io_ratio: list[float | None]
    memory_used_bytes: list[int | None]
    memory_total_bytes: list[int | None]
    swap_used_bytes: list[int | None]
    disk_read_bytes_per_s: list[float | None]
    disk_write_bytes_per_s: list[float | None]
    network_rx_bytes_per_s: list[float | None]
    network_tx_bytes_per_s: list[float | None]
    tcp_retransmits: list[int | None]
    network_errors: list[NetworkErrors] = []
    not_measured: dict[str, str] = {}


# --- derived ----------------------------------------------------------------------------------------------------------


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


FindingKind = Literal[
    "straggler",
    "stage_imbalance",
    "data_imbalance",
    "load_imbalance",
    "communication_bound",
    "data_bound",
    "hang",
    "device_fault",
    "slowdown",
    "idle_device",
    "out_of_memory_risk",
    "insufficient_data",
]
FindingState = Literal["suspected", "confirmed", "recovered"]
Cause = Literal[
    "worker_compute",
    "throttling",
    "cpu_contention",
    "input_pipeline",
    "garbage_collection",
    "link",
    "memory_pressure",
    "pipeline_stage",
    "sequence_length",
    "unknown",
]
Severity = Literal["info", "warning", "critical"]


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the episode has cost so far."""

    lost_s: float
    gpu_hours: float
    throughput_lost_ratio: float


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict rests on. ``notes`` names what was odd: a silent rank, ranks that disagree, clocks apart."""

    ranks_expected: int
    ranks_heard: int
    events_missing: int
    notes: list[str] = []


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number, the peers' number beside it, and the rule that used them."""

    name: str
    value: float
    unit: str
    peers: float | None
    rule: str


class Finding(Event, frozen=True, kw_only=True):
    """A verdict on a job. Key: job.

    ``id`` is a function of job, attempt, kind, subject and first step, so the same episode has the same id in every
    replay; ``revision`` counts 1, 2, … within it. A consumer that upserts by (``id``, ``revision``) sees each once.
    ``ranks`` are those accused; it is empty where hardware is exonerated.
    """

    id: str
    revision: int
    kind: FindingKind
    state: FindingState
    cluster: str
    job: str
    attempt: int
    cause: Cause
    ranks: list[int]
    stage: int | None
    group: str | None
    nodes: list[str]
    devices: list[str]
    first_step: int
    last_step: int
    severity: Severity
    confidence: float
    cost: Cost
    coverage: Coverage
    evidence: list[Evidence]
    exonerated: list[str]
    summary: str


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """How a forecast's model did at earlier moments of the same series, beside the seasonal naive one.

    Both are mean pinball losses in the series' unit, the median's being the absolute error; None is *not measured*:
    the history was too short. ``coverage_80_ratio`` is the share of values inside the 80 % interval.
    """

    moments: Count
    steps: Count
    loss: float | None
    naive_loss: float | None
    coverage_80_ratio: float | None = None


class Forecast(Event, frozen=True, kw_only=True):
    """What a series will do. Key: series.

    ``values`` has one row a step of the horizon and one number a level of ``levels``, ascending. Step ``i`` (from 1)
    is at ``time_s`` + i * ``interval_s``; ``time_s`` is the time of the newest value. ``unit`` is as in field names.
    ``busy_ratio`` is, a step, the probability of a value above the minimum, for series that often rest on it.
    """

    cluster: str
    series: str
    unit: str
    job: str | None = None
    node: str | None = None
    device: str | None = None
    time_s: float
    interval_s: float
    model: str
    levels: list[float]
    values: list[list[float]]
    history: Count
    season_s: float | None = None
    busy_ratio: list[float] | None = None
    backtest: Backtest
    notes: list[str] = []


JobKind = Literal["training", "inference", "interactive", "data_prep", "batch_inference", "idle", "unknown"]


class JobProfile(Event, frozen=True, kw_only=True):
    """What kind of job this is, its rhythm and its end, as far as known; None is *unknown*. Key: job; compacted.

    ``cycle_period_s`` is None where there is no stable period; ``cycle_drift_ratio`` is its change from the
    first third of what was looked at to the last, as a share of it.
    """

    cluster: str
    job: str
    attempt: int
    time_s: float
    kind: JobKind | None = None
    kind_probability: float | None = None
    kind_probabilities: dict[str, float] = {}
    cycle_period_s: float | None = None
    cycle_confidence: float | None = None
    cycle_next_s: float | None = None
    cycle_drift_ratio: float | None = None
    end_s: float | None = None
    notes: list[str] = []


class Thresholds(Event, frozen=True, kw_only=True):
    """Thresholds of the diagnosis changed for one attempt of a job, also while it runs. Key: job; compacted.

    ``values`` names thresholds of ``paceline thresholds --list``; those it leaves out keep their defaults.
    """

    cluster: str
    job: str
    attempt: int
    values: dict[str, float]


class DeadLetter(Event, frozen=True, kw_only=True):
    """A message that could not be used: why, where it came from, and its first bytes (base64)."""

    reason: str
    topic: str
    partition: int
    offset: int
    time_s: float
    excerpt: str
