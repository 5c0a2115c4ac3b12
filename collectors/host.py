"""The host: processors, pressure, memory, disks and network, one row at a time.

Rule of this file: whatever cannot be read is None with a reason. Time is an argument, and so are /proc and /sys.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from paceline.cpu_quota import Quota, quota_of, throttled_ratio
from paceline.events import NetworkErrors
from paceline.gpu.limits import possible
from paceline.gpu.queries import UnanswerableError
from paceline.gpu.readings import scaled
from paceline.pressure import pressure

from .cpu import Cpu
from .kernel import cards, disks, network_errors, tcp_retransmits
from .rapl import Rapl
from .rates import Rate
from .sample_columns import HOST_COLUMNS

HostRow = dict[str, Any]
#: What may go wrong inside psutil where /proc is partly hidden or odd.
UNREADABLE = (OSError, RuntimeError, ValueError, IndexError, KeyError, AttributeError, NotImplementedError)
#: Reasons for what is commonly missing.
REASONS = {
    "cpu_frequency_mhz": "the kernel does not tell the frequency here",
    "pressure_cpu_ratio": "the kernel has no PSI, or has it off (psi=1 turns it on)",
    "pressure_memory_ratio": "the kernel has no PSI, or has it off (psi=1 turns it on)",
    "pressure_io_ratio": "the kernel has no PSI, or has it off (psi=1 turns it on)",
    "tcp_retransmits": "/proc/net/snmp cannot be read",
    "cpu_throttled_ratio": "needs two samples of a group whose kernel counts periods (cpu.stat)",
}


class Host:
    """This host; ``proc`` and ``sys`` are where the kernel's files are."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._proc = proc
        self._sys = sys
        self._cpu = Cpu()
        self._rates: dict[tuple[str, str], Rate] = {}
        self._reasons: dict[str, str] = {}
        self._rapl = Rapl(sys)
        self._quota: Quota | None = None

    def sample(self, now_s: float) -> HostRow:
        """One row at ``now_s``, seconds of a monotonic clock."""
        row: HostRow = dict.fromkeys(HOST_COLUMNS) | {"cpu_ratio_per_core": []}
        self._reasons.clear()
        self._read(row, ("cpu_ratio", "cpu_ratio_per_core", "cpu_steal_ratio"), self._processors)
        self._read(row, ("cpu_frequency_mhz",), _frequency)
        self._read(row, ("load1",), lambda: (round(psutil.getloadavg()[0], 2),))
        self._read(row, ("memory_used_bytes", "memory_total_bytes"), _memory)
        self._read(row, ("swap_used_bytes",), lambda: (psutil.swap_memory().used,))
        self._read(row, ("disk_read_bytes_per_s", "disk_write_bytes_per_s"), lambda: self._disks(now_s))
        self._read(row, ("network_rx_bytes_per_s", "network_tx_bytes_per_s"), lambda: self._network(now_s))
        self._read(row, ("cpu_energy_j", "dram_energy_j"), self._energy)
        self._read(row, ("cpu_quota_count", "cpu_throttled_ratio"), self._limited)
        for kind in ("cpu", "memory", "io"):
            row[f"pressure_{kind}_ratio"] = pressure(self._proc / "pressure" / kind)
        row["tcp_retransmits"] = tcp_retransmits(self._proc / "net" / "snmp")
        for column, value in row.items():
            if isinstance(value, int | float) and not possible(column, value):
                row[column] = None
                self._reasons[column] = f"the kernel tells {value:g}, which cannot be"
        for column, why in REASONS.items():
            if row[column] is None:
                self._reasons.setdefault(column, why)
        return row

    def _read(self, row: HostRow, columns: tuple[str, ...], read: Callable[[], tuple[Any, ...]]) -> None:
        try:
            row.update(zip(columns, read(), strict=True))
        except UnanswerableError as error:
            self._reasons |= dict.fromkeys(columns, str(error))
        except UNREADABLE as error:
            self._reasons |= dict.fromkeys(columns, f"{type(error).__name__}: {error}"[:200])

    def _processors(self) -> tuple[Any, ...]:
        shares = self._cpu.update(psutil.cpu_times(percpu=True))
        return shares.busy, shares.per_core, shares.steal

    def _energy(self) -> tuple[Any, ...]:
        told = self._rapl.read()
        why = {"cpu_energy_j": told.why_cpu, "dram_energy_j": told.why_dram}
        self._reasons |= {column: reason for column, reason in why.items() if reason}
        return told.cpu, told.dram

    def _limited(self) -> tuple[Any, ...]:
        before, self._quota = self._quota, quota_of(os.getpid(), self._proc)
        if self._quota is None:
            raise UnanswerableError("no control group around the collector has a CPU quota")
        return self._quota.cpus, throttled_ratio(before, self._quota)

    def _disks(self, now_s: float) -> tuple[Any, ...]:
        counters = psutil.disk_io_counters(perdisk=True)
        counted = {name: counters[name] for name in disks(self._sys) if name in counters}
        if not counted:
            raise UnanswerableError("no disk of its own in /sys/block")
        return (
            self._rate("disk_read", {name: disk.read_bytes for name, disk in counted.items()}, now_s),
            self._rate("disk_write", {name: disk.write_bytes for name, disk in counted.items()}, now_s),
        )

    def _network(self, now_s: float) -> tuple[Any, ...]:
        counters = psutil.net_io_counters(pernic=True)
        counted = {name: counters[name] for name in cards(self._sys) if name in counters}
        if not counted:
            raise UnanswerableError("no network card but the loopback in /sys/class/net")
        return (
            self._rate("network_rx", {name: card.bytes_recv for name, card in counted.items()}, now_s),
            self._rate("network_tx", {name: card.bytes_sent for name, card in counted.items()}, now_s),
        )

    def _rate(self, kind: str, counters: dict[str, int], now_s: float) -> float | None:
        """Bytes per second over all devices; one that has just come counts from its second reading."""
        rates = [self._rates.setdefault((kind, name), Rate()).update(n, now_s) for name, n in counters.items()]
        measured = [rate for rate in rates if rate is not None]
        return round(sum(measured), 1) if measured else None

    def network_errors(self) -> list[NetworkErrors]:
        """Error counters of the network cards and InfiniBand ports, now."""
        return network_errors(self._sys)

    def not_measured(self) -> dict[str, str]:
        """Why, by column, as of the last row."""
        return dict(sorted(self._reasons.items()))


def _frequency() -> tuple[Any, ...]:
    frequency = psutil.cpu_freq()
    return (scaled(frequency.current, 1.0) if frequency and frequency.current else None,)


def _memory() -> tuple[Any, ...]:
    memory = psutil.virtual_memory()
    # Used is what programs cannot have; the page cache they can.
    return memory.total - memory.available, memory.total
