"""What each fact of a GPU and of its host can be: one table, for whatever measured it.

Rule of this file: data, and the one question that is asked of it. A number outside its range is *not measured*: a blank
of DCGM or NVML, rubbish of a broken sensor, a counter that ran over. NVML, AMD SMI, a dcgm-exporter, its saved texts
and a Prometheus are all held to it. Ranges are wide: several times what is built today, and below every blank in that
unit.
"""

import math
from typing import NamedTuple

#: Whole numbers that say "no value" in some driver, in whatever unit: DCGM's blanks of 32 and 64 bits (0x7ffffff0 on),
#: and the highest number of 32 and of 64 bits.
INT32_BLANK, INT64_BLANK = 0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0
#: DCGM's blanks of fractions begin here.
FP64_BLANK = 140737488355328.0
_HIGHEST = (2**32 - 1, 2**64 - 1)

TIB = 1024.0**4


class Limit(NamedTuple):
    """The least and the most that a fact can be, and its unit."""

    low: float
    high: float
    unit: str


#: A ratio a hair over 1 is rounding, and taken for 1.
RATIO = Limit(0.0, 1.05, "ratio")
_COUNT = Limit(0.0, 1e9, "count")
_LINK_COUNT = Limit(0.0, 1e12, "count")
_ROWS = Limit(0.0, 1e5, "count")
_CELSIUS = Limit(0.0, 125.0, "°C")
_USED, _TOTAL = Limit(0.0, 64 * TIB, "bytes"), Limit(1.0, 64 * TIB, "bytes")
_LINK = Limit(0.0, 1e14, "bytes/s")
_RATE = Limit(0.0, 1e13, "bytes/s")
_JOULES = Limit(0.0, 1e15, "J")

#: Column of our events, or DCGM's name where there is none -> its range.
LIMITS: dict[str, Limit] = {
    **dict.fromkeys(
        (
            *("utilization_ratio", "memory_controller_ratio"),
            *("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"),
            *("DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY"),
            *("cpu_ratio", "cpu_steal_ratio"),
            *("pressure_cpu_ratio", "pressure_memory_ratio", "pressure_io_ratio", "cpu_throttled_ratio"),
        ),
        RATIO,
    ),
    **dict.fromkeys(("fb_used_bytes", "fb_free_bytes", "memory_used_bytes", "swap_used_bytes"), _USED),
    **dict.fromkeys(("fb_total_bytes", "memory_total_bytes"), _TOTAL),
    "power_w": Limit(0.0, 1e4, "W"),
    # A limit of 0 is none: no share of it can be told.
    "power_limit_w": Limit(1.0, 1e4, "W"),
    **dict.fromkeys(("energy_j", "cpu_energy_j", "dram_energy_j"), _JOULES),
    **dict.fromkeys(("temperature_celsius", "memory_temperature_celsius"), _CELSIUS),
    **dict.fromkeys(("sm_clock_mhz", "sm_clock_max_mhz", "DCGM_FI_DEV_MAX_SM_CLOCK"), Limit(0.0, 1e4, "MHz")),
    "cpu_frequency_mhz": Limit(0.0, 2e4, "MHz"),
    "memory_clock_mhz": Limit(0.0, 3e4, "MHz"),
    # NVML has nine reasons; all sixteen bits at a time are none.
    "throttle_reasons": Limit(0.0, 0xFFFE, "bit mask"),
    **dict.fromkeys(("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"), Limit(0.0, 2e12, "bytes/s")),
    **dict.fromkeys(
        ("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "nvlink_rated_bytes_per_s"),
        _LINK,
    ),
    **dict.fromkeys(
        ("disk_read_bytes_per_s", "disk_write_bytes_per_s", "network_rx_bytes_per_s", "network_tx_bytes_per_s"), _RATE
    ),
    **dict.fromkeys(
        ("pcie_generation", "pcie_generation_max", "DCGM_FI_DEV_PCIE_MAX_LINK_GEN"), Limit(1.0, 10.0, "generation")
    ),
    **dict.fromkeys(("pcie_width", "pcie_width_max", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"), Limit(1.0, 32.0, "lanes")),
    **dict.fromkeys(
        (
            *("pcie_replays", "ecc_corrected", "ecc_uncorrected"),
            *("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"),
        ),
        _COUNT,
    ),
    **dict.fromkeys(
        (
            *("nvlink_crc_errors", "nvlink_errors"),
            *("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"),
            *("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"),
        ),
        _LINK_COUNT,
    ),
    **dict.fromkeys(
        (
            *("retired_pages", "DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_RETIRED_DBE"),
            *("remapped_rows", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
        ),
        _ROWS,
    ),
    # NVIDIA's list ends below 200.
    "xid": Limit(0.0, 999.0, "XID"),
    "tcp_retransmits": Limit(0.0, 1e15, "count"),
    "load1": Limit(0.0, 1e6, "tasks"),
    "cpu_quota_count": Limit(1e-3, 2.0**20, "count"),
}
_ANY = Limit(0.0, math.nextafter(FP64_BLANK, 0.0), "")


def blank(raw: float) -> bool:
    """Whether ``raw``, in its source's own unit, is a whole number by which a driver says that it has no value.

    >>> blank(0x7FFFFFF0), blank(0x7FFFFFFF), blank(4294967295), blank(2**63), blank(float("nan")), blank(2**31)
    (True, True, True, True, True, False)
    """
    return not math.isfinite(raw) or INT32_BLANK <= raw < 2**31 or raw in _HIGHEST or raw >= INT64_BLANK


def limit(column: str) -> Limit:
    """The range of ``column``; of one that is not in the table, what no blank of DCGM is in."""
    return LIMITS.get(column) or (RATIO if column.endswith("_ratio") else _ANY)


def possible(column: str, value: float | None) -> bool:
    """Whether ``column`` can be ``value``, in the unit of our events; None, *not measured*, it can always be.

    >>> possible("temperature_celsius", 65), possible("temperature_celsius", 4294967295), possible("xid", 2**32 - 1)
    (True, False, False)
    >>> possible("power_w", 2147483.648), possible("fb_total_bytes", 0), possible("fb_used_bytes", 0)
    (False, False, True)
    """
    if value is None:
        return True
    low, high, _ = limit(column)
    return math.isfinite(value) and low <= value <= high
