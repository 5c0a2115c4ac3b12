"""Backward passes, by way of ``torch.autograd.backward``, which ``Tensor.backward`` calls."""

import functools
import sys
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time the outermost backward of the training thread."""
    original = torch.autograd.backward
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if tracing() or probe.in_backward or probe.foreign():
            return original(*args, **kwargs)
        enter(probe, args)
        try:
            return original(*args, **kwargs)
        finally:
            leave(probe)

    for function in (backward, enter, leave):
        skip_frame(function)
    torch.autograd.backward = backward


def enter(probe: Probe, args: tuple[Any, ...]) -> None:
    """Backward begins."""
    if probe.device is None and args:
        probe.device = getattr(args[0], "device", None)
        probe.device_found()
    probe.in_backward, probe.ready_queued = True, False
    probe.in_forward = None
    probe.mark(marks.BACKWARD)
    if probe.reducing and probe.expect is not None and args:
        probe.expect(args[0])


def leave(probe: Probe) -> None:
    """Backward has returned, or raised."""
    probe.mark(marks.LEAVE + marks.BACKWARD)
    probe.in_backward = probe.waiting = probe.reducing = False
    probe.read_queue()


class Ready:
    """Asks to be told when the last gradient is computed: before the reducer, which asks later, waits for others."""

    def __init__(self, probe: Probe, torch: Any) -> None:
        self._probe = probe
        self._ask = torch.autograd.Variable._execution_engine.queue_callback
        self._issued: tuple[Any, ...] | None = None
        skip_frame(Ready)

    def queue(self, issued: tuple[Any, ...] | None = None) -> None:
        """Ask, once in a backward; ``issued`` is the collective to write down then, where nothing else tells of it."""
        self._probe.ready_queued = True
        self._issued = issued
        compiled = sys.modules.get("torch._dynamo.compiled_autograd")
        if compiled is not None and getattr(compiled, "in_compiled_autograd_region", False):
            return
        try:
            self._ask(self._ready)
        except RuntimeError:
            return  # Not inside the engine: the reducer's last collective then stands for the last gradient.

    def _ready(self) -> None:
        self._probe.read_queue()
        self._probe.mark(marks.READY)
        if self._issued is not None:
            self._probe.host_mark(marks.ISSUED, self._issued)
