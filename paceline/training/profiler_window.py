"""A window of PyTorch's profiler: begun and ended on one thread, and ended at once where the script begins its own.

Rule of this file: PyTorch allows one profiler in a process, keeps it by thread, and crashes where one is ended that is
no longer there. So a window is ended by its thread alone, only while it is on, and gives way before another begins.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

#: What any profiler of PyTorch begins with, and the modules in which it is looked up.
_BEGINNINGS = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy")
_MODULES = ("torch.autograd.profiler", "torch.autograd.profiler_legacy", "torch.autograd", "torch._C._autograd")
#: How long a profiler that begins on another thread waits for ours to be ended by its own.
_OTHER_THREAD_S = 1.0


def taken(torch: Any) -> bool:
    """Whether the script runs a profiler, or holds one that waits for its turn.

    One that was made is counted until its ``with`` ends; a script that only starts and stops it leaves the count
    behind, so where there is one, the profiler itself is looked for.
    """
    module = sys.modules.get("torch.autograd.profiler")
    if torch.autograd._profiler_enabled() or getattr(module, "_is_profiler_enabled", False):  # here, or on any thread
        return True
    tracker = getattr(module, "KinetoStepTracker", None)
    if not getattr(tracker, "_step_dict", None):
        return False
    return any(type(one) is torch.profiler.profile for one in gc.get_objects())


class Window:
    """The profiler, on from here until ``end``; the calling thread is its own.

    ``gives_way`` is called on the thread that begins another profiler: it has this one ended.
    """

    def __init__(self, torch: Any, gives_way: Callable[[], None]) -> None:
        self._torch, self._gives_way = torch, gives_way
        self._module: Any = sys.modules["torch.autograd.profiler"]
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        #: Taken by whoever ends it: one end may run inside another, between any two lines of it.
        self._once = threading.Lock()
        self._step: Any = None
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        kinds = [torch.profiler.ProfilerActivity.CPU]
        self._device = torch.cuda.is_available() and torch.cuda.is_initialized()
        if self._device:
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        # It holds settings alone: its own end would work for seconds on what was recorded.
        self._profiler = torch.profiler._KinetoProfile(activities=kinds)
        self._profiler.prepare_trace()
        self._profiler.start_trace()
        self._watch_beginnings()

    @property
    def on(self) -> bool:
        """Whether the profiler that runs on the calling thread is this one."""
        mine = not self._ended.is_set() and threading.get_ident() == self._thread
        return mine and bool(self._torch.autograd._profiler_enabled())

    def mark(self, step: int) -> None:
        """Step number ``step`` begins: a reader of the trace looks for these."""
        if self._step is not None:
            self._step.__exit__(None, None, None)
        self._step = self._module.record_function(f"ProfilerStep#{step}")
        self._step.__enter__()

    def end(self, *, whole: bool) -> Any:
        """Stop; what was recorded, None where the profiler was gone already. ``whole``: the step has ended, too."""
        if not self._once.acquire(blocking=False):
            return None
        step, self._step = self._step, None
        if not self.on:
            if threading.get_ident() == self._thread and not self._torch.autograd._profiler_enabled():
                self._note_stop()
            self._let_go()
            return None
        try:
            if whole and step is not None:
                step.__exit__(None, None, None)
            if whole and self._device:
                self._torch.cuda.synchronize()
            return self._module._disable_profiler()
        finally:
            self._note_stop()
            self._let_go()

    def _note_stop(self) -> None:
        stopped = getattr(self._module, "_run_on_profiler_stop", None)
        if stopped is not None:
            stopped()

    def _let_go(self) -> None:
        for module, name, original, replacement in self._replaced:
            if getattr(module, name, None) is replacement:
                setattr(module, name, original)
        self._replaced = []
        self._ended.set()

    def _watch_beginnings(self) -> None:
        for path in _MODULES:
            module = sys.modules.get(path)
            for name in _BEGINNINGS:
                original = getattr(module, name, None)
                if original is not None:
                    replacement = self._before(original)
                    setattr(module, name, replacement)
                    self._replaced.append((module, name, original, replacement))

    def _before(self, original: Any) -> Any:
        @functools.wraps(original)
        def begins(*args: Any, **kwargs: Any) -> Any:
            if not self._ended.is_set():
                self._gives_way()
                self._ended.wait(_OTHER_THREAD_S)
            return original(*args, **kwargs)

        return begins
