"""The newest samples of this node as metrics: every column declared with its base unit, and told while it is fresh.

Rule of this file: it keeps what was published last and asks no driver. A column that was not measured is not told, and
a GPU or host that nobody samples any more is gone after ``fresh_s`` seconds.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client.metrics_core import Metric

from paceline.events import DeviceSamples, HostSamples, NodeDescribed
from paceline.exposition import family
from paceline.gpu.sample_rows import DEVICE_COLUMNS
from paceline.gpu.throttle import REASONS
from paceline.meters import Meter
from paceline.topics import Topic

from .publishers import EventPublisher
from .sample_columns import HOST_COLUMNS

log = logging.getLogger("paceline.collect.meters")
#: GPUs, and error counters of all interfaces, at most: 12 InfiniBand ports have 276.
MOST_DEVICES, MOST_COUNTERS = 256, 4096
#: Seconds that samples are told for when no newer ones come, at least.
FRESH_S = 30.0
_MASK = "throttle_reasons"
_DEVICE_LABELS, _HOST_LABELS = ("gpu", "UUID", "node", "model_name"), ("node",)
#: Ending of a column -> that of the metric, and what its values are multiplied by.
_BASE = {
    "_bytes_per_s": ("_bytes_per_second", 1.0),
    "_mhz": ("_hertz", 1e6),
    "_w": ("_watts", 1.0),
    "_j": ("_joules", 1.0),
    "_count": ("", 1.0),  # Of histograms alone, to Prometheus.
}
#: What each column of a GPU is.
_DEVICE_HELP = {
    "utilization_ratio": "Share of time in which some kernel ran.",
    "memory_controller_ratio": "Share of time in which the memory controller was busy.",
    "sm_active_ratio": "Share of time in which streaming multiprocessors had work.",
    "tensor_active_ratio": "Share of time in which tensor cores worked.",
    "dram_active_ratio": "Share of time in which device memory was read or written.",
    "fb_used_bytes": "Device memory in use.",
    "fb_total_bytes": "Device memory that there is.",
    "power_w": "Power that the GPU takes.",
    "power_limit_w": "Power that the GPU may take.",
    "energy_j": "Energy that it took since its driver was loaded.",
    "temperature_celsius": "Temperature of the GPU.",
    "memory_temperature_celsius": "Temperature of its memory.",
    "sm_clock_mhz": "Clock of the streaming multiprocessors.",
    "memory_clock_mhz": "Clock of its memory.",
    "throttle_reasons": "Why clocks are held back: NVML's bit mask of clock-event reasons.",
    "pcie_rx_bytes_per_s": "Bytes a second that it receives over PCIe.",
    "pcie_tx_bytes_per_s": "Bytes a second that it sends over PCIe.",
    "pcie_generation": "Generation of the PCIe link now.",
    "pcie_width": "Lanes of the PCIe link now.",
    "pcie_replays": "Packets that PCIe had to send again.",
    "nvlink_rx_bytes_per_s": "Bytes a second that it receives over NVLink or XGMI, all links together.",
    "nvlink_tx_bytes_per_s": "Bytes a second that it sends over NVLink or XGMI, all links together.",
    "ecc_corrected": "Memory errors that were corrected.",
    "ecc_uncorrected": "Memory errors that could not be corrected.",
    "retired_pages": "Pages of memory that were retired.",
    "remapped_rows": "Rows of memory that were remapped.",
    "xid": "Number of the last XID error since the collector began; 0 where there was none.",
    "nvlink_crc_errors": "Damaged transfers between GPUs that were repaired.",
    "nvlink_errors": "Errors that a link between GPUs did not repair by itself.",
    "nvlink_rated_bytes_per_s": "What the links between GPUs that are up carry in one direction.",
}
#: What each column of a host is.
_HOST_HELP = {
    "cpu_ratio": "Share of time in which processors worked.",
    "cpu_steal_ratio": "Share of time that the hypervisor gave to others.",
    "cpu_frequency_mhz": "Frequency of the processors, the mean of all.",
    "load1": "Processes that run or wait to, the mean of a minute.",
    "pressure_cpu_ratio": "Share of time in which some process waited for a processor (PSI, 10 s).",
    "pressure_memory_ratio": "Share of time in which some process waited for memory (PSI, 10 s).",
    "pressure_io_ratio": "Share of time in which some process waited for input or output (PSI, 10 s).",
    "memory_used_bytes": "Memory in use.",
    "memory_total_bytes": "Memory that there is.",
    "swap_used_bytes": "Swap in use.",
    "disk_read_bytes_per_s": "Bytes a second read from disks.",
    "disk_write_bytes_per_s": "Bytes a second written to disks.",
    "network_rx_bytes_per_s": "Bytes a second received by all interfaces.",
    "network_tx_bytes_per_s": "Bytes a second sent by all interfaces.",
    "tcp_retransmits": "TCP segments that were sent again.",
    "cpu_energy_j": "Energy that the processors took since the collector began (RAPL, all packages).",
    "dram_energy_j": "Energy that the memory took since the collector began (RAPL).",
    "cpu_quota_count": "Processors that the control groups around the collector allow.",
    "cpu_throttled_ratio": "Share of the quota's periods in which the group was stopped for having used it up.",
}
#: Columns that only count up.
_COUNTERS = frozenset(
    (
        "energy_j",
        "pcie_replays",
        "ecc_corrected",
        "ecc_uncorrected",
        "retired_pages",
        "remapped_rows",
        "nvlink_crc_errors",
        "nvlink_errors",
        "tcp_retransmits",
        "cpu_energy_j",
        "dram_energy_j",
    )
)
#: Not told: an entry a core is too many series.
_LEFT_OUT = frozenset(("cpu_ratio_per_core",))
NETWORK_ERRORS = Meter(
    "paceline_host_network_errors", "counter", "Errors of a network interface.", ("node", "interface", "counter")
)
SAMPLE_AGE = Meter(
    "paceline_collectors_sample_age_seconds", "gauge", "Since the newest sample of a source.", ("node", "source")
)


class _Column(NamedTuple):
    """A column as a metric: its values are multiplied by ``scale``."""

    name: str
    meter: Meter
    scale: float


def _column(what: str, name: str, help_: str, labels: tuple[str, ...]) -> _Column:
    ending = next((ending for ending in _BASE if name.endswith(ending)), "")
    base, scale = _BASE.get(ending, ("", 1.0))
    kind = "counter" if name in _COUNTERS else "gauge"
    meter = Meter(f"paceline_{what}_{name.removesuffix(ending)}{base}", kind, help_, labels)  # type: ignore[arg-type]
    return _Column(name, meter, scale)


DEVICE = tuple(_column("device", name, _DEVICE_HELP[name], _DEVICE_LABELS) for name in DEVICE_COLUMNS)
HOST = tuple(_column("host", name, _HOST_HELP[name], _HOST_LABELS) for name in HOST_COLUMNS if name not in _LEFT_OUT)
#: The bit mask by reason, for PromQL reads no bits.
THROTTLED = Meter(
    "paceline_device_throttled",
    "gauge",
    "1 while this reason holds the clock below the one asked for, else 0.",
    (*_DEVICE_LABELS, "reason"),
)
#: All of them, for the documentation.
METERS = (*(one.meter for one in (*DEVICE, *HOST)), THROTTLED, NETWORK_ERRORS, SAMPLE_AGE)


class NewestSamples:
    """Hears what is published, and tells the newest of it.

    ``now`` is a monotonic clock; samples are fresh for ``FRESH_S``, or three intervals where that is longer.
    """

    def __init__(self, node: str, interval_s: float, now: Callable[[], float]) -> None:
        self._node, self._now = node, now
        self.fresh_s = max(FRESH_S, 3.0 * interval_s)
        self._lock = threading.Lock()
        self._began_s = now()
        #: By UUID: when it was sampled last, and its columns.
        self._devices: dict[str, tuple[float, dict[str, float]]] = {}
        self._host: tuple[float, dict[str, float]] | None = None
        self._errors: dict[tuple[str, ...], float] = {}
        self._left_out = False
        self._named: dict[str, tuple[str, str]] = {}

    def hear(self, event: Any) -> None:
        """Keep what ``event`` tells."""
        with self._lock:
            if isinstance(event, DeviceSamples):
                self._hear_devices(event)
            elif isinstance(event, HostSamples):
                self._hear_host(event)
            elif isinstance(event, NodeDescribed):
                self._named = {one.uuid: (str(one.index), one.name) for one in event.devices[:MOST_DEVICES]}

    def _hear_devices(self, event: DeviceSamples) -> None:
        now_s = self._now()
        rows: dict[str, list[int]] = {}
        for row, device in enumerate(event.device):
            rows.setdefault(event.uuids[device], []).append(row)
        for uuid, at in rows.items():
            before = self._devices.pop(uuid, (0.0, {}))[1]
            values = {
                name: value for name in DEVICE_COLUMNS if (value := _newest(getattr(event, name), at)) is not None
            }
            # A 0 says that there was none since the last sample; what is told is the last that there was.
            errors = [code for row in at if (code := event.xid[row])]
            if errors or before.get("xid"):
                values["xid"] = float(errors[-1]) if errors else before["xid"]
            self._devices[uuid] = (now_s, values)
        while len(self._devices) > MOST_DEVICES:
            del self._devices[next(iter(self._devices))]

    def _hear_host(self, event: HostSamples) -> None:
        rows = list(range(len(event.time_s)))
        columns = (one.name for one in HOST)
        self._host = (
            self._now(),
            {name: value for name in columns if (value := _newest(getattr(event, name), rows)) is not None},
        )
        errors = {
            (self._node, one.interface, name): float(count)
            for one in event.network_errors
            for name, count in one.counters.items()
        }
        if len(errors) > MOST_COUNTERS and not self._left_out:
            log.warning(
                "%d error counters of interfaces: those after the first %d are no metrics; not logged again",
                len(errors),
                MOST_COUNTERS,
            )
            self._left_out = True
        self._errors = dict(sorted(errors.items())[:MOST_COUNTERS])

    def waits(self) -> str | None:
        """What is missing; None while the host is sampled. GPUs may be missing for good."""
        at_s = self._began_s if self._host is None else self._host[0]
        silent_s = self._now() - at_s
        if self._host is None:
            return "no sample yet"
        return f"no sample of the host for {silent_s:.0f} s" if silent_s > self.fresh_s else None

    def families(self) -> Iterator[Metric]:
        """Every metric, with its values now."""
        with self._lock:
            now_s = self._now()
            self._devices = {uuid: one for uuid, one in self._devices.items() if now_s - one[0] <= self.fresh_s}
            devices, host, named = dict(self._devices), self._host, dict(self._named)
            errors = self._errors
        labels = {uuid: self._labels(place, uuid, named) for place, uuid in enumerate(sorted(devices))}
        for one in DEVICE:
            values = ((uuid, columns.get(one.name)) for uuid, (_, columns) in devices.items())
            yield family(one.meter, {labels[uuid]: one.scale * value for uuid, value in values if value is not None})
        masks = {labels[uuid]: held[_MASK] for uuid, (_, held) in devices.items() if _MASK in held}
        yield family(THROTTLED, _throttled(masks))
        fresh = host is not None and now_s - host[0] <= self.fresh_s
        columns: Mapping[str, float] = host[1] if host is not None and fresh else {}
        for one in HOST:
            yield family(one.meter, {(self._node,): one.scale * columns[one.name]} if one.name in columns else {})
        yield family(NETWORK_ERRORS, errors if fresh else {})
        heard = {"gpu": max((at_s for at_s, _ in devices.values()), default=None), "host": host and host[0]}
        yield family(SAMPLE_AGE, {(self._node, what): now_s - at_s for what, at_s in heard.items() if at_s is not None})

    def _labels(self, place: int, uuid: str, named: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
        gpu, model = named.get(uuid, (str(place), ""))
        return (gpu, uuid, self._node, model)


def _throttled(masks: Mapping[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """By device and reason, of the reasons that slow, whether it is in the device's mask."""
    slowing = [reason for reason in REASONS if reason.slows]
    return {
        (*labels, reason.word): float(bool(int(mask) & reason.bit))
        for labels, mask in masks.items()
        for reason in slowing
    }


def _newest(column: list[Any], rows: list[int]) -> float | None:
    """The last number of ``column`` in ``rows``, which an older producer may have left empty."""
    told = (column[row] for row in reversed(rows) if row < len(column))
    value = next((one for one in told if one is not None), None)
    return None if value is None else float(value)


class MeteredPublisher:
    """Passes everything on to ``publisher``, and lets ``samples`` hear it."""

    def __init__(self, publisher: EventPublisher, samples: NewestSamples) -> None:
        self._publisher, self._samples = publisher, samples

    def publish(self, topic: Topic, event: Any, *, key: str | None = None) -> None:
        """Hand over ``event``."""
        self._samples.hear(event)
        self._publisher.publish(topic, event, key=key)

    def close(self, timeout_s: float) -> Any:
        """Send what is still held, for so long at most."""
        return self._publisher.close(timeout_s)
