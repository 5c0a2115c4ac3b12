"""The runner: one case after the other, each in a process of its own, none longer than it may take.

Rule of this file: whatever a case does, an abort or a hang included, loses that case alone, and leaves nothing behind.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from experiments.gpu.case import HOLDS, Case, Reading
from experiments.gpu.table import TWO_RANKS

#: How much longer a case may take on a processor, which others may want meanwhile.
ON_CPU = 5
#: A case that has to be ended may tidy up for so long.
GRACE_S = 5.0
#: ``prctl``: who loses their parent become ours, so that they can be ended.
_SUBREAPER = 36


class Outcome(NamedTuple):
    """What came of a case."""

    case: Case
    reading: Reading
    took_s: float


def command(case: Case, device: str, folder: Path, backend: str) -> list[str]:
    """What runs ``case`` in a process of its own, which leaves its reading in ``folder``."""
    return [sys.executable, "-m", "experiments.gpu.one", case.name, device, str(folder), backend]


def run(
    cases: Sequence[Case],
    device: str,
    folder: Path,
    tell: Callable[[Outcome], None],
    total_s: float,
    command: Callable[[Case, str, Path, str], list[str]] = command,
) -> list[Outcome]:
    """Run ``cases`` on ``device`` within ``total_s``; each is told as it ends. All children of this process are its."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    end, backend, outcomes = time.monotonic() + total_s, "gloo", []
    for case in cases:
        start = time.monotonic()
        left_s = end - start
        if device == "cpu" and not case.on_cpu:
            reading = Reading("needs CUDA", None)
        elif left_s < 1.0:
            reading = Reading(f"the {total_s:.0f} s were over", None)
        else:
            own = folder / case.name
            own.mkdir(parents=True)
            most_s = min(case.seconds * (ON_CPU if device == "cpu" else 1), left_s)
            reading = _one(command(case, device, own, backend), own, most_s)
        if case.name == TWO_RANKS and device == "cuda" and reading.outcome == HOLDS:
            backend = "nccl"
        outcomes.append(Outcome(case, reading, time.monotonic() - start))
        tell(outcomes[-1])
    return outcomes


def _one(command: list[str], folder: Path, most_s: float) -> Reading:
    answer, log = folder / "reading.json", folder / "case.txt"
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        try:
            status: int | None = process.wait(most_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
    if answer.exists():
        return Reading(**json.loads(answer.read_text()))
    words = f"ended after {most_s:.0f} s" if status is None else f"ended with status {status}"
    return Reading(words, None, broken=True)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a case and all that it has started, wherever that went, but for what hangs in the driver and cannot be."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while descendants(os.getpid()) and time.monotonic() < deadline + GRACE_S:
        _reap(process)
        if time.monotonic() > deadline:
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _reap(process: "subprocess.Popen[bytes]") -> None:
    """Take note of the children that have ended: a case, and what others left to us."""
    process.poll()
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def descendants(pid: int) -> list[int]:
    """The processes that ``pid`` and its children have started and that still run."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                _, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            parents[int(entry.name)] = int(parent)
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]
