"""What a look costs: the sidecar's read of eight processes, and a rank's read of its own stack.

Rule of this file: seconds of processor time, which other load changes little, measured on real processes.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from paceline.sidecar.process_look import process_look
from paceline.training.looking import look

PROCESSES, FRAMES = 8, 60
_SLEEPS = "import time; print(1, flush=True); time.sleep(3600)"


class Cost(NamedTuple):
    """Processor time of one look, in seconds: of the sidecar at all processes, and of one rank."""

    sidecar_s: float
    rank_s: float


def cost(times: int) -> Cost:
    """The mean of so many looks, and of a twentieth as many in the rank, where one takes a fifth of a second."""
    command = [sys.executable, "-c", _SLEEPS]
    sleepers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    try:
        for one in sleepers:
            assert one.stdout is not None
            one.stdout.readline()
        sidecar_s = _mean_s(lambda: [process_look(one.pid, 0) for one in sleepers], times)
    finally:
        for one in sleepers:
            one.kill()
            one.communicate()
    probe = cast("Any", SimpleNamespace(thread=threading.get_ident(), task=0, off=False))
    return Cost(sidecar_s, _deep(FRAMES, lambda: _mean_s(lambda: look(probe, 1), max(times // 20, 1))))


def _mean_s(work: Callable[[], object], times: int) -> float:
    before_s = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - before_s) / times


def _deep(frames: int, work: Callable[[], float]) -> float:
    return work() if frames == 0 else _deep(frames - 1, work)


if __name__ == "__main__":
    found = cost(500)
    print(
        f"load {os.getloadavg()[0]:.0f}: the sidecar reads {PROCESSES} processes in {found.sidecar_s * 1e3:.2f} ms, "
        f"a rank its stack of {FRAMES} frames in {found.rank_s * 1e3:.3f} ms"
    )
