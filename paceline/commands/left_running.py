"""Pythons that a command has left running: what they train from now on is not timed.

Rule of this file: it reads Linux's ``/proc`` for a bounded time and never fails; elsewhere it finds nothing. A process
is known by the socket in the environment that it was started with. One that sleeps in the kernel is passed over: to
read what it was started with may take as long as it sleeps.
"""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from paceline.listeners import command_of, pids

#: A node may have many thousands of processes.
MOST_S = 0.3
_MOST_NAMED = 3
#: Uninterruptible sleep, and processes that have ended.
_ASLEEP = ("D", "Z", "X")
_PROC = Path("/proc")


def left_running(
    socket: Path, proc: Path = _PROC, clock: Callable[[], float] = time.monotonic, most_s: float = MOST_S
) -> set[int]:
    """The Pythons that were told of ``socket`` and live; those found within ``most_s`` seconds."""
    end_s, told = clock() + most_s, os.fsencode(f"PACELINE_SOCKET={socket}")
    found = set()
    for pid in reversed(pids(proc)):  # The newest are probably the ones.
        if clock() > end_s:
            break
        try:
            if (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] in _ASLEEP:
                continue
            environ = (proc / str(pid) / "environ").read_bytes()
            if told in environ.split(b"\0") and (proc / str(pid) / "exe").readlink().name.startswith("python"):
                found.add(pid)
        except (OSError, IndexError):  # Ended, or another user's.
            continue
    return found


def sentence(left: Iterable[int], proc: Path = _PROC) -> str:
    """What is said of them."""
    named = sorted(left)
    shown = ", ".join(f"{command_of(pid, proc)} (pid {pid})" for pid in named[:_MOST_NAMED])
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    go = "goes" if len(named) == 1 else "go"
    return (
        f"the command has ended, and {shown}{more}, which it started, {go} on untimed; "
        "let the script wait for what it starts in the background (wait)"
    )
