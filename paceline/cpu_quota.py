"""How many processors a control group may use, and how often it was stopped for having used them up.

Rule of this file: readers with the folder of /proc as an argument, for both versions of control groups and both at
once. What cannot be read, or no number that can be, is None. Of the groups around a process the tightest counts.
"""

from pathlib import Path, PurePosixPath
from typing import NamedTuple

#: More processors than that are no quota, nor are less than one in a thousand parts of one.
_MOST_CPUS, _LEAST_CPUS = 2.0**20, 1e-3
#: No counter of the kernel has more digits.
_DIGITS = 20
#: Groups in groups that are looked at.
_DEEPEST = 64


class Quota(NamedTuple):
    """What the tightest group allows, and its counts of periods since it was made."""

    cpus: float
    folder: Path
    periods: int | None
    throttled: int | None


def quota_of(pid: int, proc: Path = Path("/proc")) -> Quota | None:
    """The quota that holds for the process ``pid``; None where there is none, or none can be read."""
    told = [quota for folder in _groups(pid, proc) if (quota := _quota(folder)) is not None]
    return min(told, key=lambda quota: quota.cpus, default=None)


def throttled_ratio(before: Quota | None, now: Quota | None) -> float | None:
    """In what share of its periods the group was stopped between two looks; None where that is not known.

    >>> throttled_ratio(Quota(4.0, Path("g"), 100, 10), Quota(4.0, Path("g"), 200, 48))
    0.38
    """
    if before is None or now is None or before.folder != now.folder:
        return None
    if before.periods is None or now.periods is None or before.throttled is None or now.throttled is None:
        return None
    periods, throttled = now.periods - before.periods, now.throttled - before.throttled
    if periods < 0 or throttled < 0:  # The group was made again.
        return None
    return round(min(throttled / periods, 1.0), 6) if periods else 0.0


def _groups(pid: int, proc: Path) -> list[Path]:
    """The folders of the groups around ``pid``, of each version that limits processors."""
    mounts, paths = _mounts(proc), _paths(pid, proc)
    folders: list[Path] = []
    for version, mount in mounts.items():
        path = paths.get(version)
        if path is None:
            continue
        parts = [part for part in PurePosixPath(path).parts if part != "/"][:_DEEPEST]
        # A path above the mount is what a container sees of groups outside of it: its own is where they are mounted.
        inside = [] if ".." in parts else parts
        folders += [mount.joinpath(*inside[:depth]) for depth in range(len(inside), -1, -1)]
    return folders


def _mounts(proc: Path) -> dict[int, Path]:
    """Where each version of control groups that can limit processors is mounted."""
    mounts: dict[int, Path] = {}
    for line in _text(proc / "self" / "mounts").splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        if fields[2] == "cgroup2":
            mounts.setdefault(2, Path(fields[1]))
        elif fields[2] == "cgroup" and "cpu" in fields[3].split(","):
            mounts.setdefault(1, Path(fields[1]))
    return mounts


def _paths(pid: int, proc: Path) -> dict[int, str]:
    paths: dict[int, str] = {}
    for line in _text(proc / str(pid) / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if not path.startswith("/"):
            continue
        if number == "0" and not kinds:
            paths[2] = path
        elif "cpu" in kinds.split(","):
            paths[1] = path
    return paths


def _quota(folder: Path) -> Quota | None:
    """The quota of one group by itself."""
    limit = _text(folder / "cpu.max").split() or [
        _text(folder / "cpu.cfs_quota_us").strip(),
        _text(folder / "cpu.cfs_period_us").strip(),
    ]
    quota_us, period_us = (_count(word) for word in (*limit, "")[:2])
    if not quota_us or not period_us:  # "max", -1, or nothing
        return None
    cpus = quota_us / period_us
    if not _LEAST_CPUS <= cpus <= _MOST_CPUS:
        return None
    pairs = (line.split() for line in _text(folder / "cpu.stat").splitlines())
    counts = {pair[0]: _count(pair[1]) for pair in pairs if len(pair) == 2}
    return Quota(cpus, folder, counts.get("nr_periods"), counts.get("nr_throttled"))


def _count(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) <= _DIGITS else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (OSError, ValueError):
        return ""
