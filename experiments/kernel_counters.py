"""What the kernel counts of a process: processor time and memory, from /proc.

Rule of this file: numbers as they are, in seconds and bytes; nothing is compared here.
"""

import os
from pathlib import Path
from typing import Literal


def processor_s(pid: int | Literal["self"] = "self", *, children: bool = False) -> float:
    """Processor time that a process has used so far, user and system.

    With ``children`` also that of its children that have ended.

    Raises:
        OSError: there is no such process any longer.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if children else 13])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int | Literal["self"] = "self") -> int:
    """What it holds now."""
    return _memory(pid, "status", "VmRSS")


def memory_peak_bytes(pid: int | Literal["self"] = "self") -> int:
    """The most that it has held so far; what its parent held does not count."""
    return _memory(pid, "status", "VmHWM")


def memory_part_bytes(pid: int | Literal["self"] = "self") -> int:
    """What it holds now; pages that it shares with other processes by its part."""
    return _memory(pid, "smaps_rollup", "Pss")


def _memory(pid: int | Literal["self"], file: str, name: str) -> int:
    """Raises OSError or StopIteration where the process ends."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
