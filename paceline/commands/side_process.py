"""A process of ours beside a training command: how it is started, and how long it is waited for.

Rule of this file: it lives in a session of its own, gives way to the training, and speaks on standard error, in the
characters that ours can show. No signal that a scheduler sends to every process ends it: it ends when its input does.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import paceline
from paceline.signals import ENDING
from paceline.standard_streams import characters

#: What PYTHONPATH holds is the user's: it comes last, for a project's `kafka` or `numpy` is not the one that we need.
_OWN_FIRST = (
    "import os, runpy, sys; "
    "sys.path += [place for place in sys.argv.pop(1).split(os.pathsep) if place not in sys.path]; "
    "from paceline.standard_streams import written_as; "
    "written_as(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
)


def python(module: str, *arguments: str, stdin: int, fds: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    """Start ``module``; ``fds`` stay open in it.

    Raises:
        OSError: it cannot be started.
    """
    places = os.pathsep.join((str(Path(paceline.__file__).absolute().parents[1]), *filter(None, sys.path)))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
            [sys.executable, "-I", "-c", _OWN_FIRST, places, characters(sys.stderr), module, *arguments],
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
