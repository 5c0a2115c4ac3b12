"""Backward passes, by way of ``torch.autograd.backward``, which ``Tensor.backward`` calls."""

import functools
import sys
import threading
from time import perf_counter_ns
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame

#: The reducer's last collective is issued when the last gradient is ready, unless the model goes on below it. Where
#: the two have agreed this often, to within this much, only one backward in so many still asks.
AGREED = 16
APART_NS = 300_000
EVERY = 32


def install(probe: Probe, torch: Any) -> None:
    """Time the outermost backward of the training thread."""
    original = torch.autograd.backward
    tracing, ident = torch.compiler.is_dynamo_compiling, threading.get_ident

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if tracing():
            return original(*args, **kwargs)
        probe.worked = True
        if probe.in_backward or probe.off or ident() != probe.thread:
            return original(*args, **kwargs)
        if probe.device is None and args:
            probe.device = getattr(args[0], "device", None)
            probe.device_found()
        probe.in_backward, probe.reduced, probe.in_forward = True, 0, None
        probe.mark(marks.BACKWARD)
        if probe.reducing and probe.expect is not None and args:
            probe.expect(args[0])
        try:
            return original(*args, **kwargs)
        finally:
            probe.mark(marks.LEAVE + marks.BACKWARD)
            probe.in_backward = probe.waiting = probe.reducing = False

    skip_frame(backward)
    probe.waits_in(backward)  # for gradients, where no hook tells that it computes
    torch.autograd.backward = backward


class Ready:
    """Asks to be told when the last gradient is computed: before the reducer, which asks later, waits for others."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self._probe = probe
        self._ask = torch.autograd.Variable._execution_engine.queue_callback
        self._issued: tuple[Any, ...] | None = None
        self._agreed = 0
        self._asked = 0
        skip_frame(Ready)

    def queue(self, issued: tuple[Any, ...] | None = None) -> None:
        """Ask, once in a backward; ``issued`` is the collective to write down then, where nothing else tells of it."""
        self._asked += 1
        if self._agreed >= AGREED and self._asked % EVERY and issued is None and self._probe.on_host:
            return
        self._issued = issued
        compiled = sys.modules.get("torch._dynamo.compiled_autograd")
        if compiled is not None and getattr(compiled, "in_compiled_autograd_region", False):
            return
        try:
            self._ask(self._ready)
        except RuntimeError:
            return  # Not inside the engine: the reducer's last collective then stands for the last gradient.

    def _ready(self) -> None:
        probe = self._probe
        probe.mark(marks.READY)
        if self._issued is not None:
            probe.host_mark(marks.ISSUED, self._issued)
        elif perf_counter_ns() - probe.reduced_at < APART_NS:
            self._agreed += 1
        else:
            self._agreed = 0
