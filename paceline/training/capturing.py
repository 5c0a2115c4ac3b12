"""Capturing: a window of PyTorch's own profiler over whole steps, where the run allows it and the sidecar asks for one.

Rule of this file: nothing of it runs, and no profiler is loaded, before somebody asks. The main thread starts and stops
the profiler; a thread beside it, which a capture brings and which goes with it, watches the bounds (``capture_plan``)
also while no step ends, and writes. Whatever goes wrong is reported in a file and never raised: training goes on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from paceline.settings import CAPTURES, SettingError
from paceline.training.capture_file import tell, write
from paceline.training.capture_messages import MOST_STEPS, Capture, decode
from paceline.training.capture_plan import LOOK_S, Look, Plan, overrun, planned
from paceline.training.main_thread import Errand, on_main_thread
from paceline.training.profiler_window import Window, taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from paceline.training.probe import Probe

#: How often the bounds are looked at while a profiler is on, and how long to wait for steps at all.
LOOK_EVERY_S, IDLE_EVERY_S, PATIENCE_S = 0.05, 0.5, 600.0
OFF = "captures are off in this process: start the run with `paceline run --captures`"
OWN = "the script runs a profiler of its own, and PyTorch allows one at a time"
BEGAN_OWN = "the script began a profiler of its own, so the capture was dropped"
ENDED = "training ended before the capture did"
FORKS = "the script forked a process, which must not have a profiler of ours"


class Capturing:
    """One process's captures, one at a time. ``clock`` is monotonic."""

    def __init__(self, probe: Probe, *, on: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe, self._on, self._clock = probe, on, clock
        self._one: _One | None = None
        self._stop = Errand(self._stopped_midway)

    def hear(self, told: bytes) -> None:
        """Take in what the sidecar told, on the thread that ships; what is no wish for a capture is passed over."""
        capture = decode(told)
        if capture is None:
            return
        if not self._on:
            tell(capture, OFF)
            return
        if self._probe.thread != threading.main_thread().ident:
            tell(capture, "training is not on the main thread of its process, and a capture there cannot be bounded")
            return
        if self._one is not None:
            tell(capture, "another capture is under way on this rank")
            return
        self._one = one = _One(self._probe, capture, self._clock, self._stop.ask, self._gone)
        self._probe.capture = one
        threading.Thread(target=one.attend, name="paceline-capture", daemon=True).start()

    def end(self, reason: str = ENDED) -> None:
        """Training ends, or timing does, or the script forks: the profiler is off before that goes on."""
        one = self._one
        if one is not None and (reason == ENDED or one.on):
            one.drop(reason)

    def _gone(self) -> None:
        self._probe.capture = self._one = None

    def _stopped_midway(self) -> None:
        one = self._one
        if one is not None:
            one.stopped_midway()


class _One:
    """One capture: it waits for a step, looks, waits again, records, and is written or dropped."""

    def __init__(
        self,
        probe: Probe,
        capture: Capture,
        clock: Callable[[], float],
        stop: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        self._probe, self._capture, self._clock, self._stop, self._gone = probe, capture, clock, stop, gone
        self._steps = min(capture.steps, MOST_STEPS)
        self._window: Window | None = None
        self._began_s, self._began_bytes, self._done = 0.0, 0, 0
        #: What the look has recorded; then the plan; then the window's trace, or why there is none.
        self._looked: tuple[Any, float, bool] | None = None
        self._plan: Plan | None = None
        self._result: Any = None
        self._reason: str | None = None
        self._changed = threading.Event()
        self._over = False
        #: Why what is on has to stop before its step ends; a look that has to is no reason to give up.
        self._dropped: str | None = None

    @property
    def on(self) -> bool:
        """Whether a profiler of ours is on."""
        return self._window is not None

    def optimizer_stepped(self) -> None:
        """A step has ended, on the training thread."""
        try:
            if self._over or not on_main_thread() or _in_backward():
                return
            if self._window is not None:
                self._step_ended(self._window)
            elif self._looked is None or self._plan is not None:
                self._start()
        except Exception as error:
            self.drop(f"{type(error).__name__}: {error}")

    def _start(self) -> None:
        torch: Any = sys.modules["torch"]
        if self._probe.captures.graphs:
            return  # Asking the device anything now would spoil the graph; the next step will do.
        if taken(torch):
            self.drop(OWN)
            return
        self._began_bytes = _resident_bytes()
        self._window = Window(torch, self._give_way)
        self._began_s = self._clock()
        if self._plan is not None:
            self._window.mark(1)
        self._changed.set()

    def _step_ended(self, window: Window) -> None:
        if not window.on:
            self.drop(BEGAN_OWN)
            return
        elapsed_s, self._done = self._clock() - self._began_s, self._done + 1
        if self._plan is None:
            self._look_ended(window, elapsed_s, whole=True)
        elif self._plan.ends(self._done, elapsed_s):
            self._window = None
            self._finish(window.end(whole=True), BEGAN_OWN)
        else:
            window.mark(self._done + 1)

    def _look_ended(self, window: Window, elapsed_s: float, *, whole: bool) -> None:
        self._window, self._done = None, 0
        result = window.end(whole=False)
        if result is not None:
            self._looked = (result, elapsed_s, whole)
            self._changed.set()
        elif self._looked is None:
            self.drop(BEGAN_OWN)

    def stopped_midway(self) -> None:
        """No step ends: stop, on the main thread, wherever it is."""
        window = self._window
        if window is None or self._over or self._probe.captures.graphs or _in_backward():
            return  # It is asked again in a moment.
        try:
            if self._dropped is None and window.on:
                self._look_ended(window, self._clock() - self._began_s, whole=False)
            else:
                self.drop(self._dropped or BEGAN_OWN)
        except Exception as error:
            self.drop(f"{type(error).__name__}: {error}")

    def _give_way(self) -> None:
        """The script begins a profiler of its own, on the calling thread."""
        self.drop(BEGAN_OWN)

    def drop(self, reason: str) -> None:
        """Give the capture up; the profiler is ended here where this is its thread, else by it as soon as it can."""
        window = self._window
        if window is not None and not on_main_thread():
            self._dropped = self._dropped or reason
            self._stop()
            return
        self._window = None
        try:
            if window is not None:
                window.end(whole=False)
        except Exception as error:
            reason = f"{reason} ({type(error).__name__}: {error})"
        self._finish(None, reason)

    def _finish(self, result: Any, reason: str) -> None:
        if not self._over:
            self._over, self._result, self._reason = True, result, reason
            self._gone()
            self._changed.set()

    def attend(self) -> None:
        """Watch the bounds and write what there is, on a thread of its own."""
        try:
            until_s = self._clock() + PATIENCE_S
            while not self._over:
                self._changed.wait(LOOK_EVERY_S if self._window is not None else IDLE_EVERY_S)
                self._changed.clear()
                self._watch(until_s)
            if self._result is not None:
                result, self._result = self._result, None
                write(result, self._capture, self._note())
            else:
                tell(self._capture, self._reason or "")
        except Exception as error:
            self.drop(f"{type(error).__name__}: {error}")
            tell(self._capture, f"{type(error).__name__}: {error}")

    def _watch(self, until_s: float) -> None:
        now_s = self._clock()
        if self._looked is not None and self._plan is None:
            result, seconds, whole = self._looked
            self._looked = (None, seconds, whole)
            self._plan_from(Look(len(result.events()), seconds, whole))
        elif self._window is not None:
            elapsed_s, most_s = now_s - self._began_s, LOOK_S if self._plan is None else self._plan.most_s
            why = overrun(elapsed_s, most_s, _resident_bytes() - self._began_bytes)
            if why is not None and self._plan is not None:
                self._dropped = self._dropped or why
            if why is not None or self._dropped is not None:
                self._stop()
        elif now_s > until_s:
            self.drop(f"no optimizer step within {PATIENCE_S:.0f} s")

    def _plan_from(self, look: Look) -> None:
        try:
            self._plan = planned(self._steps, look)
        except ValueError as error:
            self.drop(str(error))

    def _note(self) -> str:
        if self._done >= self._steps:
            return ""
        return f"{self._done} of {self._steps} steps: more would have too many profiler events"


#: What runs on the training thread.
HOT = (Capturing, _One, Errand, Window)


def _in_backward() -> bool:
    """Whether the calling thread is in a backward pass, after which PyTorch restores the profiler of before it."""
    return int(sys.modules["torch"]._C._current_graph_task_id()) >= 0


def captures_on() -> bool:
    """Whether the run was started with captures."""
    try:
        return CAPTURES.read(os.environ)
    except SettingError:
        return False


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
