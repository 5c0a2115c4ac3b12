"""A child process that dies with its parent, however the parent ends.

Rule of this file: starting one, and ending it with all that it has started. A kill -9 of ``paceline demo`` must leave
no broker behind.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

# Asks the kernel for a signal when the parent dies, then becomes the command. A `preexec_fn` would do the same but is
# unsafe in a process with threads.
_LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[3]))
os.nice(int(sys.argv[2]))
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[4], sys.argv[4:])
"""


def descendants(pid: int) -> list[int]:
    """All processes that ``pid`` has started, directly or not, as far as their parents live; nearest first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):  # It has ended meanwhile.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def kill_tree(pid: int) -> None:
    """SIGKILL to ``pid`` and to all that it has started, in whatever sessions."""
    for each in (pid, *descendants(pid)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def spawn(
    command: Sequence[str],
    output: IO[bytes] | int,
    environ: Mapping[str, str] | None = None,
    nice: int = 0,
    death: signal.Signals = signal.SIGTERM,
) -> "subprocess.Popen[bytes]":
    """Start ``command`` with both its outputs to ``output``, in a session of its own, ``nice`` to others by so much.

    ``death`` is the signal that it gets when its parent has died: SIGTERM for what ends others in its turn, SIGKILL for
    what may not outlive its parent, whatever it is busy with.

    Its own session keeps a Ctrl-C in the terminal for those who must still publish to it. The fork is done by a thread
    that lives as long as the child: to the kernel the "parent" of a parent-death signal is the thread that forked.

    Raises:
        OSError: it cannot be started.
    """
    started: list[subprocess.Popen[bytes]] = []
    failed: list[OSError] = []
    ready = threading.Event()
    arguments = [sys.executable, "-ISc", _LAUNCH, str(os.getpid()), str(nice), str(int(death)), *command]

    def keep() -> None:
        try:
            process = subprocess.Popen(  # noqa: S603 - the caller's command, run as it is
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=environ
            )
        except OSError as error:
            failed.append(error)
            ready.set()
            return
        started.append(process)
        ready.set()
        process.wait()

    threading.Thread(target=keep, name=f"parent of {command[0]}", daemon=True).start()
    ready.wait()
    if failed:
        raise failed[0]
    return started[0]
