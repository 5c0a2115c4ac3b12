"""What a node's collector says of its GPUs and its host, for days: inventory, device samples, host samples.

Rule of this file: readings follow from who has a GPU, from the faults there and from the hour; a message at a time, as
columns. What shows of a fault is ``conditions``' to say.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from paceline.events import DeviceDescribed, DeviceProcess, DeviceSamples, HostSamples, NodeDescribed
from paceline.timed_event import TimedEvent
from paceline.topics import DEVICE, HOST, NODE

from .conditions import BUSY_RATIO, CLOCK_MHZ, HOT_CELSIUS, MEMORY_BYTES, MEMORY_USED_BYTES, Signs
from .fleet_spec import DAY_S, NodeGroup
from .work import Array

_POWER_W, _IDLE_W, _IDLE_MHZ, _HOST_BYTES, _CORES = 700.0, 70.0, 345.0, 512 * 2**30, 96
#: Columns that a simulated card does not answer.
_UNANSWERED = (
    "memory_controller_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_temperature_celsius",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
)
#: Counters of errors, and links as wide as they can be: a fault of a job does not show in them.
_STEADY = {"pcie_generation": 5, "pcie_width": 16, "power_limit_w": _POWER_W, "fb_total_bytes": MEMORY_BYTES}
_STEADY |= dict.fromkeys(("pcie_replays", "ecc_corrected", "ecc_uncorrected", "retired_pages", "remapped_rows"), 0)
_STEADY |= {"xid": 0, "memory_clock_mhz": 2619.0}
_HOST_UNANSWERED = (
    "cpu_frequency_mhz",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "network_rx_bytes_per_s",
    "network_tx_bytes_per_s",
)


class Use(NamedTuple):
    """A job's rank on GPU ``gpu`` from ``begin_s`` to ``end_s`` (Unix time), and how it uses it."""

    gpu: int
    begin_s: float
    end_s: float
    job: str
    rank: int
    local_rank: int
    kind: str
    busy: float | None = None


class SignSpan(NamedTuple):
    """What shows on GPU ``gpu``, and on its host, from ``begin_s`` to ``end_s`` (Unix time)."""

    gpu: int
    begin_s: float
    end_s: float
    signs: Signs


def uuid_of(node: str, gpu: int) -> str:
    """What GPU ``gpu`` of ``node`` is called."""
    return f"GPU-{node}-{gpu}"


class NodeSamples:
    """The collector of one node, from ``begin_s`` to ``end_s`` (Unix time)."""

    def __init__(
        self,
        name: str,
        group: NodeGroup,
        cluster: str,
        uses: list[Use],
        spans: list[SignSpan],
        seed: list[int],
        ahead_s: float,
    ) -> None:
        self.group, self.spans, self.ahead_s = group, spans, ahead_s
        #: The uses to come, the next one last, and those of the message in hand.
        self.coming = sorted(uses, reverse=True, key=lambda use: (use.begin_s, use.gpu))
        self.uses: list[Use] = []
        self.about: dict[str, Any] = {"cluster": cluster, "producer": f"collector-{name}", "node": name}
        self.random = np.random.default_rng(seed)
        self.uuids = [uuid_of(name, gpu) for gpu in range(group.gpus)]
        self.energy_j = np.zeros(group.gpus)
        #: When in an interval it samples.
        self.phase = float(self.random.random())

    def messages(
        self, begin_s: float, end_s: float, every_s: float, message_s: float
    ) -> Generator[TimedEvent, None, None]:
        """All messages, in the order of time: a sample every ``every_s``, a message every ``message_s`` seconds."""
        yield TimedEvent(begin_s, NODE, self._inventory(begin_s + self.ahead_s))
        each = max(int(message_s / every_s + 1e-9), 1)
        number = 0
        while (first_s := begin_s + (number * each + self.phase) * every_s) < end_s:
            times = first_s + every_s * np.arange(each)
            times = times[times < end_s]
            sent_s = float(times[-1])
            self._turn_to(first_s, sent_s)
            busy, held = self._busy(times)
            yield TimedEvent(sent_s, DEVICE, self._devices(times, busy, held, every_s, number))
            yield TimedEvent(sent_s, HOST, self._host(times, busy, number))
            number += 1

    def _turn_to(self, first_s: float, last_s: float) -> None:
        """The uses between the two times, so that a message costs what runs, not what ever will."""
        while self.coming and self.coming[-1].begin_s <= last_s:
            self.uses.append(self.coming.pop())
        self.uses = [use for use in self.uses if use.end_s > first_s]

    def _inventory(self, time_s: float) -> NodeDescribed:
        devices = [
            DeviceDescribed(
                index=gpu,
                uuid=uuid,
                name="Simulated GPU",
                memory_total_bytes=MEMORY_BYTES,
                power_limit_w=_POWER_W,
                pcie_generation_max=5,
                pcie_width_max=16,
                sm_clock_max_mhz=int(CLOCK_MHZ),
            )
            for gpu, uuid in enumerate(self.uuids)
        ]
        rest: dict[str, Any] = {"cpu_model": None, "cpu_count": _CORES, "memory_total_bytes": _HOST_BYTES}
        return NodeDescribed(**self.about, **rest, sequence=0, time_s=time_s, kernel="simulated", devices=devices)

    def _devices(self, times: Array, busy: Array, held: Array, every_s: float, number: int) -> DeviceSamples:
        heat = 33.0 + 30.0 * busy + self.random.normal(0, 0.7, busy.shape)
        clock = np.where(busy > 0, CLOCK_MHZ - 15 * self.random.integers(0, 3, busy.shape), _IDLE_MHZ)
        reasons = np.zeros(busy.shape, dtype=np.int64)
        for gpu, begin_s, end_s, signs in self.spans:
            at = (times >= begin_s) & (times < end_s)
            reasons[at, gpu] |= signs.throttle_reasons
            clock[at, gpu] = np.round(clock[at, gpu] / signs.slower)
            heat[at, gpu] = HOT_CELSIUS if signs.hot else heat[at, gpu]
        power = _IDLE_W + (_POWER_W - _IDLE_W) * busy * (clock / CLOCK_MHZ)
        energy = self.energy_j + np.cumsum(power * every_s, axis=0)
        self.energy_j = energy[-1]
        gpus, rows = self.group.gpus, busy.size
        columns: dict[str, Any] = dict.fromkeys(_UNANSWERED, [None] * rows)
        columns |= {name: [value] * rows for name, value in _STEADY.items()}
        measured = {
            "utilization_ratio": np.round(busy, 2),
            "fb_used_bytes": np.where(held, MEMORY_USED_BYTES, 2**29),
            "power_w": np.round(power, 1),
            "energy_j": np.round(energy),
            "temperature_celsius": np.round(heat),
            "sm_clock_mhz": clock,
            "throttle_reasons": reasons,
        }
        columns |= {name: column.ravel().tolist() for name, column in measured.items()}
        return DeviceSamples(
            **self.about,
            **columns,
            sequence=number,
            t0_s=round(float(times[0]) + self.ahead_s, 3),
            uuids=self.uuids,
            device=list(range(gpus)) * times.size,
            time_s=np.repeat(np.round(times - times[0], 3), gpus).tolist(),
            processes=self._processes(float(times[-1])),
            not_measured=dict.fromkeys(_UNANSWERED, "simulated"),
        )

    def _host(self, times: Array, busy: Array, number: int) -> HostSamples:
        cpu = np.clip(0.02 + 0.25 * busy.mean(axis=1) + self.random.normal(0, 0.01, times.size), 0.0, 1.0)
        pressure = {"cpu": np.full(times.size, 0.01), "memory": np.zeros(times.size), "io": np.zeros(times.size)}
        swap = np.zeros(times.size, dtype=np.int64)
        for _, begin_s, end_s, signs in self.spans:
            at = (times >= begin_s) & (times < end_s)
            swap[at] = np.maximum(swap[at], signs.swap_used_bytes)
            for name, value in zip(("cpu", "memory", "io"), signs[4:], strict=True):
                pressure[name][at] = np.maximum(pressure[name][at], value)
        columns: dict[str, Any] = dict.fromkeys(_HOST_UNANSWERED, [None] * times.size)
        columns |= {f"pressure_{name}_ratio": values.tolist() for name, values in pressure.items()}
        columns |= {
            "cpu_ratio": np.round(cpu, 3).tolist(),
            "cpu_ratio_per_core": [[]] * times.size,
            "cpu_steal_ratio": [0.0] * times.size,
            "load1": np.round(cpu * _CORES, 2).tolist(),
            "memory_used_bytes": (_HOST_BYTES * (0.1 + 0.4 * busy.mean(axis=1))).astype(np.int64).tolist(),
            "memory_total_bytes": [_HOST_BYTES] * times.size,
            "swap_used_bytes": swap.tolist(),
            "tcp_retransmits": [0] * times.size,
        }
        return HostSamples(
            **self.about,
            **columns,
            sequence=number,
            t0_s=round(float(times[0]) + self.ahead_s, 3),
            time_s=np.round(times - times[0], 3).tolist(),
            not_measured=dict.fromkeys(_HOST_UNANSWERED, "simulated"),
        )

    def _busy(self, times: Array) -> tuple[Array, Array]:
        """How busy each GPU is at each time, and whether a job holds it: (times, GPUs)."""
        shape = (times.size, self.group.gpus)
        usual = self._usual(times)[:, None]
        busy = np.where(usual > 0, np.clip(usual + self.random.normal(0, 0.05, shape), 0.0, 1.0), 0.0)
        held = np.zeros(shape, dtype=bool)
        for use in self.uses:
            at = (times >= use.begin_s) & (times < use.end_s)
            if at.any():
                busy[at, use.gpu] = self._of_job(use, times[at])
                held[at, use.gpu] = True
        return busy, held

    def _usual(self, times: Array) -> Array:
        """How busy a GPU without a job is at this hour of the day."""
        if not self.group.day:
            return np.zeros(times.size)
        hours = np.interp(times / 3600.0, np.arange(24), self.group.day, period=24.0)
        weekend = (times // DAY_S + 3) % 7 >= 5  # 1 January 1970 was a Thursday.
        return np.asarray(np.where(weekend, hours * self.group.weekend, hours))

    def _of_job(self, use: Use, times: Array) -> Array:
        """How busy a job of this kind keeps its GPU."""
        noise = self.random.normal(0, 1, times.size)
        if use.busy is not None:
            return np.asarray(np.clip(use.busy + 0.01 * noise, 0.0, 1.0))
        if use.kind == "training":
            return np.asarray(np.clip(BUSY_RATIO + 0.01 * noise, 0.0, 1.0))
        if use.kind == "inference":
            return np.asarray(np.clip(0.3 + 0.5 * self._usual(times) + 0.1 * noise, 0.0, 1.0))
        if use.kind == "interactive":
            return np.asarray(np.where(noise > 0.8, 0.7, 0.0))
        return np.zeros(times.size)

    def _processes(self, time_s: float) -> list[DeviceProcess]:
        return [
            DeviceProcess(
                device=use.gpu,
                pid=1000 + use.local_rank,
                name="python",
                used_bytes=MEMORY_USED_BYTES,
                job=use.job,
                rank=use.rank,
            )
            for use in self.uses
            if use.begin_s <= time_s < use.end_s
        ]
