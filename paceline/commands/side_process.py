"""A process of ours beside a training command: how it is started, and how long it is waited for.

Rule of this file: it lives in a session of its own, gives way to the training, and speaks on standard error. No signal
that a scheduler sends to every process ends it: it ends when its input does.
"""

import os
import signal
import subprocess
import sys
import time

from paceline.signals import ENDING


def python(module: str, *arguments: str, stdin: int, fds: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    """Start ``module``; ``fds`` stay open in it.

    Raises:
        OSError: it cannot be started.
    """
    # -P: the folder we stand in is the user's, and may hold a `streams` or `collectors` of its own.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=stdin,
            stdout=2,  # What is held there where standard error is closed: ``paceline.standard_streams``.
            stderr=2,
            pass_fds=fds,
            start_new_session=True,
        )
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    except Exception:
        return process  # It does not give way, then; whoever gets it can end it.
    return process


def ended_by(process: "subprocess.Popen[bytes]", deadline: float) -> bool:
    """Whether ``process`` has ended by ``deadline`` (monotonic)."""
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return False
    return True
