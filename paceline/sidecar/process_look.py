"""What the kernel says of one rank's process at this moment: its state, where it sleeps, and what it has used so far.

Rule of this file: a reader of a few files, with the folder of /proc as an argument. It stops, signals and traces
nothing; what cannot be read is left at its default, and a process that has gone is None.
"""

import os
from pathlib import Path

from paceline.sidecar.look_verdict import ProcessLook
from paceline.sidecar.proc_files import stat_of, text_of

#: Children of a rank that are counted.
MOST_CHILDREN = 64
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def process_look(pid: int, task: int, proc: Path = Path("/proc")) -> ProcessLook | None:
    """The process ``pid`` with its thread ``task`` (0: its main thread); None where it has gone."""
    folder = proc / str(pid)
    whole = _stat(folder)
    if whole is None:
        return None
    thread = folder / "task" / str(task or pid)
    stat = _stat(thread) or whole
    read, written = _io(folder)
    # A thread other than the main one may be stopped alone by nobody: the process tells T, the thread R, S or D.
    state = whole[0] if whole[0] in "TtZX" else stat[0]
    channel = text_of(thread / "wchan").strip("\0\n ")
    return ProcessLook(
        state, channel if channel != "0" else "", stat[1], _children_cpu_s(folder, pid, proc), read, written
    )


def _children_cpu_s(folder: Path, pid: int, proc: Path) -> float:
    words = text_of(folder / "task" / str(pid) / "children").split()[:MOST_CHILDREN]
    stats = [_stat(proc / word) for word in words if word.isdigit()]
    return sum(stat[1] for stat in stats if stat is not None)


def _stat(folder: Path) -> tuple[str, float] | None:
    """State and processor seconds."""
    fields = stat_of(folder)
    if len(fields) < 13 or not (fields[11].isdigit() and fields[12].isdigit()):
        return None
    return fields[0], (int(fields[11]) + int(fields[12])) * _TICK_S


def _io(folder: Path) -> tuple[int, int]:
    """Bytes read and written, through the page cache or not."""
    values = dict(line.partition(":")[::2] for line in text_of(folder / "io").splitlines())
    numbers = [values.get(name, "").strip() for name in ("rchar", "wchar")]
    read, written = (int(one) if one.isdigit() else 0 for one in numbers)
    return read, written
