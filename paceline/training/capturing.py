"""Capturing: a window of PyTorch's own profiler over whole steps, where the sidecar asks for one.

Rule of this file: nothing of it runs, and no profiler is loaded, before somebody asks. The training thread starts and
stops the profiler, at the end of a step each; writing the trace is another thread's work. Whatever goes wrong is told
in a file and never raised: training goes on. A script that profiles itself is left alone, for PyTorch allows one.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from paceline.training.capture_messages import MOST_STEPS, MOST_TRACE_BYTES, Capture, decode

if TYPE_CHECKING:
    from paceline.training.probe import Probe


class Capturing:
    """One process's captures, one at a time."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._asked: Capture | None = None
        self._profiler: Any = None
        self._left = 0

    def hear(self, told: bytes) -> None:
        """Take in what the sidecar told, on the thread that ships; what is no wish for a capture is passed over."""
        capture = decode(told)
        if capture is None:
            return
        with self._lock:
            if self._asked is not None:
                _tell(capture, "another capture is under way on this rank")
                return
            self._asked, self._left = capture, min(capture.steps, MOST_STEPS)
        self._probe.capture = self

    def optimizer_stepped(self) -> None:
        """A step has ended, on the training thread."""
        capture = self._asked
        if capture is None:
            return
        try:
            if self._profiler is None:
                self._start(capture)
            else:
                self._step(capture)
        except Exception as error:
            self._end()
            _tell(capture, f"{type(error).__name__}: {error}")

    def _start(self, capture: Capture) -> None:
        torch: Any = sys.modules["torch"]
        if self._probe.captures.graphs:
            return  # Asking the device anything now would spoil the graph; the next step will do.
        if torch.autograd._profiler_enabled() or _scheduled(torch):
            self._end()
            _tell(capture, "the script runs a profiler of its own, and PyTorch allows one at a time")
            return
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        # With a schedule it marks steps, which whoever reads the trace looks for.
        record = torch.profiler.ProfilerAction.RECORD
        self._profiler = torch.profiler.profile(activities=kinds, schedule=lambda step: record)
        self._profiler.start()

    def _step(self, capture: Capture) -> None:
        self._left -= 1
        if self._left > 0:
            self._profiler.step()
            return
        profiler = self._profiler
        profiler.__exit__(None, None, None)  # It ends what it counts, which ``stop`` alone does not.
        self._end()
        threading.Thread(target=_write, args=(profiler, capture), name="paceline-capture", daemon=True).start()

    def _end(self) -> None:
        self._profiler = self._probe.capture = None
        with self._lock:
            self._asked = None


def _scheduled(torch: Any) -> bool:
    """Whether the script holds a profiler that waits for its turn: ours would be in its way then.

    One that was made is counted until its ``with`` ends; whoever only starts and stops it leaves the count behind, so
    where there is one, the profiler itself is looked for.
    """
    tracker = getattr(sys.modules.get("torch.autograd.profiler"), "KinetoStepTracker", None)
    if not getattr(tracker, "_step_dict", None):
        return False
    return any(type(one) is torch.profiler.profile for one in gc.get_objects())


def _write(profiler: Any, capture: Capture) -> None:
    """Bring the trace to where the sidecar looks for it."""
    plain = capture.path + ".json"
    try:
        profiler.export_chrome_trace(plain)
        with open(plain, "rb") as trace, gzip.open(capture.path + ".part", "wb", compresslevel=3) as packed:
            while piece := trace.read(1 << 20):
                packed.write(piece)
        if os.path.getsize(capture.path + ".part") > MOST_TRACE_BYTES:
            os.unlink(capture.path + ".part")
            raise ValueError(f"the trace has more than {MOST_TRACE_BYTES >> 20} MiB: ask for fewer steps")
        os.rename(capture.path + ".part", capture.path)
    except Exception as error:
        _tell(capture, f"{type(error).__name__}: {error}")
    finally:
        if os.path.exists(plain):
            os.unlink(plain)


def _tell(capture: Capture, reason: str) -> None:
    """Say in a file why there is no trace; who cannot even do that is found out by the sidecar's patience."""
    try:
        with open(capture.path + ".why.part", "w", encoding="utf-8", errors="replace") as file:
            json.dump({"reason": " ".join(reason.split())[:400]}, file)
        os.rename(capture.path + ".why.part", capture.path + ".why")
    except OSError:
        return
