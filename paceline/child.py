"""A child process that dies with its parent, however the parent ends.

Rule of this file: starting one, nothing else. A kill -9 of ``paceline demo`` must leave no broker behind.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

# Asks the kernel for SIGTERM when the parent dies, then becomes the command. A `preexec_fn` would do the same but is
# unsafe in a process with threads.
_LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
os.nice(int(sys.argv[2]))
if os.getppid() == int(sys.argv[1]):
    os.execvp(sys.argv[3], sys.argv[3:])
"""


def spawn(
    command: Sequence[str], output: IO[bytes] | int, environ: Mapping[str, str] | None = None, nice: int = 0
) -> "subprocess.Popen[bytes]":
    """Start ``command`` with both its outputs to ``output``, in a session of its own, ``nice`` to others by so much.

    Its own session keeps a Ctrl-C in the terminal for those who must still publish to it. The fork is done by a thread
    that lives as long as the child: to the kernel the "parent" of a parent-death signal is the thread that forked.

    Raises:
        OSError: it cannot be started.
    """
    started: list[subprocess.Popen[bytes]] = []
    failed: list[OSError] = []
    ready = threading.Event()
    arguments = [sys.executable, "-ISc", _LAUNCH, str(os.getpid()), str(nice), *command]

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
