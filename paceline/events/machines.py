"""The machines: what a node has, and samples of its GPUs and its host."""

from typing import Literal

import msgspec

from paceline.events.base import Accounted, Index, LongWord, Number, Produced, Seconds, Time, Whole, Word


class DeviceDescribed(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as its driver names it, or an instance of one under MIG: ``parent`` is the UUID of its GPU, ``profile``
    its size (``1g.10gb``), and ``index`` counts on behind the GPUs."""

    index: Whole
    uuid: LongWord
    name: LongWord
    pci_bus_id: LongWord | None = None
    memory_total_bytes: Whole | None = None
    power_limit_w: Number | None = None
    pcie_generation_max: Whole | None = None
    pcie_width_max: Whole | None = None
    sm_clock_max_mhz: Whole | None = None
    mig: bool | None = None
    parent: LongWord | None = None
    profile: LongWord | None = None


class DevicePod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of Kubernetes that a device of this node is given to, by its UUID.

    The kubelet tells ``namespace``, ``pod`` and ``container``; the cgroup of a process on the device tells ``uid``.
    """

    device: LongWord
    namespace: Word | None = None
    pod: Word | None = None
    container: Word | None = None
    uid: Word | None = None


class RatedSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """What a device or its host was measured to do, by ``paceline benchmark``.

    ``device`` is the UUID of a GPU, ``cpu`` or ``host``. ``name`` says what was done (``gemm_bfloat16``,
    ``memory_copy``, ``pcie_to_device``, ``disk_read``, ``all_reduce``, …), over ``size_bytes`` and among ``ranks``
    where it has such. ``value`` is the median of ``samples``, between ``low`` and ``high`` in 95 of 100
    cases, in ``unit`` (``flop/s`` or ``bytes/s``). ``busy_ratio``: how much of the device
    others used meanwhile; None: not measured.
    """

    device: Word
    name: Word
    unit: Word
    value: Number
    low: Number
    high: Number
    samples: Whole
    time_s: Time
    size_bytes: Whole | None = None
    ranks: Whole | None = None
    busy_ratio: Number | None = None


class NodeDescribed(Produced, frozen=True, kw_only=True):
    """A node's inventory. Key: node; compacted.

    ``pods`` are those that hold its devices now, where Kubernetes reports them; a shared device has one entry a pod.
    ``rated`` is what ``paceline benchmark`` measured last on the node, with the ``versions`` of the libraries that did
    it (``pytorch``, ``nccl``, …).
    """

    node: LongWord
    time_s: Time
    cpu_model: LongWord | None
    cpu_count: Whole
    memory_total_bytes: Whole
    kernel: LongWord
    driver: LongWord | None = None
    cuda: LongWord | None = None
    devices: list[DeviceDescribed] = []
    not_measured: dict[Word, LongWord] = {}
    pods: list[DevicePod] = []
    rated: list[RatedSpeed] = []
    versions: dict[Word, Word] = {}


class DeviceProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that uses a GPU, and the job it belongs to where its environment tells."""

    device: Whole
    pid: Whole
    name: LongWord
    used_bytes: Whole | None = None
    job: LongWord | None = None
    rank: Whole | None = None
    user: LongWord | None = None


class DeviceSamples(Produced, frozen=True, kw_only=True):
    """A node's GPUs x samples. Key: node.

    ``device`` indexes ``uuids``; every column has one entry a row, and a column that the card does not answer holds
    only ``None``. Where no GPU of the node opens there are no rows; ``not_measured`` says why, as ``device[N]`` by the
    driver's number. ``throttle_reasons`` is NVML's bit mask of clock-event reasons. Counters are as the driver gives
    them (since it was loaded); rates are over the interval since the previous sample. ``dcgm`` has, from a
    dcgm-exporter, the columns that NVML has not: by DCGM's field name, in DCGM's unit, an entry a row.

    The links between GPUs are NVLink, or AMD's XGMI: ``nvlink_crc_errors`` counts damaged transfers that were repaired,
    ``nvlink_errors`` what a link did not repair by itself (replays and recoveries), all links together;
    ``nvlink_rated_bytes_per_s`` is what those that are up carry in one direction. An older producer leaves the three
    out: they are empty then. An instance of a GPU under MIG is a device of its own, ``MIG-…``.
    """

    node: LongWord
    t0_s: Time
    uuids: list[LongWord]
    device: list[Index]
    time_s: list[Seconds]
    utilization_ratio: list[Number | None]
    memory_controller_ratio: list[Number | None]
    sm_active_ratio: list[Number | None]
    tensor_active_ratio: list[Number | None]
    dram_active_ratio: list[Number | None]
    fb_used_bytes: list[Whole | None]
    fb_total_bytes: list[Whole | None]
    power_w: list[Number | None]
    power_limit_w: list[Number | None]
    energy_j: list[Number | None]
    temperature_celsius: list[Number | None]
    memory_temperature_celsius: list[Number | None]
    sm_clock_mhz: list[Number | None]
    memory_clock_mhz: list[Number | None]
    throttle_reasons: list[Whole | None]
    pcie_rx_bytes_per_s: list[Number | None]
    pcie_tx_bytes_per_s: list[Number | None]
    pcie_generation: list[Whole | None]
    pcie_width: list[Whole | None]
    pcie_replays: list[Whole | None]
    nvlink_rx_bytes_per_s: list[Number | None]
    nvlink_tx_bytes_per_s: list[Number | None]
    ecc_corrected: list[Whole | None]
    ecc_uncorrected: list[Whole | None]
    retired_pages: list[Whole | None]
    remapped_rows: list[Whole | None]
    xid: list[Whole | None]
    processes: list[DeviceProcess] = []
    not_measured: dict[Word, LongWord] = {}
    dcgm: dict[Word, list[Number | None]] = {}
    nvlink_crc_errors: list[Whole | None] = []
    nvlink_errors: list[Whole | None] = []
    nvlink_rated_bytes_per_s: list[Number | None] = []


class NetworkErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Error counters of one interface, since it came up."""

    interface: LongWord
    kind: Literal["ethernet", "infiniband"] | Word
    counters: dict[Word, Whole]


class HostSamples(Accounted, frozen=True, kw_only=True):
    """A node's host x samples: one entry a row in every column. Key: node.

    ``cpu_ratio_per_core`` is rows x cores. ``pressure_*`` are PSI's ``some avg10`` as ratios. ``cpu_energy_j`` and
    ``dram_energy_j`` count the joules of all processors' packages and of the memory since the producer began.
    ``cpu_quota_count`` is how many processors the tightest control group around the collector may use, and
    ``cpu_throttled_ratio`` in what share of its periods since the row before it was stopped for having used them up:
    those of the jobs that share its container. An older producer leaves these four out: they are empty then.
    """

    node: LongWord
    t0_s: Time
    time_s: list[Seconds]
    cpu_ratio: list[Number | None]
    cpu_ratio_per_core: list[list[Number]]
    cpu_steal_ratio: list[Number | None]
    cpu_frequency_mhz: list[Number | None]
    load1: list[Number | None]
    pressure_cpu_ratio: list[Number | None]
    pressure_memory_ratio: list[Number | None]
    pressure_io_ratio: list[Number | None]
    memory_used_bytes: list[Whole | None]
    memory_total_bytes: list[Whole | None]
    swap_used_bytes: list[Whole | None]
    disk_read_bytes_per_s: list[Number | None]
    disk_write_bytes_per_s: list[Number | None]
    network_rx_bytes_per_s: list[Number | None]
    network_tx_bytes_per_s: list[Number | None]
    tcp_retransmits: list[Whole | None]
    network_errors: list[NetworkErrors] = []
    not_measured: dict[Word, LongWord] = {}
    cpu_energy_j: list[Number | None] = []
    dram_energy_j: list[Number | None] = []
    cpu_quota_count: list[Number | None] = []
    cpu_throttled_ratio: list[Number | None] = []
