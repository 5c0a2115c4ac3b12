"""The questions put to NVML about a device: which call fills which columns, and how often it is worth its cost.

Rule of this file: a table and the calls in it. A call takes an NVML-like object (the module ``pynvml`` or a simulated
one) and a device handle; it returns one value a column, None for what has no value, or raises NVML's error. Nothing is
remembered here and no error is handled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from paceline.gpu.readings import Value, field, ratio, scaled, whole

#: A call: a vendor's library and device handle in, one value a column out.
Ask = Callable[[Any, Any], tuple[Value, ...]]

#: For field values that exist per link: all links together.
ALL_LINKS = 0xFFFFFFFF
KIB = 1024
#: Counters that change seldom are read this often; rows in between repeat the last reading.
SELDOM_S = 10.0


class UnanswerableError(Exception):
    """The call worked and says that there is nothing to measure: why, in a few words."""


@dataclass(frozen=True)
class Query:
    """One question: the columns it fills and the ways to ask, the best first; the first that answers is kept.

    A ``counter`` is published as a rate. ``every_s`` of 0 asks for every row.
    """

    columns: tuple[str, ...]
    ways: tuple[Ask, ...]
    kind: Literal["value", "counter"] = "value"
    every_s: float = 0.0

    @property
    def question(self) -> str:
        """Its name: that of its first column."""
        return self.columns[0]


def _utilization(nvml: Any, device: Any) -> tuple[Value, ...]:
    rates = nvml.nvmlDeviceGetUtilizationRates(device)
    return ratio(rates.gpu), ratio(rates.memory)


def _memory(nvml: Any, device: Any) -> tuple[Value, ...]:
    # Version 2 leaves out what the driver reserves, as DCGM's FB_USED does.
    memory = nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)
    return whole(memory.used), whole(memory.total)


def _memory_with_reserved(nvml: Any, device: Any) -> tuple[Value, ...]:
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    return whole(memory.used), whole(memory.total)


def _power(nvml: Any, device: Any) -> tuple[Value, ...]:
    return (scaled(nvml.nvmlDeviceGetPowerUsage(device), 1e-3),)


def _power_limit(nvml: Any, device: Any) -> tuple[Value, ...]:
    return (scaled(nvml.nvmlDeviceGetEnforcedPowerLimit(device), 1e-3),)


def _energy(nvml: Any, device: Any) -> tuple[Value, ...]:
    return (scaled(nvml.nvmlDeviceGetTotalEnergyConsumption(device), 1e-3),)


def _temperature(nvml: Any, device: Any) -> tuple[Value, ...]:
    return (scaled(nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU), 1.0),)


def _memory_temperature(nvml: Any, device: Any) -> tuple[Value, ...]:
    (celsius,) = fields(nvml, device, nvml.NVML_FI_DEV_MEMORY_TEMP)
    if celsius == 0:
        # Cards without the sensor may answer 0 and call it a success.
        raise UnanswerableError("no memory temperature sensor")
    return (scaled(celsius, 1.0),)


def _clocks(nvml: Any, device: Any) -> tuple[Value, ...]:
    kinds = (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM)
    return tuple(scaled(nvml.nvmlDeviceGetClockInfo(device, kind), 1.0) for kind in kinds)


def _event_reasons(nvml: Any, device: Any) -> tuple[Value, ...]:
    return (whole(nvml.nvmlDeviceGetCurrentClocksEventReasons(device)),)


def _throttle_reasons(nvml: Any, device: Any) -> tuple[Value, ...]:
    # The same bits under the name that drivers before 535 know.
    return (whole(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)),)


def _pcie_link(nvml: Any, device: Any) -> tuple[Value, ...]:
    generation = whole(nvml.nvmlDeviceGetCurrPcieLinkGeneration(device))
    return generation, whole(nvml.nvmlDeviceGetCurrPcieLinkWidth(device))


def _pcie_replays(nvml: Any, device: Any) -> tuple[Value, ...]:
    return (whole(nvml.nvmlDeviceGetPcieReplayCounter(device)),)


def pcie_bytes(nvml: Any, device: Any) -> tuple[Value, ...]:
    """Bytes received and sent over PCIe. Unlike ``nvmlDeviceGetPcieThroughput`` it does not block."""
    return fields(nvml, device, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES)


def _nvlink_bytes(nvml: Any, device: Any) -> tuple[Value, ...]:
    _need_links(nvml, device)
    ids = (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)
    counters = fields(nvml, device, *((field_id, ALL_LINKS) for field_id in ids))
    return tuple(None if kib is None else kib * KIB for kib in counters)


def _links(nvml: Any, device: Any) -> bool:
    # The throughput counters of a card without links may answer 0 and call it a success.
    (count,) = nvml.nvmlDeviceGetFieldValues(device, [nvml.NVML_FI_DEV_NVLINK_LINK_COUNT])
    return count.nvmlReturn != 0 or bool(field(count))


def _nvlink_errors(nvml: Any, device: Any) -> tuple[Value, ...]:
    # Totals over all links, of NVLink 1 to 4.
    _need_links(nvml, device)
    flit, data, replay, recovery = fields(
        nvml,
        device,
        nvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
        nvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
        nvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
        nvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
    )
    return _sum(flit, data), _sum(replay, recovery)


def _nvlink_errors_of_links(nvml: Any, device: Any) -> tuple[Value, ...]:
    # The same, link by link, by the older call.
    crc = (nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT, nvml.NVML_NVLINK_ERROR_DL_CRC_DATA)
    others = (nvml.NVML_NVLINK_ERROR_DL_REPLAY, nvml.NVML_NVLINK_ERROR_DL_RECOVERY)
    links = _active_links(nvml, device)
    return tuple(
        _sum(*(whole(nvml.nvmlDeviceGetNvLinkErrorCounter(device, link, kind)) for link in links for kind in kinds))
        for kinds in (crc, others)
    )


def _nvlink5_errors(nvml: Any, device: Any) -> tuple[Value, ...]:
    # NVLink 5 has no CRC counters; how often a link had to be brought up again is told link by link.
    recoveries = ((nvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, link) for link in _active_links(nvml, device))
    return None, _sum(*fields(nvml, device, *recoveries))


def _nvlink_rated(nvml: Any, device: Any) -> tuple[Value, ...]:
    # MB/s of each active link, in one direction.
    _need_links(nvml, device)
    (speed,) = fields(nvml, device, nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON)
    return (scaled(speed, 1e6 * len(_active_links(nvml, device))),)


def _active_links(nvml: Any, device: Any) -> list[int]:
    """The links that are up, by number.

    Raises:
        UnanswerableError: none is.
        NVMLError: NVML refused the first link.
    """
    up = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            state = nvml.nvmlDeviceGetNvLinkState(device, link)
        except nvml.NVMLError:
            if link == 0:
                raise
            break  # There are no more.
        if state:
            up.append(link)
    if not up:
        raise UnanswerableError("no NVLink of this GPU is up")
    return up


def _need_links(nvml: Any, device: Any) -> None:
    if not _links(nvml, device):
        raise UnanswerableError("no NVLink on this GPU")


def _sum(*counts: Value) -> int | None:
    """All ``counts`` together; None where one is not told: a sum without it would seem to fall."""
    if not counts or any(count is None for count in counts):
        return None
    return whole(sum(int(count) for count in counts if count is not None))


def _ecc(nvml: Any, device: Any) -> tuple[Value, ...]:
    kinds = (nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
    return tuple(whole(nvml.nvmlDeviceGetTotalEccErrors(device, kind, nvml.NVML_VOLATILE_ECC)) for kind in kinds)


def _retired_pages(nvml: Any, device: Any) -> tuple[Value, ...]:
    single, double = fields(nvml, device, nvml.NVML_FI_DEV_RETIRED_SBE, nvml.NVML_FI_DEV_RETIRED_DBE)
    return (None if single is None or double is None else whole(int(single + double)),)


def _remapped_rows(nvml: Any, device: Any) -> tuple[Value, ...]:
    correctable, uncorrectable = nvml.nvmlDeviceGetRemappedRows(device)[:2]
    return (whole(correctable + uncorrectable),)


def fields(nvml: Any, device: Any, *ids: Any) -> tuple[Value, ...]:
    """The field values ``ids`` of ``device``.

    Raises:
        NVMLError: NVML refused the call, or the first field that it refused.
    """
    values = nvml.nvmlDeviceGetFieldValues(device, list(ids))
    for value in values:
        if value.nvmlReturn != 0:
            raise nvml.NVMLError(value.nvmlReturn)
    return tuple(field(value) for value in values)


#: Every question, in the order of the columns. SM, tensor and DRAM activity (``gpm.py``), blocking PCIe throughput
#: (``pcie.py``) and XIDs (``xid_listener.py``) keep something between questions and live in their own files.
QUERIES = (
    Query(("utilization_ratio", "memory_controller_ratio"), (_utilization,)),
    Query(("fb_used_bytes", "fb_total_bytes"), (_memory, _memory_with_reserved)),
    Query(("power_w",), (_power,)),
    Query(("power_limit_w",), (_power_limit,), every_s=SELDOM_S),
    Query(("energy_j",), (_energy,)),
    Query(("temperature_celsius",), (_temperature,)),
    Query(("memory_temperature_celsius",), (_memory_temperature,)),
    Query(("sm_clock_mhz", "memory_clock_mhz"), (_clocks,)),
    Query(("throttle_reasons",), (_event_reasons, _throttle_reasons)),
    Query(("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"), (pcie_bytes,), kind="counter"),
    Query(("pcie_generation", "pcie_width"), (_pcie_link,)),
    Query(("pcie_replays",), (_pcie_replays,), every_s=SELDOM_S),
    Query(("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"), (_nvlink_bytes,), kind="counter"),
    Query(
        ("nvlink_crc_errors", "nvlink_errors"),
        (_nvlink_errors, _nvlink_errors_of_links, _nvlink5_errors),
        every_s=SELDOM_S,
    ),
    Query(("nvlink_rated_bytes_per_s",), (_nvlink_rated,), every_s=SELDOM_S),
    Query(("ecc_corrected", "ecc_uncorrected"), (_ecc,), every_s=SELDOM_S),
    Query(("retired_pages",), (_retired_pages,), every_s=SELDOM_S),
    Query(("remapped_rows",), (_remapped_rows,), every_s=SELDOM_S),
)
