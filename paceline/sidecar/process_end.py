"""What the kernel says of how a process ended: its exit status or signal, and kills for memory in its control group.

Rule of this file: a reader of a few files, with their folders as arguments. In /proc the exit status of another's child
can be read only until its parent has asked for it; from then on a handle opened before has it, since Linux 6.15. What
cannot be read is None.
"""

import fcntl
import os
import struct
from pathlib import Path
from typing import NamedTuple

from paceline.sidecar.proc_files import stat_of, text_of

#: Places in /proc/PID/stat behind the name: when the process started, and its exit code as wait() gives it.
_STARTED, _EXIT_CODE = 19, 49
#: ioctl PIDFD_GET_INFO of linux/pidfd.h: its number, the bytes of its struct, and where and under which bit that has
#: the exit code.
_GET_INFO, _INFO_BYTES, _INFO_CODE, _INFO_EXIT = 0xC040FF0B, 64, 60, 1 << 3

#: The exit status of an actor that ``ray.kill`` ends, as Ray Train does with its workers when all have finished.
KILLED_BY_RAY = 1


class Exit(NamedTuple):
    """A process that has ended: ``status`` is 0 to 255, or -N for signal N; None where it could not be read."""

    status: int | None


class Handle:
    """A process as the kernel holds it, whatever becomes of its number: ``fd`` is readable once it has ended; -1 where
    this kernel has none, or it is closed."""

    def __init__(self, pid: int) -> None:
        try:
            self.fd = os.pidfd_open(pid)
        except (AttributeError, OSError):  # no Linux, or no such process
            self.fd = -1

    def exit_code(self) -> int | None:
        """The exit code as wait() gives it; None before the parent has asked for it, and where it cannot be read."""
        info = bytearray(_INFO_BYTES)
        struct.pack_into("=Q", info, 0, _INFO_EXIT)
        try:
            fcntl.ioctl(self.fd, _GET_INFO, info)
        except (OSError, ValueError):
            return None
        (known,) = struct.unpack_from("=Q", info)
        return int(struct.unpack_from("=i", info, _INFO_CODE)[0]) if known & _INFO_EXIT else None

    def close(self) -> None:
        """Let go of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def process_start(pid: int, proc: Path = Path("/proc")) -> int | None:
    """When ``pid`` started, in the kernel's ticks: another process of that number has another."""
    fields = _fields(pid, proc)
    return fields[_STARTED] if fields else None


def process_exit(
    pid: int, started: int | None, handle: Handle | None = None, proc: Path = Path("/proc"), user: int | None = None
) -> Exit | None:
    """How the process ``pid`` that ``started`` then has ended, as ``user`` sees it; None while it runs."""
    fields = _fields(pid, proc)
    if fields is None or fields[_STARTED] != started:
        return _exit(handle.exit_code() if handle is not None else None)
    if _state(pid, proc) not in "ZXx":
        return None
    # The kernel shows 0 to who may not know.
    shown = fields[_EXIT_CODE] != 0 or _owner(pid, proc) == (os.geteuid() if user is None else user)
    return _exit(fields[_EXIT_CODE] if shown else None)


def ends_by_status(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether Ray may end ``pid`` by the exit status ``KILLED_BY_RAY``: a worker of its own has a title ``ray::…``."""
    return text_of(proc / str(pid) / "cmdline").startswith("ray::")


def _exit(code: int | None) -> Exit:
    try:
        return Exit(None if code is None else os.waitstatus_to_exitcode(code))
    except ValueError:
        return Exit(None)


def oom_events(pid: int, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The file that counts kills for memory in the control group of ``pid``; None where there is none.

    Where version 1 of the control groups has the memory, as in hybrid set-ups, version 2 does not count them.
    """
    files = []
    for line in text_of(proc / str(pid) / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        if not path.startswith("/") or ".." in path:
            continue
        if line.startswith("0::"):
            files.append(groups / path[1:] / "memory.events")
        elif "memory" in controllers.split(","):
            files.insert(0, groups / "memory" / path[1:] / "memory.oom_control")
    return next((file for file in files if file.is_file()), None)


def oom_kills(file: Path | None) -> int:
    """How many processes the kernel has killed for memory, by ``file``."""
    for line in text_of(file).splitlines() if file is not None else ():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.isdigit():
            return min(int(count[:15]), 2**53)
    return 0


def _fields(pid: int, proc: Path) -> list[int] | None:
    words = stat_of(proc / str(pid))
    if len(words) <= _EXIT_CODE or not all(words[at].isdigit() for at in (_STARTED, _EXIT_CODE)):
        return None
    return [int(word) if word.isdigit() else 0 for word in words]


def _state(pid: int, proc: Path) -> str:
    return (stat_of(proc / str(pid)) or ["X"])[0]


def _owner(pid: int, proc: Path) -> int | None:
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None
