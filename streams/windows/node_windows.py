"""Windows of one node's samples: each GPU's, or the host's.

Rule of this file: a node has one clock, and a window closes when a later sample of the same subject arrives. What was
not measured (None) is left out of mean and maximum; it never counts as 0. One second would only repeat the samples,
which are on their own topic, so windows begin at 10 s. Joules are laid onto windows by time.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np

from paceline.energy.meter import Drawn
from paceline.events import (
    MOST_MEASURED,
    NODE_WINDOWS_S,
    DeviceSamples,
    DeviceWindow,
    HostSamples,
    HostWindow,
    NodeDescribed,
)
from paceline.gpu import throttle
from paceline.sequences import Sequences

from ..nodes.gpu_rows import possible
from ..nodes.tenants import Tenants, claims
from ..robust import known_or_zero
from ..stored import Kept, Stored, StoredDecision
from .device_users import NOBODY, DeviceUsers, Use
from .energy import Meters, WindowEnergy, part_before

#: GPUs a node may have; more subjects than this at a time are not believed.
MOST_SUBJECTS = 256

#: The columns whose mean and maximum say something.
DEVICE_MEASURES = (
    "utilization_ratio",
    "memory_controller_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "fb_used_bytes",
    "fb_total_bytes",
    "power_w",
    "power_limit_w",
    "energy_j",
    "temperature_celsius",
    "memory_temperature_celsius",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "pcie_replays",
    "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "ecc_corrected",
    "ecc_uncorrected",
    "remapped_rows",
    "nvlink_crc_errors",
    "nvlink_errors",
    "nvlink_rated_bytes_per_s",
)
HOST_MEASURES = (
    "cpu_ratio",
    "cpu_steal_ratio",
    "cpu_frequency_mhz",
    "load1",
    "pressure_cpu_ratio",
    "pressure_memory_ratio",
    "pressure_io_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "swap_used_bytes",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "network_rx_bytes_per_s",
    "network_tx_bytes_per_s",
    "tcp_retransmits",
    "cpu_quota_count",
    "cpu_throttled_ratio",
)
#: The power of all of a host's processors, or of its memory, stays below this.
HOST_LIMIT_W = 20_000.0
#: Columns of a host's counters of joules.
HOST_COUNTERS = ("cpu_energy_j", "dram_energy_j")
Row = np.ndarray[Any, np.dtype[np.float64]]


class OpenWindow(Stored):
    """One subject's open window."""

    number: Kept[int]
    samples: Kept[int]
    count: Kept[Row]
    sum: Kept[Row]
    max: Kept[Row]
    energy: Kept[dict[str, WindowEnergy]]

    def __init__(self, number: int = 0, width: int = 0) -> None:
        self.number = number
        self.samples = 0
        self.count = np.zeros(width)
        self.sum = np.zeros(width)
        self.max = np.full(width, np.nan)
        #: By what was measured: a device, or parts of a host.
        self.energy = {}

    def add(self, row: Row) -> None:
        """Count one sample in."""
        self.samples += 1
        self.count += ~np.isnan(row)
        self.sum += known_or_zero(row)
        self.max = np.fmax(self.max, row)

    def draw(self, drawn: Mapping[str, Drawn], use: Use, *, after_s: float | None, until_s: float | None) -> None:
        """Count in what of each interval in ``drawn`` lies after ``after_s`` and before ``until_s``."""
        for name, one in drawn.items():
            first = 0.0 if after_s is None else part_before(one, after_s)
            last = 1.0 if until_s is None else part_before(one, until_s)
            if last > first:
                self.energy.setdefault(name, WindowEnergy()).add(one, last - first, use)

    def summary(self, names: tuple[str, ...]) -> tuple[dict[str, float], dict[str, float]]:
        """Mean and maximum of each column that was measured."""
        measured = np.flatnonzero(self.count).tolist()
        # Rounding could take the mean of what is as large as a number can be beyond that.
        mean = {
            names[at]: min(max(float(self.sum[at] / self.count[at]), -MOST_MEASURED), MOST_MEASURED) for at in measured
        }
        return mean, {names[at]: float(self.max[at]) for at in measured}


class SampleWindows(StoredDecision):
    """Windows of one (cluster, node)."""

    layout = 8
    sequences: Kept[Sequences]
    open: Kept[dict[tuple[str, float], OpenWindow]]
    meters: Kept[Meters]
    columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.sequences = Sequences()
        self.open = {}
        self.meters = Meters()

    def _count(
        self, subject: str, at_s: float, row: Row, drawn: Mapping[str, Drawn], use: Use = NOBODY
    ) -> list[tuple[float, OpenWindow]]:
        """Count one sample in, and what was drawn since the one before; the windows that it completes."""
        done = []
        if (subject, NODE_WINDOWS_S[0]) not in self.open and not self._has_room(at_s):
            return []
        for length_s in NODE_WINDOWS_S:
            number = int(at_s // length_s)
            # Taken out and put in again: the subject not measured for longest is the first.
            window = self.open.pop((subject, length_s), None)
            # A clock set back a little keeps the window open; one set back for good starts another.
            after_s = None
            if window is None or number > window.number or number < window.number - 1:
                if window is not None:
                    after_s = (window.number + 1) * length_s
                    window.draw(drawn, use, after_s=None, until_s=after_s)
                    done.append((length_s, window))
                window = OpenWindow(number, len(row))
            self.open[subject, length_s] = window
            window.add(row)
            window.draw(drawn, use, after_s=after_s, until_s=None)
        return done

    def _has_room(self, at_s: float) -> bool:
        """Whether another subject fits in; where none does, one goes that was not measured for two long windows."""
        if len(self.open) < MOST_SUBJECTS * len(NODE_WINDOWS_S):
            return True
        (oldest, length_s), window = next(iter(self.open.items()))
        if abs(at_s - window.number * length_s) < 2 * NODE_WINDOWS_S[-1]:
            return False
        self._forget(oldest)
        return True

    def _forget(self, subject: str) -> None:
        for length_s in NODE_WINDOWS_S:
            self.open.pop((subject, length_s), None)


class DeviceWindows(SampleWindows):
    """A window a GPU: mean and maximum of what it measured, how often it was throttled, its joules and whose they are.

    The node's inventory tells which devices are instances of a GPU under MIG.
    """

    columns = (*DEVICE_MEASURES, "throttled_ratio")
    tenants: Kept[Tenants]
    users: Kept[DeviceUsers]

    def __init__(self) -> None:
        super().__init__()
        self.tenants = Tenants()
        self.users = DeviceUsers()

    def update(self, event: DeviceSamples | NodeDescribed) -> list[DeviceWindow]:
        """Take in one batch; the windows that it completes."""
        if isinstance(event, NodeDescribed):
            self.users.describe(event)
            return []
        if not self.sequences.admit(event.producer, event.sequence):
            return []
        windows = []
        coming = self.users.coming(event)
        throttled = [None if mask is None else float(mask & throttle.SLOWING != 0) for mask in event.throttle_reasons]
        untold = [None] * len(event.device)  # An older producer leaves out columns that came later.
        rows = _rows(*(getattr(event, name) or untold for name in DEVICE_MEASURES), throttled)
        power = (event.energy_j, event.power_w, event.power_limit_w)
        for device, time_s, row, *measured in zip(event.device, event.time_s, rows, *power, strict=True):
            if not 0 <= device < len(event.uuids):
                continue
            uuid, at_s = event.uuids[device], event.t0_s + time_s
            if not possible(at_s):
                continue
            one = self.meters.update(uuid, at_s, *measured)
            use = self.users.of(uuid, at_s, coming)
            for length_s, window in self._count(uuid, at_s, row, {uuid: one} if one else {}, use):
                windows.append(self._window(event, uuid, length_s, window))
        # Of those alone that have windows: their number is bounded.
        told = {uuid: tenant for uuid, tenant in claims(event).items() if (uuid, NODE_WINDOWS_S[0]) in self.open}
        self.tenants.update(told, event.t0_s)
        self.users.update(event, self.tenants)
        return windows

    def _forget(self, subject: str) -> None:
        super()._forget(subject)
        self.tenants.forget(subject)

    def _window(self, event: DeviceSamples, uuid: str, length_s: float, window: OpenWindow) -> DeviceWindow:
        mean, most = window.summary(self.columns)
        energy = window.energy.get(uuid)
        return DeviceWindow(
            cluster=event.cluster,
            start_s=window.number * length_s,
            length_s=length_s,
            node=event.node,
            device=uuid,
            samples=window.samples,
            mean=mean,
            max=most,
            # As of the message before, in which the window was.
            job=self.tenants.of(uuid).job or msgspec.UNSET,
            **(energy.fields() if energy is not None else {}),
        )


class HostWindows(SampleWindows):
    """A window a host: mean and maximum of what it measured, and the joules of its processors and memory."""

    columns = HOST_MEASURES

    def update(self, event: HostSamples) -> list[HostWindow]:
        """Take in one batch; the windows that it completes."""
        if not self.sequences.admit(event.producer, event.sequence):
            return []
        windows = []
        untold = [None] * len(event.time_s)
        rows = _rows(*(getattr(event, name) or untold for name in HOST_MEASURES))
        counters = (getattr(event, name) or untold for name in HOST_COUNTERS)
        for time_s, row, *counted in zip(event.time_s, rows, *counters, strict=True):
            at_s = event.t0_s + time_s
            if not possible(at_s):
                continue
            metered = {
                name: self.meters.update(name, at_s, joules, None, HOST_LIMIT_W)
                for name, joules in zip(HOST_COUNTERS, counted, strict=True)
            }
            drawn = {name: one for name, one in metered.items() if one is not None}
            for length_s, window in self._count("", at_s, row, drawn):
                mean, most = window.summary(self.columns)
                joules: dict[str, Any] = {
                    name: one.joules for name, one in window.energy.items() if one.joules is not None
                }
                windows.append(
                    HostWindow(
                        cluster=event.cluster,
                        start_s=window.number * length_s,
                        length_s=length_s,
                        node=event.node,
                        samples=window.samples,
                        mean=mean,
                        max=most,
                        **joules,
                    )
                )
        return windows


def _rows(*columns: list[Any]) -> Row:
    """Rows x columns, NaN where not measured."""
    return np.array(columns, dtype=np.float64).T
