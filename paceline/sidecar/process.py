"""A rank's process as the kernel accounts for it: pages read back from disk, swap, and its group's pressure.

Rule of this file: readers with the folder of /proc as an argument. What cannot be read is None; a process that has
gone is no error. Loader workers count with their rank, so the whole tree below a process is looked at.
"""

from pathlib import Path

from paceline.pressure import pressure

#: Processes of one rank that are looked at.
MOST_PROCESSES = 256
KINDS = ("cpu", "memory", "io")
Pressures = tuple[float | None, float | None, float | None]


class Process:
    """The process ``pid`` and everything below it."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self.pid = pid
        self._proc = proc
        self._born = _stat(proc / str(pid))
        self._faults: dict[int, tuple[int, int]] = {}
        self._begun = False

    def is_same(self) -> bool:
        """Whether ``pid`` is still the process it was at first."""
        now = _stat(self._proc / str(self.pid))
        return (now is None) == (self._born is None) and (now is None or self._born is None or now[0] == self._born[0])

    def major_faults(self, *, thorough: bool) -> int | None:
        """Major faults of the tree since the last call; None the first time, and where the process has gone.

        A process seen for the first time counts from then on. ``thorough`` looks for children of every thread, which
        a process with hundreds of them makes expensive; else only those of the main thread are new.
        """
        faults: dict[int, tuple[int, int]] = {}
        new = 0
        for pid in self._tree(thorough):
            stat = _stat(self._proc / str(pid))
            if stat is None:
                continue
            faults[pid] = stat
            before = self._faults.get(pid)
            if before is not None and before[0] == stat[0]:
                new += max(stat[1] - before[1], 0)
        begun, self._begun = self._begun, self.pid in faults
        self._faults = faults
        return new if begun and self._begun else None

    def _tree(self, thorough: bool) -> list[int]:
        tree = dict.fromkeys([self.pid, *self._children(self.pid, thorough), *self._faults])
        if thorough:
            waiting = [pid for pid in tree if pid != self.pid]
            while waiting and len(tree) < MOST_PROCESSES:
                below = [pid for pid in self._children(waiting.pop(), thorough) if pid not in tree]
                tree |= dict.fromkeys(below)
                waiting += below
        return list(tree)[:MOST_PROCESSES]

    def _children(self, pid: int, thorough: bool) -> list[int]:
        tasks = self._proc / str(pid) / "task"
        try:
            threads = sorted(path.name for path in tasks.iterdir())[:MOST_PROCESSES] if thorough else [str(pid)]
        except OSError:
            return []
        return [child for thread in threads for child in _numbers(tasks / thread / "children")]

    def swap_bytes(self) -> int | None:
        """What of the process itself is in swap."""
        for line in _text(self._proc / str(self.pid) / "status").splitlines():
            if line.startswith("VmSwap:"):
                kib = line.split()[1]
                return int(kib) * 1024 if kib.isdigit() else None
        return None

    def group(self) -> str | None:
        """The path of its control group in the one hierarchy that tells pressure (version 2); None outside of it."""
        for line in _text(self._proc / str(self.pid) / "cgroup").splitlines():
            if line.startswith("0::/"):
                path = line.removeprefix("0::/")
                return None if path.startswith("..") else path
        return None


def group_mount(proc: Path = Path("/proc")) -> Path | None:
    """Where version 2 of the control groups is mounted."""
    for line in _text(proc / "self" / "mounts").splitlines():
        fields = line.split()
        if len(fields) > 2 and fields[2] == "cgroup2":
            return Path(fields[1])
    return None


def pressures(group: Path | None, proc: Path = Path("/proc")) -> Pressures:
    """Pressure on processor, memory and disk: of the control group ``group``, else of the whole machine.

    The group's says what these processes stood still for; the machine's also holds everybody else's troubles.
    """
    cpu, memory, io = (_pressure(kind, group, proc) for kind in KINDS)
    return cpu, memory, io


def _pressure(kind: str, group: Path | None, proc: Path) -> float | None:
    own = None if group is None else pressure(group / f"{kind}.pressure")
    return pressure(proc / "pressure" / kind) if own is None else own


def _stat(folder: Path) -> tuple[int, int] | None:
    """When a process was born, in the kernel's ticks since boot, and its major faults; None where it has gone."""
    # The name stands in brackets and may hold anything, brackets too.
    fields = _text(folder / "stat").rpartition(")")[2].split()
    if len(fields) < 20 or not (fields[19].isdigit() and fields[9].isdigit()):
        return None
    return int(fields[19]), int(fields[9])


def _numbers(path: Path) -> list[int]:
    return [int(word) for word in _text(path).split() if word.isdigit()]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
