"""What the kernel says of how a process ended: its exit status or signal, and kills for memory in its control group.

Rule of this file: a reader of a few files, with their folders as arguments. The exit status of another's child can be
read only until its parent has asked for it; what cannot be read is None.
"""

import os
from pathlib import Path
from typing import NamedTuple

#: Places in /proc/PID/stat behind the name: when the process started, and its exit code as wait() gives it.
_STARTED, _EXIT_CODE = 19, 49
_MOST_BYTES = 16_384


class Exit(NamedTuple):
    """A process that has ended: ``status`` is 0 to 255, or -N for signal N; None where it could not be read."""

    status: int | None


def process_start(pid: int, proc: Path = Path("/proc")) -> int | None:
    """When ``pid`` started, in the kernel's ticks: another process of that number has another."""
    fields = _fields(pid, proc)
    return fields[_STARTED] if fields else None


def process_exit(pid: int, started: int | None, proc: Path = Path("/proc")) -> Exit | None:
    """How the process ``pid`` that ``started`` then has ended; None while it runs."""
    fields = _fields(pid, proc)
    if fields is None or fields[_STARTED] != started:
        return Exit(None)
    if _state(pid, proc) not in "ZXx":
        return None
    try:
        return Exit(os.waitstatus_to_exitcode(fields[_EXIT_CODE]))
    except ValueError:
        return Exit(None)


def oom_events(pid: int, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The file that counts kills for memory in the control group of ``pid``; None where there is none."""
    for line in _text(proc / str(pid) / "cgroup").splitlines():
        if line.startswith("0::/") and ".." not in line:
            file = groups / line[len("0::/") :] / "memory.events"
            return file if file.is_file() else None
    return None


def oom_kills(file: Path | None) -> int:
    """How many processes the kernel has killed for memory, by ``file``."""
    for line in _text(file).splitlines() if file is not None else ():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.isdigit():
            return min(int(count[:15]), 2**53)
    return 0


def _fields(pid: int, proc: Path) -> list[int] | None:
    # The name stands in brackets and may hold anything, brackets too.
    words = _text(proc / str(pid) / "stat").rpartition(")")[2].split()
    if len(words) <= _EXIT_CODE or not all(words[at].isdigit() for at in (_STARTED, _EXIT_CODE)):
        return None
    return [int(word) if word.isdigit() else 0 for word in words]


def _state(pid: int, proc: Path) -> str:
    return (_text(proc / str(pid) / "stat").rpartition(")")[2].split() or ["X"])[0]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
