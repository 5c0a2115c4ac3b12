"""Processes of a trial that are still there, found by the mark in their environment, and ended.

Rule of this file: nothing but these. A process inherits its environment through new sessions and new parents, so the
mark finds what process groups do not; it is read from /proc, of processes of our own user.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

#: The variable, and what a process may have before it in its environment.
MARK = "PACELINE_TRIAL_MARK"
MOST_ENVIRON = 4 * 2**20
#: How long killed processes may take to go.
GONE_S = 10.0
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on, processes below us whose parent ends become our children, whatever session they are in."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def marked(mark: str, proc: Path = Path("/proc")) -> list[int]:
    """Processes whose mark begins with ``mark``, but not our own."""
    wanted = f"{MARK}={mark}".encode()
    return [pid for pid in _pids(proc) if pid != os.getpid() and _bears(proc / str(pid), wanted)]


def descendants(parent: int, proc: Path = Path("/proc")) -> list[int]:
    """All processes below ``parent``."""
    children: dict[int, list[int]] = {}
    for pid in _pids(proc):
        children.setdefault(_parent(proc / str(pid)), []).append(pid)
    found, left = [], [parent]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def end(mark: str) -> list[int]:
    """Kill all that bear ``mark`` until none is there; those that do not go."""
    return _killed(lambda: marked(mark))


def end_below(parent: int) -> list[int]:
    """Kill all below ``parent`` until none is there; those that do not go."""
    return _killed(lambda: [pid for pid in descendants(parent) if not _gone(Path("/proc", str(pid)))])


def _killed(there: Callable[[], list[int]]) -> list[int]:
    deadline = time.monotonic() + GONE_S
    while left := there():
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap(left)
        if time.monotonic() > deadline:
            return sorted(left)
        time.sleep(0.05)
    return []


def _reap(pids: list[int]) -> None:
    """Orphans that became our children are waited for here."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _pids(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def _bears(process: Path, wanted: bytes) -> bool:
    try:
        with (process / "environ").open("rb") as file:
            held = file.read(MOST_ENVIRON)
    except OSError:
        return False
    return any(one.startswith(wanted) for one in held.split(b"\0")) and not _gone(process)


def _gone(process: Path) -> bool:
    """Whether it has ended: a zombie waits for its parent alone."""
    try:
        return (process / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return True


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return -1
