"""How a number of a GPU is read: the bands of each column, and the numbers that are made of several.

Rule of this file: data. What a field is called, and its unit, stand in ``paceline.gpu.dcgm``; the functions over both
are in ``rules``, the page in ``rules_page``.
"""

from dataclasses import dataclass

from paceline.gpu import dcgm

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


@dataclass(frozen=True)
class Quotient:
    """A number made of several: of which columns, and how, in DCGM's words."""

    name: str
    columns: tuple[str, ...]
    formula: str
    note: str = ""


QUOTIENTS = (
    Quotient(
        "memory_ratio",
        ("fb_used_bytes", "fb_total_bytes"),
        "FB_USED / (FB_USED + FB_FREE)",
        "never / FB_TOTAL: the exporter does not list it, and it holds the driver's reserve",
    ),
    Quotient("power_ratio", ("power_w", "power_limit_w"), "POWER_USAGE / POWER_MGMT_LIMIT"),
    Quotient(
        "pcie_ratio",
        ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "pcie_generation", "pcie_width"),
        "max(PCIE_RX_BYTES, PCIE_TX_BYTES) / rate of the link's generation and width",
    ),
    Quotient(
        "nvlink_ratio",
        ("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "nvlink_rated_bytes_per_s"),
        "max(NVLINK_RX_BYTES, NVLINK_TX_BYTES) / rated bytes/s",
        "needs the card's rated speed",
    ),
)

#: Our column, a quotient, or a DCGM field that has no column -> how it is read. A clock by itself says nothing.
BANDS: dict[str, tuple[Band, ...]] = {
    "temperature_celsius": TEMPERATURE,
    "utilization_ratio": UTILISATION,
    "memory_controller_ratio": MEMORY_CONTROLLER,
    "memory_ratio": MEMORY,
    "ecc_corrected": WATCH,
    "ecc_uncorrected": NONE_IS_GOOD,
    dcgm.ECC_SBE_AGGREGATE: WATCH,
    dcgm.ECC_DBE_AGGREGATE: NONE_IS_GOOD,
    dcgm.GRAPHICS_ENGINE_ACTIVE: UTILISATION,
    "sm_active_ratio": SM,
    "sm_occupancy_ratio": OCCUPANCY,
    "tensor_active_ratio": TENSOR,
    "dram_active_ratio": DRAM,
    "power_ratio": POWER,
    "pcie_ratio": PCIE,
    "nvlink_ratio": NVLINK,
}
