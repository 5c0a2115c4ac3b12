"""The questions put to AMD SMI about a GPU, in the columns and units that NVIDIA's are reported in.

Rule of this file: a table and the calls in it, as ``queries`` is NVIDIA's. Names and units are those of AMD's Python
reference (ROCm 6.1 to 7.2). What a GPU does not tell comes as "N/A", as the highest number of its type, or as an
exception: None, never 0.
"""

from collections.abc import Mapping
from typing import Any

from paceline.gpu.link_rates import PCIE_GENERATIONS
from paceline.gpu.queries import KIB, SELDOM_S, Query, UnanswerableError
from paceline.gpu.readings import Value, ratio, scaled, whole
from paceline.gpu.throttle import HARDWARE_THERMAL, POWER_CAP, SOFTWARE_THERMAL

_MIB = 1024 * 1024
#: The highest number of 16 bits: no value, in fields that AMD SMI keeps in them. 32 and 64 bits are ``readings``'.
_BLANK_16 = 0xFFFF
#: A power limit is told in microwatts, in watts by libraries before 6.2: no card has a limit of less than 0.1 W, and
#: none of 100 kW.
_LEAST_MICROWATTS = 100_000
#: The columns that AMD SMI has no number for, and why.
UNTOLD = {
    **dict.fromkeys(("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"), "AMD SMI does not tell it"),
    **dict.fromkeys(("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"), "AMD SMI adds both directions up"),
    "nvlink_rated_bytes_per_s": "AMD SMI does not tell it",
    "remapped_rows": "AMD GPUs retire pages",
    "xid": "XIDs are NVIDIA's",
}


def number(answer: Any) -> float | None:
    """A number that AMD SMI told, or None: it writes "N/A" where a GPU has none.

    >>> number(42), number("N/A"), number(0xFFFF), number(True)
    (42, None, None, None)
    """
    if isinstance(answer, bool) or not isinstance(answer, int | float) or answer == _BLANK_16:
        return None
    return answer


def first(answer: Mapping[str, Any], *names: str) -> float | None:
    """The first of ``names`` that holds a number: libraries of different versions name a thing differently."""
    return next((value for name in names if (value := number(answer.get(name))) is not None), None)


def counted(answer: Any) -> int | None:
    """A count or size: 64 bits wide, so that 0xFFFF is one like any other."""
    return whole(int(answer)) if isinstance(answer, int) and not isinstance(answer, bool) else None


def watts(limit: float | None) -> float | None:
    """A power limit in W, from microwatts or watts; a card that has no limit tells 0.

    >>> watts(750_000_000), watts(750), watts(0)
    (750.0, 750.0, None)
    """
    if not limit:
        return None
    return scaled(limit, 1e-6 if limit >= _LEAST_MICROWATTS else 1.0)


def generation(speed: float | None) -> int | None:
    """The PCIe generation of a link's speed, in MT/s or GT/s.

    >>> generation(32000), generation(16), generation(0)
    (5, 4, None)
    """
    if speed is None:
        return None
    return PCIE_GENERATIONS.get(speed / 1000 if speed >= 1000 else speed)


def clock_mhz(amdsmi: Any, device: Any, kind: str, *names: str) -> float | None:
    """A clock, or its limit, in MHz."""
    return scaled(first(amdsmi.amdsmi_get_clock_info(device, getattr(amdsmi.AmdSmiClkType, kind)), *names), 1.0)


def power_limit_w(amdsmi: Any, device: Any) -> float | None:
    """The power limit that is set, in W."""
    return watts(first(amdsmi.amdsmi_get_power_cap_info(device), "power_cap"))


def memory_total(amdsmi: Any, device: Any) -> int | None:
    """The card's memory in bytes."""
    return counted(amdsmi.amdsmi_get_gpu_memory_total(device, amdsmi.AmdSmiMemoryType.VRAM))


def _utilization(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    activity = amdsmi.amdsmi_get_gpu_activity(device)
    return ratio(number(activity["gfx_activity"])), ratio(number(activity["umc_activity"]))


def _memory(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    used = amdsmi.amdsmi_get_gpu_memory_usage(device, amdsmi.AmdSmiMemoryType.VRAM)
    return counted(used), memory_total(amdsmi, device)


def _memory_in_mib(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    usage = amdsmi.amdsmi_get_gpu_vram_usage(device)
    used, total = (counted(usage[name]) for name in ("vram_used", "vram_total"))
    return None if used is None else used * _MIB, None if total is None else total * _MIB


def _power(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    info = amdsmi.amdsmi_get_power_info(device)
    return (scaled(first(info, "socket_power", "current_socket_power", "average_socket_power"), 1.0),)


def _power_limit(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    return (power_limit_w(amdsmi, device),)


def _energy(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    told = amdsmi.amdsmi_get_energy_count(device)
    ticks, micro_j = counted(told.get("energy_accumulator", told.get("power"))), number(told["counter_resolution"])
    return (None if ticks is None or micro_j is None else scaled(ticks, micro_j * 1e-6),)


def _edge(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    return (_celsius(amdsmi, device, "EDGE"),)


def _hotspot(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    # From MI300 on, the chip has no sensor at its edge.
    return (_celsius(amdsmi, device, "HOTSPOT"),)


def _vram(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    return (_celsius(amdsmi, device, "VRAM"),)


def _celsius(amdsmi: Any, device: Any, sensor: str) -> float | None:
    kind, now = getattr(amdsmi.AmdSmiTemperatureType, sensor), amdsmi.AmdSmiTemperatureMetric.CURRENT
    celsius = scaled(number(amdsmi.amdsmi_get_temp_metric(device, kind, now)), 1.0)
    if not celsius:
        # A sensor that is not there reads 0 on some cards.
        raise UnanswerableError("no such temperature sensor")
    return celsius


def _clocks(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    return tuple(clock_mhz(amdsmi, device, kind, "clk", "cur_clk") for kind in ("GFX", "MEM"))


def _pcie_link(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    link = amdsmi.amdsmi_get_pcie_info(device)["pcie_metric"]
    return generation(number(link["pcie_speed"])), counted(number(link["pcie_width"]))


def _pcie_replays(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    count = counted(amdsmi.amdsmi_get_pcie_info(device)["pcie_metric"]["pcie_replay_count"])
    if count is None:
        raise UnanswerableError("not supported by this GPU")
    return (count,)


def _pcie_replays_of_old(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    return (counted(amdsmi.amdsmi_get_gpu_pci_replay_counter(device)),)


def _xgmi_bytes(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    metrics = amdsmi.amdsmi_get_gpu_metrics_info(device)
    links = [[counted(link) for link in metrics[name]] for name in ("xgmi_read_data_acc", "xgmi_write_data_acc")]
    told = [[link for link in each if link is not None] for each in links]
    if not all(told):
        raise UnanswerableError("no XGMI on this GPU")
    return tuple(sum(each) * KIB for each in told)


def _xgmi_errors(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    # Not amdsmi_gpu_xgmi_error_status: reading it may clear what others wait to read.
    counts = amdsmi.amdsmi_get_gpu_ecc_count(device, amdsmi.AmdSmiGpuBlock.XGMI_WAFL)
    return counted(counts["correctable_count"]), counted(counts["uncorrectable_count"])


def _ecc(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    counts = amdsmi.amdsmi_get_gpu_total_ecc_count(device)
    return counted(counts["correctable_count"]), counted(counts["uncorrectable_count"])


def _retired_pages(amdsmi: Any, device: Any) -> tuple[Value, ...]:
    pages = amdsmi.amdsmi_get_gpu_bad_page_info(device)
    if not isinstance(pages, list):
        # Libraries of ROCm 6.0 write a sentence where there is none.
        raise UnanswerableError("not reported by this version of AMD SMI")
    return (len(pages),)


class Throttling:
    """Why the clock of one GPU was held down since it was asked before, in NVML's bits.

    AMD SMI's own answer (amdsmi_get_violation_status) waits 100 ms between two readings of these counters. Here the
    second reading is the next question. A counter counts the firmware's looks in which its limit held the clock down;
    one that has grown was active meanwhile. NVML's bits say the same of another maker's parts: the power limit of the
    package, heat that the firmware answers with a lower clock (chip, memory), heat that hardware answers (voltage
    regulators, the signal of a processor that is hot).
    """

    COLUMNS = ("throttle_reasons",)
    _BITS = (
        ("ppt_residency_acc", POWER_CAP),
        ("socket_thm_residency_acc", SOFTWARE_THERMAL),
        ("hbm_thm_residency_acc", SOFTWARE_THERMAL),
        ("vr_thm_residency_acc", HARDWARE_THERMAL),
        ("prochot_residency_acc", HARDWARE_THERMAL),
    )

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def ask(self, amdsmi: Any, device: Any) -> tuple[Value, ...]:
        """The mask; None the first time, and where a counter went back: then nothing is known of the time between.

        Raises:
            UnanswerableError: the GPU does not count, as before MI300: it tells that it throttles, not why.
            AmdSmiException: AMD SMI refused.
        """
        metrics = amdsmi.amdsmi_get_gpu_metrics_info(device)
        now = {name: count for name, _ in self._BITS if (count := counted(metrics.get(name))) is not None}
        if not now:
            raise UnanswerableError("AMD SMI tells the reasons from MI300 on")
        before, self._before = self._before, now
        if now.keys() != before.keys() or any(now[name] < before[name] for name in now):
            return (None,)
        mask = 0
        for name, reason in self._BITS:
            if now.get(name, 0) > before.get(name, 0):
                mask |= reason.bit
        return (mask,)


#: Every question, in the order of the columns; ``Throttling`` keeps something between questions.
QUERIES = (
    Query(("utilization_ratio", "memory_controller_ratio"), (_utilization,)),
    Query(("fb_used_bytes", "fb_total_bytes"), (_memory, _memory_in_mib)),
    Query(("power_w",), (_power,)),
    Query(("power_limit_w",), (_power_limit,), every_s=SELDOM_S),
    Query(("energy_j",), (_energy,)),
    Query(("temperature_celsius",), (_edge, _hotspot)),
    Query(("memory_temperature_celsius",), (_vram,)),
    Query(("sm_clock_mhz", "memory_clock_mhz"), (_clocks,)),
    Query(("pcie_generation", "pcie_width"), (_pcie_link,)),
    Query(("pcie_replays",), (_pcie_replays, _pcie_replays_of_old), every_s=SELDOM_S),
    Query(("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s"), (_xgmi_bytes,), kind="counter"),
    Query(("nvlink_crc_errors", "nvlink_errors"), (_xgmi_errors,), every_s=SELDOM_S),
    Query(("ecc_corrected", "ecc_uncorrected"), (_ecc,), every_s=SELDOM_S),
    Query(("retired_pages",), (_retired_pages,), every_s=SELDOM_S),
)
