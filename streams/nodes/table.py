"""Every rule by which a GPU's numbers are read, as one table on the names that dcgm-exporter really uses.

Rule of this file: data. The functions over it are in ``rules``, the page in ``page``. Names and units are those of
NVIDIA's field headers (DCGM 4.6) and of dcgm-exporter's default-counters.csv (May 2026).
"""

from dataclasses import dataclass
from typing import Literal

from .bands import (
    DRAM,
    MEMORY,
    MEMORY_CONTROLLER,
    NONE_IS_GOOD,
    NVLINK,
    OCCUPANCY,
    PCIE,
    POWER,
    SM,
    TEMPERATURE,
    TENSOR,
    UTILISATION,
    WATCH,
    Band,
)

Listed = Literal["by default", "off by default", "never listed"]

MIB = 1024.0**2


@dataclass(frozen=True)
class Alias:
    """Another name of a metric. ``factor`` takes its unit to the column's; ``wrong``: guides use it, DCGM does not."""

    name: str
    factor: float
    wrong: bool = False


@dataclass(frozen=True)
class Metric:
    """One DCGM field: where it stands in our samples (``column``), its unit there, and how to read it.

    ``factor`` takes DCGM's unit to ours. ``column`` is "" where our samples have no such column.
    """

    field_id: int
    name: str
    column: str
    unit: str
    factor: float = 1.0
    dcgm_unit: str = ""
    listed: Listed = "by default"
    aliases: tuple[Alias, ...] = ()
    bands: tuple[Band, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Quotient:
    """A number made of several metrics: how, in words, and how to read it."""

    name: str
    formula: str
    bands: tuple[Band, ...]
    note: str = ""


METRICS = (
    Metric(100, "DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz", "MHz", dcgm_unit="MHz"),
    Metric(101, "DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz", "MHz", dcgm_unit="MHz"),
    Metric(
        112,
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        "throttle_reasons",
        "bit mask",
        listed="never listed",
        aliases=(Alias("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 1.0),),
        note="0x4 power cap, 0x8 hardware slowdown, 0x20/0x40 thermal (software/hardware), 0x80 power brake",
    ),
    Metric(140, "DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius", "°C", dcgm_unit="°C"),
    Metric(
        150,
        "DCGM_FI_DEV_GPU_TEMP",
        "temperature_celsius",
        "°C",
        dcgm_unit="°C",
        aliases=(Alias("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1.0),),
        bands=TEMPERATURE,
    ),
    Metric(
        155,
        "DCGM_FI_DEV_POWER_USAGE",
        "power_w",
        "W",
        dcgm_unit="W",
        aliases=(Alias("DCGM_FI_DEV_BOARD_POWER_WATTS", 1.0),),
    ),
    Metric(156, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_j", "J", factor=1e-3, dcgm_unit="mJ since boot"),
    Metric(160, "DCGM_FI_DEV_POWER_MGMT_LIMIT", "power_limit_w", "W", dcgm_unit="W", listed="off by default"),
    Metric(
        200,
        "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
        "pcie_tx_bytes_per_s",
        "bytes/s",
        factor=1e3,
        dcgm_unit="KB/s",
        listed="off by default",
        note="deprecated; DCGM 4.6 answers NOT_SUPPORTED",
    ),
    Metric(
        201,
        "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
        "pcie_rx_bytes_per_s",
        "bytes/s",
        factor=1e3,
        dcgm_unit="KB/s",
        listed="off by default",
        note="deprecated; DCGM 4.6 answers NOT_SUPPORTED",
    ),
    Metric(
        202,
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "pcie_replays",
        "replays",
        dcgm_unit="retries",
        note="more than 8 a minute is too many (DCGM's health check)",
    ),
    Metric(
        203,
        "DCGM_FI_DEV_GPU_UTIL",
        "utilization_ratio",
        "ratio",
        factor=0.01,
        dcgm_unit="%",
        aliases=(Alias("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),),
        bands=UTILISATION,
        note="share of time in which some kernel ran; the 4.6 name says ratio and still counts to 100",
    ),
    Metric(
        204,
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "memory_controller_ratio",
        "ratio",
        factor=0.01,
        dcgm_unit="%",
        bands=MEMORY_CONTROLLER,
    ),
    Metric(206, "DCGM_FI_DEV_ENC_UTIL", "", "ratio", factor=0.01, dcgm_unit="%"),
    Metric(207, "DCGM_FI_DEV_DEC_UTIL", "", "ratio", factor=0.01, dcgm_unit="%"),
    Metric(
        230,
        "DCGM_FI_DEV_XID_ERRORS",
        "xid",
        "XID",
        aliases=(Alias("DCGM_FI_DEV_XID_ERROR", 1.0),),
        note="the last XID, not a count: see the table of codes",
    ),
    Metric(250, "DCGM_FI_DEV_FB_TOTAL", "fb_total_bytes", "bytes", factor=MIB, dcgm_unit="MiB", listed="never listed"),
    Metric(251, "DCGM_FI_DEV_FB_FREE", "fb_free_bytes", "bytes", factor=MIB, dcgm_unit="MiB"),
    Metric(252, "DCGM_FI_DEV_FB_USED", "fb_used_bytes", "bytes", factor=MIB, dcgm_unit="MiB"),
    Metric(253, "DCGM_FI_DEV_FB_RESERVED", "", "bytes", factor=MIB, dcgm_unit="MiB"),
    Metric(
        254,
        "DCGM_FI_DEV_FB_USED_PERCENT",
        "memory_ratio",
        "ratio",
        listed="off by default",
        aliases=(Alias("DCGM_FI_DEV_FB_USED_RATIO", 1.0),),
        bands=MEMORY,
    ),
    Metric(310, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "ecc_corrected", "errors", listed="off by default", bands=WATCH),
    Metric(
        311, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "ecc_uncorrected", "errors", listed="off by default", bands=NONE_IS_GOOD
    ),
    Metric(312, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "", "errors", listed="off by default", bands=WATCH),
    Metric(313, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "", "errors", listed="off by default", bands=NONE_IS_GOOD),
    Metric(
        449,
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "",
        "",
        note="its unit is ambiguous (MB/s by DCGM's own tag): not read; fields 1011 and 1012 are",
    ),
    Metric(
        1001,
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "",
        "ratio",
        aliases=(Alias("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1.0),),
        bands=UTILISATION,
    ),
    Metric(
        1002,
        "DCGM_FI_PROF_SM_ACTIVE",
        "sm_active_ratio",
        "ratio",
        listed="off by default",
        aliases=(Alias("DCGM_FI_PROF_SM_UTIL_RATIO", 1.0),),
        bands=SM,
    ),
    Metric(
        1003,
        "DCGM_FI_PROF_SM_OCCUPANCY",
        "sm_occupancy_ratio",
        "ratio",
        listed="off by default",
        aliases=(
            Alias("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", 1.0),
            Alias("DCGM_FI_DEV_SM_OCCUPANCY", 0.01, wrong=True),
        ),
        bands=OCCUPANCY,
        note="the wrong name is written with percent",
    ),
    Metric(
        1004,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "tensor_active_ratio",
        "ratio",
        aliases=(
            Alias("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1.0),
            Alias("DCGM_FI_DEV_TENSOR_ACTIVE", 0.01, wrong=True),
        ),
        bands=TENSOR,
        note="the wrong name is written with percent",
    ),
    Metric(
        1005,
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "dram_active_ratio",
        "ratio",
        aliases=(Alias("DCGM_FI_PROF_DRAM_UTIL_RATIO", 1.0),),
        bands=DRAM,
    ),
    Metric(1009, "DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_tx_bytes_per_s", "bytes/s", note="device to host"),
    Metric(1010, "DCGM_FI_PROF_PCIE_RX_BYTES", "pcie_rx_bytes_per_s", "bytes/s", note="host to device"),
    Metric(
        1011,
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
        "nvlink_tx_bytes_per_s",
        "bytes/s",
        listed="never listed",
        aliases=(Alias("DCGM_FI_DEV_NVLink_TX_THROUGHPUT", 1.0, wrong=True),),
    ),
    Metric(
        1012,
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
        "nvlink_rx_bytes_per_s",
        "bytes/s",
        listed="never listed",
        aliases=(Alias("DCGM_FI_DEV_NVLink_RX_THROUGHPUT", 1.0, wrong=True),),
    ),
)

QUOTIENTS = (
    Quotient(
        "memory_ratio",
        "FB_USED / (FB_USED + FB_FREE)",
        MEMORY,
        "never / FB_TOTAL: the exporter does not list it, and it holds the driver's reserve",
    ),
    Quotient("power_ratio", "POWER_USAGE / POWER_MGMT_LIMIT", POWER),
    Quotient("pcie_ratio", "max(PCIE_RX_BYTES, PCIE_TX_BYTES) / rate of the link's generation and width", PCIE),
    Quotient(
        "nvlink_ratio", "max(NVLINK_RX_BYTES, NVLINK_TX_BYTES) / rated bytes/s", NVLINK, "needs the card's rated speed"
    ),
)

#: Ids that guides give to the wrong thing -> what they mean by it, and the id that it really has.
WRONG_IDS = (
    (155, "utilisation", 203),
    (150, "memory utilisation", 204),
    (100, "memory used", 252),
    (203, "power", 155),
    (252, "temperature", 150),
)

#: Bytes per second and lane of each PCIe generation, after the line code.
PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
