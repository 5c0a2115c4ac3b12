"""The machines: what a node has, and samples of its GPUs and its host."""

from typing import Literal

import msgspec

from paceline.events.base import Index, Produced


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
