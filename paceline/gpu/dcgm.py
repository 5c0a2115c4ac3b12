"""DCGM's fields: each with its names, its unit, what is a blank, and which of our columns it fills.

Rule of this file: data, from NVIDIA's field headers (DCGM 4.6) and dcgm-exporter's default-counters.csv (May 2026). How
a number is to be read is the business of those who judge. Fields of no column of ours are here too, so that their
names are known.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from paceline.gpu.limits import FP64_BLANK, INT32_BLANK
from paceline.gpu.throttle import legend

Listed = Literal["by default", "off by default", "never listed"]

MIB = 1024.0**2
#: Limits of DCGM's health checks: DCGM_LIMIT_MAX_PCIREPLAY_RATE, a minute, and DCGM_LIMIT_MAX_RETIRED_PAGES.
MOST_PCIE_REPLAYS_PER_MIN = 8
MOST_RETIRED_PAGES = 60
#: The same for NVLink: DCGM_LIMIT_MAX_NVLINK_CRC_ERROR a second; one replay or recovery is one too many.
MOST_NVLINK_CRC_PER_S = 100
#: DCGM's blanks of 32 bits: no value, not found, not supported, not permitted.
_INT32_BLANKS = range(INT32_BLANK, INT32_BLANK + 4)


@dataclass(frozen=True)
class Alias:
    """Another name of a field. ``factor`` takes its unit to the column's; ``wrong``: guides use it, DCGM does not."""

    name: str
    factor: float
    wrong: bool = False


@dataclass(frozen=True)
class Field:
    """One DCGM field: where it stands in our samples (``column``), and its unit there.

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
    note: str = ""


#: Fields that are spoken of by name elsewhere.
ECC_DBE_VOLATILE = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
ECC_SBE_AGGREGATE = "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"
ECC_DBE_AGGREGATE = "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"
GRAPHICS_ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
SM_OCCUPANCY = "DCGM_FI_PROF_SM_OCCUPANCY"
FB_USED_SHARE = "DCGM_FI_DEV_FB_USED_PERCENT"
MAX_SM_CLOCK = "DCGM_FI_DEV_MAX_SM_CLOCK"
PCIE_MAX_GENERATION, PCIE_MAX_WIDTH = "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"
RETIRED_SBE, RETIRED_DBE = "DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_RETIRED_DBE"
REMAPPED_UNCORRECTABLE = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
REMAPPED_CORRECTABLE = "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"
_NVLINK = "DCGM_FI_DEV_NVLINK_"
NVLINK_CRC_FLIT, NVLINK_CRC_DATA = f"{_NVLINK}CRC_FLIT_ERROR_COUNT_TOTAL", f"{_NVLINK}CRC_DATA_ERROR_COUNT_TOTAL"
NVLINK_REPLAY, NVLINK_RECOVERY = f"{_NVLINK}REPLAY_ERROR_COUNT_TOTAL", f"{_NVLINK}RECOVERY_ERROR_COUNT_TOTAL"
#: Fields with a rule that NVML has no number for: our samples carry them by these names, in DCGM's unit.
ONLY_DCGM = (FB_USED_SHARE, ECC_SBE_AGGREGATE, ECC_DBE_AGGREGATE, GRAPHICS_ENGINE_ACTIVE, SM_OCCUPANCY)

FIELDS = (
    Field(100, "DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz", "MHz", dcgm_unit="MHz"),
    Field(101, "DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz", "MHz", dcgm_unit="MHz"),
    Field(
        112,
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        "throttle_reasons",
        "bit mask",
        listed="never listed",
        aliases=(Alias("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 1.0),),
        note=legend(),
    ),
    Field(113, MAX_SM_CLOCK, "", "MHz", dcgm_unit="MHz", listed="off by default", note="the card's highest"),
    Field(140, "DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius", "°C", dcgm_unit="°C"),
    Field(
        150,
        "DCGM_FI_DEV_GPU_TEMP",
        "temperature_celsius",
        "°C",
        dcgm_unit="°C",
        aliases=(Alias("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1.0),),
    ),
    Field(
        155,
        "DCGM_FI_DEV_POWER_USAGE",
        "power_w",
        "W",
        dcgm_unit="W",
        aliases=(Alias("DCGM_FI_DEV_BOARD_POWER_WATTS", 1.0),),
    ),
    Field(156, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_j", "J", factor=1e-3, dcgm_unit="mJ since boot"),
    Field(160, "DCGM_FI_DEV_POWER_MGMT_LIMIT", "power_limit_w", "W", dcgm_unit="W", listed="off by default"),
    Field(
        200,
        "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
        "pcie_tx_bytes_per_s",
        "bytes/s",
        factor=1e3,
        dcgm_unit="KB/s",
        listed="off by default",
        note="deprecated; DCGM 4.6 answers NOT_SUPPORTED",
    ),
    Field(
        201,
        "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
        "pcie_rx_bytes_per_s",
        "bytes/s",
        factor=1e3,
        dcgm_unit="KB/s",
        listed="off by default",
        note="deprecated; DCGM 4.6 answers NOT_SUPPORTED",
    ),
    Field(
        202,
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "pcie_replays",
        "replays",
        dcgm_unit="retries",
        note=f"more than {MOST_PCIE_REPLAYS_PER_MIN} a minute is too many (DCGM's health check)",
    ),
    Field(
        203,
        "DCGM_FI_DEV_GPU_UTIL",
        "utilization_ratio",
        "ratio",
        factor=0.01,
        dcgm_unit="%",
        aliases=(Alias("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),),
        note="share of time in which some kernel ran; the 4.6 name says ratio and still counts to 100",
    ),
    Field(
        204,
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "memory_controller_ratio",
        "ratio",
        factor=0.01,
        dcgm_unit="%",
    ),
    Field(206, "DCGM_FI_DEV_ENC_UTIL", "", "ratio", factor=0.01, dcgm_unit="%"),
    Field(207, "DCGM_FI_DEV_DEC_UTIL", "", "ratio", factor=0.01, dcgm_unit="%"),
    Field(
        230,
        "DCGM_FI_DEV_XID_ERRORS",
        "xid",
        "XID",
        aliases=(Alias("DCGM_FI_DEV_XID_ERROR", 1.0),),
        note="the last XID, not a count: see the table of codes",
    ),
    Field(235, PCIE_MAX_GENERATION, "", "", listed="off by default", note="the card's highest, in its slot"),
    Field(236, PCIE_MAX_WIDTH, "", "lanes", listed="off by default", note="the card's highest, in its slot"),
    Field(237, "DCGM_FI_DEV_PCIE_LINK_GEN", "pcie_generation", "", listed="off by default"),
    Field(238, "DCGM_FI_DEV_PCIE_LINK_WIDTH", "pcie_width", "lanes", listed="off by default"),
    Field(250, "DCGM_FI_DEV_FB_TOTAL", "fb_total_bytes", "bytes", factor=MIB, dcgm_unit="MiB", listed="never listed"),
    Field(251, "DCGM_FI_DEV_FB_FREE", "fb_free_bytes", "bytes", factor=MIB, dcgm_unit="MiB"),
    Field(252, "DCGM_FI_DEV_FB_USED", "fb_used_bytes", "bytes", factor=MIB, dcgm_unit="MiB"),
    Field(253, "DCGM_FI_DEV_FB_RESERVED", "", "bytes", factor=MIB, dcgm_unit="MiB"),
    Field(
        254,
        FB_USED_SHARE,
        "memory_ratio",
        "ratio",
        listed="off by default",
        aliases=(Alias("DCGM_FI_DEV_FB_USED_RATIO", 1.0),),
    ),
    Field(310, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "ecc_corrected", "errors", listed="off by default"),
    Field(311, ECC_DBE_VOLATILE, "ecc_uncorrected", "errors", listed="off by default"),
    Field(312, ECC_SBE_AGGREGATE, "", "errors", listed="off by default"),
    Field(313, ECC_DBE_AGGREGATE, "", "errors", listed="off by default"),
    Field(390, RETIRED_SBE, "", "pages", listed="off by default", note="`retired_pages` is 390 + 391"),
    Field(391, RETIRED_DBE, "", "pages", listed="off by default"),
    Field(393, REMAPPED_UNCORRECTABLE, "", "rows", note="`remapped_rows` is 393 + 394"),
    Field(394, REMAPPED_CORRECTABLE, "", "rows"),
    *(
        Field(number, name, "", "errors", listed="off by default", aliases=(Alias(alias, 1.0),), note=note)
        for number, name, alias, note in (
            (409, NVLINK_CRC_FLIT, f"{_NVLINK}CRC_FLIT_ERROR_TOTAL", "`nvlink_crc_errors` is 409 + 419"),
            (419, NVLINK_CRC_DATA, f"{_NVLINK}CRC_DATA_ERROR_TOTAL", ""),
            (429, NVLINK_REPLAY, f"{_NVLINK}REPLAY_ERROR_TOTAL", "`nvlink_errors` is 429 + 439"),
            (439, NVLINK_RECOVERY, f"{_NVLINK}RECOVERY_ERROR_TOTAL", ""),
        )
    ),
    Field(
        449,
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "",
        "",
        note="its unit is ambiguous (MB/s by DCGM's own tag): not read; fields 1011 and 1012 are",
    ),
    Field(
        1001,
        GRAPHICS_ENGINE_ACTIVE,
        "",
        "ratio",
        aliases=(Alias("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1.0),),
    ),
    Field(
        1002,
        "DCGM_FI_PROF_SM_ACTIVE",
        "sm_active_ratio",
        "ratio",
        listed="off by default",
        aliases=(Alias("DCGM_FI_PROF_SM_UTIL_RATIO", 1.0),),
    ),
    Field(
        1003,
        SM_OCCUPANCY,
        "sm_occupancy_ratio",
        "ratio",
        listed="off by default",
        aliases=(
            Alias("DCGM_FI_PROF_SM_OCCUPANCY_RATIO", 1.0),
            Alias("DCGM_FI_DEV_SM_OCCUPANCY", 0.01, wrong=True),
        ),
        note="the wrong name is written with percent",
    ),
    Field(
        1004,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "tensor_active_ratio",
        "ratio",
        aliases=(
            Alias("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1.0),
            Alias("DCGM_FI_DEV_TENSOR_ACTIVE", 0.01, wrong=True),
        ),
        note="the wrong name is written with percent",
    ),
    Field(
        1005,
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "dram_active_ratio",
        "ratio",
        aliases=(Alias("DCGM_FI_PROF_DRAM_UTIL_RATIO", 1.0),),
    ),
    Field(1009, "DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_tx_bytes_per_s", "bytes/s", note="device to host"),
    Field(1010, "DCGM_FI_PROF_PCIE_RX_BYTES", "pcie_rx_bytes_per_s", "bytes/s", note="host to device"),
    Field(
        1011,
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
        "nvlink_tx_bytes_per_s",
        "bytes/s",
        listed="never listed",
        aliases=(Alias("DCGM_FI_DEV_NVLink_TX_THROUGHPUT", 1.0, wrong=True),),
    ),
    Field(
        1012,
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
        "nvlink_rx_bytes_per_s",
        "bytes/s",
        listed="never listed",
        aliases=(Alias("DCGM_FI_DEV_NVLink_RX_THROUGHPUT", 1.0, wrong=True),),
    ),
)

#: What exporters before 2.0 call fields of other names than their own, and newer ones with a file of counters for 1.x.
_OLD_NAMES = {
    101: "memory_clock",
    203: "gpu_utilization",
    204: "mem_copy_utilization",
    206: "enc_utilization",
    207: "dec_utilization",
    310: "ecc_sbe_volatile_total",
    311: "ecc_dbe_volatile_total",
    312: "ecc_sbe_aggregate_total",
    313: "ecc_dbe_aggregate_total",
    390: "retired_pages_sbe",
    391: "retired_pages_dbe",
    409: "nvlink_flit_crc_error_count_total",
    419: "nvlink_data_crc_error_count_total",
}

#: Ids that guides give to the wrong thing -> what they mean by it, and the id that it really has.
WRONG_IDS = (
    (155, "utilisation", 203),
    (150, "memory utilisation", 204),
    (100, "memory used", 252),
    (203, "power", 155),
    (252, "temperature", 150),
)


def measured(value: float | None) -> float | None:
    """``value``, or None where it is DCGM's blank, no number, or negative (none of these fields can be).

    An exporter writes the blanks of fractions and of whole numbers as fractions: above the first no number is one.

    >>> measured(42), measured(0.0), measured(140737488355328.0), measured(0x7FFFFFFFFFFFFFF0), measured(float("nan"))
    (42.0, 0.0, None, None, None)
    >>> measured(0x7FFFFFF0), measured(0x7FFFFFF3)
    (None, None)
    """
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number) or number < 0.0 or number >= FP64_BLANK or number in _INT32_BLANKS:
        return None
    return number


def old_name(field: Field) -> str:
    """What exporters of 1.x call ``field``.

    >>> by_name = {field.name: field for field in FIELDS}
    >>> old_name(by_name["DCGM_FI_DEV_GPU_UTIL"]), old_name(by_name["DCGM_FI_DEV_GPU_TEMP"])
    ('dcgm_gpu_utilization', 'dcgm_gpu_temp')
    >>> old_name(by_name["DCGM_FI_PROF_DRAM_ACTIVE"])
    'dcgm_fi_prof_dram_active'
    """
    if (old := _OLD_NAMES.get(field.field_id)) is not None:
        return f"dcgm_{old}"
    return field.name.lower().replace("dcgm_fi_dev_", "dcgm_")


def rank_of_name(field: Field, name: str) -> tuple[bool, int, int]:
    """Sorts names under which one column is exported: the one to believe first.

    A wrong name comes last. The profiling fields, whose numbers are higher, replace deprecated ones, and a field's
    first name is older than its aliases.
    """
    names = [field.name, old_name(field), *(alias.name for alias in field.aliases)]
    wrong = any(alias.name == name and alias.wrong for alias in field.aliases)
    return wrong, -field.field_id, names.index(name)


def exported(column: str) -> Iterator[tuple[str, float]]:
    """The names under which DCGM exports ``column``, older first, each with the factor to the column's unit.

    >>> list(exported("utilization_ratio"))
    [('DCGM_FI_DEV_GPU_UTIL', 0.01), ('DCGM_FI_DEV_GPU_UTIL_RATIO', 0.01)]
    """
    for field in FIELDS:
        if field.column == column:
            yield field.name, field.factor
            yield from ((alias.name, alias.factor) for alias in field.aliases if not alias.wrong)
